"""A request that reads asks each question once; everybody else asks each time."""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import count

from ocmconsole.kubeapi import request_cache


def test_without_memory_each_question_is_asked_anew() -> None:
    numbers = count()
    assert [request_cache.cached("a", lambda: next(numbers)) for _ in range(3)] == [0, 1, 2]


def test_with_memory_each_question_is_asked_once_and_nothing_is_an_answer_too() -> None:
    numbers, asked = count(), list[str]()
    with request_cache.remembering():
        assert {request_cache.cached("a", lambda: next(numbers)) for _ in range(3)} == {0}
        assert request_cache.cached("b", lambda: next(numbers)) == 1
        for _ in range(2):
            assert request_cache.cached("c", lambda: asked.append("c")) is None
    assert asked == ["c"]


def test_the_memory_ends_with_the_block_even_when_it_fails() -> None:
    numbers = count()
    with suppress(StopIteration), request_cache.remembering():
        request_cache.cached("a", lambda: next(numbers))
        request_cache.cached("b", lambda: next(iter(())))
    assert request_cache.cached("a", lambda: next(numbers)) == 1


def test_another_thread_has_no_part_in_it() -> None:
    numbers, seen = count(), list[int]()
    with request_cache.remembering():
        request_cache.cached("a", lambda: next(numbers))
        thread = threading.Thread(target=lambda: seen.append(request_cache.cached("a", lambda: next(numbers))))
        thread.start()
        thread.join()
    assert seen == [1]
