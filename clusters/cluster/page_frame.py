"""A cluster as its pages open it, and the frame that all of them share: head, state, facts, tabs, acts, undo.

A tab is a function in ``TABS``; apps above this one add theirs with ``@tab``. Users who may not see a cluster get the
page that says there is none; users who see all clusters read who has deleted it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse

from clusters import cluster_rights, queries
from clusters.cluster import diagnosis, gone_page
from clusters.cluster_rights import RightCheck
from clusters.fleet import bulk_acts
from clusters.health.certificate_expiry import bucket_of, tone_of
from clusters.health.status import NextStepPage, Word, silence_grace
from clusters.kinds import MANAGED_CLUSTER, spec_of
from clusters.models import ClusterFacts
from clusters.taints import edit_history, maintenance
from ocmconsole.components.links import explain_url
from ocmconsole.components.refusals import plain
from ocmconsole.environment.durations import span
from ocmconsole.kubeapi import (
    clock,
    request_cache,
)
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.schema.quantities import readable_quantity

if TYPE_CHECKING:
    from django import forms
    from django.http import HttpRequest, HttpResponse

    from clusters.health.status import Status
    from clusters.models import ManagedCluster
    from ocmconsole.kubeapi import errors
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

SUMMARY = "summary"
ORDER = (SUMMARY, "health", "identity", "taints", "claims", "sets", "events", "yaml")


LABELS = {
    NextStepPage.REQUEST: "Open its request",
    NextStepPage.RECONNECT: "Reconnect",
    NextStepPage.IDENTITY: "Its certificates",
    NextStepPage.HEALTH: "Its heartbeats",
    NextStepPage.MAINTENANCE: "Maintenance",
    NextStepPage.REMOVE: "The removal",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """One cluster before somebody's eyes."""

    actor: Actor
    now: datetime
    row: ManagedCluster
    doc: Doc
    status: Status
    last_heard: datetime | None
    skew: timedelta | None
    known: ClusterFacts
    may_change: RightCheck

    @property
    def name(self) -> str:
        return self.row.name


Build = Callable[["HttpRequest", Opened], dict[str, Any]]
View = Callable[..., "HttpResponse"]


@dataclass(frozen=True, slots=True)
class Tab:
    """``count`` stands beside the label when it is not nothing."""

    name: str
    label: str
    template: str
    build: Build
    count: Callable[[Opened], int] = field(default=lambda _: 0)


TABS: dict[str, Tab] = {}


def tab(
    name: str, label: str, template: str, *, count: Callable[[Opened], int] = lambda _: 0
) -> Callable[[Build], Build]:
    """The decorated function gives what its template needs beside the frame's context."""

    def add(build: Build) -> Build:
        if name not in ORDER or name in TABS:
            msg = f"{name} has no place among the tabs, or is there already"
            raise ValueError(msg)
        TABS[name] = Tab(name, label, template, build, count)
        return build

    return add


def tab_url(cluster: str, name: str) -> str:
    return (
        reverse("clusters:detail", args=[cluster]) if name == SUMMARY else reverse("clusters:tab", args=[cluster, name])
    )


def opens_cluster(view: View) -> View:
    """The view gets the cluster in the place of its name."""

    @login_required
    @wraps(view)
    def page(request: HttpRequest, name: str, **more: Any) -> HttpResponse:
        actor = actor_of(request)
        opened = _open(actor, name)
        return gone_page.page(request, actor, name) if opened is None else view(request, opened, **more)

    return page


def _open(actor: Actor, name: str) -> Opened | None:
    now = clock.now()
    found = queries.observe_clusters(queries.clusters_for(actor).filter(name=name), now)
    if not found:
        return None
    row = found[0].row
    request_cache.remember_row(MANAGED_CLUSTER, row)
    seen, known = found[0], row.facts or ClusterFacts(cluster=name)
    may_change = cluster_rights.to_change(actor, name)
    return Opened(actor, now, row, row.doc, seen.status, seen.last_heard, seen.skew, known, may_change)


# ---------------------------------------------------------------- the frame


def show(request: HttpRequest, cluster: Opened, name: str, *, status: int = 200, **more: Any) -> HttpResponse:
    """A tab in its frame; ``more`` are forms that were refused."""
    chosen = TABS[name]
    context = {**frame(cluster, name), **chosen.build(request, cluster), **more}
    return render(request, chosen.template, context, status=status)


def frame(cluster: Opened, name: str = "") -> dict[str, Any]:
    state = diagnosis.diagnosis_of(cluster.actor, cluster.row, cluster.status, cluster.last_heard, cluster.now)
    return {
        "cluster": {
            "name": cluster.name,
            "uid": cluster.row.uid,
            "created": cluster.row.created,
            "deleted_at": cluster.row.deleted_at,
        },
        "word": state.word,
        "state": state,
        "silent_url": f"{reverse('clusters:list')}?status={Word.SILENT.value}" if state.word is Word.SILENT else "",
        "next": state.next,
        "next_url": _page_url(cluster.name, state.next.page) if state.next and state.next.page else "",
        "next_label": LABELS.get(state.next.page, "") if state.next and state.next.page else "",
        "facts": _facts(cluster),
        "tabs": [_link(cluster, TABS[each], name) for each in ORDER if each in TABS],
        "tab": name,
        "may_change": cluster.may_change,
        "maintenance": maintenance.notes_of(cluster.doc),
        "undoable": edit_history.undoable_edit(cluster.actor, cluster.doc) if cluster.may_change.allowed else None,
        "kubectl": f"kubectl get managedcluster {cluster.name} -o yaml",
        **_acts(cluster),
    }


def _page_url(name: str, page: NextStepPage) -> str:
    """Where the next step is done."""
    if page in {NextStepPage.IDENTITY, NextStepPage.HEALTH}:
        return tab_url(name, page.value) if page.value in TABS else ""
    routes = {
        NextStepPage.REQUEST: "registration:request",
        NextStepPage.RECONNECT: "registration:reconnect",
        NextStepPage.MAINTENANCE: "clusters:maintenance",
        NextStepPage.REMOVE: "clusters:remove",
    }
    return link(routes[page], name)


def _link(cluster: Opened, each: Tab, current: str) -> dict[str, Any]:
    return {
        "label": each.label,
        "url": tab_url(cluster.name, each.name),
        "count": each.count(cluster),
        "current": each.name == current,
    }


def _facts(cluster: Opened) -> dict[str, Any]:
    """What one wants to know of any cluster, on every tab."""
    row, reported = cluster.row, cluster.doc.get("status") or {}
    capacity, allocatable = (reported.get(part) or {} for part in ("capacity", "allocatable"))
    claims = {claim.get("name"): claim.get("value", "") for claim in reported.get("clusterClaims") or ()}
    known = cluster.known
    ends = known.certificate_not_after
    return {
        "set": row.clusterset,
        "set_url": _set_url(cluster.actor, row.clusterset),
        "kubernetes": row.kubernetes_version,
        "platform": claims.get("platform.open-cluster-management.io", ""),
        "certificate": known if ends else None,
        "certificate_tone": tone_of(known, cluster.now),
        "certificate_is_over": ends is None or ends <= cluster.now,
        "certificate_bucket": bucket_of(known, cluster.now),
        "last_heard": cluster.last_heard,
        "cpu": readable_quantity(allocatable["cpu"]) if "cpu" in allocatable else "",
        "cpu_of": readable_quantity(capacity["cpu"]) if "cpu" in capacity else "",
        "accepted": row.accepted_since if row.hub_accepts_client else None,
        "accepted_by": known.decided_by if known.decision == ClusterFacts.Decision.ACCEPTED else "",
    }


def _set_url(actor: Actor, name: str) -> str:
    """Only for users who may open it."""
    asked = Attributes("get", MANAGED_CLUSTER.group, "managedclustersets", name=name)
    if not name or not authorization.authorize(actor, asked).allowed:
        return ""
    return link("clustersets:set", name)


def link(route: str, *arguments: str) -> str:
    """Empty while there is no such page."""
    try:
        return reverse(route, args=arguments)
    except NoReverseMatch:
        return ""


def _acts(cluster: Opened) -> dict[str, Any]:
    """What may be done from the head, each with the reason why not."""
    row, change = cluster.row, cluster.may_change
    accept, delete = cluster_rights.to_accept(cluster.actor, row), cluster_rights.to_delete(cluster.actor, cluster.name)
    waits = cluster.status.word in {Word.NEEDS_REVIEW, Word.DECLINED, Word.WAITING}
    leaving = row.deleted_at is not None
    more = [
        _act("Edit taints", "tag", tab_url(cluster.name, "taints"), change),
        _act("Edit labels", "tags", tab_url(cluster.name, "claims"), change),
        _act("Move to another set…", "boxes", link("clustersets:move", cluster.name), to_move(cluster)),
    ]
    if row.hub_accepts_client:
        more.append(_act("Disconnect…", "unplug", reverse("registration:disconnect", args=[cluster.name]), accept))
    removal = "Watch the removal" if leaving else "Remove…"
    more.append(_act(removal, "trash-2", reverse("clusters:remove", args=[cluster.name]), delete))
    return {
        "more": [act for act in more if act["url"]],
        "may_accept": accept,
        "request_url": reverse("registration:request", args=[cluster.name]) if waits and not leaving else "",
        "reconnect_url": reverse("registration:reconnect", args=[cluster.name])
        if cluster.status.word is Word.DISCONNECTED
        else "",
    }


def to_move(cluster: Opened) -> RightCheck:
    """Whether it may be taken out of its set: by who may change it, or move the clusters of its set, and join there."""
    actor, name, of = cluster.actor, cluster.name, cluster.row.clusterset
    if name in bulk_acts.ACTS["move"].allowed(actor, [name]):
        return RightCheck(allowed=True)
    if not cluster.may_change.allowed:
        text = f"Moving {name} takes the right to change it, or to move the clusters of its set."
        return RightCheck(allowed=False, reason=text, explain_url=cluster.may_change.explain_url)
    sets = f"managedclustersets.{MANAGED_CLUSTER.group}"
    text = f"You may not take clusters out of the set {of}."
    return RightCheck(allowed=False, reason=text, explain_url=explain_url("join", sets, name=of))


def _act(label: str, icon: str, url: str, right: RightCheck) -> dict[str, Any]:
    return {"label": label, "icon": icon, "url": url, "right": right}


def refusal_text(error: errors.ApiError) -> str:
    """What a refusal says, as a sentence. A name that begins it stays as it is written."""
    text = plain(error.message)
    return text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text


def show_refusal(form: forms.Form, error: errors.ApiError) -> None:
    """Each cause beside its field, such as ``key`` of ``spec.taints[0].key``; what is about no field above the form."""
    for cause in error.causes:
        name = cause.field.rpartition(".")[2].partition("[")[0]
        form.add_error(name if name in form.fields else None, cause.message)
    if not error.causes:
        form.add_error(None, refusal_text(error))


def grace_of(row: ManagedCluster) -> str:
    """After how long without a heartbeat a cluster counts as silent, in words (H16)."""
    return span(silence_grace(row.lease_duration_seconds))


def urls_of(doc: Doc) -> list[str]:
    return [config.get("url", "") for config in spec_of(doc).get("managedClusterClientConfigs") or []]
