"""Managed clusters and their leases."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig

# Imported in this order, which is the order of the rules.
REGISTERING = (
    "clusters.addons.addon_kinds",
    "clusters.health.addon_health",
    "clusters.admission",
    "clusters.fleet.bulk_acts",
    "clusters.acceptance.cleanup_rights",
    "clusters.acceptance.reconcilers",
    "clusters.grants",
    "clusters.health.reconcilers",
    "clusters.kinds",
    "clusters.taints.maintenance",
    "clusters.health.metrics",
    "clusters.acceptance.resource_cleanup",
    "clusters.acceptance.withdrawal",
    "clusters.health.transitions",
)


class ClustersConfig(AppConfig):
    name = "clusters"
    verbose_name = "Clusters"

    def ready(self) -> None:
        """Fill the registries: kinds, rules, grants, reconcilers, bulk acts."""
        for module in REGISTERING:
            import_module(module)
