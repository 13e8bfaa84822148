"""Sets of clusters and where they may be used."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig

# Imported in this order, which is the order of the rules.
REGISTERING = (
    "clustersets.admission",
    "clustersets.moves.bulk_moves",
    "clustersets.reconcilers",
    "clustersets.grants",
    "clustersets.kinds",
    "clustersets.queries",
    "clustersets.profiles.profile_reconcilers",
)


class ClusterSetsConfig(AppConfig):
    name = "clustersets"
    verbose_name = "Cluster sets"

    def ready(self) -> None:
        """Fill the registries: kinds, rules, grants, reconcilers, bulk acts. Its rules come after those of clusters."""
        for module in REGISTERING:
            import_module(module)
