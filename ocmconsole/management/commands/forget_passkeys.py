"""``manage.py forget_passkeys USER``: somebody has lost device and recovery codes; his password alone signs him in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from ocmconsole.kubeapi import errors
from ocmconsole.signin import factors
from registration import people

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Takes away a person's passkeys, authenticator app and recovery codes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="USER")
        parser.add_argument("--as", dest="user", default="admin", metavar="USER", help="who does it (default: admin)")

    def handle(self, *args: Any, name: str, user: str, **options: Any) -> None:
        person = User.objects.filter(username=name).first()
        if person is None:
            raise CommandError(f"there is no user {name!r}")
        try:
            forgotten = factors.forget(people.actor_named(user), person)
        except errors.ApiError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{name}: {', '.join(forgotten) or 'nothing'} forgotten")
