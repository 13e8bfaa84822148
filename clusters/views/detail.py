"""One cluster: state, since, why, next; then conditions, taints and what it is."""

from __future__ import annotations

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

EVENTS_SHOWN = 20
# Worst first; a condition that the hub does not know stands between.
TONES = {"danger": 0, "caution": 1, "quiet": 2, "ok": 3}
ACCEPT = "clusters.accept_managedcluster"
HUB_TAINTS = frozenset(
    {"cluster.open-cluster-management.io/unreachable", "cluster.open-cluster-management.io/unavailable"}
)


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
