"""One Placement: its state, which clusters it has chosen and what lies ahead of them, and why others are not."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from clusters import queries as clusters
from clusters.addons.addon_kinds import CLUSTER_MANAGEMENT_ADDON
from clusters.health.status_sql import RANKS, WORST_FIRST, with_word
from clusters.kinds import conditions_of, spec_of
from clustersets import queries as clustersets
from clustersets.pages.composition import Composition
from clustersets.rights import visible_bindings
from clustersets.rights.set_rights import may_access
from ocmconsole.components.document_display import as_yaml
from ocmconsole.components.links import audit_url, explain_url
from ocmconsole.components.whole_numbers import whole_number
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.schema.times import time_of
from placements import queries
from placements.controller import decisions, history, preview, scheduling
from placements.explaining import explanation, status
from placements.kinds import PLACEMENT, PLACEMENT_DECISION, PLACEMENT_LABEL, is_disabled
from placements.pages import brake_pages
from placements.pages.breakdown import Breakdown, BreakdownQuery
from placements.pages.broken_change import shown_change
from placements.pages.consumers import add_ons_of, watchers_of
from placements.pages.happened import happened
from placements.playground.drafts import Draft
from placements.scheduler.brake import WAIT
from placements.scheduler.pipeline import Unfinished

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from clusters.health.status import Word
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from placements.controller.preview import PlacementPreview
    from placements.models import Placement, PlacementDecision

SHOWN = 5  # clusters of a group, the worst first
PAGE = 20  # clusters of one group on its own page
MOST_GROUPS = 20  # on one page
MANY = 500  # names of clusters; of more, all clusters that the user sees are read instead


@login_required
@require_GET
def placement_page(request: HttpRequest, namespace: str, name: str) -> HttpResponse:
    """Decisions by group, conditions, document."""
    actor, now = actor_of(request), clock.now()
    row = visible_placement(actor, namespace, name)
    stored = queries.decisions_of(namespace, name)
    found = work_out(actor, row, stored, now)
    groups = _Groups(actor, row, stored, found, now).context(request)
    context = head(actor, row, found, "summary", now)
    is_broken = context["status"].word is status.PlacementWord.MISCONFIGURED
    context |= {
        "broken": shown_change(actor, row, scheduling.decided_in(stored), now) if is_broken else None,
        "groups": groups,
        "happened": happened(actor, row)[0] if groups["may_read"] else [],
        "add_ons": add_ons_of(actor, row),
        "watchers": watchers_of(actor, stored),
        "add_ons_explain_url": explain_url("list", CLUSTER_MANAGEMENT_ADDON.resource),
        "conditions": sorted(map(_condition, conditions_of(row.doc)), key=lambda each: each["tone"] == "ok"),
        "yaml": as_yaml(row.doc),
        "commands": [
            f"kubectl -n {namespace} get placementdecisions -l {PLACEMENT_LABEL}={name} -o yaml",
        ],
    }
    return render(request, "placements/pages/summary.html", context)


@login_required
@require_GET
def why_page(request: HttpRequest, namespace: str, name: str) -> HttpResponse:
    """The steps as a funnel, the reasons of one step, and every cluster with its outcome."""
    actor, now = actor_of(request), clock.now()
    row = visible_placement(actor, namespace, name)
    found = work_out(actor, row, queries.decisions_of(namespace, name), now)
    context = head(actor, row, found, "why", now)
    if found is not None:
        address = reverse("placements:why", args=[namespace, name])
        draft = Draft(dict(spec_of(row.doc)))
        asked = BreakdownQuery.read(request)
        context |= Breakdown(actor, found, asked, address, draft=draft, open_draft=partial(_opened, row)).context()
    return render(request, "placements/pages/why.html", context)


def _opened(row: Placement, draft: Draft) -> str:
    """The playground with a change of this Placement."""
    asked = {"namespace": row.namespace, "from": f"{row.namespace}/{row.name}", "d": draft.encoded()}
    return f"{reverse('placements:playground')}?{urlencode(asked)}"


def visible_placement(actor: Actor, namespace: str, name: str) -> Placement:
    """Raises Http404, the same for what is not there and what one may not see."""
    rows = queries.placements_for(actor).filter(namespace=namespace, name=name)
    row: Placement | None = rows.select_related("held").first()
    if row is None:
        raise Http404(f"There is no placement {name} in {namespace}, or you may not see it.")
    return row


def work_out(actor: Actor, row: Placement, stored: list[PlacementDecision], now: datetime) -> PlacementPreview | None:
    """What the scheduler would decide now; None where expressions take longer than a page may."""
    present = scheduling.decided_in(stored)
    try:
        return preview.preview(actor, row.namespace, spec_of(row.doc), present=present, key=row.key, now=now)
    except Unfinished:
        return None


TABS = (
    ("summary", "placements:placement", "Summary"),
    ("why", "placements:why", "Why not"),
    ("history", "placements:history", "History"),
)


def head(actor: Actor, row: Placement, found: PlacementPreview | None, tab: str, now: datetime) -> dict[str, Any]:
    """What all pages of a Placement share."""
    doc = row.doc
    key = [row.namespace, row.name]
    named = spec_of(doc).get("clusterSets") or []
    seen = set(clustersets.sets_for(actor).filter(name__in=named).values_list("name", flat=True)) if named else set()
    disabled, held = is_disabled(doc), queries.held_of(row, now)
    return {
        "placement": row,
        "sees_namespace": visible_bindings.namespaces_for(actor).filter(name=row.namespace).exists(),
        "status": status.status_of(doc, is_disabled=disabled, held=held),
        "held": held,
        "brakes": brake_pages.shown_brakes(actor, now) if held else [],
        "hold_minutes": round(WAIT.total_seconds() / 60),
        "sets": [
            {"name": each, "url": reverse("clustersets:set", args=[each]) if each in seen else ""} for each in named
        ],
        "tabs": [
            {"label": label, "url": reverse(route, args=key), "current": name == tab} for name, route, label in TABS
        ],
        "result": found.result if found else None,
        "is_finished": found is not None,
        "looks_again": found.result.look_again if found and not disabled else None,
        "groups_count": len((doc.get("status") or {}).get("decisionGroups") or ()),
        "audit_url": audit_url(PLACEMENT.resource, row.name, namespace=row.namespace),
        "kubectl": f"kubectl -n {row.namespace} get placement {row.name} -o yaml",
        "now": now,
    }


SAYS = {
    "PlacementSatisfied": "Whether as many clusters are chosen as it asks for.",
    "PlacementMisconfigured": "Whether its specification makes no sense.",
}


def _condition(found: Doc) -> dict[str, Any]:
    name, value = str(found.get("type")), str(found.get("status"))
    is_good = value == ("False" if name == "PlacementMisconfigured" else "True")
    return {
        "type": name,
        "status": value,
        "reason": found.get("reason") or "",
        "message": found.get("message") or "",
        "says": SAYS.get(name, ""),
        "since": time_of(found.get("lastTransitionTime")),
        "tone": "ok" if is_good else "danger" if name == "PlacementMisconfigured" else "caution",
    }


# ---------------------------------------------------------------- decisions by group


class _Groups:
    """Names stand in PlacementDecisions, so they are shown to who may list these; states only of visible clusters."""

    def __init__(
        self,
        actor: Actor,
        row: Placement,
        stored: list[PlacementDecision],
        found: PlacementPreview | None,
        now: datetime,
    ) -> None:
        self.actor = actor
        self.row = row
        self.found = found
        self.now = now
        self.names = {each.name: decisions.names_in(each.doc) for each in stored}
        self.may_read = may_access(actor, "list", PLACEMENT_DECISION, namespace=row.namespace)
        self.words = self._words() if self.may_read else {}
        self.is_decided_here = not is_disabled(row.doc)

    def context(self, request: HttpRequest) -> dict[str, Any]:
        groups = (self.row.doc.get("status") or {}).get("decisionGroups") or ()
        asked, after = request.GET.get("group", ""), request.GET.get("after", "")
        first = whole_number(after, 7) or 0
        only = [each for each in groups if str(each.get("decisionGroupIndex")) == asked]
        is_one = bool(only)
        page = only or groups[first : first + MOST_GROUPS]
        shown = [self._group(each, first if is_one else 0, PAGE if is_one else SHOWN) for each in page]
        self._say_since([item for each in shown for item in each["rows"]])
        total = len(shown[0]["all"]) if is_one else len(groups)
        size = PAGE if is_one else MOST_GROUPS
        return {
            "may_read": self.may_read,
            "explain_url": explain_url("list", PLACEMENT_DECISION.resource, namespace=self.row.namespace),
            "shown": shown,
            "is_one": is_one,
            "listed": len(shown[0]["rows"]) if is_one else len(shown),
            "next_after": first + size if total > first + size else "",
            "count": sum(len(names) for names in self.names.values()),
        }

    def _words(self) -> dict[str, Word]:
        wanted = {name for names in self.names.values() for name in names}
        rows = clusters.clusters_for(self.actor)
        rows = rows.filter(name__in=wanted) if len(wanted) <= MANY else rows
        found = with_word(rows, self.now).order_by().values_list("name", "rank")
        return {name: WORST_FIRST[rank] for name, rank in found if name in wanted}

    def _group(self, group: Doc, first: int, size: int) -> dict[str, Any]:
        parts = list(group.get("decisions") or ())
        names = [name for part in parts for name in self.names.get(part, ())] if self.may_read else []
        ordered = sorted(names, key=self._worst_first)
        index = group.get("decisionGroupIndex", 0)
        return {
            "index": index,
            "name": group.get("decisionGroupName") or "",
            "decision": parts[0] if parts else "",
            "more_decisions": len(parts) - 1,
            "count": group.get("clusterCount") or 0,
            "composition": Composition.of(Counter(self.words[name] for name in names if name in self.words)),
            "unseen": sum(name not in self.words for name in names),
            "all": ordered,
            "rows": [self._row(name) for name in ordered[first : first + size]],
            "rest": max(len(ordered) - size, 0) if not first else 0,
            "url": f"{reverse('placements:placement', args=[self.row.namespace, self.row.name])}?group={index}",
        }

    def _say_since(self, rows: list[dict[str, Any]]) -> None:
        found = history.chosen_since(self.row.uid, [each["name"] for each in rows])
        for each in rows:
            each["since"] = found.get(each["name"])

    def _worst_first(self, name: str) -> tuple[int, str]:
        word = self.words.get(name)
        return (len(RANKS) if word is None else RANKS[word]), name

    def _row(self, name: str) -> dict[str, Any]:
        word = self.words.get(name)
        return {
            "name": name,
            "url": reverse("clusters:detail", args=[name]) if word else "",
            "word": word,
            "note": self._note(name) if word else "",
            "score": self._score(name) if word else None,
        }

    def _score(self, name: str) -> int | None:
        found = self.found
        if found is None or not found.result.plan.needs_scores:
            return None
        return found.result.totals.get(name)

    def _note(self, name: str) -> str:
        """What lies ahead of the cluster, as the pipeline sees it now."""
        found = self.found
        cluster = found.by_name.get(name) if found is not None else None
        if found is None or cluster is None or not self.is_decided_here:
            return ""
        if (held := found.result.held.get(name)) is not None:
            return explanation.is_held(held, found.now)
        if name in found.chosen:
            ahead = found.explanation.ahead(cluster)
            return explanation.leaves(*ahead, found.now) if ahead else ""
        if found.result.plan.problem:
            return "kept from the last good decisions"
        why = found.explanation.why(cluster)
        return f"leaves: {why.text}" if why else ""
