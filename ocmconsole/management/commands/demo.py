"""``manage.py demo``: fill an empty hub with a fleet for looking at. Whatever serves the hub keeps it alive."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from clusters.models import ManagedCluster
from ocmconsole.demo import building
from ocmconsole.demo.people import PEOPLE
from ocmconsole.environment.installation import IS_INSTALLED, PROGRAM, ROOT
from ocmconsole.second_approval import acts
from ocmconsole.second_approval.rules import ActName
from registration import hub_setup

if TYPE_CHECKING:
    from argparse import ArgumentParser

FEWEST = 30  # clusters: with fewer some states of the story have nobody
SECRET = ("_KEY", "_PASSWORD", "_PASSPHRASE", "_SECRET")  # how names of settings end whose values are secrets


class Command(BaseCommand):
    help = "Fills an empty hub with clusters in every state, requests of every verdict, people and thirty days of past."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--clusters", type=int, default=400, metavar="N", help="how many (default: %(default)s)")
        parser.add_argument("--seed", type=int, default=1, help="another number is another fleet")
        parser.add_argument("--password", default="", help="of the people; made up and printed by default")
        parser.add_argument("--force", action="store_true", help="although the hub has clusters already")

    def handle(self, *args: Any, clusters: int, seed: int, password: str, force: bool, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        if clusters < FEWEST:
            raise CommandError(f"{FEWEST} clusters are the fewest that show every state")
        if acts.rule_of(ActName.TOKEN) is not None:
            msg = "the demonstration mints tokens that take two people here"
            raise CommandError(f"{msg}: fill the hub without OCMCONSOLE_SECOND_APPROVAL, and serve it with")
        if not force and ManagedCluster.objects.exists():
            raise CommandError("this hub has clusters already; --force adds the demonstration to them")
        started = time.monotonic()
        password = password or secrets.token_urlsafe(9)
        with click.progressbar(length=1, label=f"{clusters} clusters", file=sys.stderr) as bar:

            def show(done: int, count: int) -> None:
                bar.length = count
                bar.update(done - bar.pos)

            done = building.build(clusters, seed=seed, password=password, on_progress=show)
        self.stdout.write(f"{clusters} clusters, {done} acts in {time.monotonic() - started:.0f} s")
        self.stdout.write(f"people      {', '.join(PEOPLE)}  (password: {password})")
        self.stdout.write(f"admin       admin  (password: {hub_setup.shown_home()}/admin-password)")
        self.stdout.write("serve it, which also keeps its heartbeats going:")
        self.stdout.write(serving_command(os.environ))


def serving_command(environment: os._Environ[str] | dict[str, str]) -> str:
    """The line for a shell that serves this hub, with the OCMCONSOLE_ variables of this process.

    A value that is or holds a secret is not printed: the line takes it from the shell, which ends with an error where
    it is not set.
    """
    given = {name: value for name, value in sorted(environment.items()) if name.startswith("OCMCONSOLE_") and value}
    set_here = [f"{name}={_quoted(name, value)}" for name, value in given.items()]
    python = Path(sys.executable)
    program = [python.with_name(PROGRAM)] if IS_INSTALLED else [python, ROOT / PROGRAM]
    return " ".join([*set_here, *map(_shown, program), "serve"])


def _quoted(name: str, value: str) -> str:
    if name.endswith(SECRET) or urlsplit(value).password:
        return f'"${{{name}:?}}"'
    return shlex.quote(value)


def _shown(path: Path) -> str:
    """As it is typed in this directory."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
