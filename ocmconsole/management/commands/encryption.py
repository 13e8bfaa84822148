"""``manage.py encryption status|apply|rotate|retire|scrub``: the keys of what the database holds encrypted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ocmconsole.backup import taking
from ocmconsole.backup.encryption import BackupError
from ocmconsole.environment import encryption_keys, installation
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.writes import reencryption

if TYPE_CHECKING:
    from argparse import ArgumentParser

PROGRAM = f"{installation.PROGRAM} encryption"
BACKUP = "Make a backup now: one from before does not have the new key."
STEPS = {
    "status": "which keys there are, and how many texts each has",
    "apply": "encrypt with the newest key what is not; goes on where it was killed",
    "rotate": "make a new key, then as apply",
    "retire": "forget the keys that nothing needs any more",
    "scrub": "write the tables anew, without what was overwritten or deleted; others wait meanwhile",
}


class Command(BaseCommand):
    help = "Shows the keys of what the database holds encrypted, makes new ones, and encrypts anew."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="step", required=True)
        for name, text in STEPS.items():
            acts.add_parser(name, help=text)

    def handle(self, *args: Any, step: str, **options: Any) -> None:
        try:
            counts = reencryption.count_texts()
            if missing := counts.missing_keys():
                raise stored_text.lost(missing[0])
            if step == "status":
                self._status(counts)
            else:
                getattr(self, f"_{step}")()
        except stored_text.Unreadable as error:
            raise CommandError(error.message) from error
        except OSError as error:
            raise CommandError(
                f"the home cannot be written ({error.strerror or error}): make room or see to its modes, then look at "
                f"{PROGRAM} status"
            ) from error

    def _status(self, texts: reencryption.TextCounts) -> None:
        keys, counts = stored_text.known_keys(), texts.by_key
        for number, key in enumerate(keys):
            what = "encrypts" if number == 0 else "decrypts"
            number_of = sum(each[key.id] for each in counts.values())
            self.stdout.write(f"key {key.id}, made {key.made:%Y-%m-%d %H:%M} UTC, {what}: {number_of} texts")
        for name, each in counts.items():
            if each[""]:
                self.stdout.write(f"in clear, or not bound to its person: {each['']} of {name}")
        if left := texts.left().total():
            self.stdout.write(f"{left} texts are not encrypted with the newest key: {PROGRAM} apply")
        elif len(keys) > 1:
            self.stdout.write(f"nothing needs the older keys: {PROGRAM} retire")

    def _rotate(self) -> None:
        if left := reencryption.count_texts().left().total():
            raise CommandError(f"{left} texts are not encrypted with the newest key yet: {PROGRAM} apply goes on first")
        if stored_text.known_keys():
            encryption_keys.KeyFile(settings.OCMCONSOLE_HOME).add()
        reencryption.note_added()
        self.stdout.write(BACKUP)
        self._apply()

    def _apply(self) -> None:
        done = sum(number for _, number in reencryption.encrypt_anew())
        self.stdout.write(f"{done} texts were encrypted with key {stored_text.newest().id}")
        if done:
            self.stdout.write(
                f"What they were is still in files of the database until it uses the room again: {PROGRAM} scrub"
            )
        if reencryption.settle():
            self.stdout.write("Nothing is left in clear, and no text in clear is believed from now on")
        if len(stored_text.known_keys()) > 1:
            self.stdout.write(f"{PROGRAM} retire forgets the older keys, from ten minutes after the new one was made")

    def _retire(self) -> None:
        try:
            with taking.no_backup():
                gone, stay = reencryption.retire(encryption_keys.KeyFile(settings.OCMCONSOLE_HOME).forget)
        except BackupError as error:
            raise CommandError(str(error)) from error
        if stay:
            minutes = int(reencryption.GRACE.total_seconds() // 60)
            left = reencryption.count_texts().left().total()
            raise CommandError(
                f"key {', '.join(stay)} stays: {left} texts are left ({PROGRAM} apply), or the "
                f"new key is not {minutes} minutes old"
            )
        self.stdout.write(f"forgotten: {', '.join(gone)}" if gone else "there is no older key")

    def _scrub(self) -> None:
        if not reencryption.scrub():
            self.stdout.write(
                "The old files are removed by PostgreSQL's next checkpoint, some minutes from now at most"
            )
        self.stdout.write("The tables were written anew. Archived logs of the database, and backups, are as they were")
