"""``manage.py user_kubeconfig USER``: a kubeconfig with a client certificate of the hub's CA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from ocmconsole.durations import parse_duration
from registration import kubeconfigs, people

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Prints a kubeconfig for a person."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", metavar="USER")
        parser.add_argument("--group", dest="groups", action="append", default=[], metavar="G")
        parser.add_argument("--ttl", default="24h", help="how long the certificate lasts, such as 8h or 30d")
        parser.add_argument(
            "--as", dest="actor_name", default="admin", metavar="USER", help="who issues it (default: admin)"
        )

    def handle(self, *args: Any, user: str, groups: list[str], ttl: str, actor_name: str, **options: Any) -> None:
        if user.startswith("system:"):
            msg = "names that start with system: belong to the hub and its agents"
            raise CommandError(msg)
        try:
            lifetime = parse_duration(ttl)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        actor = people.actor_named(actor_name)
        self.stdout.write(kubeconfigs.of_user(actor, user, groups=tuple(groups), lifetime=lifetime))
