"""The project's own app: management commands and template tags."""

from __future__ import annotations

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "ocmconsole"
    label = "ocmconsole"
    verbose_name = "ocmconsole"
