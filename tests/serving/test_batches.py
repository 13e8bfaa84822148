"""When a batch of requests of agents begins: few wait for each other, enough wait no longer, and each is answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest

from ocmconsole.server.agents import lease_path
from ocmconsole.server.agents.lease_path import ENOUGH, _Batches
from tests.watch.inside import LONGEST, when

pytestmark = pytest.mark.contract("D26")

NEVER = 1e6  # seconds


class Act:
    """Answers each item with itself; ``sizes`` are those of the batches that have begun."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self, items: Sequence[int]) -> list[int | None]:
        self.sizes.append(len(items))
        assert self.may_end.wait(LONGEST)
        return list(items)


@pytest.fixture
def act() -> Iterator[Act]:
    act = Act()
    yield act
    act.may_end.set()


def test_few_wait_and_enough_do_not(act: Act) -> None:
    async def ask() -> None:
        batches, answered = _Batches[int, int]("test", act, (0.0, NEVER)), list[int | None]()
        batches.began = -NEVER  # the one before is long ago
        await batches.ask(0)
        assert act.sizes == [1]
        for number in range(ENOUGH - 1):
            batches.add(number, answered.append)
        await asyncio.sleep(0.1)
        assert act.sizes == [1]
        batches.add(ENOUGH - 1, answered.append)
        await when(lambda: len(answered) == ENOUGH)
        assert act.sizes == [1, ENOUGH]
        assert answered == list(range(ENOUGH))

    asyncio.run(ask())


@pytest.mark.parametrize("more", [1, ENOUGH - 1, ENOUGH, ENOUGH + 1, 3 * ENOUGH])
def test_what_comes_while_a_batch_is_under_way_is_the_next_one(act: Act, more: int) -> None:
    async def ask() -> None:
        batches, answered = _Batches[int, int]("test", act, (0.0, 0.1)), list[int | None]()
        act.may_end.clear()
        batches.add(-1, answered.append)
        await when(lambda: act.sizes)
        for number in range(more):
            batches.add(number, answered.append)
        await asyncio.sleep(0.2)
        assert act.sizes == [1]
        act.may_end.set()
        await when(lambda: len(answered) == 1 + more)
        assert act.sizes == [1, more]
        assert answered == list(range(-1, more))

    asyncio.run(ask())


def test_the_others_have_small_batches_while_many_heartbeats_wait(act: Act) -> None:
    async def ask() -> None:
        first, answered = _Batches[int, int]("first", act, (NEVER, NEVER)), list[int | None]()
        first.began = asyncio.get_running_loop().time()
        for number in range(lease_path.MANY_WAITING + 1):
            first.add(number, lambda _: None)
        after = Act()
        others = _Batches[int, int]("others", after, (0.0, 0.0), (first,))
        for number in range(2 * lease_path.YIELDED_BATCH + 1):
            others.add(number, answered.append)
        await when(lambda: len(answered) == 2 * lease_path.YIELDED_BATCH + 1)
        assert after.sizes == [lease_path.YIELDED_BATCH] * 2 + [1]

    asyncio.run(ask())
