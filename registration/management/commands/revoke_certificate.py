"""``manage.py revoke_certificate FINGERPRINT --reason R``: a client certificate opens nothing from now on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocmconsole.accounts.acting_command import ActingCommand
from registration.approvals import services

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.access.actor import Actor


class Command(ActingCommand):
    help = "Revokes a client certificate by its SHA-256 fingerprint."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("fingerprint", metavar="FINGERPRINT")
        parser.add_argument("--reason", required=True)
        super().add_arguments(parser)

    def act(self, actor: Actor, *args: Any, fingerprint: str, reason: str, **options: Any) -> None:
        revoked = services.revoke_certificate(actor, fingerprint, reason=reason)
        self.stdout.write(f"{revoked.common_name} revoked")
