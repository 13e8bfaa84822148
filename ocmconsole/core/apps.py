"""The kinds that any API server has. Importing the modules below fills the registries of the machinery."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig

# Imported in this order, which is the order of the rules.
REGISTERING = (
    "ocmconsole.core.kinds",
    "ocmconsole.core.definitions",
    "ocmconsole.core.rbac.rule_index",
    "ocmconsole.core.rbac.backends",
    "ocmconsole.core.admission",
    "ocmconsole.core.rbac.escalation",
    "ocmconsole.core.reconcilers",
    "ocmconsole.core.garbage_collection",
    "ocmconsole.core.tokens.unlimited_tokens",
    "ocmconsole.core.tokens.tokens",
    "ocmconsole.core.reviews",
)


class CoreKindsConfig(AppConfig):
    name = "ocmconsole.core"
    label = "corekinds"
    verbose_name = "Core kinds"

    def ready(self) -> None:
        for module in REGISTERING:
            import_module(module)
