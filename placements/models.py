"""Rows of placements, their decisions, and the scores of add-ons that they may choose by."""

from __future__ import annotations

from django.db import models

from ocmconsole.kubeapi.models import NameField, Resource


class Placement(Resource):
    """``cluster_sets``: names in ``spec.clusterSets``, none for all that are bound. ``reads``: see ``relevance``."""

    cluster_sets = models.JSONField(default=list)
    reads = models.JSONField(default=list)

    class Meta(Resource.Meta):
        pass


class PlacementDecision(Resource):
    # The Placement that its label names, or "".
    placement = NameField(max_length=63, blank=True, default="")

    class Meta(Resource.Meta):
        indexes = [models.Index(fields=["namespace", "placement"])]


class AddOnPlacementScore(Resource):
    """In the namespace of its cluster."""

    class Meta(Resource.Meta):
        pass


class SteadyReference(models.Model):
    """P16: the clusters that were chosen when a negative weight of Steady was set: Steady compares with these."""

    placement = models.OneToOneField(Placement, on_delete=models.CASCADE, primary_key=True, related_name="+")
    weight = models.IntegerField()
    clusters = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{len(self.clusters)} clusters of {self.placement_id}"


class DecisionRun(models.Model):
    """That the clusters of a Placement or their groups changed: by a run of the scheduler, or a write of somebody else.

    Written in the transaction of the decisions, removed after ``OCMCONSOLE_PLACEMENT_HISTORY``. ``uid``, ``namespace``
    and ``name`` are the Placement's, which may be gone. ``entered``, ``left``, ``regrouped``: numbers of clusters;
    ``chosen``: how many there are since. ``revision``: of the hub, up to which the scheduler had seen changes.
    ``cause``: as ``causes.Cause.to_row`` says, of the run as a whole; empty where none is known.
    """

    uid = models.CharField(max_length=36)
    namespace = NameField(max_length=63)
    name = NameField(max_length=253)
    time = models.DateTimeField(db_index=True)
    revision = models.BigIntegerField()
    entered = models.PositiveIntegerField(default=0)
    left = models.PositiveIntegerField(default=0)
    regrouped = models.PositiveIntegerField(default=0)
    chosen = models.PositiveIntegerField(default=0)
    cause = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["namespace", "name", "id"]), models.Index(fields=["uid", "id"])]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}: {self.entered} entered, {self.left} left"


class DecisionMove(models.Model):
    """Clusters that entered or left in one run for the same reason, at most ``MOST`` of them.

    ``names``: in order, each in a line of its own with a line break before and after; ``first`` and ``last`` bound
    them. ``stage`` and ``reason``: where and why a cluster fell out (``reasons``), empty for those that the scheduler
    chose. ``cause``: as in DecisionRun; without a name it is a change of each of the clusters itself.
    """

    MOST = 500  # names: 32 KB at most
    is_saved_last = True

    run = models.ForeignKey(DecisionRun, on_delete=models.CASCADE, related_name="moves")
    is_entered = models.BooleanField()
    stage = models.CharField(max_length=20, blank=True, default="")
    reason = models.CharField(max_length=300, blank=True, default="")
    cause = models.JSONField(default=dict)
    count = models.PositiveIntegerField()
    first = NameField(max_length=253)
    last = NameField(max_length=253)
    names = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["first", "last"])]

    def __str__(self) -> str:
        return f"{self.count} {'entered' if self.is_entered else 'left'}: {self.reason}"


class EvictionBrake(models.Model):
    """D27: evictions of clusters that fell silent since ``since`` wait. At most one of a scope stands at a time.

    ``scope``: the name of the set, or "" for the whole hub. ``until``: None after a person has chosen to hold until
    they release it. ``silent`` and ``late`` of ``members`` when it began: clusters that had fallen silent, and others
    that missed heartbeats. ``is_confirmed``: most have really fallen silent. ``ended_why``: one of ``Ending``.
    """

    class Ending(models.TextChoices):
        RELEASED = "released"
        TIME = "time"
        RETURNED = "returned"
        UNCONFIRMED = "unconfirmed"

    scope = NameField(max_length=253, blank=True, default="")
    since = models.DateTimeField()
    begun = models.DateTimeField()
    until = models.DateTimeField(null=True)
    silent = models.PositiveIntegerField()
    late = models.PositiveIntegerField()
    members = models.PositiveIntegerField()
    is_confirmed = models.BooleanField(default=False)
    held_by = models.CharField(max_length=320, blank=True, default="")
    ended = models.DateTimeField(null=True)
    ended_why = models.CharField(max_length=12, choices=Ending, blank=True, default="")
    ended_by = models.CharField(max_length=320, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope"], condition=models.Q(ended=None), name="placements_standing_brake")
        ]

    def __str__(self) -> str:
        return f"evictions {f'of set {self.scope}' if self.scope else 'of all clusters'} since {self.begun:%H:%M}"


class HeldEvictions(models.Model):
    """D27: how many clusters a Placement keeps only because a brake stands; 0 when none. Written with its decisions."""

    placement = models.OneToOneField(Placement, on_delete=models.CASCADE, primary_key=True, related_name="held")
    count = models.PositiveIntegerField()
    since = models.DateTimeField()
    until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.count} evictions of {self.placement_id}"
