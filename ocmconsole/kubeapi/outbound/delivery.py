"""What is handed to a receiver, and what a receiver is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocmconsole.kubeapi.models import OutboundPosition

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


@dataclass(frozen=True, slots=True)
class OutboundBatch:
    """``entry`` and ``seal`` are the numbers up to which everything is taken when the receiver has these lines."""

    lines: tuple[OutboundLine, ...]
    entry: int
    seal: int


class DeliveryError(Exception):
    """The receiver has not taken the lines: one sentence, for operators, without what the receiver said.

    ``is_final``: it will not take them later either.
    """

    def __init__(self, problem: str, *, retry_after: timedelta | None = None, is_final: bool = False) -> None:
        super().__init__(problem)
        self.retry_after, self.is_final = retry_after, is_final


class Receiver(Protocol):
    def deliver(self, lines: Sequence[OutboundLine]) -> None:
        """Return when the receiver has all of them. Raises DeliveryError, or OSError."""


class Sent(Protocol):
    """What is sent to one receiver, one batch after the other: the audit, or the messages of a channel."""

    @property
    def name(self) -> str:
        """What its position is kept by: a new address goes on where the former one stopped."""

    @property
    def receiver(self) -> Receiver: ...

    def next_batch(self, position: OutboundPosition) -> OutboundBatch:
        """Empty where the receiver has everything."""

    def note(self, batch: OutboundBatch, problem: str, *, is_final: bool = False) -> bool:
        """In the transaction that moves or puts off the position; whether to go on behind a batch with a problem."""


def shortened(body: bytes) -> bytes:
    """A line that is too long for its way, without what makes lines long; ``cut`` says so."""
    doc = orjson.loads(body)
    data = doc["data"]
    data |= {name: [] for name in ("diff", "counted") if name in data}
    data |= {"reason": data["reason"][:LONGEST_REASON]} if "reason" in data else {}
    data |= {"groups": [group[:LONGEST_GROUP] for group in data["groups"][:MOST_GROUPS]]} if "groups" in data else {}
    return orjson.dumps({**doc, "cut": True})
