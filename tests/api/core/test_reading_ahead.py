"""Rights are read when a server starts, and until then it is not ready."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ocmconsole.core.rbac import reading_ahead, rule_index
from ocmconsole.kubeapi.health import probes

PATIENCE = 30.0  # seconds; an empty hub takes milliseconds


def test_requests_find_what_was_read_at_the_start(transactional_db: Any) -> None:
    rule_index.index.forget()
    reading_ahead.begin(PATIENCE)
    with CaptureQueriesContext(connection) as asked:
        rule_index.index.catch_up()
    assert len(asked) == 1  # how often rights have changed


@pytest.mark.contract("W6")
def test_a_server_that_reads_rights_is_not_ready(transactional_db: Any) -> None:
    rule_index.index.forget()
    with rule_index.index._lock:
        reading_ahead.begin(0)
        (thread,) = (each for each in threading.enumerate() if each.name == reading_ahead.THREAD)
        monitor = probes.Monitor()
        monitor.look()
        assert monitor.seen["rights"] == reading_ahead.UNREAD
    thread.join(PATIENCE)
    monitor.look()
    assert monitor.seen["rights"] == ""
