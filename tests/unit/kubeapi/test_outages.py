"""What an error of the database is called, and which code it gets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from django.db import OperationalError

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.health import outages


@pytest.fixture(autouse=True)
def _state() -> Iterator[None]:
    yield
    outages.state = outages.OutageState()


def of(driver: Exception) -> errors.ApiError:
    """As Django raises it."""
    error = OperationalError(*driver.args)
    error.__cause__ = driver
    return outages.database_error_response(error)


@pytest.mark.parametrize(
    ("driver", "code", "words"),
    [
        (psycopg.errors.DiskFull("could not extend file"), 507, outages.FULL),
        (psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"), 503, outages.LOCKED),
        (psycopg.errors.QueryCanceled("canceling statement due to statement timeout"), 503, outages.SLOW),
        (psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT"), 503, outages.UNUSABLE),
        (psycopg.OperationalError('connection to server at "10.9.8.7" failed'), 503, outages.AWAY),
    ],
)
def test_an_error_of_postgresql_is_called_by_its_cause_and_not_by_its_text(
    driver: Exception, code: int, words: str
) -> None:
    told = of(driver)
    assert (told.code, words in told.message) == (code, True)
    assert "10.9.8.7" not in told.message
    assert told.status()["details"]["retryAfterSeconds"] >= 1


def test_a_locked_and_a_full_sqlite_file_are_two_things(tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as one:
        one.execute("CREATE TABLE t (x)")
        one.execute("PRAGMA max_page_count = 2")
        with pytest.raises(sqlite3.OperationalError) as full:
            one.execute("INSERT INTO t VALUES (zeroblob(100000))")
        assert of(full.value).code == 507
        one.execute("BEGIN IMMEDIATE")
        with (
            closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other,
            pytest.raises(sqlite3.OperationalError) as locked,
        ):
            other.execute("BEGIN IMMEDIATE")
        assert (of(locked.value).code, outages.cause_of(locked.value)) == (503, outages.LOCKED)


def test_for_a_moment_after_postgresql_had_no_space_nothing_may_grow() -> None:
    of(psycopg.errors.DiskFull("no space"))
    assert outages.state.full_seen is not None
    outages.state.full = outages.FULL
    with pytest.raises(errors.InsufficientStorage):
        outages.require_space()
