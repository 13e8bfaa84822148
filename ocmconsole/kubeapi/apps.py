"""The machinery as a Django app."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class MachineryConfig(AppConfig):
    name = "ocmconsole.kubeapi"
    label = "kubeapi"
    verbose_name = "Audit, work and limits"

    def ready(self) -> None:
        import_module("ocmconsole.kubeapi.outbound.backlog")  # registers what is read for Prometheus
