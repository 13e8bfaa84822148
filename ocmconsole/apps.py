"""The project's own app: management commands and template tags."""

from __future__ import annotations

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "ocmconsole"
    label = "ocmconsole"
    verbose_name = "ocmconsole"

    def ready(self) -> None:
        """Make this project's Celery the current one, to whose broker pokes go; hear what allauth has written."""
        from ocmconsole import celery  # noqa: F401, PLC0415 - it becomes current by being made
        from ocmconsole.signin import records  # noqa: F401, PLC0415 - it listens to allauth
