"""Placements: which clusters of a namespace's bound sets are chosen."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig

REGISTERING = (
    "placements.kinds",
    "placements.admission",
    "placements.reconcilers",
)


class PlacementsConfig(AppConfig):
    name = "placements"
    verbose_name = "Placements"

    def ready(self) -> None:
        """Fill the registries: kinds, rules, reconcilers."""
        for module in REGISTERING:
            import_module(module)
