"""Django admin of clusters and certificate requests. Accepting calls the service that every door calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages

from clusters import queries as cluster_queries
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ManagedCluster
from ocmconsole.corekinds.models import BootstrapToken
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.actor import Door
from ocmconsole.kubeapi.admin import ReadOnlyAdmin, register
from ocmconsole.kubeapi.grantsadmin import GrantsAdmin
from ocmconsole.kubeapi.session import actor_of
from registration import services
from registration.kinds import CERTIFICATE_SIGNING_REQUEST
from registration.models import AcceptedKey, Decline, UnknownCertificate

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet
    from django.http import HttpRequest

    from ocmconsole.kubeapi.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import Resource

register(CERTIFICATE_SIGNING_REQUEST)


@admin.register(ManagedCluster)
class ManagedClusterAdmin(GrantsAdmin):
    kind = MANAGED_CLUSTER
    actions = ("accept", "disconnect")
    list_filter = ("hub_accepts_client", "available", "clusterset")

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return ("name", "hub_accepts_client", "joined", "available", "clusterset", "created")

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows & cluster_queries.clusters_for(actor_of(request, Door.ADMIN))

    def write(self, request: HttpRequest, obj: Resource, doc: Doc, *, dry_run: bool = False) -> verbs.Result:
        """The refusal names the permission as the other pages do."""
        try:
            return super().write(request, obj, doc, dry_run=dry_run)
        except errors.Forbidden as error:
            name = error.details.get("name", "")
            is_about_accept = error.details.get("kind") == "managedclusters/accept"
            if not is_about_accept or services.may_accept(actor_of(request, Door.ADMIN), name).allowed:
                raise
            text = f"{error.message}; {services.MISSING.format(name=name)}"
            raise errors.Forbidden(text, details=error.details) from error

    @admin.action(description="Accept selected clusters and approve their requests")
    def accept(self, request: HttpRequest, queryset: QuerySet[ManagedCluster]) -> None:
        self._each(request, queryset, "accepted", services.accept_cluster)

    @admin.action(description="Disconnect selected clusters")
    def disconnect(self, request: HttpRequest, queryset: QuerySet[ManagedCluster]) -> None:
        self._each(request, queryset, "disconnected", services.disconnect_cluster)

    def _each(
        self, request: HttpRequest, queryset: QuerySet[ManagedCluster], done: str, act: Callable[[Actor, str], Any]
    ) -> None:
        """One cluster's refusal does not stop the others."""
        for cluster in queryset:
            try:
                act(actor_of(request, Door.ADMIN), cluster.name)
            except errors.ApiError as error:
                self.message_user(request, f"Cluster {cluster.name}: {error.message}", messages.ERROR)
            else:
                self.message_user(request, f"Cluster {cluster.name} {done}", messages.SUCCESS)


@admin.register(BootstrapToken)
class BootstrapTokenAdmin(ReadOnlyAdmin):
    """Reads only: tokens are minted and revoked by commands, which record who did."""

    list_display = ("id", "name", "cluster", "created_by", "created", "expires", "revoked_at", "uses", "last_used")
    readonly_fields = ("uses",)
    exclude = ("hash",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[BootstrapToken]:  # noqa: ARG002 - Django's signature
        return BootstrapToken.objects.counted()


@admin.register(AcceptedKey)
class AcceptedKeyAdmin(ReadOnlyAdmin):
    """Reads only: the memory of a name has no end (D9)."""

    list_display = ("cluster", "fingerprint", "key", "how", "accepted_by", "accepted_at", "reason", "request")
    list_filter = ("how",)
    search_fields = ("cluster", "fingerprint")


@admin.register(UnknownCertificate)
class UnknownCertificateAdmin(ReadOnlyAdmin):
    """Reads only: incidents, which the register keeps (D26)."""

    list_display = ("common_name", "organizations", "address", "first_seen", "last_seen", "times", "serial")
    search_fields = ("common_name", "fingerprint", "serial")


@admin.register(Decline)
class DeclineAdmin(ReadOnlyAdmin):
    """Reads only: lifting is an act of the console and the command line, which record who did it (D10)."""

    list_display = ("cluster", "fingerprint", "requester", "reason", "declined_by", "declined_at", "lifted_by")
    search_fields = ("cluster", "fingerprint")
