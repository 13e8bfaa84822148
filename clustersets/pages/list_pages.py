"""All sets: who is in them, where they are bound and whom to ask; as a list, and as a map of how it hangs together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.db.models import Count
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from clusters import queries as clusters
from clustersets import membership, queries
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.models import ManagedClusterSet, SetPermission
from clustersets.pages import composition, graph, selector_help
from clustersets.rights import reach, set_rights, visible_bindings
from ocmconsole.components.links import explain_url
from ocmconsole.components.row_counts import counted
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor

PAGE = 50  # rows
# A map of more says nothing; the list finds them.
MOST_MAPPED = 300
NODES = ("set:", "namespace:", "word:")


@login_required
@require_GET
def set_list(request: HttpRequest) -> HttpResponse:
    """The sets that the person may see, by name."""
    actor, query = actor_of(request), request.GET.get("q", "").strip()
    visible = queries.sets_for(actor)
    is_map = request.GET.get("view") == "map"
    address = reverse("clustersets:list")
    context: dict[str, Any] = {
        "query": query,
        "total": visible.count(),
        "tabs": [
            {"label": "List", "url": address, "current": not is_map},
            {"label": "Map", "url": f"{address}?view=map", "current": is_map},
        ],
        "can_create": set_rights.may_access(actor, "create", MANAGED_CLUSTER_SET),
        "create_explain": explain_url("create", MANAGED_CLUSTER_SET.resource),
        "view_permission": SetPermission.VIEW,
        "hidden": not visible.exists() and ManagedClusterSet.objects.exists(),
    }
    if is_map:
        return render(request, "clustersets/pages/map.html", context | _map(actor, request.GET.get("node", "")))
    matching = visible.filter(name__contains=query)
    page = list(matching.filter(name__gt=request.GET.get("after", ""))[: PAGE + 1])
    context |= {
        "counted": counted(context["total"], matching if query else None),
        "sets": _rows(actor, page[:PAGE], clock.now()),
        "next_after": page[PAGE - 1].name if len(page) > PAGE else "",
    }
    return render(request, "clustersets/pages/list.html", context)


def _rows(actor: Actor, rows: list[Any], now: datetime) -> list[dict[str, Any]]:
    """A bounded number of queries for the whole page."""
    members = [membership.membership_of(row.doc) for row in rows]
    names = [row.name for row in rows]
    counts = composition.of_sets(clusters.clusters_for(actor), members, now)
    owners = reach.set_owners(names)
    bound = visible_bindings.bindings_for(actor).order_by().filter(cluster_set__in=names)
    places = dict(bound.values("cluster_set").annotate(count=Count("pk")).values_list("cluster_set", "count"))
    joinable, bindable = set_rights.joinable(actor, names), set_rights.bindable(actor, names)
    return [
        {
            "name": row.name,
            "url": reverse("clustersets:set", args=[row.name]),
            "kind": selector_help.kind(each),
            "sentence": "" if each.is_exclusive else selector_help.membership_sentence(each),
            "problem": each.problem,
            "implied": selector_help.IMPLIED.get(row.name, ""),
            "composition": counts[row.name],
            "bindings": places.get(row.name, 0),
            "owners": owners[row.name],
            "can_join": row.name in joinable,
            "can_bind": row.name in bindable,
            "deleted_at": row.deleted_at,
            "created": row.created,
        }
        for row, each in zip(rows, members, strict=True)
    ]


# ---------------------------------------------------------------- the map


def _map(actor: Actor, node: str) -> dict[str, Any]:
    sets = [membership.membership_of(row.doc) for row in queries.sets_for(actor)[:MOST_MAPPED]]
    shown = {each.name for each in sets}
    now = clock.now()
    found = composition.of_sets(clusters.clusters_for(actor), sets, now)
    members = {name: {part.word: part.count for part in each.parts} for name, each in found.items()}
    rows = visible_bindings.bindings_for(actor).filter(cluster_set__in=shown)
    ties = [
        (row.namespace, row.cluster_set, visible_bindings.bound_condition(row.doc).get("status") != "False")
        for row in rows
    ]
    chosen = node if node.startswith(NODES) and not node.endswith(graph.REST) else ""
    near = _near(chosen, ties, members)
    inside = composition.of_any(clusters.clusters_for(actor), [each for each in sets if each.name in near], now)
    drawn = graph.binding_graph(ties, members, {part.word: part.count for part in inside.parts}, chosen)
    return {
        "graph": drawn,
        "chosen": chosen,
        "chosen_label": chosen.partition(":")[2],
        "rows": [
            {
                "name": name,
                "url": reverse("clustersets:set", args=[name]),
                "namespaces": [namespace for namespace, of, _ in ties if of == name],
                "composition": found[name],
            }
            for name in sorted(near)
        ],
    }


def _near(chosen: str, ties: list[tuple[str, str, bool]], members: dict[str, dict[Any, int]]) -> set[str]:
    """Names of the sets that the filter leaves."""
    kind, _, name = chosen.partition(":")
    if kind == "set":
        return {name} & set(members)
    if kind == "namespace":
        return {of for namespace, of, _ in ties if namespace == name}
    if kind == "word":
        return {of for of, words in members.items() if name in words}
    return set(members)
