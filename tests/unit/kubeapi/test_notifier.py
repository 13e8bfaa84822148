"""Telling others never holds up who asks for it."""

from __future__ import annotations

import threading

from ocmconsole.kubeapi.watch.notifier import Notifier


def test_who_asks_does_not_wait_and_many_askings_are_answered_by_one_more_telling() -> None:
    told: list[int] = []
    started, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def tell() -> None:
        told.append(1)
        started.set()
        assert go_on.wait(10)
        if len(told) == 2:
            done.set()

    notifier = Notifier("test", tell)
    notifier.ask()
    assert started.wait(10)  # a broker that does not answer
    for _ in range(100):
        notifier.ask()
    go_on.set()
    assert done.wait(10)
    assert len(told) == 2


def test_one_that_fails_tells_again_the_next_time() -> None:
    second = threading.Event()
    calls: list[int] = []

    def tell() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("no broker")
        second.set()

    notifier = Notifier("test", tell)
    notifier.ask()
    while not calls:
        pass
    notifier.ask()
    assert second.wait(10)
