"""Managed clusters and their leases."""

from __future__ import annotations

from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "clusters"
    verbose_name = "Clusters"

    def ready(self) -> None:
        """Fill the registries: kinds, rules, grants, reconcilers, bulk acts."""
        from clusters import (  # noqa: PLC0415 - registers itself
            addon_kinds,  # noqa: F401 - as the others
            addons,  # noqa: F401
            admission,  # noqa: F401
            bulk,  # noqa: F401
            cleanup,  # noqa: F401
            controllers,  # noqa: F401
            grants,  # noqa: F401
            health,  # noqa: F401
            kinds,  # noqa: F401
            maintenance,  # noqa: F401
            metrics,  # noqa: F401
            removal,  # noqa: F401
            transitions,  # noqa: F401
        )
