"""Rows of the kinds that any API server has, and the bootstrap tokens the hub mints itself.

A column exists only where a rule, a reconciler or a page queries it; the rest of a resource is its wire text. Columns
are filled by the ``project`` functions in ``kinds``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from django.db import models

from ocmconsole.kubeapi.models import NameField, PermissionName, Resource

if TYPE_CHECKING:
    from datetime import datetime


class Namespace(Resource):
    phase = models.CharField(max_length=20, blank=True, default="")

    class Meta(Resource.Meta):
        indexes: ClassVar[list[models.Index]] = [
            # Those of people, of which there are few beside one for each cluster.
            models.Index(
                fields=["name"],
                name="corekinds_namespace_of_people",
                condition=~models.Q(labels__has_key="open-cluster-management.io/cluster-name"),
            ),
        ]


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


class TokenPermission(PermissionName):
    VIEW = "corekinds.view_bootstraptoken"  # of everybody
    ADD = "corekinds.add_bootstraptoken"
    DELETE = "corekinds.delete_bootstraptoken"  # to revoke those of others


class BootstrapTokenQuerySet(models.QuerySet["BootstrapToken"]):
    def usable(self, now: datetime) -> Self:
        return self.filter(expires__gt=now, revoked_at=None)

    def counted(self) -> Self:
        """With the number of clusters that each brought, in the same query."""
        return self.annotate(brought_count=models.Count("brought"))


class BootstrapToken(models.Model):
    """A bootstrap token, made here and shown once: only its hash is kept. No resource: clients cannot read it.

    ``clusterset`` and ``labels`` are what its minter wishes for the clusters that come with it. A repair token (D29)
    has a ``key_line``: it brings nobody, and lets the agent of an accepted cluster come back with a new key, once.
    """

    class State(models.TextChoices):
        USABLE = "usable"
        EXHAUSTED = "exhausted"  # the clusters that it brought may go on joining
        EXPIRED = "expired"
        REVOKED = "revoked"

    id = models.CharField(max_length=6, primary_key=True)
    hash = models.CharField(max_length=64)
    name = models.CharField(max_length=120, blank=True, default="")
    # The one cluster that may join with it; empty is any.
    cluster = NameField(max_length=253, blank=True, default="")
    # How many clusters may come with it; None is any number.
    max_uses = models.PositiveIntegerField(null=True, blank=True)
    # Networks in CIDR form from which it works; empty is everywhere.
    addresses = models.JSONField(default=list, blank=True)
    clusterset = NameField(max_length=253, blank=True, default="")
    labels = models.JSONField(default=dict, blank=True)
    # The line of keys (D19) that it continues, by its id, and the state of the hub's CAs in which it was minted.
    key_line = models.PositiveBigIntegerField(null=True, blank=True)
    rotation = models.CharField(max_length=64, blank=True, default="", db_default="")
    created_by = models.CharField(max_length=320)
    created = models.DateTimeField()
    expires = models.DateTimeField(db_index=True)
    revoked_at = models.DateTimeField(null=True)
    last_used = models.DateTimeField(null=True)

    brought: Any  # the manager of its uses
    objects = BootstrapTokenQuerySet.as_manager()

    class Meta:
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["created"])]  # the order of its lists

    def __str__(self) -> str:
        return f"{self.id} {self.name}".rstrip()

    @property
    def is_repair(self) -> bool:
        return self.key_line is not None

    @property
    def is_right(self) -> bool:
        """Saving it ends a credential (``Revision.rights``)."""
        return self.revoked_at is not None

    @property
    def uses(self) -> int:
        """Clusters that were registered or asked for with it, each counted once."""
        counted: int | None = getattr(self, "brought_count", None)
        return int(self.brought.count()) if counted is None else counted

    @property
    def uses_text(self) -> str:
        """``12 of 20 uses``, ``1 use``."""
        most = self.max_uses if self.max_uses is not None else self.uses
        of = f" of {most}" if self.max_uses is not None else ""
        return f"{self.uses}{of} use{'' if most == 1 else 's'}"

    def state(self, now: datetime) -> State:
        """What it is good for at that time; the first that holds."""
        if self.revoked_at is not None:
            return self.State.REVOKED
        if self.expires <= now:
            return self.State.EXPIRED
        if self.max_uses is not None and self.uses >= self.max_uses:
            return self.State.EXHAUSTED
        return self.State.USABLE


class BootstrapTokenUse(models.Model):
    """One cluster name that somebody registered or asked for with a token: a use, however many requests it took."""

    token = models.ForeignKey(BootstrapToken, on_delete=models.CASCADE, related_name="brought")
    cluster = NameField(max_length=253)
    since = models.DateTimeField()
    # The address of the hub at that time; "" from before it was noted.
    hub_url = models.CharField(max_length=300, blank=True, default="", db_default="")
    # The ManagedCluster that has what the token's minter wished for, or could not get it, and then why.
    wished_uid = models.CharField(max_length=36, blank=True, default="")
    wish_failure = models.TextField(blank=True, default="")

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["token", "cluster"], name="corekinds_bootstraptokenuse_once"),
        ]

    def __str__(self) -> str:
        return f"{self.token_id} {self.cluster}"


class AccessRequest(models.Model):
    """A request for a right, to those who can give it. Answered once; after a refusal it may be made again."""

    class Answer(models.TextChoices):
        GRANTED = "granted"
        DISMISSED = "dismissed"

    user = models.CharField(max_length=320, db_index=True)
    verb = models.CharField(max_length=20)
    # As links spell it: plural[/subresource][.group].
    resource = models.CharField(max_length=253)
    namespace = NameField(max_length=253, blank=True, default="")
    name = NameField(max_length=253, blank=True, default="")
    reason = models.TextField()
    at = models.DateTimeField()
    answer = models.CharField(max_length=9, choices=Answer, blank=True, default="")
    answered_by = models.CharField(max_length=320, blank=True, default="")
    answered_at = models.DateTimeField(null=True)
    answer_reason = models.TextField(blank=True, default="")

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["user", "verb", "resource", "namespace", "name"],
                condition=models.Q(answer=""),
                name="corekinds_accessrequest_open_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.verb} {self.resource} {self.name}".rstrip()
