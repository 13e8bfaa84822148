"""``manage.py detach NAME --reason R``: give up what a deleted cluster waits for, as the named person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters import services
from registration.people import ActingCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.actor import Actor


class Command(ActingCommand):
    help = "Abandons add-ons and works that hold a deleted cluster whose agent will not come back."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--reason", required=True)
        super().add_arguments(parser)

    def act(self, actor: Actor, *args: Any, name: str, reason: str, **options: Any) -> None:
        abandoned = services.detach_cluster(actor, name, reason=reason)
        self.stdout.write(f"{name} detached" + "".join(f"; {each} abandoned" for each in abandoned))
