"""Django admin of cluster sets and their bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from clustersets import kinds, queries
from clustersets.models import ManagedClusterSet
from ocmconsole.kubeapi.actor import Door
from ocmconsole.kubeapi.admin import register
from ocmconsole.kubeapi.grantsadmin import GrantsAdmin
from ocmconsole.kubeapi.session import actor_of

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

register(kinds.MANAGED_CLUSTER_SET_BINDING)


@admin.register(ManagedClusterSet)
class ManagedClusterSetAdmin(GrantsAdmin):
    kind = kinds.MANAGED_CLUSTER_SET

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows & queries.sets_for(actor_of(request, Door.ADMIN))
