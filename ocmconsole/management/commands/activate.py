"""``manage.py activate``: a restored hub schedules again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocmconsole.accounts.acting_command import ActingCommand
from ocmconsole.backup import activation

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor


class Command(ActingCommand):
    help = "Activates a hub that was restored: it schedules, and evicts, again."

    def act(self, actor: Actor, *args: Any, **options: Any) -> None:
        activation.activate(actor)
        self.stdout.write("the hub is active")
