"""Disconnect: withdraw an agent's rights, after saying what that does and what it does not; and reconnect."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.shortcuts import redirect, render
from django.utils.html import format_html

from clusters.acceptance import removal_progress
from clusters.cluster import impact, page_frame
from clusters.cluster.page_frame import Opened, frame, opens_cluster, tab_url
from clusters.health.status import Word
from clusters.kinds import UNREACHABLE_TAINT, accept_command, is_hub_taint, taints_of
from clusters.taints import taint_rules
from ocmconsole.kubeapi import errors
from registration.approvals import sending_away, services
from registration.approvals.forms import DisconnectForm
from registration.certificates import issued_certificates
from registration.keys import key_lines

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.errors import Doc


@opens_cluster
def disconnect(request: HttpRequest, cluster: Opened) -> HttpResponse:
    """No version is asked for: an agent that keeps writing must not be able to prevent this."""
    if request.method != "POST":
        return _page(request, cluster, DisconnectForm())
    form = DisconnectForm(request.POST)
    if not form.is_valid():
        return _page(request, cluster, form, 400)
    try:
        revoked = sending_away.send_away(cluster.actor, cluster.name, revoke=form.cleaned_data["revoke"])
    except errors.ApiError as error:
        messages.error(request, page_frame.refusal_text(error))
        return _page(request, cluster, form, error.code)
    also = f" and {len(revoked)} certificate{'s are' if len(revoked) > 1 else ' is'} revoked" if revoked else ""
    _tell(request, cluster, f"{cluster.name} is disconnected; its agent's rights are withdrawn{also}.")
    return redirect("clusters:detail", name=cluster.name)


def _page(request: HttpRequest, cluster: Opened, form: DisconnectForm, code: int = 200) -> HttpResponse:
    valid = list(key_lines.certificates_of(cluster.name, cluster.now))
    context: dict[str, Any] = {
        **frame(cluster),
        "page_name": "Disconnect",
        "form": form,
        "valid": valid,
        "ends": max((row.not_after for row in valid), default=None),
        "impact": impact.impact_of(cluster.actor, [cluster.name], partial(_as_silent, now=cluster.now), cluster.now),
        "grace": page_frame.grace_of(cluster.row),
        "departure": removal_progress.departure_of(cluster.row, cluster.now),
        "is_accepted": cluster.row.hub_accepts_client,
        "commands": [accept_command(cluster.name, accepted=False)],
    }
    return render(request, "registration/certificates/disconnect.html", context, status=code)


@opens_cluster
def reconnect(request: HttpRequest, cluster: Opened) -> HttpResponse:
    """Let in again what was sent away: with the certificate that it has, as long as that lives."""
    if request.method != "POST":
        return _reconnect_page(request, cluster)
    try:
        services.accept_cluster(cluster.actor, cluster.name)
    except errors.ApiError as error:
        messages.error(request, page_frame.refusal_text(error))
        return _reconnect_page(request, cluster, error.code)
    _tell(request, cluster, f"{cluster.name} is let in again.")
    return redirect("clusters:detail", name=cluster.name)


def _reconnect_page(request: HttpRequest, cluster: Opened, code: int = 200) -> HttpResponse:
    context: dict[str, Any] = {
        **frame(cluster),
        "page_name": "Reconnect",
        "valid": issued_certificates.valid_of(cluster.name, cluster.now),
        "pending": issued_certificates.pending_of(cluster.name),
        "is_disconnected": cluster.status.word is Word.DISCONNECTED,
        "commands": [accept_command(cluster.name)],
    }
    return render(request, "registration/certificates/reconnect.html", context, status=code)


def _tell(request: HttpRequest, cluster: Opened, text: str) -> None:
    url = f"{tab_url(cluster.name, 'events')}?source=audit"
    messages.success(request, format_html('{} <a href="{}">Audit entry</a>', text, url))


def _as_silent(doc: Doc, *, now: datetime) -> Doc:
    """With the hub's taint for silence, which it gets after the grace period (H16, H21)."""
    taints = [each for each in taints_of(doc) if not is_hub_taint(each)]
    taint_rules.write_taints(doc, [*taints, dict(UNREACHABLE_TAINT)])
    return taint_rules.stamped(doc, now)
