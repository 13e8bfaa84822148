"""``manage.py doctor``: is everything there that a hub needs? Exit code 1 with the reasons when not."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ocmconsole.console import checkup
from ocmconsole.kubeapi import request_cache


class Command(BaseCommand):
    help = (
        "Checks database, clock, certificates and TLS names, encryption, the audit and its receivers, people for "
        "second approvals, and Redis; warns of the disk, the backup and notifications."
    )
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        with request_cache.remembering():
            found, warnings, unused = checkup.hub_problems(), checkup.hub_warnings(), checkup.unused_checks()
        for name, problems in found.items():
            self.stdout.write(f"{name}: {'not used' if name in unused else '; '.join(problems) or 'ok'}")
        for name, text in warnings.items():
            self.stdout.write(f"warning: {name}: {text}")
        if failed := sum(map(bool, found.values())):
            msg = f"{failed} of {len(found)} checks failed"
            raise CommandError(msg)
