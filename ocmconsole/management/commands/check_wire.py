"""``manage.py check_wire``: prove that columns and wire text of every row agree."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ocmconsole.kubeapi.storage import reader


class Command(BaseCommand):
    help = "Compares every resource's columns with its wire text; exit code 1 when one differs."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        checked, wrong = reader.check_wire()
        for text in wrong:
            self.stderr.write(text)
        if wrong:
            msg = f"{len(wrong)} of {checked} rows disagree with their wire text"
            raise CommandError(msg)
        self.stdout.write(f"{checked} rows agree with their wire text")
