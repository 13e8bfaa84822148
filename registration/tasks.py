"""What the clock runs of registration (``ocmconsole.schedule``)."""

from __future__ import annotations

from ocmconsole.kubeapi import clock
from registration import reconcilers


def collect_requests() -> None:
    """Remove certificate requests that nobody needs any more (W25)."""
    reconcilers.collect_requests(clock.now())
