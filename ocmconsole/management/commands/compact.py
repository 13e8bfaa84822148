"""``manage.py compact``: cut the change log to its retention."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from ocmconsole.kubeapi import changes


class Command(BaseCommand):
    help = "Trims the change log; watches from before get 410 and list again."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{changes.compact()} changes removed")
