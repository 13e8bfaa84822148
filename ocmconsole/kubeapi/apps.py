"""The machinery as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class MachineryConfig(AppConfig):
    name = "ocmconsole.kubeapi"
    label = "kubeapi"
    verbose_name = "Audit, work and limits"
