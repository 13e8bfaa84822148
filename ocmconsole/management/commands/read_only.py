"""``manage.py read_only``: on, off, status."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ocmconsole.accounts.acting_command import ActingCommand
from ocmconsole.backup import read_only_mode

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.access.actor import Actor

SETTLED_SECONDS = 2 * read_only_mode.LOOK_SECONDS  # until every process has looked


class Command(ActingCommand):
    help = "Lets the hub write nothing for a while, or write again, in all its processes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("step", choices=("on", "off", "status"))
        parser.add_argument("--reason", default="", help="is shown to everybody who is refused")

    def act(self, actor: Actor, *args: Any, step: str, reason: str, **options: Any) -> None:
        if step == "on":
            read_only_mode.turn_on(actor, reason)
        elif step == "off":
            read_only_mode.turn_off(actor)
        if step != "status":
            time.sleep(SETTLED_SECONDS)
        self.stdout.write(read_only_mode.present() or "the hub is not read-only")
