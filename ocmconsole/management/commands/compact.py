"""``manage.py compact``: cut the change log to its retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from ocmconsole.environment.durations import parse_duration
from ocmconsole.kubeapi.control import compaction

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Trims the change log; watches from before get 410 and list again."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--keep",
            type=int,
            default=compaction.KEEP_CHANGES,
            metavar="N",
            help="newest changes of each resource that stay (default: %(default)s)",
        )
        parser.add_argument(
            "--older-than", metavar="AGE", help="cut changes of that age, such as 1h; default: each kind's retention"
        )

    def handle(self, *args: Any, keep: int, older_than: str | None, **options: Any) -> None:
        if keep < 0:
            raise CommandError("--keep must not be negative")
        try:
            age = parse_duration(older_than) if older_than else None
        except ImproperlyConfigured as error:
            raise CommandError(f"--older-than: {error}") from error
        self.stdout.write(f"{compaction.compact_log(keep=keep, age=age)} changes removed")
