"""``manage.py user_kubeconfig USER``: a kubeconfig with a client certificate of the hub's CA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError

from ocmconsole.accounts.acting_command import ActingCommand
from ocmconsole.environment.durations import parse_duration
from registration.pki import ca, kubeconfigs

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.access.actor import Actor


class Command(ActingCommand):
    help = "Prints a kubeconfig for a person."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", metavar="USER")
        parser.add_argument("--group", dest="groups", action="append", default=[], metavar="G")
        parser.add_argument("--ttl", default="24h", help="how long the certificate lasts, such as 8h or 30d")
        super().add_arguments(parser)

    def act(self, actor: Actor, *args: Any, user: str, groups: list[str], ttl: str, **options: Any) -> None:
        if user.startswith("system:"):
            msg = "names that start with system: belong to the hub and its agents"
            raise CommandError(msg)
        try:
            lifetime = parse_duration(ttl)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        try:
            self.stdout.write(kubeconfigs.of_user(actor, user, groups=tuple(groups), lifetime=lifetime))
        except ca.AuthorityError as error:
            raise CommandError(str(error)) from error
