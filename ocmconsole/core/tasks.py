"""What the clock runs of the core kinds (``ocmconsole.schedule``): calls without logic."""

from __future__ import annotations

from ocmconsole.core import reconcilers
from ocmconsole.kubeapi import clock


def expire_events() -> None:
    """Delete Events that are older than they are kept (W28)."""
    reconcilers.expire_events(clock.now())
