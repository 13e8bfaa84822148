"""Cluster pages: the list and one cluster. They read through ``queries``, name states by ``status`` and render."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET

from clusters import claims, queries, status
from clusters.claims import Wanted
from clusters.kinds import conditions_of, spec_of
from clusters.models import ClusterFacts, ManagedCluster
from clusters.status import Word
from ocmconsole.corekinds.models import Event
from ocmconsole.kubeapi import authz
from ocmconsole.kubeapi.session import actor_of
from ocmconsole.kubeapi.shown import as_yaml

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.errors import Doc

PAGE = 100
EVENTS_SHOWN = 20
NOTHING = "Ask an admin for the permission clusters.view_managedcluster, or to see a set that holds what you look for."
ALARMING = frozenset({"danger", "caution"})
# Worst first; a condition that the hub does not know stands between.
TONES = {"danger": 0, "caution": 1, "quiet": 2, "ok": 3}
ACCEPT = "clusters.accept_managedcluster"
HUB_TAINTS = frozenset(
    {"cluster.open-cluster-management.io/unreachable", "cluster.open-cluster-management.io/unavailable"}
)


@login_required
@require_GET
def cluster_list(request: HttpRequest) -> HttpResponse:
    """Every cluster the person may see, by name; filtered by name, by state and by claims."""
    actor, now = actor_of(request), timezone.now()
    query, wanted = request.GET.get("q", "").strip(), request.GET.get("status", "")
    wanted_claims = [Wanted.read(text) for text in request.GET.getlist("claim") if text.strip()]
    visible = queries.clusters_for(actor)
    found = queries.observe(visible, now)
    saying = set(queries.with_claims(visible, *wanted_claims).values_list("name", flat=True)) if wanted_claims else None
    words = Counter(each.status.word for each in found)
    matching = [
        each
        for each in found
        if each.row.name.startswith(query)
        and wanted in {"", each.status.word}
        and (saying is None or each.row.name in saying)
    ]
    start = max(_number(request.GET.get("page", "")), 0)
    context = {
        "clusters": [_row(each) for each in matching[start : start + PAGE]],
        "query": query,
        "status": wanted,
        "claims": [{"text": str(claim), "clear_url": _without_claim(request, claim)} for claim in wanted_claims],
        "words": [(word, words[word]) for word in Word],
        "total": len(found),
        "troubled": sum(count for word, count in words.items() if word.tone in ALARMING),
        "undecided": sum(count for word, count in words.items() if word.tone == "accent"),
        "page": {
            "previous_url": _page_url(request, start - PAGE) if start else "",
            "next_url": _page_url(request, start + PAGE) if start + PAGE < len(matching) else "",
        },
        "denied": NOTHING if not found and ManagedCluster.objects.exists() else "",
    }
    return render(request, "clusters/list.html", context)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0  # noqa: PLR2004 - far beyond any list


def _without_claim(request: HttpRequest, dropped: Wanted) -> str:
    parameters = request.GET.copy()
    parameters.setlist("claim", [text for text in parameters.getlist("claim") if Wanted.read(text) != dropped])
    parameters.pop("page", None)
    return f"?{parameters.urlencode()}"


def _page_url(request: HttpRequest, start: int) -> str:
    parameters = request.GET.copy()
    parameters["page"] = str(max(start, 0))
    return f"?{parameters.urlencode()}"


def _row(found: queries.Observed) -> dict[str, Any]:
    row, doc = found.row, found.row.doc
    return {
        "name": row.name,
        "url": reverse("clusters:detail", args=[row.name]),
        "word": found.status.word,
        "since": found.status.since,
        "why": found.status.sentence,
        "sets": [row.clusterset] if row.clusterset else [],
        "version": row.kubernetes_version,
        "last_heard": found.last_heard,
        "taints": spec_of(doc).get("taints") or [],
        "age": row.created,
    }


@login_required
@require_GET
def cluster_detail(request: HttpRequest, name: str) -> HttpResponse:
    """One cluster: state, since, why, next; then conditions, taints and what it is."""
    actor, now = actor_of(request), timezone.now()
    rows = queries.observe(queries.clusters_for(actor).filter(name=name), now)
    if not rows:
        raise Http404(f"There is no cluster {name}, or you may not see it.")
    found = rows[0]
    row, state, doc = found.row, found.status, found.row.doc
    known = ClusterFacts.objects.filter(cluster=name).first()
    can_accept = authz.permitted(actor, ACCEPT, obj=row, name=name).allowed
    waits = not row.hub_accepts_client or state.word is Word.WAITING
    context = {
        "cluster": _cluster(row, doc),
        "word": state.word,
        "sentence": state.sentence,
        "since": state.since,
        "why": state.why,
        "next": state.next,
        "conditions": _conditions(doc),
        "taints": [_taint(taint) for taint in spec_of(doc).get("taints") or []],
        "claims": _claims(doc),
        "facts": _facts(found, known),
        "certificate": _certificate(known, now),
        "events": _events(row),
        "yaml": as_yaml(doc),
        "commands": [f"kubectl get managedcluster {name} -o yaml", f"kubectl describe managedcluster {name}"],
        "request_url": reverse("registration:request", args=[name]) if waits else "",
        "can_accept": can_accept,
        "disconnect_url": reverse("registration:disconnect", args=[name])
        if can_accept and row.hub_accepts_client
        else "",
    }
    return render(request, "clusters/detail.html", context)


def _cluster(row: ManagedCluster, doc: Doc) -> dict[str, Any]:
    metadata, reported = doc["metadata"], doc.get("status") or {}
    capacity, allocatable = reported.get("capacity") or {}, reported.get("allocatable") or {}
    return {
        "name": row.name,
        "uid": row.uid,
        "created": row.created,
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "urls": [config.get("url", "") for config in spec_of(doc).get("managedClusterClientConfigs") or []],
        "version": row.kubernetes_version,
        "capacity": [
            {"name": name, "allocatable": allocatable.get(name, ""), "capacity": amount}
            for name, amount in capacity.items()
        ],
    }


def _conditions(doc: Doc) -> list[dict[str, Any]]:
    rows = [
        {
            "type": condition["type"],
            "status": condition["status"],
            "reason": condition.get("reason", ""),
            "message": condition.get("message", ""),
            "since": condition.get("lastTransitionTime"),
            "tone": _tone(condition),
        }
        for condition in conditions_of(doc)
    ]
    return sorted(rows, key=lambda row: TONES[row["tone"]])


def _tone(condition: Doc) -> str:
    return {"True": "ok", "False": "danger", "Unknown": "caution"}.get(condition["status"], "quiet")


def _taint(taint: Doc) -> dict[str, Any]:
    owner = "hub" if taint.get("key") in HUB_TAINTS else "person"
    return {**taint, "added": taint.get("timeAdded"), "owner": owner}


def _claims(doc: Doc) -> list[dict[str, str]]:
    """Each with the list of the clusters that say the same."""
    return [
        {
            "name": name,
            "value": value,
            "label": claims.RESERVED.get(name, ""),
            "url": f"{reverse('clusters:list')}?{urlencode({'claim': Wanted(name, value)})}",
        }
        for name, value in claims.reported(doc).items()
    ]


def _facts(found: queries.Observed, known: ClusterFacts | None) -> list[tuple[str, Any]]:
    row = found.row
    rows = [
        ("Cluster set", row.clusterset),
        ("Kubernetes", row.kubernetes_version),
        ("Last heard", found.last_heard),
        ("Heartbeat every", status.span(timedelta(seconds=row.lease_duration_seconds))),
        ("Known since", known.first_seen if known else row.created),
    ]
    return [(label, value) for label, value in rows if value]


def _certificate(known: ClusterFacts | None, now: datetime) -> dict[str, Any] | None:
    if known is None or known.certificate_not_after is None:
        return None
    return {
        "fingerprint": known.certificate_fingerprint,
        "issued": known.certificate_not_before,
        "ends": known.certificate_not_after,
        "days": (known.certificate_not_after - now).days,
    }


def _events(row: ManagedCluster) -> list[dict[str, Any]]:
    found = Event.objects.filter(regarding_kind="ManagedCluster", regarding_name=row.name).order_by("-created")
    docs = [event.doc for event in found[:EVENTS_SHOWN]]
    return [
        {
            "type": doc.get("type", ""),
            "reason": doc.get("reason", ""),
            "message": doc.get("message", ""),
            "at": doc.get("lastTimestamp") or doc.get("eventTime") or doc["metadata"]["creationTimestamp"],
            "count": (doc.get("series") or {}).get("count") or doc.get("count") or 1,
        }
        for doc in docs
    ]
