"""The project's own app: management commands and template tags, and what every process does at its start."""

from __future__ import annotations

from pathlib import Path

from django.apps import AppConfig
from django.conf import settings

from ocmconsole.environment import encryption_keys, home
from ocmconsole.kubeapi.encryption import places, stored_text
from ocmconsole.kubeapi.storage import only_reads

# What SQLite and the queue of its writers keep beside its file, with the mode of the file.
SQLITE_FILES = ("", "-wal", "-shm", "-journal", "-turn")


class ConsoleConfig(AppConfig):
    name = "ocmconsole"
    label = "ocmconsole"
    verbose_name = "ocmconsole"

    def ready(self) -> None:
        """Protect the files; say where keys come from and what they encrypt; make Celery's project this one."""
        database = settings.DATABASES["default"]
        is_file = database["ENGINE"] == "django.db.backends.sqlite3"
        files = [Path(f"{database['NAME']}{suffix}") for suffix in SQLITE_FILES] if is_file else []
        home.protect(settings.OCMCONSOLE_HOME, *files)
        from ocmconsole.kubeapi.storage import incarnations  # noqa: PLC0415 - models

        only_reads.install()
        stored_text.use(encryption_keys.KeyFile(settings.OCMCONSOLE_HOME))
        stored_text.guard(places.is_anything_encrypted)
        stored_text.refuse_clear_text(incarnations.is_all_encrypted)
        if settings.OCMCONSOLE_CONTROLLERS == "celery":
            from ocmconsole import celery  # noqa: F401, PLC0415 - it becomes current by being made
        from ocmconsole.demo import reconcilers  # noqa: F401, PLC0415 - it registers its reconciler
        from ocmconsole.kubeapi.writes import reencryption  # noqa: F401, PLC0415 - it says what is encrypted
        from ocmconsole.notifications import channel_metrics, encrypted_columns  # noqa: F401, PLC0415 - as above; for Prometheus
        from ocmconsole.signin import encrypted_rows, factor_texts, records  # noqa: F401, PLC0415 - as above; it listens to allauth

        factor_texts.listen()
