"""Two beats on one database: one keeps the clock, the other stands by until the first is killed, stopped or cut off."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import replace

import psycopg
import pytest

from tests.conftest import StartHub
from tests.hub import Hub

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.slow]

KEEPER = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"


@pytest.mark.contract("H16")
def test_another_beat_takes_the_clock_over_from_one_that_is_killed_or_stopped(start_hub: StartHub) -> None:
    if "TEST_DATABASE_URL" not in os.environ:
        pytest.skip("one beat beside SQLite")
    with start_hub() as hub:
        others = replace(hub, processes={})
        assert keeper(hub) == hub.processes["beat"].pid
        try:
            others.start("beat")
            until_said(hub, others.processes["beat"].pid, "stands by")
            hub.processes["beat"].send_signal(signal.SIGSTOP)
            assert keeper(hub, not_=hub.processes["beat"].pid) == others.processes["beat"].pid
            hub.processes["beat"].send_signal(signal.SIGCONT)
            until_said(hub, hub.processes["beat"].pid, "stands by")
            others.stop("beat", signal.SIGKILL)
            assert keeper(hub, not_=others_pid(hub)) == hub.processes["beat"].pid
            with psycopg.connect(hub.environment["OCMCONSOLE_DATABASE_URL"]) as asking:
                assert asking.execute(KEEPER).fetchone() == (1,)
        finally:
            hub.processes["beat"].send_signal(signal.SIGCONT)
            if "beat" in others.processes:
                others.stop("beat", signal.SIGKILL)


def said(hub: Hub) -> list[tuple[int, str]]:
    """Who said what of the clock, in order."""
    return [
        (int(number), what) for number, what in re.findall(r"beat (\d+) (keeps the clock|stands by)", hub.log("beat"))
    ]


def keeper(hub: Hub, *, not_: int = 0) -> int:
    """Who says last that it keeps the clock, once it is another one."""
    while True:
        found = [number for number, what in said(hub) if what == "keeps the clock"]
        if found and found[-1] != not_:
            return found[-1]
        time.sleep(0.2)


def others_pid(hub: Hub) -> int:
    return next(number for number, _ in said(hub)[::-1] if number != hub.processes["beat"].pid)


def until_said(hub: Hub, number: int, what: str) -> None:
    while (number, what) not in said(hub):
        time.sleep(0.2)
