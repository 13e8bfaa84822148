"""Approval pages: the inbox, one request, accept and decline. They parse, call a service and render."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from clusters import queries as cluster_queries
from clusters.models import ClusterFacts
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.session import actor_of
from registration import evidence, services
from registration.evidence import Evidence, Verdict
from registration.forms import DecisionForm, DeclineForm, OverrideForm
from registration.queries import waiting_names

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


DECIDED_SHOWN = 5
RISK = {Verdict.BLOCKED: 0, Verdict.CHECK: 1, Verdict.SAFE: 2}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the inbox."""

    name: str
    verdict: str
    why: str
    requester: str
    credential: str
    minter: str
    source: str
    asked: datetime | None
    csr_count: int
    csr_names: list[str]
    clusterset: str
    url: str


@login_required
@require_GET
def inbox(request: HttpRequest) -> HttpResponse:
    """What waits for a decision, worst and oldest first."""
    actor = actor_of(request)
    found = [_row(evidence.of(name)) for name in waiting_names(actor)]
    query, verdict = request.GET.get("q", "").strip(), request.GET.get("verdict", "")
    counts = {"all": len(found)} | {str(each): sum(row.verdict == each for row in found) for each in Verdict}
    rows = [row for row in found if query in row.name and verdict in {"", row.verdict}]
    rows.sort(key=lambda row: (RISK[Verdict(row.verdict)], row.asked.timestamp() if row.asked else 0.0))
    context = {
        "requests": rows,
        "counts": counts,
        "verdict": verdict,
        "query": query,
        "decided": _decided(cluster_queries.clusters_for(actor)),
    }
    return render(request, "registration/approvals.html", context)


def _row(found: Evidence) -> Row:
    waiting = found.waiting
    return Row(
        name=found.name,
        verdict=str(found.verdict),
        why=found.why,
        requester=found.recorded.requester,
        credential=found.recorded.credential,
        minter=found.recorded.minter,
        source=found.recorded.source,
        asked=found.recorded.asked or (found.cluster.created if found.cluster else None),
        csr_count=len(waiting),
        csr_names=[asked.name for asked in waiting],
        clusterset=found.cluster.clusterset if found.cluster else "",
        url=reverse("registration:request", args=[found.name]),
    )


def _decided(visible: Any) -> list[dict[str, Any]]:
    facts = ClusterFacts.objects.exclude(decision="").filter(cluster__in=visible.values("name")).order_by("-decided_at")
    return [
        {
            "name": fact.cluster,
            "decision": fact.decision,
            "by": fact.decided_by,
            "at": fact.decided_at,
            "reason": fact.decision_reason,
        }
        for fact in facts[:DECIDED_SHOWN]
    ]


@login_required
@require_GET
def request_detail(request: HttpRequest, name: str) -> HttpResponse:
    return _page(request, name)


@login_required
@require_POST
def accept(request: HttpRequest, name: str) -> HttpResponse:
    form = DecisionForm(request.POST)
    if not form.is_valid():
        messages.error(request, services.STALE)
        return redirect("registration:request", name=name)
    try:
        approved = services.accept_cluster(actor_of(request), name, seen=form.seen())
    except errors.ApiError as error:
        return _refused(request, name, error)
    return _accepted(request, name, approved)


@login_required
@require_POST
def override(request: HttpRequest, name: str) -> HttpResponse:
    """Accept a key that the hub would not give the name to, on the person's word (D9)."""
    form = OverrideForm({**request.POST.dict(), "name": name})
    if not form.is_valid():
        return _page(request, name, override_form=form, status=400)
    try:
        approved = services.accept_cluster(actor_of(request), name, seen=form.seen(), override=form.override())
    except errors.ApiError as error:
        return _refused(request, name, error)
    return _accepted(request, name, approved)


def _accepted(request: HttpRequest, name: str, approved: list[str]) -> HttpResponse:
    certificate = (
        f"its request {approved[0]} is approved" if approved else "its certificate follows when it asks for one"
    )
    messages.success(request, f"{name} is accepted; {certificate}.")
    return redirect("registration:approvals")


@login_required
@require_POST
def decline(request: HttpRequest, name: str) -> HttpResponse:
    form = DeclineForm(request.POST)
    if not form.is_valid():
        return _page(request, name, decline_form=form, status=400)
    try:
        services.decline_cluster(actor_of(request), name, reason=form.cleaned_data["reason"], seen=form.seen())
    except errors.ApiError as error:
        return _refused(request, name, error)
    messages.success(request, f"{name} is declined.")
    return redirect("registration:approvals")


@login_required
@require_POST
def lift(request: HttpRequest, name: str) -> HttpResponse:
    """Let what was declined ask again (D10)."""
    try:
        services.lift_decline(actor_of(request), name)
    except errors.ApiError as error:
        return _refused(request, name, error)
    messages.success(request, f"{name} may ask again; its next request waits for a decision.")
    return redirect("registration:request", name=name)


@login_required
@require_POST
def disconnect(request: HttpRequest, name: str) -> HttpResponse:
    try:
        services.disconnect_cluster(actor_of(request), name)
    except errors.NotFound as error:
        raise Http404(error.message) from error
    except errors.ApiError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, f"{name} is disconnected; its agent's rights are withdrawn.")
    return redirect("clusters:detail", name=name)


def _refused(request: HttpRequest, name: str, error: errors.ApiError) -> HttpResponse:
    """The refusal beside what it was about, or that there is no such thing; nothing was changed."""
    moved = isinstance(error, errors.Conflict) and "object has been modified" in error.message
    return _page(request, name, status=error.code, refusal=services.STALE if moved else error.message)


def _page(
    request: HttpRequest,
    name: str,
    *,
    decline_form: DeclineForm | None = None,
    override_form: OverrideForm | None = None,
    status: int = 200,
    refusal: str = "",
) -> HttpResponse:
    actor = actor_of(request)
    found = evidence.of(name)
    if not (found.cluster or found.asked) or not cluster_queries.may_see(actor, name):
        raise Http404(f"Nothing called {name} asks to join.")
    if refusal:
        messages.error(request, refusal)
    can_accept = services.may_accept(actor, name).allowed
    context = {
        "req": _row(found),
        "cluster": _cluster(found),
        "csrs": found.asked,
        "checked": found.checked,
        "recorded": _recorded(found),
        "reported": _reported(found),
        "effects": _effects(found),
        "can_accept": can_accept,
        "missing": "" if can_accept else services.MISSING.format(name=name),
        "cluster_rv": str(found.cluster.resource_version) if found.cluster else "",
        "csr_rvs": ",".join(f"{asked.name}={asked.resource_version}" for asked in found.waiting),
        "decline_form": decline_form or DeclineForm(),
        "override_form": override_form or OverrideForm(),
        "keys": found.fitting if found.cluster else [],
        "declines": found.declines,
        "commands": _commands(found),
        "decision": _decision(found),
    }
    return render(request, "registration/request.html", context, status=status)


def _cluster(found: Evidence) -> dict[str, Any] | None:
    if found.cluster is None:
        return None
    doc = found.cluster.doc
    configs = doc["spec"].get("managedClusterClientConfigs") or []
    return {
        "name": found.name,
        "created": found.cluster.created,
        "labels": doc["metadata"].get("labels") or {},
        "urls": [config.get("url", "") for config in configs],
        "client_configs": configs,
        "taints": doc["spec"].get("taints") or [],
        "accepted": found.cluster.hub_accepts_client,
    }


def _recorded(found: Evidence) -> list[tuple[str, Any]]:
    recorded = found.recorded
    rows = [
        ("Asked as", recorded.requester),
        ("Credential", recorded.credential),
        ("Minted by", recorded.minter),
        ("From", recorded.source),
        ("Client", recorded.client),
        ("First seen", found.cluster.created if found.cluster else recorded.asked),
    ]
    return [(label, value) for label, value in rows if value]


def _reported(found: Evidence) -> list[tuple[str, str]]:
    cluster = _cluster(found) or {}
    rows = [("API URL", url) for url in cluster.get("urls", [])]
    labels = {
        key: value
        for key, value in cluster.get("labels", {}).items()
        if not key.startswith("cluster.open-cluster-management.io/")
    }
    if labels:
        rows.append(("Labels", ", ".join(f"{key}={value}" for key, value in labels.items())))
    return rows


def _effects(found: Evidence) -> list[dict[str, Any]]:
    """What accepting does, in order, from what is there now."""
    effects = []
    if found.waiting:
        newest = found.waiting[0]
        effects.append(
            {
                "title": f"Signs request {newest.name}",
                "text": f"Client certificate for {newest.expires}.",
                "reach": False,
            }
        )
    effects.append(
        {
            "title": "Sets hubAcceptsClient to true",
            "text": "The agent may renew its lease and read its own cluster.",
            "reach": False,
        }
    )
    effects.append(
        {
            "title": f"Creates namespace {found.name}",
            "text": "With a cluster role and bindings for its agents.",
            "reach": False,
        }
    )
    if found.cluster and found.cluster.clusterset:
        effects.append(
            {
                "title": f"Is a member of set {found.cluster.clusterset}",
                "text": "Whoever works with that set reaches this cluster.",
                "reach": True,
            }
        )
    return effects


def _commands(found: Evidence) -> list[str]:
    """What kubectl would be told: to let it in, or to refuse it where accepting is blocked."""
    if found.waiting and found.verdict is Verdict.BLOCKED:
        return [f"kubectl certificate deny {asked.name}" for asked in found.waiting]
    if found.declines and not found.waiting:
        return []  # what was declined is not let in by another command
    commands = [f"kubectl certificate approve {asked.name}" for asked in found.waiting[:1]]
    patch = '{"spec":{"hubAcceptsClient":true}}'
    return [*commands, f"kubectl patch managedcluster {found.name} --type=merge -p '{patch}'"]


def _decision(found: Evidence) -> dict[str, Any] | None:
    facts = found.facts
    accepted = bool(found.cluster and found.cluster.hub_accepts_client)
    if (
        not facts.decision
        or (found.waiting and facts.decision != ClusterFacts.Decision.ACCEPTED)
        or (accepted and found.waiting)
    ):
        return None
    return {"decision": facts.decision, "by": facts.decided_by, "at": facts.decided_at, "reason": facts.decision_reason}
