"""``manage.py demo``: fill an empty hub with a fleet for looking at; ``demo --beat`` keeps it alive."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from clusters.models import ManagedCluster
from ocmconsole import demo
from ocmconsole.demo.people import PEOPLE

if TYPE_CHECKING:
    from argparse import ArgumentParser

FEWEST = 30
PAUSE = 2.0


class Command(BaseCommand):
    help = "Fills an empty hub with clusters in every state, requests of every verdict, people and thirty days of past."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--clusters", type=int, default=400, metavar="N", help="how many (default: %(default)s)")
        parser.add_argument("--seed", type=int, default=1, help="another number is another fleet")
        parser.add_argument("--password", default="", help="of the people; made up and printed by default")
        parser.add_argument("--force", action="store_true", help="although the hub has clusters already")
        parser.add_argument(
            "--beat", action="store_true", help="go on with the heartbeats of a filled hub until stopped"
        )

    def handle(
        self, *args: Any, clusters: int, seed: int, password: str, force: bool, beat: bool, **options: Any
    ) -> None:
        call_command("migrate", verbosity=0)
        if beat:
            self._beat()
        if clusters < FEWEST:
            raise CommandError(f"{FEWEST} clusters are the fewest that show every state")
        if not force and ManagedCluster.objects.exists():
            raise CommandError("this hub has clusters already; --force adds the demonstration to them")
        started = time.monotonic()
        password = password or secrets.token_urlsafe(9)
        acts = demo.build(clusters, seed=seed, password=password)
        self.stdout.write(f"{clusters} clusters, {acts} acts in {time.monotonic() - started:.0f} s")
        self.stdout.write(f"people      {', '.join(PEOPLE)}  (password: {password})")
        self.stdout.write(f"admin       admin  (password: {settings.OCMCONSOLE_HOME}/admin-password)")
        self.stdout.write("go on with  manage.py serve, and beside it manage.py demo --beat")

    def _beat(self) -> None:
        while True:
            demo.beat()
            time.sleep(PAUSE)
