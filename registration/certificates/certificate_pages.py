"""Client certificates of all clusters that a person sees, those that end first; and the authority that signs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from clusters import queries as clusters
from clusters.health import certificate_expiry
from ocmconsole.components.cursors import Cursor
from ocmconsole.components.links import query_of
from ocmconsole.components.row_counts import counted
from ocmconsole.environment.durations import in_words
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.actor import MASTERS
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.control import bulk_jobs
from registration import hub_setup
from registration.approvals import bulk_decisions
from registration.certificates import ca_rotation, issued_certificates
from registration.certificates.issued_certificates import CertificateBucket
from registration.keys import certificate_register
from registration.models import IssuedCertificate
from registration.pki import ca

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet
    from django.http import HttpRequest, QueryDict

    from ocmconsole.kubeapi.access.actor import Actor

PAGE = 50  # rows
REVOKED_SHOWN = 50  # rows of each list beside the table
LEFT_SHOWN = 50  # of those whom a rotation waits for
LONGEST = 253  # characters of a search; a common name has fewer
BUCKETS = {
    CertificateBucket.IN_USE: "In use",
    CertificateBucket.ENDED: "Ended",
    CertificateBucket.WEEK: "Within 7 days",
    CertificateBucket.MONTH: "Within 30 days",
    CertificateBucket.REPLACED: "Replaced, still honoured",
    CertificateBucket.REMOVED: "Of removed clusters",
    CertificateBucket.REVOKED: "Revoked",
    CertificateBucket.OVER: "Over",
}


@login_required
@require_GET
def certificate_list(request: HttpRequest) -> HttpResponse:
    """The certificate in use of each cluster; other expiry buckets show what was revoked or replaced."""
    now = clock.now()
    actor, bucket, query = actor_of(request), _bucket(request.GET), _query(request.GET)
    visible = _visible(actor)
    counts = issued_certificates.count_by_bucket(visible, now)
    rows = _matching(visible, bucket, query, now)
    falls = bucket in {CertificateBucket.REVOKED, CertificateBucket.OVER}
    order = ("-not_after", "-pk") if falls else ("not_after", "pk")  # what matters next comes first
    total = counted(counts[bucket], rows if query else None)
    if after := Cursor.read(request.GET.get("after", "")):
        rows = rows.filter(after.beyond(*order))
    found = list(rows.order_by(*order)[: PAGE + 1])
    shown = found[:PAGE]
    chosen = {name: value for name, value in (("bucket", bucket), ("q", query)) if value}
    context = {
        "rows": [
            {
                "issued": row,
                "tone": certificate_expiry.life_tone(row.not_before, row.not_after, now),
                "is_overdue": certificate_expiry.is_overdue(row.not_before, row.not_after, now),
                "is_over": row.not_after <= now,
            }
            for row in shown
        ],
        "buckets": [
            {
                "label": label,
                "count": counts[name],
                "url": query_of({**chosen, "bucket": name}),
                "current": name == bucket,
            }
            for name, label in BUCKETS.items()
            if name is not CertificateBucket.REMOVED or clusters.sees_all(actor)
        ],
        "bucket": bucket,
        "query": query,
        "counted": total,
        "counts": {name.value: counts[name] for name in BUCKETS},
        "matching": rows.count() if bucket is CertificateBucket.REMOVED else 0,
        "next_after": str(Cursor(shown[-1].not_after, shown[-1].pk)) if len(found) > PAGE else "",
    }
    return render(request, "registration/certificates/list.html", context)


class RevokeManyForm(forms.Form):
    """One reason for all of them; the number is typed when there are many."""

    reason = forms.CharField(
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Kept with each certificate and in the audit, with your name.",
        error_messages={"required": "Say why: the audit keeps it."},
    )
    count = forms.CharField(
        required=False, max_length=9, widget=forms.TextInput(attrs={"autocomplete": "off", "inputmode": "numeric"})
    )

    def __init__(self, data: QueryDict | None, number: int) -> None:
        super().__init__(data)
        self.number = number
        if number > bulk_jobs.TYPED_ABOVE:
            self.fields["count"].label = f"Type {number}, the number of certificates"
        else:
            del self.fields["count"]

    def clean_count(self) -> str:
        typed: str = self.cleaned_data["count"].strip()
        if typed != str(self.number):
            raise ValidationError(f"Type {self.number} to confirm.")
        return typed


@login_required
@require_POST
def revoke_many(request: HttpRequest) -> HttpResponse:
    """Certificates of removed clusters: first what would be revoked, then, confirmed, each by itself.

    The names travel in the body. ``every`` means all that the filter matches at that moment.
    """
    actor, query, now = actor_of(request), _query(request.POST), clock.now()
    rows = _matching(_visible(actor), CertificateBucket.REMOVED, query, now).order_by("cluster", "pk")
    if "every" not in request.POST:
        rows = rows.filter(pk__in=request.POST.getlist("select")[: bulk_jobs.MOST])
    total, chosen = rows.count(), list(rows[: bulk_jobs.MOST])
    if not chosen:
        messages.error(request, "Select certificates first: none of those that you chose is left to revoke.")
        return redirect(f"{reverse('registration:certificates')}?bucket={CertificateBucket.REMOVED}")
    form = RevokeManyForm(request.POST if "confirmed" in request.POST else None, len(chosen))
    if form.is_bound and form.is_valid():
        job = bulk_decisions.revoke_certificates(actor, [row.pk for row in chosen], reason=form.cleaned_data["reason"])
        return redirect(
            "bulk:job", bulk_jobs.led_back(job, query_of({"bucket": CertificateBucket.REMOVED, "q": query})[1:]).pk
        )
    context = {
        "rows": chosen,
        "over": total - len(chosen),
        "form": form,
        "back_query": f"?bucket={CertificateBucket.REMOVED}",
    }
    return render(request, "registration/certificates/revoke_many.html", context, status=400 if form.is_bound else 200)


def _bucket(given: QueryDict) -> CertificateBucket:
    asked = given.get("bucket") or given.get("lane", "")  # links made before the name of the parameter changed
    return CertificateBucket(asked) if asked in set(CertificateBucket) else CertificateBucket.IN_USE


def _query(given: QueryDict) -> str:
    return str(given.get("q", "")).replace("\0", "").strip()[:LONGEST]


def _matching(visible: QuerySet[Any], bucket: CertificateBucket, query: str, now: datetime) -> QuerySet[Any]:
    rows = visible.filter(issued_certificates.bucket_conditions(now)[bucket])
    if not query:
        return rows
    return rows.filter(Q(common_name__contains=query) | Q(serial__istartswith=query) | Q(pk__startswith=query.lower()))


def _visible(actor: Actor) -> QuerySet[Any]:
    """D16: those of clusters that the actor sees; those of removed ones for users who see all clusters."""
    rows = issued_certificates.of_clusters()
    if clusters.sees_all(actor):
        return rows
    return rows.filter(cluster__in=clusters.clusters_for(actor).order_by().values("name"))


# ---------------------------------------------------------------- the authority


@login_required
@require_GET
def authority(request: HttpRequest) -> HttpResponse:
    """What signs, how far a rotation is, what the API shows, and what was revoked. For admins.

    The certificates themselves are no secret.
    """
    if MASTERS not in actor_of(request).groups:
        raise PermissionDenied("The hub's authority is for its admins.")
    now, home = clock.now(), settings.OCMCONSOLE_HOME
    found = [ca_rotation.progress_of(role) for role in ca.AuthorityRole]
    serving = ca.parse_certificate((home / "serving.crt").read_bytes())
    revoked = IssuedCertificate.objects.filter(revoked_at__isnull=False).order_by("-revoked_at")
    alive = IssuedCertificate.objects.filter(revoked_at=None, not_after__gt=now)
    people, unknown = alive.filter(cluster=""), certificate_register.incidents()
    counts = issued_certificates.count_by_bucket(issued_certificates.of_clusters(), now)
    context = {
        "authorities": [
            {
                "certificate": each.signs,
                "days": (each.signs.not_after - now).days,
                "role": each.role,
                "place": each.places[0],
            }
            for each in (found if found[0].signs != found[1].signs else found[:1])
        ],
        "rotations": [
            {"progress": each, "shown": each.left[:LEFT_SHOWN], "more": len(each.left) - LEFT_SHOWN}
            for each in found
            if each.other
        ],
        "serving": {
            "certificate": serving,
            "days": (serving.not_after - now).days,
            "names": sorted(hub_setup.serving_names()),
        },
        "lifetime": in_words(settings.OCMCONSOLE_CERT_LIFETIME),
        "is_external": settings.OCMCONSOLE_CSR_SIGNER == "external",
        "alive": issued_certificates.count_honoured(counts),
        "in_use": counts[CertificateBucket.IN_USE],
        "replaced": counts[CertificateBucket.REPLACED],
        "removed": counts[CertificateBucket.REMOVED],
        "people": people.order_by("not_after")[:REVOKED_SHOWN],
        "people_count": people.count(),
        "revoked": revoked[:REVOKED_SHOWN],
        "revoked_count": revoked.count(),
        "unknown": unknown[:REVOKED_SHOWN],
        "unknown_count": unknown.count(),
    }
    return render(request, "registration/certificates/ca.html", context)


@login_required
@require_GET
def authority_file(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - a view's signature
    """``ca.crt``, which clients trust."""
    text = (settings.OCMCONSOLE_HOME / "ca.crt").read_bytes()
    name = 'attachment; filename="ca.crt"'
    return HttpResponse(text, content_type="application/x-pem-file", headers={"Content-Disposition": name})
