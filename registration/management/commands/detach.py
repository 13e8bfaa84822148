"""``manage.py detach NAME --reason R``: give up what a deleted cluster waits for, as the named person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from clusters import services
from ocmconsole.kubeapi import errors
from registration import people

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Abandons add-ons and works that hold a deleted cluster whose agent will not come back."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--reason", required=True)
        parser.add_argument("--as", dest="user", default="admin", metavar="USER", help="who detaches (default: admin)")

    def handle(self, *args: Any, name: str, reason: str, user: str, **options: Any) -> None:
        try:
            abandoned = services.detach_cluster(people.actor_named(user), name, reason=reason)
        except errors.ApiError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{name} detached" + "".join(f"; {each} abandoned" for each in abandoned))
