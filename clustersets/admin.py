"""Django admin of cluster sets and their bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.urls import reverse

from clustersets import kinds, membership, queries
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from clustersets.profiles.profile_kinds import CLUSTER_PROFILE
from ocmconsole.djangoadmin.object_permissions import GrantsAdmin
from ocmconsole.djangoadmin.resources import ResourceAdmin, register
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

register(CLUSTER_PROFILE)


@admin.register(ManagedClusterSet)
class ManagedClusterSetAdmin(GrantsAdmin):
    kind = kinds.MANAGED_CLUSTER_SET
    list_filter = ("manages_namespaces",)
    unread = ("labels",)

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return ("name", "chooses", "manages_namespaces", "created", "deleted_at")

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows & queries.sets_for(actor_of(request, EntryPoint.ADMIN))

    @admin.display
    def chooses(self, row: ManagedClusterSet) -> str:
        found = membership.membership_of(row.doc)
        if found.is_exclusive:
            return "clusters that join it"
        return "all clusters" if found.takes_everything else "by labels"

    def view_on_site(self, row: ManagedClusterSet) -> str:
        return reverse("clustersets:set", args=[row.name])


@admin.register(ManagedClusterSetBinding)
class ManagedClusterSetBindingAdmin(ResourceAdmin):
    kind = kinds.MANAGED_CLUSTER_SET_BINDING
    search_fields = ("name__contains", "namespace__contains")
    lookups = ("namespace", "name", "cluster_set")

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return ("namespace", "name", "cluster_set", "created")

    def view_on_site(self, row: ManagedClusterSetBinding) -> str:
        return reverse("clustersets:namespace", args=[row.namespace])
