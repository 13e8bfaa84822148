"""Rows of the kinds that any API server has, and the bootstrap tokens the hub mints itself.

A column exists only where a rule, a reconciler or a page queries it; the rest of a resource is its wire text. Columns
are filled by the ``project`` functions in ``kinds``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from django.db import models

from ocmconsole.kubeapi.models import NameField, Resource

if TYPE_CHECKING:
    from datetime import datetime


class Namespace(Resource):
    phase = models.CharField(max_length=20, blank=True, default="")

    class Meta(Resource.Meta):
        pass


class Event(Resource):
    """What happened to an object; ``regarding_*`` is the object that ``describe`` and the pages ask for (W28)."""

    regarding_kind = models.CharField(max_length=63, blank=True, default="")
    regarding_namespace = NameField(max_length=63, blank=True, default="")
    regarding_name = NameField(max_length=253, blank=True, default="")
    last_seen = models.DateTimeField(db_index=True)

    class Meta(Resource.Meta):
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["regarding_kind", "regarding_name"], name="corekinds_event_regarding"),
        ]


class Secret(Resource):
    type = models.CharField(max_length=253, blank=True, default="")

    class Meta(Resource.Meta):
        pass


class ConfigMap(Resource):
    class Meta(Resource.Meta):
        pass


class ServiceAccount(Resource):
    class Meta(Resource.Meta):
        pass


class Role(Resource):
    class Meta(Resource.Meta):
        pass


class ClusterRole(Resource):
    """``aggregated``: its rules are gathered from other roles."""

    aggregated = models.BooleanField(default=False)

    class Meta(Resource.Meta):
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["aggregated"], condition=models.Q(aggregated=True), name="corekinds_clusterrole_aggr"),
        ]


class RoleBinding(Resource):
    class Meta(Resource.Meta):
        pass


class ClusterRoleBinding(Resource):
    class Meta(Resource.Meta):
        pass


class ClusterManager(Resource):
    class Meta(Resource.Meta):
        pass


class BootstrapTokenQuerySet(models.QuerySet["BootstrapToken"]):
    def usable(self, now: datetime) -> Self:
        return self.filter(expires__gt=now, revoked_at=None)


class BootstrapToken(models.Model):
    """A key to the door, minted here and shown once: only its hash is kept. No resource: clients cannot read it."""

    id = models.CharField(max_length=6, primary_key=True)
    hash = models.CharField(max_length=64)
    name = models.CharField(max_length=120, blank=True, default="")
    # The one cluster that may join with it; empty is any.
    cluster = NameField(max_length=253, blank=True, default="")
    created_by = models.CharField(max_length=320)
    created = models.DateTimeField()
    expires = models.DateTimeField(db_index=True)
    revoked_at = models.DateTimeField(null=True)
    uses = models.PositiveIntegerField(default=0)
    last_used = models.DateTimeField(null=True)

    objects = BootstrapTokenQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.id} {self.name}".rstrip()
