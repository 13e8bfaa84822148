"""Django's cache in Redis, and in this process's memory while Redis is away: signing in never fails with it.

Only attempts are counted there (``settings.ACCOUNT_RATE_LIMITS``). While Redis is away each process counts for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from redis import RedisError

from ocmconsole.kubeapi.watch import redis_client


def _either(name: str) -> Callable[..., Any]:
    def call(self: SteadyCache, *arguments: Any, **named: Any) -> Any:
        if not redis_client.breaker.is_open:
            try:
                return getattr(super(SteadyCache, self), name)(*arguments, **named)
            except RedisError:
                redis_client.breaker.failed()
        return getattr(self.memory, name)(*arguments, **named)

    return call


class SteadyCache(RedisCache):
    """Every method of a cache that reaches for Redis."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self.memory = LocMemCache("while-redis-is-away", {})

    add = _either("add")
    get = _either("get")
    set = _either("set")
    touch = _either("touch")
    delete = _either("delete")
    get_many = _either("get_many")
    has_key = _either("has_key")
    incr = _either("incr")
    set_many = _either("set_many")
    delete_many = _either("delete_many")
    clear = _either("clear")
