"""Whole answers, read by one client or by several at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.bench.callers import Caller, UnexpectedError


def read(caller: Caller, path: str, **headers: str) -> int:
    """Bytes of an answer. Raises UnexpectedError for a refusal."""
    status, body = caller.ask("GET", path, None, **headers)
    if status != 200:
        raise UnexpectedError(f"GET {path}: {status} {body[:300]!r}")
    return len(body)


def at_once(callers: Sequence[Caller], path: str) -> None:
    with ThreadPoolExecutor(len(callers)) as pool:
        list(pool.map(lambda caller: read(caller, path), callers))
