"""Two servers and two workers on one database, killed at random under load, end where one that was left alone ends.

`CRASH_SEEDS=20` runs twenty seeds instead of one. On SQLite, with `FULL=1`, there is one process, whose threads die with it.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from signal import SIGKILL

import pytest

from tests import hub as hubs
from tests import preloaded, servers
from tests.conftest import StartHub
from tests.crash import stored, writes
from tests.crash.agents import Caller, Ledger
from tests.hub import ROOT, Hub
from tests.selection import FULL

pytestmark = pytest.mark.timeout(1_200)

SEEDS = [20_260_501 + number for number in range(int(os.environ.get("CRASH_SEEDS", "1")))]
FEWEST_KILLS, MOST_KILLS = 6, 12 if FULL else 6
SETTLED_SECONDS = 300
LOCK_TIMEOUT = "60s"  # a write that waits for one without a processor is answered too
# The sweeps of the clock put work into an empty queue.
AT_REST_SECONDS = 3


@dataclass(frozen=True)
class Ended:
    """A hub after the script, at rest, and how often a process of it was killed."""

    hub: Hub
    kills: Counter[str]
    ledger: Ledger


@pytest.fixture(scope="module", params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def alone(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    """One process on SQLite, that nobody kills."""
    with hubs.serve(tmp_path_factory.mktemp("alone"), DATABASE_LOCK_TIMEOUT=LOCK_TIMEOUT) as hub:
        yield _play(seed, [hub], kill=False)


@pytest.fixture(scope="module")
def killed(seed: int, start_hub: StartHub) -> Iterator[Ended]:
    with start_hub(DATABASE_LOCK_TIMEOUT=LOCK_TIMEOUT) as hub, ExitStack() as stack:
        members = [hub]
        if "worker" in hub.commands:
            members.append(stack.enter_context(_twin(hub)))
        yield _play(seed, members, kill=True)


@contextmanager
def _twin(hub: Hub) -> Iterator[Hub]:
    """A second server and a second worker on the database of the first; they share its home, as its certificates."""
    api, console = f"127.0.0.1:{servers.free_port()}", f"127.0.0.1:{servers.free_port()}"
    environment = {**hub.environment, "OCMCONSOLE_API_ADDRESS": api, "OCMCONSOLE_CONSOLE_ADDRESS": console}
    twin = Hub(hub.home, f"https://{api}", f"http://{console}", environment)
    try:
        for name in ("server", "worker"):
            twin.start(name)
        yield twin
    finally:
        for name in list(twin.processes):
            twin.stop(name)


def _play(seed: int, members: list[Hub], *, kill: bool) -> Ended:
    """Everybody at once, on one of the servers; the killing stops when the last one is done, or has been enough."""
    ledger, kills = Ledger(), Counter[str]()
    scripts = writes.scripts(seed)
    with ExitStack() as stack, ThreadPoolExecutor(len(scripts)) as pool:
        clients = [
            stack.enter_context(members[number % len(members)].client(pair=members[0].admin_pair()))
            for number in range(len(scripts))
        ]
        playing = [
            pool.submit(writes.play, Caller(client, ledger), script)
            for client, script in zip(clients, scripts, strict=True)
        ]
        if kill:
            _kill_at_random(random.Random(seed), members, playing, kills)  # noqa: S311 - a repeatable choice
    for future in playing:
        future.result()
    _come_to_rest(members[0])
    return Ended(members[0], kills, ledger)


def _kill_at_random(dice: random.Random, members: list[Hub], playing: list[Future[None]], kills: Counter[str]) -> None:
    """One process, or everything at once as in a power cut; pauses short enough that work is cut in the middle."""
    while kills.total() < FEWEST_KILLS or (kills.total() < MOST_KILLS and not all(each.done() for each in playing)):
        time.sleep(dice.uniform(0.2, 2.0))
        running = [(hub, name) for hub in members for name in hub.processes]
        victims = running if dice.random() < 0.15 else [dice.choice(running)]
        for hub, name in victims:
            hub.stop(name, SIGKILL)
            kills[name] += 1
        for hub, name in victims:
            hub.start(name)


def _come_to_rest(hub: Hub) -> None:
    """No work is left, for a while: also what a killed worker had claimed, which is free when its claim has run out."""
    deadline = time.monotonic() + SETTLED_SECONDS
    quiet_since = None
    while quiet_since is None or time.monotonic() < quiet_since + AT_REST_SECONDS:
        left = stored.work_left(hub)
        assert time.monotonic() < deadline, left
        quiet_since = None if left else quiet_since or time.monotonic()
        time.sleep(0.2)


def test_processes_were_killed_and_every_write_was_answered_in_the_end(killed: Ended, seed: int) -> None:
    assert killed.kills.total() >= FEWEST_KILLS
    assert killed.ledger.answered == sum(len(script) for script in writes.scripts(seed))


def test_a_hub_that_was_killed_ends_like_one_that_was_not(killed: Ended, alone: Ended) -> None:
    assert stored.differences(stored.state(killed.hub), stored.state(alone.hub)) == {}
    assert stored.facts(killed.hub) == stored.facts(alone.hub)


def test_log_and_rows_agree(killed: Ended) -> None:
    stored.assert_log_agrees(killed.hub)


def test_every_reconciler_run_twice_on_every_key_writes_nothing(killed: Ended, alone: Ended) -> None:
    for ended in (killed, alone):
        done = preloaded.run(
            [sys.executable, "-m", "tests.crash.again"],
            cwd=ROOT,
            env=dict(ended.hub.environment),
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["written"] == []
        assert found["ran"]["acceptance"] >= writes.FLEET
        assert found["ran"]["placement"] >= len(writes.PLACEMENT_NAMES)


@pytest.mark.contract("K16", "P24", "P25")
def test_placements_have_decided_the_same(killed: Ended, alone: Ended) -> None:
    ended = [stored.decided(each.hub) for each in (killed, alone)]
    assert ended[0] == ended[1]
    assert any(ended[0].values()), "none has chosen a cluster: the script is too poor"
