"""``manage.py revoke_certificate FINGERPRINT --reason R``: a client certificate opens nothing from now on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from ocmconsole.kubeapi import errors
from registration import people, services

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Revokes a client certificate by its SHA-256 fingerprint."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("fingerprint", metavar="FINGERPRINT")
        parser.add_argument("--reason", required=True)
        parser.add_argument("--as", dest="user", default="admin", metavar="USER", help="who revokes (default: admin)")

    def handle(self, *args: Any, fingerprint: str, reason: str, user: str, **options: Any) -> None:
        try:
            revoked = services.revoke_certificate(people.actor_named(user), fingerprint, reason=reason)
        except errors.ApiError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{revoked.common_name} revoked")
