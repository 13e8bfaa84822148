"""Sets of clusters and where they may be used."""

from __future__ import annotations

from django.apps import AppConfig


class ClusterSetsConfig(AppConfig):
    name = "clustersets"
    verbose_name = "Cluster sets"

    def ready(self) -> None:
        """Fill the registries: kinds, rules, grants, reconcilers, bulk acts. Its rules come after those of clusters."""
        from clustersets import (  # noqa: PLC0415 - registers itself
            admission,  # noqa: F401 - as the others
            bulk,  # noqa: F401
            controllers,  # noqa: F401
            grants,  # noqa: F401
            kinds,  # noqa: F401
            queries,  # noqa: F401
        )
