"""What the console itself does by the clock."""

from __future__ import annotations

from ocmconsole.models import DemoFleet


def beat_demo() -> None:
    """The heartbeats of a demonstration fleet, where the hub has one."""
    if DemoFleet.objects.exists():
        from ocmconsole import demo  # noqa: PLC0415 - its imports cost start time, and few hubs have such a fleet

        demo.beat()
