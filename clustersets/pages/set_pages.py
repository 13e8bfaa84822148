"""One set: its members, where it is bound, whom it reaches, how it chooses; and which clusters could be added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from clusters import queries as clusters
from clusters.health.status_sql import RANKS, with_word
from clusters.models import ManagedCluster
from clustersets import membership, queries, services
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSet
from clustersets.pages import composition, selector_help
from clustersets.rights import reach, set_rights, visible_bindings
from ocmconsole.components.document_display import as_yaml
from ocmconsole.components.links import audit_url, explain_url
from ocmconsole.components.row_counts import counted
from ocmconsole.core.models import ClusterRoleBinding
from ocmconsole.kubeapi import clock, kinds
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from clustersets.membership import Membership
    from ocmconsole.kubeapi.access.actor import Actor

PAGE = 50  # rows
RANK_OF = {str(word): rank for word, rank in RANKS.items()}
TABS = (("members", "Members"), ("bindings", "Bindings"), ("people", "People"), ("definition", "Definition"))


@login_required
@require_GET
def set_page(request: HttpRequest, name: str, tab: str = "members") -> HttpResponse:
    """Head and tabs, and what the tab shows."""
    actor, now = actor_of(request), clock.now()
    row = visible_set(actor, name)
    found = membership.membership_of(row.doc)
    members = clusters.clusters_for(actor).filter(found.condition())
    if tab not in PANELS:
        raise Http404(f"A set has no tab {tab}.")
    mix = composition.of_clusters(members, now)
    context = head(actor, row, found, mix) | {
        "nobody_seen": not mix.total and _has_members(row),
        "tabs": [
            {"label": label, "url": reverse("clustersets:set", args=_arguments(name, key)), "current": key == tab}
            for key, label in TABS
        ],
    }
    return render(request, f"clustersets/pages/{tab}.html", context | PANELS[tab](request, actor, row, members))


def visible_set(actor: Actor, name: str) -> ManagedClusterSet:
    """Raises Http404, the same for what is not there and what one may not see."""
    row: ManagedClusterSet | None = queries.sets_for(actor).filter(name=name).first()
    if row is None:
        raise Http404(f"There is no set {name}, or you may not see it.")
    return row


def _arguments(name: str, tab: str) -> list[str]:
    return [name] if tab == TABS[0][0] else [name, tab]


def head(actor: Actor, row: ManagedClusterSet, found: Membership, counted: composition.Composition) -> dict[str, Any]:
    name = row.name
    return {
        "set": row,
        "membership": found,
        "kind": selector_help.kind(found),
        "sentence": selector_help.membership_sentence(found),
        "conditions": selector_help.membership_requirements(found),
        "implied": selector_help.IMPLIED.get(name, ""),
        "composition": counted,
        "owners": reach.set_owners([name])[name],
        "can_join": name in set_rights.joinable(actor, [name]),
        "join_explain": explain_url("create", set_rights.JOIN_RESOURCE, name=name),
        **_binding(actor, name),
        "audit_url": audit_url(MANAGED_CLUSTER_SET.resource, name),
    }


def _binding(actor: Actor, name: str) -> dict[str, Any]:
    if name not in set_rights.bindable(actor, [name]):
        why = "You may not bind this set into namespaces."
        explained_at = explain_url("create", set_rights.BIND_RESOURCE, name=name)
    elif not set_rights.binds_somewhere(actor):
        why = "You may bind this set, but there is no namespace in which you may create a binding."
        explained_at = explain_url("create", MANAGED_CLUSTER_SET_BINDING.resource)
    else:
        why = explained_at = ""
    return {"can_bind": not why, "bind_denied": why, "bind_explain": explained_at}


# ---------------------------------------------------------------- tabs


def _members(request: HttpRequest, actor: Actor, row: ManagedClusterSet, members: QuerySet[Any]) -> dict[str, Any]:
    now = clock.now()
    query, after = request.GET.get("q", "").strip(), request.GET.get("after", "")
    wanted = request.GET.get("status", "")
    matching = members.filter(name__contains=query) if query else members
    if wanted in RANK_OF:
        matching = matching.filter(pk__in=with_word(members, now).filter(rank=RANK_OF[wanted]).values("pk"))
    behind = matching.filter(name__gt=after) if after else matching
    names = list(behind.values_list("name", flat=True)[: PAGE + 1])
    shown = clusters.observe_clusters(clusters.clusters_for(actor).filter(name__in=names[:PAGE]), now)
    sets = _exclusive(actor)
    can_move = set_rights.removable(actor, [each.row for each in shown])
    return {
        "query": query,
        "status": wanted,
        "members": [_member(each, can_move) for each in shown],
        "can_move": can_move,
        "move_explain": explain_url("move", MANAGED_CLUSTER_SET.resource),
        "next_after": names[PAGE - 1] if len(names) > PAGE else "",
        "counted": counted(members.count(), matching if query or wanted in RANK_OF else None),
        "targets": [name for name in sets if name != row.name],
        **_lacking_to_move(actor, row.name, can_move),
    }


def _lacking_to_move(actor: Actor, name: str, can_move: set[str]) -> dict[str, str]:
    if name not in set_rights.joinable(actor, [name]):
        why = "Taking a cluster out takes join on this set."
        about = explain_url("create", set_rights.JOIN_RESOURCE, name=name)
    elif not can_move:
        why = "Taking a cluster out takes the right to move the clusters of this set, or to change the cluster."
        about = explain_url("move", MANAGED_CLUSTER_SET.resource, name=name)
    else:
        why = "There is no other set that you may add clusters to."
        about = explain_url("join", MANAGED_CLUSTER_SET.resource)
    return {"move_denied": why, "move_explain": about}


def _has_members(row: ManagedClusterSet) -> bool:
    """Whether there is something that one may not see; never how much."""
    return ManagedCluster.objects.filter(membership.membership_of(row.doc).condition()).exists()


def _exclusive(actor: Actor) -> list[str]:
    """Sets that the actor can move clusters into, among those the actor sees."""
    found = [each.name for each in queries.memberships_for(actor) if each.is_exclusive]
    joinable = set_rights.joinable(actor, found)
    return [name for name in found if name in joinable]


def _member(found: clusters.Observed, can_move: set[str]) -> dict[str, Any]:
    return {
        "name": found.row.name,
        "url": reverse("clusters:detail", args=[found.row.name]),
        "word": found.status.word,
        "since": found.status.since,
        "sentence": found.status.sentence,
        "last_heard": found.last_heard,
        "version": found.row.kubernetes_version,
        "clusterset": found.row.clusterset,
        "can_move": found.row.name in can_move,
    }


def _bindings(request: HttpRequest, actor: Actor, row: ManagedClusterSet, members: QuerySet[Any]) -> dict[str, Any]:  # noqa: ARG001 - the signature of panels
    rows = visible_bindings.bindings_for(actor).filter(cluster_set=row.name)
    return {
        "bindings": [
            {
                "namespace": each.namespace,
                "url": reverse("clustersets:namespace", args=[each.namespace]),
                "unbind_url": _unbind_url(actor, each.namespace, row.name),
                "condition": visible_bindings.bound_condition(each.doc),
                "created": each.created,
            }
            for each in rows
        ],
        "sees_all": set_rights.may_access(actor, "list", MANAGED_CLUSTER_SET_BINDING),
    }


def _unbind_url(actor: Actor, namespace: str, name: str) -> str:
    """Empty where the actor may not."""
    if not set_rights.may_access(actor, "delete", MANAGED_CLUSTER_SET_BINDING, name=name, namespace=namespace):
        return ""
    return reverse("clustersets:unbind", args=[namespace, name])


def _people(request: HttpRequest, actor: Actor, row: ManagedClusterSet, members: QuerySet[Any]) -> dict[str, Any]:  # noqa: ARG001 - the signature of panels
    sees_rules = set_rights.may_access(actor, "list", _kind_of(ClusterRoleBinding))
    return {
        "sees_rules": sees_rules,
        "rules_explain": explain_url("list", _kind_of(ClusterRoleBinding).resource),
        "rights": [
            {
                "key": word,
                "sentence": sentence,
                "holders": reach.set_holders(word, row.name, with_rules=sees_rules),
                "explain_url": explain_url(word, MANAGED_CLUSTER_SET.resource, name=row.name),
            }
            for word, sentence in reach.RIGHTS
        ],
    }


def _kind_of(model: type[Any]) -> kinds.Kind:
    return next(kind for kind in kinds.all_kinds() if kind.model is model)


def _definition(request: HttpRequest, actor: Actor, row: ManagedClusterSet, members: QuerySet[Any]) -> dict[str, Any]:  # noqa: ARG001 - the signature of panels
    return {
        "yaml": as_yaml(row.doc),
        "standing": services.standing_reason(row.name),
        "can_delete": set_rights.may_access(actor, "delete", MANAGED_CLUSTER_SET, name=row.name),
        "delete_explain": explain_url("delete", MANAGED_CLUSTER_SET.resource, name=row.name),
        "commands": [f"kubectl get managedclusterset {row.name} -o yaml", f"clusteradm get clustersets {row.name}"],
    }


PANELS: dict[str, Callable[[HttpRequest, Actor, ManagedClusterSet, QuerySet[Any]], dict[str, Any]]] = {
    "members": _members,
    "bindings": _bindings,
    "people": _people,
    "definition": _definition,
}


# ---------------------------------------------------------------- clusters to add


@login_required
@require_GET
def candidates(request: HttpRequest, name: str) -> HttpResponse:
    """Clusters that the person sees outside an exclusive set, to choose from."""
    actor, now = actor_of(request), clock.now()
    row = visible_set(actor, name)
    found = membership.membership_of(row.doc)
    query, after = request.GET.get("q", "").strip(), request.GET.get("after", "")
    outside = clusters.clusters_for(actor).exclude(clusterset=name)
    matching = outside.filter(name__contains=query)
    names = list(matching.filter(name__gt=after).values_list("name", flat=True)[: PAGE + 1])
    shown = clusters.observe_clusters(clusters.clusters_for(actor).filter(name__in=names[:PAGE]), now)
    can_move = set_rights.removable(actor, [each.row for each in shown])
    context = head(actor, row, found, composition.of_clusters(outside.none(), now)) | {
        "query": query,
        "clusters": [_member(each, can_move) for each in shown],
        "counted": counted(outside.count(), matching if query else None),
        "can_move": can_move,
        "move_explain": explain_url("move", MANAGED_CLUSTER_SET.resource),
        "next_after": names[PAGE - 1] if len(names) > PAGE else "",
    }
    return render(request, "clustersets/pages/candidates.html", context)
