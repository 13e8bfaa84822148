"""What time the agent takes it to be. A simulated agent may be wrong about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class AgentClock:
    """``ahead`` is by how much it is before the true time."""

    def __init__(self, ahead: timedelta = timedelta()) -> None:
        self.ahead = ahead

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


def seconds_text(moment: datetime) -> str:
    """RFC 3339 in seconds, as ``Time`` of the Kubernetes API."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_text(moment: datetime) -> str:
    """RFC 3339 in microseconds, as ``MicroTime`` (W29)."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
