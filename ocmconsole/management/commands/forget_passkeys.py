"""``manage.py forget_passkeys USER``: somebody has lost device and recovery codes; the password alone signs them in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from ocmconsole.accounts.acting_command import ActingCommand
from ocmconsole.signin import factors

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.access.actor import Actor


class Command(ActingCommand):
    help = "Takes away a person's passkeys, authenticator app and recovery codes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="USER")
        super().add_arguments(parser)

    def act(self, actor: Actor, *args: Any, name: str, **options: Any) -> None:
        person = User.objects.filter(username=name).first()
        if person is None:
            raise CommandError(f"there is no user {name!r}")
        forgotten = factors.remove_factors(actor, person)
        self.stdout.write(f"{name}: {', '.join(forgotten) or 'nothing'} forgotten")
