"""The turn of a process among those that write to one SQLite file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from ocmconsole.core.kinds import CONFIG_MAP
from ocmconsole.kubeapi import errors, verbs, write_queue
from ocmconsole.kubeapi.kinds import Key
from tests import factories as make
from tests.actors import ROOT

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE = 60.0  # for what happens at once unless the test fails
LOCK = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX, 1, {byte})
print("locked", flush=True)
"""
HOLD = LOCK.format(byte=0) + "time.sleep(60)"
# Waits for its turn as the hub does; tells what came of it when it is over.
WAIT = (
    LOCK.format(byte=1) + "fcntl.lockf(file, fcntl.LOCK_EX, 1, 0); print('had its turn', flush=True); time.sleep(0.1)"
)


@pytest.fixture(autouse=True)
def team() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL lets many write")
    make.namespace("team")


def started(program: str) -> subprocess.Popen[str]:
    """Another process, which has its first lock."""
    path = f"{connection.settings_dict['NAME']}{write_queue.TURN_FILE}"
    other = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "locked\n"
    return other


@contextmanager
def another_process_writes() -> Iterator[None]:
    with started(HOLD) as other:
        try:
            yield
        finally:
            other.kill()


def put(name: str) -> None:
    verbs.create(ROOT, CONFIG_MAP, {"metadata": {"name": name}}, namespace="team")


def stored(name: str) -> bool:
    return verbs.find(CONFIG_MAP, Key("team", name)) is not None


def test_a_write_waits_for_the_process_whose_turn_it_is_and_no_longer() -> None:
    def write() -> None:
        with closing(connection):
            put("waits")

    with ThreadPoolExecutor(1) as pool:
        with another_process_writes():
            writing: Future[None] = pool.submit(write)
            with pytest.raises(TimeoutError):
                writing.result(write_queue.NEXT_SECONDS * 50)
            assert not stored("waits")
        writing.result(PATIENCE)
    assert stored("waits")


def test_a_write_that_gets_no_turn_is_refused_and_changes_nothing(settings: Any) -> None:
    settings.OCMCONSOLE_DATABASE_LOCK_TIMEOUT = timedelta(milliseconds=20)
    with another_process_writes(), pytest.raises(errors.ServiceUnavailable, match="the database is locked"):
        put("late")
    assert not stored("late")
    put("after")
    assert stored("after")


def test_a_process_that_has_waited_comes_before_the_one_whose_turn_it_was() -> None:
    """So one that writes all the time leaves every second turn to the other."""
    with write_queue.turn():
        other = started(WAIT)
    with other, write_queue.turn():
        assert other.stdout is not None
        assert other.stdout.readline() == "had its turn\n"
        assert other.wait() == 0


def test_a_forked_process_does_not_share_the_turn_of_its_parent() -> None:
    with write_queue.turn():
        child = os.fork()
        if child == 0:  # asks for the turn of processes alone: a lock of threads means nothing in it
            try:
                write_queue._processes.enter(until=0)
            except errors.ServiceUnavailable:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    put("parent")
    assert stored("parent")
