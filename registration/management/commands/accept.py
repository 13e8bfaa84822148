"""``manage.py accept NAME…``: as the console does, as the named person."""

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
        parser.add_argument("--as", dest="user", default="admin", metavar="USER", help="who accepts (default: admin)")

    def handle(self, *args: Any, names: list[str], user: str, **options: Any) -> None:
        actor = people.actor_named(user)
        for name in names:
            try:
                approved = services.accept_cluster(actor, name)
            except errors.ApiError as error:
                raise CommandError(error.message) from error
            self.stdout.write(f"{name} accepted" + "".join(f"; {request} approved" for request in approved))
