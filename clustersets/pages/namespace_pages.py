"""Namespaces and what is bound into them: see, bind, unbind (A8, A9, D4)."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from clusters import queries as clusters
from clustersets import membership, queries, services
from clustersets.forms import BindForm
from clustersets.kinds import MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from clustersets.pages import composition
from clustersets.profiles import profile_kinds
from clustersets.rights import set_rights, visible_bindings
from ocmconsole.components.links import audit_url, explain_url
from ocmconsole.components.refusals import plain
from ocmconsole.components.row_counts import counted
from ocmconsole.core.models import Namespace
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor

PAGE = 50  # rows
SUGGESTED = 200  # names that a field suggests


@login_required
@require_GET
def namespace_list(request: HttpRequest) -> HttpResponse:
    """Namespaces that the person may see; those of clusters, where nothing can be bound, only when asked for."""
    actor = actor_of(request)
    query, after = request.GET.get("q", "").strip(), request.GET.get("after", "")
    of_clusters = request.GET.get("of") == "clusters"
    visible = visible_bindings.namespaces_for(actor)
    kept = (
        visible.filter(visible_bindings.of_clusters())
        if of_clusters
        else visible.exclude(visible_bindings.of_clusters())
    )
    matching = kept.filter(name__contains=query)
    names = list(matching.filter(name__gt=after).values_list("name", flat=True)[: PAGE + 1])
    listable = visible_bindings.listable_among(actor, names)
    total = kept.count()
    shown = set(queries.sets_for(actor).values_list("name", flat=True))
    bound: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for row in visible_bindings.bindings_for(actor).filter(namespace__in=names):
        bound[row.namespace].append(
            {
                "name": row.cluster_set,
                "is_bound": visible_bindings.bound_condition(row.doc).get("status") != "False",
                "url": reverse("clustersets:set", args=[row.cluster_set]) if row.cluster_set in shown else "",
            }
        )
    context = {
        "query": query,
        "of_clusters": of_clusters,
        "tabs": _tabs(of_clusters=of_clusters) if visible.filter(visible_bindings.of_clusters()).exists() else [],
        "namespaces": [
            {
                "name": name,
                "url": reverse("clustersets:namespace", args=[name]),
                "sets": bound[name],
                "sees_bindings": name in listable,
            }
            for name in names[:PAGE]
        ],
        "next_after": names[PAGE - 1] if len(names) > PAGE else "",
        "total": total,
        "counted": counted(total, matching if query else None),
        "sees_any": visible.exists(),
        "can_bind": set_rights.binds_somewhere(actor),
        "bind_explain": explain_url("create", MANAGED_CLUSTER_SET_BINDING.resource),
    }
    return render(request, "clustersets/pages/namespaces.html", context)


def _tabs(*, of_clusters: bool) -> list[dict[str, Any]]:
    address = reverse("clustersets:namespaces")
    return [
        {"label": "For workloads", "url": address, "current": not of_clusters},
        {"label": "Of clusters", "url": f"{address}?of=clusters", "current": of_clusters},
    ]


@login_required
@require_GET
def namespace_page(request: HttpRequest, namespace: str) -> HttpResponse:
    """What is bound into one namespace, and with what effect."""
    actor, now = actor_of(request), clock.now()
    found = _visible(actor, namespace)
    rows = list(visible_bindings.bindings_for(actor).filter(namespace=namespace))
    sets = {
        row.name: membership.membership_of(row.doc)
        for row in queries.sets_for(actor).filter(name__in=[r.name for r in rows])
    }
    counts = composition.of_sets(clusters.clusters_for(actor), list(sets.values()), now)
    may_bind = set_rights.may_bind_into(actor, namespace)
    may_unbind = set_rights.may_access(actor, "delete", MANAGED_CLUSTER_SET_BINDING, namespace=namespace)
    context = {
        "namespace": found,
        "cluster": clusters.clusters_for(actor).filter(name=namespace).first(),
        "bindings": [
            {
                "name": row.cluster_set,
                "url": reverse("clustersets:set", args=[row.cluster_set]) if row.cluster_set in sets else "",
                "unbind_url": reverse("clustersets:unbind", args=[namespace, row.cluster_set]),
                "condition": visible_bindings.bound_condition(row.doc),
                "created": row.created,
                "composition": counts.get(row.cluster_set),
            }
            for row in rows
        ],
        "sees_bindings": set_rights.may_access(actor, "list", MANAGED_CLUSTER_SET_BINDING, namespace=namespace),
        "reachable": composition.of_any(clusters.clusters_for(actor), list(sets.values()), now),
        "can_bind": may_bind,
        "bind_explain": explain_url("create", MANAGED_CLUSTER_SET_BINDING.resource, namespace=namespace),
        "list_explain": explain_url("list", MANAGED_CLUSTER_SET_BINDING.resource, namespace=namespace),
        "can_unbind": may_unbind,
        "unbind_explain": explain_url("delete", MANAGED_CLUSTER_SET_BINDING.resource, namespace=namespace),
        "audit_url": audit_url(MANAGED_CLUSTER_SET_BINDING.resource, namespace=namespace),
    }
    return render(request, "clustersets/pages/namespace.html", context)


def _visible(actor: Actor, namespace: str) -> Namespace:
    row: Namespace | None = visible_bindings.namespaces_for(actor).filter(name=namespace).first()
    if row is None:
        raise Http404(f"There is no namespace {namespace}, or you may not see it.")
    return row


# ---------------------------------------------------------------- bind


@login_required
@require_http_methods(["GET", "POST"])
def bind(request: HttpRequest) -> HttpResponse:
    """Choose a set and a namespace, see what it does, do it."""
    actor = actor_of(request)
    sets = list(queries.sets_for(actor).values_list("name", flat=True))
    if request.method == "GET":
        name, namespace = request.GET.get("set", ""), request.GET.get("namespace", "")
        form = BindForm(initial={"set": name, "namespace": namespace}, sets=sets)
        return _bind_page(request, actor, form, name=name, namespace=namespace)
    form = BindForm(request.POST, sets=sets)
    if not form.is_valid():
        return _bind_page(request, actor, form, status=400)
    name, namespace = form.cleaned_data["set"], form.cleaned_data["namespace"]
    try:
        services.bind_set(actor, name, namespace)
    except errors.ApiError as error:
        form.add_error(_about(error), plain(error.message))
        return _bind_page(request, actor, form, name=name, namespace=namespace, status=error.code)
    messages.success(request, f"Set {name} is bound into namespace {namespace}.")
    if not visible_bindings.namespaces_for(actor).filter(name=namespace).exists():
        return redirect("clustersets:set", name=name, tab="bindings")
    return redirect("clustersets:namespace", namespace=namespace)


def _about(error: errors.ApiError) -> str:
    """The field that a refusal is about: the set where the right to bind is missing (A9), else the namespace."""
    return "set" if isinstance(error, errors.Forbidden) and "cluster set" in error.message else "namespace"


def _bind_page(
    request: HttpRequest,
    actor: Actor,
    form: BindForm,
    *,
    name: str = "",
    namespace: str = "",
    status: int = 200,
) -> HttpResponse:
    row = queries.sets_for(actor).filter(name=name).first() if name else None
    members = clusters.clusters_for(actor).filter(membership.membership_of(row.doc).condition()) if row else None
    places = visible_bindings.namespaces_for(actor).exclude(visible_bindings.of_clusters())
    target = quote(namespace or "NAMESPACE")
    context = {
        "form": form,
        "set": row,
        "target": namespace,
        "composition": composition.of_clusters(members, clock.now()) if members is not None else None,
        "is_there": visible_bindings.bindings_for(actor).filter(namespace=namespace, cluster_set=name).exists(),
        "writes_profiles": profile_kinds.is_on(),
        "can_bind_set": not row or row.name in set_rights.bindable(actor, [row.name]),
        "set_explain": explain_url("create", set_rights.BIND_RESOURCE, name=name),
        "can_bind_into": not namespace or set_rights.may_bind_into(actor, namespace),
        "namespace_explain": explain_url("create", MANAGED_CLUSTER_SET_BINDING.resource, namespace=namespace),
        "suggested": list(places.values_list("name", flat=True)[:SUGGESTED]),
        "command": f"clusteradm clusterset bind {row.name if row else 'SET'} --namespace {target}",
    }
    return render(request, "clustersets/pages/bind.html", context, status=status)


# ---------------------------------------------------------------- unbind


@login_required
@require_http_methods(["GET", "POST"])
def unbind(request: HttpRequest, namespace: str, name: str) -> HttpResponse:
    """What the placements of the namespace lose, then the end of it."""
    actor = actor_of(request)
    row = visible_bindings.bindings_for(actor).filter(namespace=namespace, cluster_set=name).first()
    if row is None:
        raise Http404(f"Set {name} is not bound into {namespace}, or you may not see it.")
    if request.method == "GET":
        return _unbind_page(request, actor, row)
    try:
        services.unbind_set(actor, name, namespace)
    except errors.ApiError as error:
        return _unbind_page(request, actor, row, refusal=plain(error.message), status=error.code)
    messages.success(request, f"Set {name} is no longer bound into namespace {namespace}.")
    return redirect("clustersets:namespaces")


def _unbind_page(
    request: HttpRequest, actor: Actor, row: ManagedClusterSetBinding, *, refusal: str = "", status: int = 200
) -> HttpResponse:
    found: ManagedClusterSet | None = queries.sets_for(actor).filter(name=row.cluster_set).first()
    only = _only_through(actor, row, found) if found else None
    namespace = row.namespace
    context = {
        "binding": row,
        "set": found,
        "only": only,
        "writes_profiles": profile_kinds.is_on(),
        "refusal": refusal,
        "can_unbind": set_rights.may_access(
            actor, "delete", MANAGED_CLUSTER_SET_BINDING, name=row.name, namespace=namespace
        ),
        "unbind_explain": explain_url(
            "delete", MANAGED_CLUSTER_SET_BINDING.resource, name=row.name, namespace=namespace
        ),
        "command": f"clusteradm clusterset unbind {row.cluster_set} --namespace {namespace}",
    }
    return render(request, "clustersets/pages/unbind.html", context, status=status)


def _only_through(actor: Actor, row: ManagedClusterSetBinding, found: ManagedClusterSet) -> composition.Composition:
    """Clusters that the namespace reaches by this binding and by no other."""
    others = (
        visible_bindings.bindings_for(actor).filter(namespace=row.namespace).exclude(pk=row.pk).values("cluster_set")
    )
    members = clusters.clusters_for(actor).filter(membership.membership_of(found.doc).condition())
    for each in ManagedClusterSet.objects.filter(name__in=others, deleted_at=None):
        members = members.exclude(
            pk__in=clusters.clusters_for(actor).filter(membership.membership_of(each.doc).condition())
        )
    return composition.of_clusters(members, clock.now())
