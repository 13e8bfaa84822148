"""Repair: what is wrong with a cluster's agent, and the manifest that brings it back, shown once (D29)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from clusters.cluster import page_frame
from clusters.cluster.page_frame import Opened, frame, opens_cluster
from ocmconsole.components import refusals
from ocmconsole.components.links import audit_url
from ocmconsole.core.tokens import bootstrap_terms, tokens
from ocmconsole.environment.durations import in_words
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi import errors
from ocmconsole.second_approval import gate
from registration import join_guide
from registration.approvals import repairs
from registration.certificates import agent_troubles

if TYPE_CHECKING:
    from django.http import HttpRequest


@never_cache
@require_http_methods(["GET", "POST"])
@opens_cluster
def repair(request: HttpRequest, cluster: Opened) -> HttpResponse:
    """The manifest is on the page that answers, and nowhere else."""
    if request.method != "POST":
        return _page(request, cluster)
    try:
        made = repairs.mint_manifest(cluster.actor, cluster.name)
    except gate.Waits as waits:
        return refusals.proposed(request, waits.pk)
    except errors.ApiError as error:
        messages.error(request, page_frame.refusal_text(error))
        return _page(request, cluster, error.code)
    trouble, file = _trouble(cluster), repairs.FILE_NAME.format(cluster.name)
    context = {
        **frame(cluster),
        "page_name": "Repair",
        "trouble": trouble,
        "token": made.token,
        "manifest": made.text,
        "file": file,
        "commands": trouble.commands(file),
        "problems": join_guide.address_problems(join_guide.addresses()[0]),
        "audit_url": audit_url(bootstrap_terms.PLURAL, made.token.pk),
    }
    return render(request, "registration/certificates/repaired.html", context)


@never_cache
@require_POST
@opens_cluster
def download(request: HttpRequest, cluster: Opened) -> HttpResponse:
    """The manifest as a file, for the page that holds it: who sends it has it already, and nothing is looked up."""
    text = request.POST.get("manifest", "").replace("\r\n", "\n")  # as forms send it
    token = repairs.token_of_manifest(text)
    if token is None or token.cluster != cluster.name or token.created_by != cluster.actor.user:
        raise Http404("A manifest is shown once, when its token is minted.")
    name = repairs.FILE_NAME.format(cluster.name)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(text, content_type="application/yaml", headers=headers)


def _trouble(cluster: Opened) -> agent_troubles.AgentTrouble:
    return agent_troubles.what_is_wrong(cluster.name, cluster.now)


def _page(request: HttpRequest, cluster: Opened, code: int = 200) -> HttpResponse:
    obstacle = ""
    try:
        repairs.line_to_repair(cluster.name)
    except errors.ApiError as error:
        obstacle = page_frame.refusal_text(error)
    wizard = page_frame.link("registration:add") if tokens.may_mint(cluster.actor).allowed else ""
    context: dict[str, Any] = {
        **frame(cluster),
        "page_name": "Repair",
        "trouble": _trouble(cluster),
        "obstacle": obstacle,
        "lifetime": in_words(repairs.LIFETIME),
        "standing": [
            {"token": each, "may_revoke": bootstrap_terms.may_revoke(cluster.actor, each)}
            for each in repairs.standing(cluster.name)
        ],
        "wizard_url": f"{wizard}?{urlencode({'name': cluster.name})}" if wizard else "",
        "commands": [f"{PROGRAM} repair {cluster.name}"],
    }
    return render(request, "registration/certificates/repair.html", context, status=code)
