"""Sets of clusters and where they may be used."""

from __future__ import annotations

from django.apps import AppConfig


class ClusterSetsConfig(AppConfig):
    name = "clustersets"
    verbose_name = "Cluster sets"

    def ready(self) -> None:
        """Fill the registries: kinds, rules, grants, reconcilers. Its rules come after those of the app of clusters."""
        from clustersets import admission, controllers, grants, kinds, queries  # noqa: F401, PLC0415 - registers itself
