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
