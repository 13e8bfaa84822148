"""Managed clusters and their leases."""

from __future__ import annotations

from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "clusters"
    verbose_name = "Clusters"

    def ready(self) -> None:
        """Fill the registries: kinds, rules, grants, reconcilers."""
        from clusters import admission, controllers, grants, health, kinds, removal  # noqa: F401, PLC0415 - registers itself
