"""``manage.py detach NAME --reason R [--revoke]``: give up what a deleted cluster waits for, as the named person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters import services
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.accounts.acting_command import ActingCommand
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import reader
from registration.approvals import services as registration

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.access.actor import Actor


class Command(ActingCommand):
    help = "Abandons add-ons and works that hold a deleted cluster whose agent will not come back."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--reason", required=True)
        parser.add_argument(
            "--revoke", action="store_true",
            help="revoke every certificate of the cluster too, also when it is gone already",
        )  # fmt: skip
        super().add_arguments(parser)

    def act(self, actor: Actor, *args: Any, name: str, reason: str, revoke: bool, **options: Any) -> None:
        is_present = reader.read_row(MANAGED_CLUSTER, Key("", name)) is not None
        abandoned = services.detach_cluster(actor, name, reason=reason) if is_present or not revoke else []
        results = [f"{each} abandoned" for each in abandoned]
        if revoke:
            count = len(registration.revoke_all(actor, name, reason=reason))
            results.append(f"{count} certificate{'' if count == 1 else 's'} revoked")
        self.stdout.write("; ".join([f"{name} detached", *results]))
