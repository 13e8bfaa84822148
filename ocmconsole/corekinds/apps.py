"""The kinds that any API server has. Importing the modules below fills the registries of the machinery."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig

REGISTERING = (
    *("kinds", "definitions", "rbac", "backends", "admission", "escalation", "controllers", "garbage"),
    *("tokens", "reviews"),
)


class CoreKindsConfig(AppConfig):
    name = "ocmconsole.corekinds"
    label = "corekinds"
    verbose_name = "Core kinds"

    def ready(self) -> None:
        for module in REGISTERING:
            import_module(f"{self.name}.{module}")
