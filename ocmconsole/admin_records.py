"""Django admin of the hub's own records: audit, work queue, bulk jobs, limits, sessions, addresses, uses of tokens.

All of them are read only; an address is removed by its service.

Invariant: nothing here shows a credential. A session is listed without its key, and no column that holds a digest can
be asked for in an address (``Fast.lookup_allowed``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Count, Q
from django.urls import reverse

from clusters.admin import OfClusters
from ocmconsole.core.models import BootstrapTokenUse
from ocmconsole.djangoadmin.acts import AdminAct
from ocmconsole.djangoadmin.lists import ChoiceFilter, status_label
from ocmconsole.djangoadmin.resources import ReadOnlyAdmin
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.control import bulk_jobs
from ocmconsole.kubeapi.models import (
    AuditEvent,
    AuditSeal,
    BulkItem,
    BulkJob,
    HeldBack,
    Pulse,
    WorkItem,
)
from ocmconsole.kubeapi.storage import audit_acts, database_clock
from ocmconsole.models import Session
from ocmconsole.signin.sessions import signs_in
from ocmconsole.templatetags.console import ago, who
from registration import hub_setup
from registration.models import ApprovalPolicy, ApprovalPolicyUse, HubAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.utils.safestring import SafeString

    from ocmconsole.kubeapi.access.actor import Actor


class EntryPointFilter(ChoiceFilter):
    title = "entry point"
    parameter_name = "entry_point"
    choices_of = tuple((entry_point.value, entry_point.value) for entry_point in EntryPoint)


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    """The audit is append-only; the page Activity of the console shows it in sentences."""

    list_display = ("time", "by", "outcome_word", "sentence", "kind_of", "namespace", "name", "entry_point", "count")
    list_filter = ("outcome", EntryPointFilter)
    search_fields = ("user__contains", "name__contains")
    search_help_text = "Part of a user's or an object's name"
    ordering = ("-time",)
    date_hierarchy = "time"
    lookups = ("act", "resource", "namespace", "name", "user", "request_id")
    exclude = ("same",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEvent]:
        return super().get_queryset(request).defer("diff", "groups", "user_agent")

    @admin.display(description="who")
    def by(self, row: AuditEvent) -> str:
        return who(row.user)

    @admin.display(description="resource")
    def kind_of(self, row: AuditEvent) -> str:
        return row.resource.partition(".")[0]

    @admin.display(description="outcome")
    def outcome_word(self, row: AuditEvent) -> SafeString:
        is_denied = row.outcome == AuditEvent.Outcome.DENIED
        return status_label("Denied" if is_denied else "Allowed", "danger" if is_denied else "quiet")

    @admin.display(description="what")
    def sentence(self, row: AuditEvent) -> str:
        if row.outcome == AuditEvent.Outcome.DENIED:
            return audit_acts.refusal_sentence(row.act, row.verb)
        return audit_acts.done_sentence(row.act) or row.act

    def view_on_site(self, row: AuditEvent) -> str:
        return f"{reverse('activity')}?resource={row.resource}&name={row.name}"


@admin.register(AuditSeal)
class AuditSealAdmin(ReadOnlyAdmin):
    list_display = ("number", "first", "last", "count", "newest", "digest", "cut_at")
    ordering = ("-number",)


class WorkFilter(ChoiceFilter):
    title = "state"
    parameter_name = "attempts"
    choices_of = (("waiting", "Waiting"), ("failing", "Tried again"))

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(attempts__gt=0) if value == "failing" else rows.filter(attempts=0)


@admin.register(WorkItem)
class WorkItemAdmin(ReadOnlyAdmin):
    """What reconcilers still have to look at; a row goes when it is done."""

    list_display = ("reconciler", "namespace", "name", "state", "due", "attempts", "busy_until")
    list_filter = (WorkFilter,)
    search_fields = ("reconciler__contains", "name__contains")
    ordering = ("due",)
    date_hierarchy = "due"
    lookups = ("reconciler", "namespace", "name")

    @admin.display
    def state(self, row: WorkItem) -> SafeString:
        now = database_clock.now()
        if row.busy_until is not None and row.busy_until > now:
            return status_label("Running", "info")
        if row.attempts:
            return status_label("Tried again", "caution")
        return status_label("Due", "quiet") if row.due <= now else status_label("Waiting", "quiet")


@admin.register(BulkJob)
class BulkJobAdmin(ReadOnlyAdmin):
    """Everybody's own; those of others with the permission ``kubeapi.view_bulkjob``."""

    list_display = ("what", "person", "state", "done", "left_out", "created", "ended")
    list_select_related = ("person",)
    search_fields = ("person__username", "act__contains")
    ordering = ("-created",)
    date_hierarchy = "created"
    is_for_all_staff = True
    exclude = ("origin",)

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(person_id=request.user.pk)

    def decorated(self, request: HttpRequest, rows: list[Any]) -> list[Any]:  # noqa: ARG002 - Django's signature
        states = BulkItem.State
        counts = {
            "all": Count("pk"),
            "done": Count("pk", filter=Q(state=states.DONE)),
            "refused": Count("pk", filter=Q(state__in=(states.REFUSED, states.FAILED, states.NOT_TRIED))),
        }
        items = BulkItem.objects.filter(job__in=[row.pk for row in rows])
        found = {each["job"]: each for each in items.order_by().values("job").annotate(**counts)}
        for row in rows:
            row.counted = found.get(row.pk, {"all": 0, "done": 0, "refused": 0})
        return rows

    @admin.display
    def what(self, row: BulkJob) -> str:
        act = bulk_jobs.find_act(row.act)
        return act.title if act else row.act

    @admin.display
    def state(self, row: BulkJob) -> SafeString:
        if row.ended is None:
            return status_label("Under way", "info")
        return status_label("Taken back", "quiet") if row.undone else status_label("Ended", "quiet")

    @admin.display
    def done(self, row: Any) -> str:
        return f"{row.counted['done']} of {row.counted['all']}"

    @admin.display(description="refused, failed or not tried")
    def left_out(self, row: Any) -> int:
        return int(row.counted["refused"])

    def view_on_site(self, row: BulkJob) -> str:
        return reverse("bulk:job", args=[row.pk])


@admin.register(HeldBack)
class HeldBackAdmin(ReadOnlyAdmin):
    """Callers that a limit has refused (D23)."""

    list_display = ("caller", "address", "limit", "count", "since", "last")
    search_fields = ("user__contains", "address__startswith")
    ordering = ("-last",)
    date_hierarchy = "last"

    @admin.display
    def caller(self, row: HeldBack) -> str:
        return who(row.user) if row.user else "without a valid credential"


@admin.register(Pulse)
class PulseAdmin(ReadOnlyAdmin):
    """Processes of the hub that others need."""

    list_display = ("name", "seen", "since")
    ordering = ("name",)

    @admin.display(description="last seen")
    def since(self, row: Pulse) -> object:
        return ago(row.seen)


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    """Where people are signed in. Neither the key nor its digest, nor what the session holds, is shown."""

    list_display = ("user", "state", "began", "expire_date", "address", "user_agent")
    list_display_links = None
    list_select_related = ("user",)
    search_fields = ("user__username", "address__startswith")
    ordering = ("-expire_date",)
    date_hierarchy = "expire_date"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """No page of one: its address would hold the digest."""
        return obj is None and super().has_view_permission(request)

    @admin.display
    def state(self, row: Session) -> SafeString:
        if row.expire_date <= clock.now():
            return status_label("Expired", "quiet")
        if not row.user_id:
            return status_label("Not signed in", "quiet")
        is_signed_in = row.user is not None and signs_in(row, row.user)
        return status_label("Signed in", "ok") if is_signed_in else status_label("Stored", "quiet")


def _remove_address(actor: Actor, row: Any, given: Mapping[str, Any]) -> None:  # noqa: ARG001 - the signature of acts
    hub_setup.remove_address(actor, row.url)


@admin.register(HubAddress)
class HubAddressAdmin(ReadOnlyAdmin):
    """Added on the console's page that adds a cluster, which checks them."""

    list_display = ("url", "added_by", "added_at")
    search_fields = ("url__contains", "added_by__contains")
    ordering = ("url",)
    acts = (
        AdminAct(
            "remove", "Remove selected addresses…", "removed", _remove_address,
            effects=(
                "The hub's serving certificate is issued without them; every server serves the new one within seconds.",
                "Agents that use one of them refuse their next connection, unless something else keeps its name there.",
            ),
        ),
    )  # fmt: skip

    def view_on_site(self, row: HubAddress) -> str:  # noqa: ARG002 - all of them are on one page
        return reverse("registration:add")


@admin.register(BootstrapTokenUse)
class BootstrapTokenUseAdmin(OfClusters):
    """Which cluster came with which token."""

    list_display = ("cluster", "token_id", "since", "wish_failure")
    search_fields = ("cluster__contains", "token__id__startswith")
    search_help_text = "Part of a cluster's name, the beginning of a token's id"
    ordering = ("-pk",)


@admin.register(ApprovalPolicyUse)
class ApprovalPolicyUseAdmin(OfClusters):
    """Which cluster a policy let in."""

    list_display = ("cluster", "policy_name", "time")
    ordering = ("-pk",)

    def decorated(self, request: HttpRequest, rows: list[Any]) -> list[Any]:  # noqa: ARG002 - Django's signature
        names = dict(ApprovalPolicy.objects.filter(pk__in={row.policy_id for row in rows}).values_list("pk", "name"))
        for row in rows:
            row.named = names.get(row.policy_id, "")
        return rows

    @admin.display(description="policy")
    def policy_name(self, row: Any) -> str:
        return str(row.named)
