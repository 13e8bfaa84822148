"""Rows of clusters: the resource, its lease, and what only the hub knows about a cluster.

A column of a resource exists only where a rule, a sweep or a page asks for it; ``kinds`` fills it from the document.
The records at the end belong to the hub and never reach a client.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from ocmconsole.kubeapi import (
    clock,
)
from ocmconsole.kubeapi.models import NameField, PermissionName, Resource


class ClusterPermission(PermissionName):
    VIEW = "clusters.view_managedcluster"
    CHANGE = "clusters.change_managedcluster"
    DELETE = "clusters.delete_managedcluster"
    ACCEPT = "clusters.accept_managedcluster"


class ManagedCluster(Resource):
    """Statuses of conditions are the wire's words, empty when nobody has set the condition."""

    hub_accepts_client = models.BooleanField(default=False)
    # What counts: the schema's default where the document says nothing that makes sense (K13).
    lease_duration_seconds = models.BigIntegerField(default=60)
    accepted = models.CharField(max_length=7, blank=True, default="")
    accepted_since = models.DateTimeField(null=True)
    joined = models.CharField(max_length=7, blank=True, default="")
    available = models.CharField(max_length=7, blank=True, default="")
    available_since = models.DateTimeField(null=True)
    # What the condition says while it is not True.
    available_message = models.TextField(blank=True, default="")
    clock_synced = models.CharField(max_length=7, blank=True, default="")
    clock_since = models.DateTimeField(null=True)
    deleting_message = models.TextField(blank=True, default="")
    in_maintenance = models.BooleanField(default=False)
    maintenance_since = models.DateTimeField(null=True)
    ignores_clock = models.BooleanField(default=False)
    clusterset = models.CharField(max_length=63, blank=True, default="", db_index=True)
    kubernetes_version = models.CharField(max_length=64, blank=True, default="")
    # The version as a number, so that 1.9 comes before 1.33; 0 where it cannot be read.
    kubernetes_order = models.BigIntegerField(default=0)

    # What the hub knows under this name, for one statement that asks for both; no column and no constraint.
    facts = models.ForeignObject(
        "ClusterFacts", models.DO_NOTHING, from_fields=["name"], to_fields=["cluster"], related_name="+", null=True,
        serialize=False, editable=False,
    )  # fmt: skip

    class Meta(Resource.Meta):
        permissions = [
            (ClusterPermission.ACCEPT.codename, "Can let a managed cluster in and send it away"),
        ]
        constraints = [
            *Resource.Meta.constraints,
            models.UniqueConstraint(fields=["name"], name="clusters_managedcluster_name"),
        ]
        indexes = [
            models.Index(fields=["accepted", "available"]),
            # What says that a cluster is as usual (``fleet_counts.USUAL``), with what pages count clusters by: without
            # reading a row, which is as long as its document.
            models.Index(
                fields=[
                    "available", "hub_accepts_client", "joined", "in_maintenance", "clock_synced", "deleted_at",
                    "clusterset", "kubernetes_version", "available_since", "name", "uid",
                ],
                name="clusters_cluster_usual",
            ),
            models.Index(
                name="clusters_cluster_outside", fields=["name"], condition=models.Q(hub_accepts_client=False)
            ),
            models.Index(
                name="clusters_cluster_removed", fields=["deleted_at"], condition=models.Q(deleted_at__isnull=False)
            ),
            models.Index(fields=["lease_duration_seconds"], name="clusters_cluster_lease"),
            models.Index(fields=["clusterset", "name"], name="clusters_cluster_of_set"),
            # Orders of the list.
            models.Index(fields=["available_since", "name"], name="clusters_cluster_since"),
            models.Index(fields=["created", "name"], name="clusters_cluster_age"),
            models.Index(fields=["kubernetes_order", "name"], name="clusters_cluster_version"),
        ]  # fmt: skip


class ManagedClusterUserPermission(UserObjectPermissionBase):
    """A permission on one cluster. It dies with the object, so a name that is created again inherits nothing."""

    content_object = models.ForeignKey(ManagedCluster, on_delete=models.CASCADE)


class ManagedClusterGroupPermission(GroupObjectPermissionBase):
    content_object = models.ForeignKey(ManagedCluster, on_delete=models.CASCADE)


class ReportedClaim(models.Model):
    """One entry of ``status.clusterClaims``, written by the store with the cluster that reports it."""

    cluster = models.ForeignKey(ManagedCluster, on_delete=models.CASCADE, related_name="claims")
    name = models.CharField(max_length=253, db_index=True)
    value = models.CharField(max_length=1024, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="clusters_reportedclaim_key")]

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


class ClusterTaint(models.Model):
    """One entry of ``spec.taints``, written by the store with the cluster that has it."""

    cluster = models.ForeignKey(ManagedCluster, on_delete=models.CASCADE, related_name="taints")
    key = models.CharField(max_length=316, db_index=True)
    value = models.CharField(max_length=1024, blank=True, default="")
    effect = models.CharField(max_length=16)
    added = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class ClusterClaim(Resource):
    """A claim that a cluster makes in its own API; here where the hub manages itself."""

    class Meta(Resource.Meta):
        pass


class ManagedClusterAddOn(Resource):
    """One add-on on one cluster; its namespace is the cluster's name."""

    class Meta(Resource.Meta):
        verbose_name = "managed cluster add-on"


class ClusterManagementAddOn(Resource):
    """An add-on as such: what it is called, how it is configured and where it is installed."""

    class Meta(Resource.Meta):
        verbose_name = "cluster management add-on"


class ManifestWork(Resource):
    """Manifests that the agent of a cluster applies there; its namespace is the cluster's name."""

    class Meta(Resource.Meta):
        pass


class Lease(Resource):
    """Instants are integer microseconds, so that their arithmetic is the same SQL on every database."""

    renew_time = models.BigIntegerField(null=True)
    # How far the holder's clock was behind the hub's when the renewal was written (K47); null before the first (H18).
    skew = models.BigIntegerField(null=True)
    duration = models.BigIntegerField(null=True)

    # Whose namespace it is in, for one statement that asks for both; no column and no constraint.
    cluster = models.ForeignObject(
        ManagedCluster, models.DO_NOTHING, from_fields=["namespace"], to_fields=["name"], related_name="leases",
        null=True, serialize=False, editable=False,
    )  # fmt: skip

    class Meta(Resource.Meta):
        pass

    def begin(self) -> None:
        self.skew = None


# ---------------------------------------------------------------- the hub's own records


class ClusterFacts(models.Model):
    """What registration knows about a cluster name, and clusters show. Outlives the object."""

    class Decision(models.TextChoices):
        ACCEPTED = "accepted"
        DECLINED = "declined"
        DISCONNECTED = "disconnected"

    cluster = NameField(max_length=253, primary_key=True)
    first_seen = models.DateTimeField(default=clock.now, blank=True, editable=False)
    decision = models.CharField(max_length=12, choices=Decision, blank=True, default="")
    decided_by = models.CharField(max_length=320, blank=True, default="")
    decided_at = models.DateTimeField(null=True, db_index=True)
    decision_reason = models.TextField(blank=True, default="")
    certificate_fingerprint = models.CharField(max_length=120, blank=True, default="")
    certificate_not_before = models.DateTimeField(null=True)
    certificate_not_after = models.DateTimeField(null=True)
    # Of that certificate; registration names another one while the cluster has one that is honoured.
    certificate_revoked_at = models.DateTimeField(null=True)
    certificate_revoked_by = models.CharField(max_length=320, blank=True, default="")
    certificate_revocation_reason = models.TextField(blank=True, default="")
    # D5: somebody took the renew rule away on purpose.
    renewal_withheld = models.BooleanField(default=False)

    class Meta:
        verbose_name_plural = "cluster facts"
        indexes = [
            models.Index(fields=["certificate_not_after", "cluster"], name="clusters_facts_ends"),
            models.Index(
                fields=["certificate_revoked_at"],
                condition=models.Q(certificate_revoked_at__isnull=False),
                name="clusters_facts_revoked",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cluster} {self.decision}".rstrip()

    def save(self, *, force_insert: Any = False, **options: Any) -> None:
        """The facts of a new name are one INSERT, for they were looked for under the counter's lock."""
        super().save(force_insert=force_insert or self._state.adding, **options)


class Silence(models.Model):
    """The renewal after which a cluster was last called silent, so that it is not called so again at once (K46)."""

    is_saved_last = True

    cluster = NameField(max_length=253, primary_key=True)
    renew_time = models.BigIntegerField(null=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.cluster} since {self.at:%Y-%m-%d %H:%M:%S}"


class Serving(models.Model):
    """One row: since when the hub has served without a gap, and the gaps before (D17)."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    since = models.DateTimeField()
    # The last sweep for silence, by whatever process sweeps.
    seen = models.DateTimeField()
    # The last note of a server.
    served = models.DateTimeField(null=True)
    # Pairs of microseconds since 1970, oldest first; none stands for one that ends with ``since``.
    gaps = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"since {self.since:%Y-%m-%d %H:%M:%S}"


# ---------------------------------------------------------------- how people look at the list


class SavedView(models.Model):
    """A filter of the cluster list that somebody wants to come back to; ``query`` is that of its URL."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=60)
    query = models.TextField(blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="clusters_savedview_key")]

    def __str__(self) -> str:
        return self.name


class ListChoice(models.Model):
    """Which columns somebody wants in the cluster list, and how much room for each row."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", primary_key=True)
    columns = models.JSONField(default=list)
    is_comfortable = models.BooleanField(default=False)

    def __str__(self) -> str:
        return ", ".join(self.columns)


class HeartbeatDay(models.Model):
    """How well a cluster was heard on one day (UTC): 288 cells of two bits, and the clock's difference hour by hour.

    ``history`` reads and writes both columns, ``heartbeats`` stores them. A row may outlive the cluster.
    """

    cluster = NameField(max_length=253)
    day = models.DateField(db_index=True)
    cells = models.BinaryField(max_length=72)
    skews = models.BinaryField(max_length=48)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "day"], name="clusters_heartbeatday_key")]

    def __str__(self) -> str:
        return f"{self.cluster} {self.day}"


class FleetMinute(models.Model):
    """A look at all heartbeats: how many clusters were heard in time, of how many. No row: the hub did not look."""

    minute = models.DateTimeField(primary_key=True)
    heard = models.PositiveIntegerField()
    expected = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M} {self.heard}/{self.expected}"


class Transition(models.Model):
    """A cluster became something else, recorded with the write that made it so."""

    class Turn(models.TextChoices):
        JOINED = "joined"
        LEFT = "left"
        CONNECTED = "connected"
        DISCONNECTED = "disconnected"
        SILENT = "silent"
        RECOVERED = "recovered"
        UNHEALTHY = "unhealthy"
        CLOCK_OFF = "clock-off"
        CLOCK_SYNCED = "clock-synced"
        MAINTENANCE = "maintenance"
        MAINTENANCE_ENDED = "maintenance-ended"

    is_saved_last = True

    cluster = NameField(max_length=253)
    at = models.DateTimeField(db_index=True)
    turn = models.CharField(max_length=17, choices=Turn)

    class Meta:
        indexes = [models.Index(fields=["cluster", "at"])]

    def __str__(self) -> str:
        return f"{self.cluster} {self.turn} {self.at:%Y-%m-%d %H:%M:%S}"
