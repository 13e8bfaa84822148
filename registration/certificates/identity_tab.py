"""A cluster's tab of identity: its certificates and keys over time, what waits, and how to revoke or replace it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render

from clusters import cluster_rights, queries
from clusters.cluster import page_frame
from clusters.cluster.page_frame import Opened, tab, tab_url
from clusters.forms import TypedNameForm
from clusters.health.status import BOOTSTRAP_AGAIN
from clusters.models import ManagedCluster
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of
from registration.approvals import sending_away, services
from registration.certificates import agent_troubles, issued_certificates
from registration.models import IssuedCertificate

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor

IDENTITY = "identity"


def _pending(cluster: Opened) -> int:
    return len(issued_certificates.pending_of(cluster.name))


@tab(IDENTITY, "Identity", "registration/certificates/identity.html", count=_pending)
def identity(request: HttpRequest, cluster: Opened) -> dict[str, Any]:  # noqa: ARG001 - the signature of tabs
    lives = issued_certificates.certificate_lives(cluster.name, cluster.now)
    return {
        "lives": lives,
        "current": lives.current,
        "pending": issued_certificates.pending_of(cluster.name),
        "rejected": issued_certificates.rejected_of(cluster.name),
        "failed": issued_certificates.failed_of(cluster.name),
        "trouble": agent_troubles.what_is_wrong(cluster.name, cluster.now) if cluster.row.hub_accepts_client else None,
        "rebootstrap": BOOTSTRAP_AGAIN,
        "commands": [
            f"{PROGRAM} revoke_certificate {lives.current.issued.pk} --reason '…'",
        ]
        if lives.current
        else [],
    }


# ---------------------------------------------------------------- revoke


class RevokeForm(TypedNameForm):
    """The name is the cluster's, or the certificate's own."""

    typed = forms.CharField(
        label="Type the name it speaks for",
        max_length=320,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        error_messages={"required": "Type the name: a revocation cannot be taken back."},
    )
    reason = forms.CharField(
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Kept with the certificate and in the audit, with your name.",
        error_messages={"required": "Say why: the audit keeps it."},
    )
    field_order = ("reason", "typed")


@login_required
def revoke(request: HttpRequest, fingerprint: str) -> HttpResponse:
    actor = actor_of(request)
    row = _visible(actor, fingerprint)
    if row is None:
        raise Http404("The hub has issued no such certificate, or you may not see it.")
    if request.method != "POST":
        return _page(request, actor, row, RevokeForm(row.cluster or row.common_name))
    form = RevokeForm(row.cluster or row.common_name, request.POST)
    if not form.is_valid():
        return _page(request, actor, row, form, 400)
    try:
        services.revoke_certificate(actor, row.pk, reason=form.cleaned_data["reason"])
    except errors.ApiError as error:
        form.add_error(None, page_frame.refusal_text(error))
        return _page(request, actor, row, form, error.code)
    messages.success(request, f"The certificate {row.pk[:16]} of {row.common_name} is revoked; it opens nothing now.")
    return redirect(_back(row))


def _visible(actor: Actor, fingerprint: str) -> IssuedCertificate | None:
    """An agent's by users who see the cluster; any other only with the right to sign, as in the service."""
    row = IssuedCertificate.objects.filter(pk=fingerprint.replace(":", "").lower()[:64]).first()
    if row is None:
        return None
    may = queries.may_see(actor, row.cluster) if row.cluster else sending_away.may_revoke(actor, row).allowed
    return row if may else None


def _back(row: IssuedCertificate) -> str:
    if row.cluster and ManagedCluster.objects.filter(name=row.cluster).exists():
        return tab_url(row.cluster, IDENTITY)
    return page_frame.link("registration:certificates") or page_frame.link("clusters:list")


def _page(
    request: HttpRequest, actor: Actor, row: IssuedCertificate, form: RevokeForm, code: int = 200
) -> HttpResponse:
    now = clock.now()
    others = (
        [each for each in issued_certificates.valid_of(row.cluster, now) if each.pk != row.pk] if row.cluster else []
    )
    cluster = ManagedCluster.objects.filter(name=row.cluster).first() if row.cluster else None
    may = sending_away.may_revoke(actor, row)
    context = {
        "row": row,
        "form": form,
        "others": others,
        "cluster": cluster,
        "is_over": row.not_after <= now,
        "may_revoke": may.allowed,
        "denied": cluster_rights.to_accept(actor, cluster) if cluster else None,
        "grace": page_frame.grace_of(cluster) if cluster else "",
        "back_url": _back(row),
        "commands": [f"{PROGRAM} revoke_certificate {row.pk} --reason '…'"],
    }
    return render(request, "registration/certificates/revoke.html", context, status=code)
