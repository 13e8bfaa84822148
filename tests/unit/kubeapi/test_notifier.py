"""A notification of other processes never delays the caller."""

from __future__ import annotations

import threading

from ocmconsole.kubeapi.watch.notifier import Notifier


def test_a_caller_does_not_wait_and_many_requests_cause_one_more_notification() -> None:
    sent: list[int] = []
    started, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def notify() -> None:
        sent.append(1)
        started.set()
        assert go_on.wait(60)
        if len(sent) == 2:
            done.set()

    notifier = Notifier("test", notify)
    notifier.request()
    assert started.wait(60)  # Redis that does not answer
    for _ in range(100):
        notifier.request()
    go_on.set()
    assert done.wait(60)
    assert len(sent) == 2


def test_a_notification_that_fails_is_sent_again_at_the_next_request() -> None:
    second = threading.Event()
    calls: list[int] = []

    def notify() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("no Redis")
        second.set()

    notifier = Notifier("test", notify)
    notifier.request()
    while not calls:
        pass
    notifier.request()
    assert second.wait(60)
