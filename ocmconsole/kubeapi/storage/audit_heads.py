"""Heads of the audit's chain that were noted outside of the hub, read back from where they were kept.

Whatever holds digests of seals will do: what an anchor received, the stream, lines of the hub's log, or digests alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

DIGEST = re.compile(r"(?<![0-9a-f:])[0-9a-f]{64}(?![0-9a-f])")  # fingerprints of keys have a colon before
SEAL = "audit.seal"


@dataclass(frozen=True, slots=True)
class NotedHead:
    """``number`` is that of the seal, where it was noted too."""

    digest: str
    number: int | None = None

    def __str__(self) -> str:
        return f"seal {self.number} ({self.digest})" if self.number else f"a seal {self.digest}"


def read_heads(lines: Iterable[str]) -> list[NotedHead]:
    """Those of all lines, in their order; a line without one is passed over."""
    return [head for line in lines for head in _of_line(line.strip().rstrip(","))]


def _of_line(line: str) -> Iterator[NotedHead]:
    if not line.startswith("{"):
        yield from map(NotedHead, DIGEST.findall(line))
        return
    try:
        yield from _of_document(orjson.loads(line))
    except orjson.JSONDecodeError:  # the first line of a webhook's body, or of a log
        yield from map(NotedHead, DIGEST.findall(line))


def _of_document(doc: Any) -> Iterator[NotedHead]:
    """A line of the stream, of which entries hold digests of other things; or a body of lines."""
    if not isinstance(doc, dict):
        return
    data = doc.get("data")
    if isinstance(data, list):
        for each in data:
            yield from _of_document(each)
    elif doc.get("type") == SEAL and isinstance(data, dict):
        yield NotedHead(str(data.get("digest")), data.get("number"))
