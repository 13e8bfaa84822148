"""Redis, which may be away: no call waits longer than ``SECONDS``, and for a while after a failure none is made.

Redis carries wake-ups, pokes and counters of attempts; what matters is in the database too. Used by ``change_log``,
``workqueue``, ``probes``, ``ocmconsole.server.cache`` and the worker's own clock (``ocmconsole.embedded``).

Redis' own library is imported at the first call: it takes 0.1 s of CPU time, which a hub without Redis does not need.
"""

from __future__ import annotations

import sys
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.conf import settings

if TYPE_CHECKING:
    import redis

SECONDS = 0.2  # for a command, with opening the connection
OPEN_SECONDS = 5.0  # how long nobody tries after a failure, unless a probe finds it well again


class RedisAwayError(Exception):
    """Known to be away: not tried."""


class Breaker:
    """Whether Redis is tried at all in this process."""

    def __init__(self) -> None:
        self._failed: float | None = None

    @property
    def is_open(self) -> bool:
        failed = self._failed
        return failed is not None and monotonic() - failed < OPEN_SECONDS

    def failed(self) -> None:
        self._failed = monotonic()

    def worked(self) -> None:
        self._failed = None


breaker = Breaker()


def require_redis() -> None:
    """Raises RedisAwayError at once while Redis is known to be away."""
    if breaker.is_open:
        raise RedisAwayError


def answers() -> bool:
    """Ask it, whatever is known; closes or opens the breaker."""
    from redis import RedisError  # noqa: PLC0415 - see above

    try:
        _client(settings.OCMCONSOLE_REDIS_URL).ping()
    except RedisError:
        breaker.failed()
        return False
    breaker.worked()
    return True


def publish(channel: str, message: bytes = b"") -> None:
    """Raises RedisAwayError, RedisError."""
    require_redis()
    from redis import RedisError  # noqa: PLC0415 - see above

    try:
        _client(settings.OCMCONSOLE_REDIS_URL).publish(channel, message)
    except RedisError:
        breaker.failed()
        raise


def is_failure(error: BaseException) -> bool:
    """Whether it says that Redis is away or failed. Nothing raises the library's errors before it is imported."""
    library = sys.modules.get("redis")
    return isinstance(error, RedisAwayError) or (
        library is not None and isinstance(error, getattr(library, "RedisError", ()))
    )


def trouble() -> str:
    """The check ``redis``."""
    return "" if answers() else "it does not answer"


def options() -> dict[str, Any]:
    """Of a client: one half for opening the connection, one for the answer; the library would try three more times."""
    from redis.backoff import NoBackoff  # noqa: PLC0415 - see above
    from redis.retry import Retry  # noqa: PLC0415

    return {"socket_connect_timeout": SECONDS / 2, "socket_timeout": SECONDS / 2, "retry": Retry(NoBackoff(), 0)}


@cache
def _client(url: str) -> redis.Redis:
    from redis import Redis  # noqa: PLC0415 - see above

    return Redis.from_url(url, **options())
