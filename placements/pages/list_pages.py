"""All placements that the user may read: the word for the state of each, since when, why, how many it has chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from django.contrib.auth.decorators import login_required
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from clustersets import queries as clustersets
from clustersets.rights.visible_bindings import bindings_for
from ocmconsole.components.links import explain_url
from ocmconsole.components.row_counts import Counted
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.session import actor_of
from placements import queries
from placements.explaining import status
from placements.explaining.status import PlacementStatus, PlacementWord
from placements.kinds import PLACEMENT, is_disabled
from placements.models import Placement
from placements.pages.row_causes import said_causes

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

PAGE = 50  # rows
MOST_CHOICES = 200  # namespaces and sets that the filters offer
SETS_SHOWN = 4  # of one placement


@dataclass(frozen=True, slots=True)
class Found:
    """A Placement with its state."""

    namespace: str
    name: str
    doc: Doc
    sets: tuple[str, ...]
    status: PlacementStatus

    @property
    def key(self) -> str:
        """Its place in the list; no namespace has the sign."""
        return f"{self.namespace}/{self.name}"

    @property
    def url(self) -> str:
        return reverse("placements:placement", args=[self.namespace, self.name])


@login_required
@require_GET
def placement_list(request: HttpRequest) -> HttpResponse:
    """By namespace and name; filtered by word, set, namespace and a part of the name."""
    actor = actor_of(request)
    asked = {name: request.GET.get(name, "").strip() for name in ("q", "word", "set", "namespace")}
    now = clock.now()
    everything = _read(actor, now)
    bound = _bound(actor, asked["set"])
    fitting = [each for each in everything if _fits(each, asked, bound)]
    counts = Counter(each.status.word for each in fitting)
    if asked["word"] in set(PlacementWord):
        fitting = [each for each in fitting if each.status.word == asked["word"]]
    after = request.GET.get("after", "")
    page = [each for each in fitting if not after or (each.namespace, each.name) > _place(after)]
    context = {
        "asked": asked,
        "is_filtered": any(asked.values()),
        "total": len(everything),
        "hidden": not everything and Placement.objects.exists(),
        "list_explain": explain_url("list", PLACEMENT.resource),
        "words": [(word, counts[word]) for word in PlacementWord if counts[word] or asked["word"] == word],
        "namespaces": sorted({each.namespace for each in everything})[:MOST_CHOICES],
        "sets": sorted({name for each in everything for name in each.sets} | {asked["set"]} - {""})[:MOST_CHOICES],
        "placements": _rows(actor, page[:PAGE], now),
        "next_after": page[PAGE - 1].key if len(page) > PAGE else "",
        "counted": Counted(len(everything), len(fitting), any(asked.values())),
        "may_create": queries.may_create_somewhere(actor),
        "create_explain": explain_url("create", PLACEMENT.resource),
    }
    return render(request, "placements/pages/list.html", context)


def rows_for(actor: Actor, most: int, now: datetime) -> dict[str, Any]:
    """The first placements that the actor sees, as rows of the list, and how many there are."""
    found = _read(actor, now)
    return {"rows": _rows(actor, found[:most], now), "total": len(found)}


def _read(actor: Actor, now: datetime) -> list[Found]:
    """One query: the state follows from the document and from what waits."""
    found = []
    columns = ("namespace", "name", "cluster_sets", "wire", "held__count", "held__since", "held__until")
    for namespace, name, sets, wire, count, since, until in queries.placements_for(actor).values_list(*columns):
        doc = orjson.loads(wire)
        held = queries.held(count, since, until, now)
        shown = status.status_of(doc, is_disabled=is_disabled(doc), held=held)
        found.append(Found(namespace, name, doc, tuple(sets), shown))
    return sorted(found, key=lambda each: (each.namespace, each.name))


def _place(after: str) -> tuple[str, str]:
    namespace, _, name = after.partition("/")
    return namespace, name


def _bound(actor: Actor, name: str) -> frozenset[str]:
    """Namespaces in which the set is bound: there it counts for a Placement that names no set."""
    rows = bindings_for(actor).filter(cluster_set=name) if name else ()
    return frozenset(row.namespace for row in rows)


def _fits(each: Found, asked: dict[str, str], bound: frozenset[str]) -> bool:
    wanted = asked["set"]
    uses = not wanted or (wanted in each.sets if each.sets else each.namespace in bound)
    return uses and asked["q"] in each.name and asked["namespace"] in {"", each.namespace}


def _rows(actor: Actor, page: Iterable[Found], now: datetime) -> list[dict[str, Any]]:
    """A bounded number of queries for the whole page."""
    rows = list(page)
    named = {name for each in rows for name in each.sets}
    seen = set(clustersets.sets_for(actor).filter(name__in=named).values_list("name", flat=True)) if named else set()
    changes = queries.last_changes((each.namespace, each.name, _decisions(each.doc)) for each in rows)
    causes = said_causes(actor, {each.doc["metadata"]["uid"]: (each.doc, each.status) for each in rows}, now)
    return [
        {
            "cause": causes.get(each.doc["metadata"]["uid"], ""),
            "id": each.key.replace("/", "_"),
            "namespace": each.namespace,
            "name": each.name,
            "url": each.url,
            "status": each.status,
            "sets": [
                {"name": name, "url": reverse("clustersets:set", args=[name]) if name in seen else ""}
                for name in each.sets[:SETS_SHOWN]
            ],
            "more_sets": max(0, len(each.sets) - SETS_SHOWN),
            "changed": changes.get((each.namespace, each.name)),
        }
        for each in rows
    ]


def _decisions(doc: Doc) -> list[str]:
    groups = (doc.get("status") or {}).get("decisionGroups") or ()
    return [name for group in groups for name in group.get("decisions") or ()]
