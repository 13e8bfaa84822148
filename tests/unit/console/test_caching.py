"""The cache while Redis is away: a server that does not listen, and one that takes connections and says nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from ocmconsole.kubeapi.watch import redis_client
from ocmconsole.server.cache import SteadyCache


@pytest.fixture(autouse=True)
def _breaker() -> Iterator[None]:
    redis_client.breaker.worked()
    yield
    redis_client.breaker.worked()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Like a frozen process: the kernel still takes connections for it."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listening:
        listening.setblocking(False)
        yield listening


def cache_at(port: int) -> SteadyCache:
    cache = SteadyCache(f"redis://127.0.0.1:{port}/0", {"OPTIONS": redis_client.options()})
    cache.memory.clear()
    return cache


def connections(listening: socket.socket) -> int:
    found = 0
    while True:
        try:
            listening.accept()[0].close()
        except BlockingIOError:
            return found
        found += 1


def test_what_is_counted_while_redis_does_not_listen_is_counted_here() -> None:
    cache = cache_at(1)
    assert cache.get("attempts") is None
    assert cache.add("attempts", 1)
    assert not cache.add("attempts", 5)
    assert cache.incr("attempts") == 2
    cache.set_many({"a": 1, "b": 2})
    assert cache.get_many(["a", "b", "c"]) == {"a": 1, "b": 2}
    assert "a" in cache
    cache.delete("a")
    assert cache.get("a") is None


def test_a_redis_that_says_nothing_is_tried_once_and_then_left_alone(silent: socket.socket) -> None:
    cache = cache_at(silent.getsockname()[1])
    cache.set("attempts", 1)
    assert redis_client.breaker.is_open
    for _ in range(20):
        assert cache.get("attempts") == 1
    assert connections(silent) == 1  # within the time of one command, 0.2 s, and never again for five


def test_a_message_to_others_is_given_up_at_once_while_redis_is_away(silent: socket.socket, settings: object) -> None:
    settings.OCMCONSOLE_REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"  # type: ignore[attr-defined]
    assert not redis_client.answers()
    for _ in range(3):
        with pytest.raises(redis_client.RedisAwayError):
            redis_client.publish("channel")
    assert connections(silent) == 1
