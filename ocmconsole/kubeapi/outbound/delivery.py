"""What is handed to a receiver, and what a receiver is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_REASON = 1_000  # characters that stay of the reason of a line that was shortened
MOST_GROUPS, LONGEST_GROUP = 50, 320  # that stay of it, and characters of each


@dataclass(frozen=True, slots=True)
class OutboundLine:
    """``body`` is one line of JSON. A receiver that has seen its ``id`` drops it."""

    id: str
    type: str
    time: datetime
    body: bytes
    is_refusal: bool = False


class DeliveryError(Exception):
    """The receiver has not taken the lines: one sentence, for operators, without what the receiver said."""

    def __init__(self, problem: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(problem)
        self.retry_after = retry_after


class Receiver(Protocol):
    def deliver(self, lines: Sequence[OutboundLine]) -> None:
        """Return when the receiver has all of them. Raises DeliveryError, or OSError."""


def shortened(body: bytes) -> bytes:
    """A line that is too long for its way, without what makes lines long; ``cut`` says so."""
    doc = orjson.loads(body)
    data = doc["data"]
    data |= {name: [] for name in ("diff", "counted") if name in data}
    data |= {"reason": data["reason"][:LONGEST_REASON]} if "reason" in data else {}
    data |= {"groups": [group[:LONGEST_GROUP] for group in data["groups"][:MOST_GROUPS]]} if "groups" in data else {}
    return orjson.dumps({**doc, "cut": True})
