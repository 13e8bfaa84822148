"""Django admin of clusters, and of how they get in and stay in: requests, certificates, keys.

Acts are services of ``registration``, or the pages of the console for many clusters; both ask for the person's rights
and leave the audit that every other way leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.shortcuts import redirect
from django.urls import reverse

from clusters import queries as cluster_queries
from clusters.admin import OfClusters
from clusters.fleet import bulk_acts as clusters_bulk
from clusters.health import certificate_expiry
from clusters.health.status_sql import RANKS, WORST_FIRST, with_word
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterFacts, ManagedCluster
from ocmconsole.djangoadmin.acts import AdminAct, Described, Way
from ocmconsole.djangoadmin.lists import ChoiceFilter, status_label
from ocmconsole.djangoadmin.object_permissions import GrantsAdmin
from ocmconsole.djangoadmin.resources import ReadOnlyAdmin, ResourceAdmin
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.control import bulk_jobs
from ocmconsole.templatetags.console import ago, who
from registration import admin_tokens  # noqa: F401 - registers tokens and policies
from registration.approvals import services, stale_decision
from registration.approvals.forms import PresetReasonForm, packed, unpacked
from registration.certificates import issued_certificates
from registration.evidence import assessment
from registration.kinds import CERTIFICATE_SIGNING_REQUEST
from registration.models import (
    AcceptedKey,
    CertificateSigningRequest,
    Decline,
    IssuedCertificate,
    KeyLine,
    UnknownCertificate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse
    from django.utils.safestring import SafeString

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import Resource
    from registration.evidence.evidence_items import Evidence

REASON = 500  # characters, as on the console's pages


class WhyForm(forms.Form):
    reason = forms.CharField(
        max_length=REASON,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Kept with your name, here and in the audit.",
        error_messages={"required": "Say why: the audit keeps it."},
    )


# ---------------------------------------------------------------- clusters


class StatusFilter(ChoiceFilter):
    title = "status"
    parameter_name = "status"
    choices_of = tuple((each.value, each.label) for each in WORST_FIRST)

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        ranks = {each.value: RANKS[each] for each in WORST_FIRST}
        return with_word(rows, clock.now()).filter(rank=ranks[value])


def _page_of_act(act: clusters_bulk.ClusterAct) -> Way:
    """The console's page of the act, which says what it would do to each cluster."""

    def leads_to(request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse:
        names = rows.values_list("name", flat=True)[: bulk_jobs.MOST]
        chosen = bulk_jobs.store_selection(actor_of(request), {name: {} for name in names})
        return redirect(act.page, chosen.pk) if act.page else redirect("clusters:bulk", chosen.pk, act.name)

    return Way(act.name, f"{act.title}…", leads_to)


def _requests_of(rows: Sequence[Any]) -> list[Described]:
    """What waits for each cluster, and the versions of it that the decision is about."""
    found = assessment.of_all(row.name for row in rows)
    return [Described(_waiting(found[row.name]), packed(stale_decision.seen_of(found[row.name]))) for row in rows]


def _waiting(found: Evidence) -> str:
    if not found.waiting:
        return "no certificate request waits"
    asked = found.waiting[0]
    return f"{found.verdict.capitalize()}, {found.why}; request {asked.name} with the key {asked.fingerprint}"


def _accept(actor: Actor, row: Any, given: Mapping[str, Any]) -> None:
    services.accept_cluster(actor, row.name, seen=unpacked(given["seen"]))


def _decline(actor: Actor, row: Any, given: Mapping[str, Any]) -> None:
    services.decline_cluster(actor, row.name, reason=given["words"], seen=unpacked(given["seen"]))


def _disconnect(actor: Actor, row: Any, given: Mapping[str, Any]) -> None:  # noqa: ARG001 - the signature of acts
    services.disconnect_cluster(actor, row.name)


@admin.register(ManagedCluster)
class ManagedClusterAdmin(GrantsAdmin):
    kind = MANAGED_CLUSTER
    list_filter = (StatusFilter, "hub_accepts_client", "in_maintenance")
    ordering = ("name",)
    lookups = ("name", "clusterset", "kubernetes_version")
    acts = (
        AdminAct(
            "accept", "Accept selected clusters and approve their requests…", "accepted", _accept,
            describe=_requests_of,
            effects=(
                "The newest certificate request of each is approved, and each cluster is let in.",
                "One that changes after this page was shown stays as it is.",
            ),
        ),
        AdminAct(
            "decline", "Decline selected clusters…", "declined", _decline, form=PresetReasonForm, describe=_requests_of,
            effects=(
                "Every request that waits for one of these clusters is denied.",
                "The same key and the same credential are refused for the name until that is lifted.",
            ),
        ),
        AdminAct(
            "disconnect", "Disconnect selected clusters…", "disconnected", _disconnect,
            effects=(
                (
                    "The agents lose their rights within a second. Their certificates stay valid: with them "
                    "an agent reads its own ManagedCluster, and works as far as cleaning up goes. "
                    "Revoke them too if another may hold the key."
                ),
                "Accepting a cluster again restores them.",
            ),
        ),
        *(_page_of_act(act) for act in clusters_bulk.ACTS.values() if act.name != "disconnect"),
    )  # fmt: skip

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return ("name", "status", "since", "last_heard", "clusterset", "kubernetes_version", "certificate", "created")

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows & cluster_queries.clusters_for(actor_of(request, EntryPoint.ADMIN))

    def decorated(self, request: HttpRequest, rows: list[Any]) -> list[Any]:  # noqa: ARG002 - Django's signature
        """With the state as every page of the console says it."""
        now = clock.now()
        clusters = ManagedCluster.objects.filter(pk__in=[row.pk for row in rows]).defer("wire", "labels")
        seen = {each.row.pk: each for each in cluster_queries.observe_clusters(clusters, now)}
        for row in rows:
            row.seen = seen.get(row.pk)
        return rows

    @admin.display
    def status(self, row: Any) -> SafeString | str:
        found = row.seen.status if row.seen else None
        return status_label(found.word.label, found.tone, found.sentence) if found else ""

    @admin.display
    def since(self, row: Any) -> object:
        return ago(row.seen.status.since) if row.seen else ""

    @admin.display
    def last_heard(self, row: Any) -> object:
        return ago(row.seen.last_heard) if row.seen and row.seen.last_heard else "never"

    @admin.display
    def certificate(self, row: Any) -> SafeString | str:
        facts = (row.seen.row.facts if row.seen else None) or ClusterFacts()
        bucket = certificate_expiry.bucket_of(facts, clock.now())
        return status_label(bucket.label, certificate_expiry.tone_of(facts, clock.now()))

    def view_on_site(self, row: ManagedCluster) -> str:
        return reverse("clusters:detail", args=[row.name])

    def write(self, request: HttpRequest, obj: Resource, doc: Doc, *, dry_run: bool = False) -> verbs.Result:
        """The refusal names the permission as the other pages do."""
        try:
            return super().write(request, obj, doc, dry_run=dry_run)
        except errors.Forbidden as error:
            name = error.details.get("name", "")
            is_about_accept = error.details.get("kind") == "managedclusters/accept"
            if not is_about_accept or services.may_accept(actor_of(request, EntryPoint.ADMIN), name).allowed:
                raise
            text = f"{error.message}; {services.MISSING.format(name=name)}"
            raise errors.Forbidden(text, details=error.details) from error


# ---------------------------------------------------------------- requests and certificates


@admin.register(CertificateSigningRequest)
class CertificateSigningRequestAdmin(ResourceAdmin):
    """Requests of clusters are decided with their cluster, on its page of the inbox."""

    kind = CERTIFICATE_SIGNING_REQUEST
    list_filter = ("state",)
    search_fields = ("name__contains", "cluster__contains", "username__contains")
    search_help_text = "Part of the name of a request, a cluster or a user"
    ordering = ("-created",)
    date_hierarchy = "created"
    lookups = ("name", "cluster", "addon", "signer")

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return ("name", "state_word", "cluster", "addon", "requester", "created", "decided_at", "expires_at")

    @admin.display(description="state")
    def state_word(self, row: CertificateSigningRequest) -> SafeString:
        tones = {"Pending": "accent", "Issued": "ok", "Approved": "info", "Failed": "danger"}
        return status_label(row.state, tones.get(row.state, "quiet"))

    @admin.display
    def requester(self, row: CertificateSigningRequest) -> str:
        return who(row.username)

    def view_on_site(self, row: CertificateSigningRequest) -> str | None:
        return reverse("registration:request", args=[row.cluster]) if row.cluster and not row.addon else None


class CertificateFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"
    choices_of = (("valid", "Valid"), ("month", "Ends within 30 days"), ("ended", "Ended"), ("revoked", "Revoked"))

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        now = clock.now()
        if value == "revoked":
            return rows.filter(revoked_at__isnull=False)
        standing = rows.filter(revoked_at=None)
        if value == "ended":
            return standing.filter(not_after__lte=now)
        valid = standing.filter(not_after__gt=now)
        return valid.filter(not_after__lte=now + certificate_expiry.SOON) if value == "month" else valid


def _revoke(actor: Actor, row: Any, given: Mapping[str, Any]) -> None:
    services.revoke_certificate(actor, row.pk, reason=given["reason"])


@admin.register(IssuedCertificate)
class IssuedCertificateAdmin(OfClusters):
    """The register of client certificates. Those of people are for who may see the whole register."""

    list_display = ("common_name", "state", "cluster", "serial", "not_before", "not_after", "revoked_by")
    list_filter = (CertificateFilter,)
    search_fields = ("common_name__contains", "serial__istartswith", "fingerprint__startswith")
    search_help_text = "Part of a common name, the beginning of a serial number or fingerprint"
    ordering = ("-not_before",)
    date_hierarchy = "not_before"
    acts = (
        AdminAct(
            "revoke", "Revoke selected certificates…", "revoked", _revoke, form=WhyForm,
            effects=(
                "From then on each of them opens nothing: its agent can neither speak nor renew with it.",
                "This cannot be undone.",
            ),
        ),
    )  # fmt: skip

    def decorated(self, request: HttpRequest, rows: list[Any]) -> list[Any]:  # noqa: ARG002 - Django's signature
        counting = ClusterFacts.objects.filter(certificate_fingerprint__in=[row.pk for row in rows])
        current = set(counting.values_list("certificate_fingerprint", flat=True))
        for row in rows:
            row.is_current = row.pk in current
        return rows

    @admin.display
    def state(self, row: Any) -> SafeString:
        current = row.pk if getattr(row, "is_current", False) else ""
        return status_label(*issued_certificates.state_of_certificate(row, clock.now(), current))

    def view_on_site(self, row: IssuedCertificate) -> str | None:
        return reverse("clusters:tab", args=[row.cluster, "identity"]) if row.cluster else None


@admin.register(KeyLine)
class KeyLineAdmin(OfClusters):
    """Lines of keys (D19): which keys of a name followed each other, and what ended them."""

    list_display = ("cluster", "state", "begun_at", "ended_at", "ended_by", "end_reason")
    ordering = ("-pk",)

    @admin.display
    def state(self, row: KeyLine) -> SafeString:
        return status_label("Open", "ok") if row.ended_at is None else status_label("Ended", "quiet")


@admin.register(AcceptedKey)
class AcceptedKeyAdmin(OfClusters):
    """Reads only: the memory of a name has no end (D9)."""

    list_display = ("cluster", "fingerprint", "key", "how", "accepted_by", "accepted_at", "reason", "request")
    list_filter = ("how",)
    search_fields = ("cluster__contains", "fingerprint__startswith")
    ordering = ("-pk",)


@admin.register(UnknownCertificate)
class UnknownCertificateAdmin(ReadOnlyAdmin):
    """Reads only: incidents, which the register keeps (D26)."""

    list_display = ("common_name", "organizations", "address", "first_seen", "last_seen", "times", "serial")
    search_fields = ("common_name__contains", "fingerprint__startswith", "serial__istartswith")
    ordering = ("-last_seen",)
    date_hierarchy = "last_seen"

    def view_on_site(self, row: UnknownCertificate) -> str:  # noqa: ARG002 - all of them are on one page
        return reverse("registration:ca")


class DeclineFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"
    choices_of = (("standing", "Declined"), ("lifted", "Lifted"))

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(lifted_at__isnull=value == "standing")


def _lift(actor: Actor, row: Any, given: Mapping[str, Any]) -> None:  # noqa: ARG001 - the signature of acts
    services.lift_decline(actor, row.cluster)


@admin.register(Decline)
class DeclineAdmin(OfClusters):
    """Lifting lets everything about the name ask again that was declined (D10)."""

    list_display = ("cluster", "state", "scope", "requester", "reason", "declined_by", "declined_at", "lifted_by")
    list_filter = (DeclineFilter, "scope")
    search_fields = ("cluster__contains", "fingerprint__startswith")
    ordering = ("-pk",)
    acts = (AdminAct("lift", "Lift the selected declines", "lifted", _lift),)

    @admin.display
    def state(self, row: Decline) -> SafeString:
        return status_label("Declined", "quiet") if row.lifted_at is None else status_label("Lifted", "ok")

    def view_on_site(self, row: Decline) -> str:
        return reverse("registration:request", args=[row.cluster])
