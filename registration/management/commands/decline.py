"""``manage.py decline NAME --reason R`` or ``--lift``: as the console does, as the named person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from ocmconsole.kubeapi import errors
from registration import people, services

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Denies a cluster's waiting certificate requests and remembers why."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--reason")
        what.add_argument("--lift", action="store_true", help="what was declined may ask again")
        parser.add_argument("--as", dest="user", default="admin", metavar="USER", help="who declines (default: admin)")

    def handle(self, *args: Any, name: str, reason: str | None, user: str, **options: Any) -> None:
        actor = people.actor_named(user)
        try:
            if reason is None:
                services.lift_decline(actor, name)
                self.stdout.write(f"{name} may ask again")
                return
            denied = services.decline_cluster(actor, name, reason=reason)
        except errors.ApiError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{name} declined" + "".join(f"; {request} denied" for request in denied))
