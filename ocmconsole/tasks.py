"""What the console itself does by the clock."""

from __future__ import annotations

from clusters.health import uptime
from ocmconsole.backup import revocations, scheduled
from ocmconsole.kubeapi import clock
from ocmconsole.models import DemoFleet
from ocmconsole.second_approval import decisions


def beat_demo() -> None:
    """The heartbeats of a demonstration fleet, where the hub has one and serves.

    Its agents would not reach a hub that does not serve either, and a heartbeat counts as a sign that it does (D17).
    """
    if DemoFleet.objects.exists() and uptime.is_serving(clock.now()):
        from ocmconsole.demo import building  # noqa: PLC0415 - its imports cost start time, and few hubs have such a fleet

        building.beat()


def note_revocations() -> None:
    """D22: ``revocations.log`` of the home follows the audit."""
    revocations.note()


def back_up() -> None:
    """D22: a backup at the backup place, when it is time for one."""
    scheduled.take_if_due()


def forget_proposals() -> None:
    """D11: second approvals that are closed for long are forgotten, and the audit keeps them."""
    decisions.forget_old()
