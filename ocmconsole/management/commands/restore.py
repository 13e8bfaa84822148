"""``manage.py restore FILE``: the hub of a backup, or of a copy of its SQLite database, in this home and database."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseFailure
from django.db import connection

from ocmconsole.backup import beginning, crossing, database_copy, databases, restoring
from ocmconsole.backup.encryption import BackupError, BackupKey
from ocmconsole.environment import installation
from ocmconsole.kubeapi.health import outages

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Restores the hub of a backup into this home and database, which no server uses."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="a backup, or a copy of a hub's SQLite database, such as Litestream's")
        key = "of age, instead of OCMCONSOLE_BACKUP_PASSPHRASE"
        parser.add_argument("--key", default=settings.OCMCONSOLE_BACKUP_KEY, metavar="FILE", help=key)
        parser.add_argument("--replace", action="store_true", help="put the hub that is here aside")
        more = "a copy of revocations.log that is newer than that of the backup"
        parser.add_argument("--revocations", action="append", default=[], type=Path, metavar="FILE", help=more)
        # In the process that ``opening`` starts on the new home; FILE is the time of the backup then.
        parser.add_argument("--inside", choices=["carry", "begin", "check"], help=argparse.SUPPRESS)
        parser.add_argument("--after", type=int, default=0, help=argparse.SUPPRESS)  # a number of an incarnation

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["inside"]:
                backup_at, after = datetime.fromisoformat(options["file"]), options["after"]
                self._inside(options["inside"], backup_at, after)
                return
            file = Path(options["file"]).absolute()
            chosen = (settings.OCMCONSOLE_BACKUP_PASSPHRASE, options["key"])
            key = None if database_copy.is_one(file) else BackupKey.chosen(*chosen)
            done = restoring.restore(file, key, replace=options["replace"], logs=options["revocations"])
        except BackupError as error:
            raise CommandError(str(error)) from error
        except DatabaseFailure as error:
            advice = ": make room and try again" if outages.cause_of(error) == outages.FULL else ""
            raise CommandError(outages.operator_line(error) + advice) from error
        self.stdout.write(f"restored: the hub as of {done.manifest.time}")
        self.stdout.write(done.said)
        if done.aside:
            self.stdout.write(f"what was here is in {done.aside} in the home")
        for place in done.unmarked:
            self.stdout.write(
                f"no mark could be left in {place}: an older hub that looks there does not stop by itself"
            )
        for name, value in done.manifest.settings.items():
            self.stdout.write(f"it was set: {name}={value}")
        for uri in done.manifest.key_places:
            self.stdout.write(
                f"its CA key {uri} is where it was: make it reachable from here, with OCMCONSOLE_PKCS11_MODULE and "
                "OCMCONSOLE_PKCS11_PIN_FILE, before you serve"
            )
        self.stdout.write(f"it starts quiet: serve it, look through it, then run {installation.PROGRAM} activate")

    def _inside(self, step: str, backup_at: datetime, after: int) -> None:
        call_command("migrate", verbosity=0)
        if step == "carry":
            is_sqlite = connection.vendor == databases.SQLITE
            name = databases.FILES[databases.POSTGRESQL] if is_sqlite else databases.HUB_FILE
            crossing.carry(settings.OCMCONSOLE_HOME / name)
            return
        if step == "begin":
            new, said = beginning.begin(backup_at, after)
            self.stdout.write("\n".join([new.uid, *said]))
        beginning.check()
