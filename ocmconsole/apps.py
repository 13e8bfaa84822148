"""The project's own app: management commands and template tags, and what every process does at its start."""

from __future__ import annotations

from pathlib import Path

from django.apps import AppConfig
from django.conf import settings

from ocmconsole.environment import home

# What SQLite keeps beside its file, with the mode of the file.
SQLITE_FILES = ("", "-wal", "-shm", "-journal")


class ConsoleConfig(AppConfig):
    name = "ocmconsole"
    label = "ocmconsole"
    verbose_name = "ocmconsole"

    def ready(self) -> None:
        """Protect the files; where Celery is used, make this project's the current one; listen to allauth."""
        database = settings.DATABASES["default"]
        is_file = database["ENGINE"] == "django.db.backends.sqlite3"
        files = [Path(f"{database['NAME']}{suffix}") for suffix in SQLITE_FILES] if is_file else []
        home.protect(settings.OCMCONSOLE_HOME, *files)
        if settings.OCMCONSOLE_CONTROLLERS == "celery":
            from ocmconsole import celery  # noqa: F401, PLC0415 - it becomes current by being made
        from ocmconsole.demo import reconcilers  # noqa: F401, PLC0415 - it registers its reconciler
        from ocmconsole.signin import records  # noqa: F401, PLC0415 - it listens to allauth
