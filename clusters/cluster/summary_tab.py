"""The page of one cluster: dispatches to its tabs, and the first of them, the summary."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.http import Http404
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from clusters import services
from clusters.cluster import page_frame
from clusters.cluster.page_frame import SUMMARY, TABS, Opened, opens_cluster, tab_url
from clusters.health import condition_help, status
from clusters.health.status import Word
from clusters.kinds import MANAGED_CLUSTER, UNREACHABLE_TAINT, conditions_of, taints_of
from clusters.taints import taint_rules
from ocmconsole.components.links import audit_url
from ocmconsole.environment.durations import span
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.schema.quantities import parse_quantity, readable_quantity

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.errors import Doc

# Shown first; what else a cluster has follows in the order of its names.
FIRST = ("cpu", "memory", "pods", "ephemeral-storage")
FULL = 100  # percent


@opens_cluster
@require_GET
def cluster_detail(request: HttpRequest, cluster: Opened, tab: str = SUMMARY) -> HttpResponse:
    if tab not in TABS:
        raise Http404(f"A cluster has no tab {tab}.")
    return page_frame.show(request, cluster, tab)


@opens_cluster
@require_POST
def undo(request: HttpRequest, cluster: Opened, entry: int) -> HttpResponse:
    """Take back one's own last edit; the page that offered it is shown again."""
    try:
        what = services.undo_edit(cluster.actor, cluster.name, entry)
    except errors.ApiError as error:
        messages.error(request, page_frame.refusal_text(error))
    else:
        messages.success(request, f"Undone: your change of {what} of {cluster.name}.")
    back = request.POST.get("tab", SUMMARY)
    return redirect(tab_url(cluster.name, back if back in TABS else SUMMARY))


# ---------------------------------------------------------------- summary


@page_frame.tab(SUMMARY, "Summary", "clusters/cluster/summary.html")
def summary(request: HttpRequest, cluster: Opened) -> dict[str, Any]:  # noqa: ARG001 - the signature of tabs
    metadata = cluster.doc["metadata"]
    return {
        "conditions": conditions(cluster),
        "taints": [taint_row(taint) for taint in taints_of(cluster.doc)],
        "coming": _coming_taint(cluster),
        "capacity": capacity(cluster.doc),
        "urls": page_frame.urls_of(cluster.doc),
        "annotations": metadata.get("annotations") or {},
        "heartbeat": span(timedelta(seconds=cluster.row.lease_duration_seconds)),
        "first_seen": cluster.known.first_seen
        if cluster.known.pk and cluster.known.first_seen is not None
        else cluster.row.created,
        "commands": [cluster_command(cluster.name, "get", "-o yaml"), cluster_command(cluster.name, "describe")],
        "audit_url": audit_url(MANAGED_CLUSTER.resource, cluster.name),
    }


def cluster_command(name: str, verb: str, more: str = "") -> str:
    return f"kubectl {verb} managedcluster {name} {more}".strip()


def conditions(cluster: Opened) -> list[dict[str, Any]]:
    """Worst first, with the age of the last heartbeat among them, which is no condition of the wire."""
    rows = [_condition(condition) for condition in conditions_of(cluster.doc)]
    if (heard := _heard(cluster)) is not None:
        rows.append(heard)
    return sorted(rows, key=lambda row: condition_help.TONES.index(row["tone"]))


def _condition(condition: Doc) -> dict[str, Any]:
    help_text = condition_help.condition_help(condition)
    message = condition.get("message", "")
    return {
        "type": condition["type"],
        "status": condition["status"],
        "reason": condition.get("reason", ""),
        "message": message,
        "since": condition.get("lastTransitionTime"),
        "tone": help_text.tone,
        "help_text": help_text.text,
        "todo": help_text.todo,
    }


def _heard(cluster: Opened) -> dict[str, Any] | None:
    if cluster.last_heard is None or not cluster.row.hub_accepts_client:
        return None
    age, lease = cluster.now - cluster.last_heard, cluster.row.lease_duration_seconds
    is_late = age > timedelta(seconds=status.LATE_LEASES * lease)
    grace = page_frame.grace_of(cluster.row)
    return {
        "type": "Lease",
        "status": span(age),
        "reason": "",
        "message": "",
        "since": cluster.last_heard,
        "tone": "danger" if age > status.silence_grace(lease) else "caution" if is_late else "ok",
        "help_text": f"Age of the last heartbeat; no condition of the API. After {grace} the cluster counts as silent.",
        "todo": "",
        "derived": True,
    }


def taint_row(taint: Doc) -> dict[str, Any]:
    key = taint["key"]
    return {
        **taint,
        "added": taint.get("timeAdded"),
        "owner": taint_rules.owner_of(key),
        "means": taint_rules.EFFECTS.get(taint["effect"], ""),
        "kept": taint_rules.HUB_KEYS.get(key, ""),
    }


def _coming_taint(cluster: Opened) -> dict[str, Any] | None:
    """What the hub adds when no heartbeat comes any more (H16, H21)."""
    return {**UNREACHABLE_TAINT, "at": cluster.status.silent_at} if cluster.status.word is Word.LATE else None


def capacity(doc: Doc) -> list[dict[str, Any]]:
    """What the cluster has and what workloads can use of it, as reported."""
    reported = doc.get("status") or {}
    has, can_use = reported.get("capacity") or {}, reported.get("allocatable") or {}
    names = [name for name in FIRST if name in has] + sorted(set(has) - set(FIRST))
    return [
        {
            "name": name,
            "capacity": readable_quantity(has[name]),
            "allocatable": readable_quantity(can_use[name]) if name in can_use else "",
            "percent": _percent(can_use.get(name), has[name]),
        }
        for name in names
    ]


def _percent(part: object, whole: object) -> int | None:
    most, some = parse_quantity(whole), parse_quantity(part) if part is not None else None
    if not most or most < 0 or some is None or some < 0:
        return None
    return min(FULL, int(some * FULL / most))
