"""The hub is killed between a commit and its delivery, its receiver is away: every audit entry gets outside, in order."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from tests import receivers
from tests.conftest import StartHub
from tests.hub import Hub

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.contract("D11")]

WRITERS, WRITES = 4, 8
SPACES = "/api/v1/namespaces"
WAIT_SECONDS = 200.0  # on a machine that is busy with something else


def write(hub: Hub, pair: Path, writer: int) -> None:
    """Creates namespaces."""
    with hub.client(pair=pair) as client:
        for number in range(WRITES):
            answer = client.post(SPACES, json={"metadata": {"name": f"w{writer}-{number}"}})
            assert answer.status_code == 201, answer.text


def kept(hub: Hub) -> list[int]:
    with hub.reading() as ask:
        return [number for (number,) in ask("SELECT id FROM kubeapi_auditevent ORDER BY id")]


def again(hub: Hub) -> None:
    """All of it is killed and started."""
    names = [*hub.processes]
    for name in names:
        hub.stop(name, SIGKILL)
    for name in names:
        hub.start(name)


def test_a_hub_that_is_killed_before_it_has_delivered_loses_no_entry(start_hub: StartHub, tmp_path: Path) -> None:
    stream = tmp_path / "audit.jsonl"
    with (
        receivers.http_receiver() as receiver,
        start_hub(
            AUDIT_WEBHOOK=f"http://127.0.0.1:{receiver.port}/",
            AUDIT_WEBHOOK_SECRET=receivers.SECRET,
            WEBHOOK_PRIVATE_ADDRESSES="127.0.0.1",
            AUDIT_STREAM=str(stream),
        ) as hub,
    ):
        receiver.answer = 503
        pair = hub.admin_pair()
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(partial(write, hub, pair), range(WRITERS)))
        names = {f"w{writer}-{number}" for writer in range(WRITERS) for number in range(WRITES)}
        told = names & {line["data"].get("name") for line in receiver.lines}
        assert not told, "nobody waits for a receiver that is away"
        if "TEST_DATABASE_URL" not in os.environ:  # elsewhere another process waits for the claim of the killed one
            _killed_while_the_receiver_has_it(hub, receiver)
        receiver.answer = 200
        again(hub)
        numbers = kept(hub)
        sent = _all_of(numbers, lambda: receiver.once)
        written = _all_of(numbers, lambda: _read(stream))
    assert names <= {line["data"].get("name") for line in receiver.lines}
    assert sent[: len(numbers)] == numbers
    assert written[: len(numbers)] == numbers, "the file has each once"


def _read(stream: Path) -> list[dict[str, Any]]:
    """Of the file, which may not be there yet."""
    return [json.loads(line) for line in stream.read_bytes().splitlines()] if stream.exists() else []


def _all_of(numbers: list[int], lines: Callable[[], list[dict[str, Any]]]) -> list[int]:
    """Numbers of the entries outside, when these are among them."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = [line["data"]["id"] for line in lines() if line["type"] == "audit.entry"]
        if {*numbers} <= {*found}:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _killed_while_the_receiver_has_it(hub: Hub, receiver: receivers.HttpReceiver) -> None:
    """It has taken a batch, and the hub dies before it hears so."""
    came, over = threading.Event(), threading.Event()

    def hold() -> None:
        came.set()
        over.wait(WAIT_SECONDS)

    receiver.answer, receiver.before = 200, hold
    assert came.wait(WAIT_SECONDS)
    hub.stop("server", SIGKILL)
    over.set()
    receiver.before = lambda: None
    hub.start("server")
