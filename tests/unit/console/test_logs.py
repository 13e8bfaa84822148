"""The log: one line an event, for people or for machines, and no secret in it."""

from __future__ import annotations

import json
import logging
import logging.config
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from ocmconsole.server import logs

Written = Callable[..., str]


@pytest.fixture
def written(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Written]:
    """What one event looks like; the formatter alone is ours, the rest belongs to the standard library."""

    def write(form: str, text: str, *values: Any, **how: Any) -> str:
        described = dict(logs.config(form)["formatters"]["line"])
        record = logging.LogRecord(
            "registration.pki.ca", logging.WARNING, "ca.py", 1, text, values, how.get("exc_info")
        )
        return str(described.pop("()")(**described).format(record))

    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        yield write


def test_a_line_says_when_how_bad_where_what_and_in_which_request(written: Written) -> None:
    line = written("text", "no %s for %r", "key", "c 1")
    assert line.startswith("time=20")
    assert """level=warning logger=registration.pki.ca event="no key for 'c 1'" request_id=r-1""" in line
    assert "\n" not in line


def test_machines_get_json(written: Written) -> None:
    event = json.loads(written("json", "no key"))
    assert event | {"time": ""} == {
        "time": "",
        "level": "warning",
        "logger": "registration.pki.ca",
        "event": "no key",
        "request_id": "r-1",
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_strangers_write_makes_no_second_line(written: Written, form: str) -> None:
    assert "\n" not in written(form, "refused %s", "a\nlevel=critical logger=root event=lie")


@pytest.mark.parametrize("name", ["password", "client_secret", "Authorization", "token", "private_key", "cookie"])
def test_a_value_that_is_called_a_secret_is_not_written(name: str) -> None:
    assert logs.hide_secrets(None, "", {"event": "x", name: "hunter2"}) == {"event": "x", name: "***"}
