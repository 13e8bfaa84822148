"""``manage.py accept NAME… [--accept-key K --reason R]``: as the console does, as the named person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from ocmconsole.kubeapi import errors
from registration import people, services

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Accepts clusters and approves their waiting certificate requests."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="+", metavar="NAME")
        parser.add_argument(
            "--accept-key", default="", metavar="SHA256:…", help="the key that is the right one, for one known name"
        )
        parser.add_argument("--reason", default="", help="how you know; required with --accept-key")
        parser.add_argument("--as", dest="user", default="admin", metavar="USER", help="who accepts (default: admin)")

    def handle(self, *args: Any, names: list[str], user: str, accept_key: str, reason: str, **options: Any) -> None:
        if bool(accept_key) != bool(reason.strip()) or (accept_key and len(names) > 1):
            raise CommandError("--accept-key goes with one NAME and a --reason")
        override = services.Override(accept_key, reason.strip()) if accept_key else None
        actor = people.actor_named(user)
        for name in names:
            try:
                approved = services.accept_cluster(actor, name, override=override)
            except errors.ApiError as error:
                raise CommandError(error.message) from error
            self.stdout.write(f"{name} accepted" + "".join(f"; {request} approved" for request in approved))
