"""Which requests of agents wait for which, where a server has more of them than it answers at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from ocmconsole.server.agents import lease_path
from ocmconsole.server.agents.lease_path import LeasePath

pytestmark = pytest.mark.contract("H5")

WATCHES = 60


class Slow:
    """Reads wait for the gate; watches are let in at once."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.batches: list[int] = []

    def read(self, asked: Sequence[Any]) -> list[bytes | None]:
        self.gate.wait(30)
        return [b""] * len(asked)

    def watch(self, asked: Sequence[Any]) -> list[Any]:
        self.batches.append(len(asked))
        return [True] * len(asked)

    renew = read


async def opened(slow: Slow, *, waiting: int) -> list[int]:
    """Sizes of the batches in which watches are let in while so many reads wait behind one; then all have been."""
    path, answered, let_in = LeasePath(slow), list[Any](), list[Any]()  # type: ignore[arg-type] # all that is asked of it here
    is_over = asyncio.Event()

    def let(watch: Any) -> None:
        let_in.append(watch)
        if len(let_in) == WATCHES:
            is_over.set()

    for number in range(1 + waiting):
        path._reads.add((number, "namespace"), answered.append)
        await asyncio.sleep(2 * lease_path.READ_WINDOW)
    await asyncio.sleep(lease_path.LONG_SECONDS)
    for number in range(WATCHES):
        path._watches.add((number, None), let)  # type: ignore[arg-type] # as above
    await asyncio.sleep(lease_path.YIELDED_SECONDS / 2)
    found = [*slow.batches]
    slow.gate.set()
    await asyncio.wait_for(is_over.wait(), 30)
    path.end()
    return found


def test_watches_are_let_in_one_after_the_other_while_a_heartbeat_waits_for_long() -> None:
    assert asyncio.run(opened(Slow(), waiting=1)) == [lease_path.YIELDED_BATCH]


def test_they_are_let_in_together_where_none_waits() -> None:
    assert asyncio.run(opened(Slow(), waiting=0)) == [WATCHES]


async def is_refused_after(watches: int) -> bool:
    """Whether one more has to go the ordinary way while so many wait."""
    path = LeasePath(Slow())  # type: ignore[arg-type] # as above
    for number in range(watches):
        path._watches.add((number, None), lambda _: None)  # type: ignore[arg-type] # as above
    try:
        return path._watches.is_full()
    finally:
        path.end()


@pytest.mark.parametrize(("watches", "refused"), [(20_000, False), (lease_path.MOST_WATCHES_WAITING, True)])
def test_those_of_many_agents_wait_for_a_server_that_has_just_started(watches: int, refused: bool) -> None:
    assert asyncio.run(is_refused_after(watches)) is refused
