"""``manage.py decline NAME --reason R`` or ``--lift``: as the console does, as the named person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocmconsole.accounts.acting_command import ActingCommand
from registration.approvals import services

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.access.actor import Actor


class Command(ActingCommand):
    help = "Denies a cluster's waiting certificate requests and remembers why."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--reason")
        what.add_argument("--lift", action="store_true", help="what was declined may ask again")
        super().add_arguments(parser)

    def act(self, actor: Actor, *args: Any, name: str, reason: str | None, **options: Any) -> None:
        if reason is None:
            services.lift_decline(actor, name)
            self.stdout.write(f"{name} may ask again")
            return
        denied = services.decline_cluster(actor, name, reason=reason)
        self.stdout.write(f"{name} declined" + "".join(f"; {request} denied" for request in denied))
