"""Placements: which clusters of a namespace's bound sets are chosen."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig

from ocmconsole.kubeapi import virtual_resources
from ocmconsole.kubeapi.virtual_resources import RegisteredView

REGISTERING: tuple[str, ...] = (
    "placements.kinds",
    "placements.admission",
    "placements.reconcilers",
    "placements.controller.brakes",
)
# P36: upstream's paths. GET of the first without the rest has its own error.
DEBUGGER = tuple(
    RegisteredView(route, "placements.debugger.DebugView")
    for route in ("debug/placements", "debug/placements/<namespace>", "debug/placements/<namespace>/<name>")
)


class PlacementsConfig(AppConfig):
    name = "placements"
    verbose_name = "Placements"

    def ready(self) -> None:
        """Fill the registries: kinds, rules, reconcilers."""
        for module in REGISTERING:
            import_module(module)
        virtual_resources.register_views(*DEBUGGER)
