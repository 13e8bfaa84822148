"""``manage.py backup FILE``: everything that this hub is, in one encrypted file; ``--verify`` tries one out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ocmconsole.backup import opening, taking
from ocmconsole.backup.encryption import BackupError, BackupKey

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Writes an encrypted backup of the hub, which may go on meanwhile; or tries one out."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        key = "of age, instead of OCMCONSOLE_BACKUP_PASSPHRASE"
        parser.add_argument("--key", default=settings.OCMCONSOLE_BACKUP_KEY, metavar="FILE", help=key)
        parser.add_argument("--verify", action="store_true", help="restore FILE into a scratch home and check it")

    def handle(self, *args: Any, **options: Any) -> None:
        act = opening.verify if options["verify"] else taking.take_backup
        try:
            key = BackupKey.chosen(settings.OCMCONSOLE_BACKUP_PASSPHRASE, options["key"])
            manifest = act(options["file"].absolute(), key)
        except BackupError as error:
            raise CommandError(str(error)) from error
        what = "can be restored" if options["verify"] else "is complete"
        self.stdout.write(
            f"{options['file']} {what}: {manifest.database}, resource version {manifest.revision}, {manifest.time}"
        )
        for place in manifest.key_places:
            self.stdout.write(f"not in it: the CA key {place}, which a restored hub needs to sign")
