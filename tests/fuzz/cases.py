"""A case of the fuzz run as data: one request, and which answers are right."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any

import orjson

Doc = dict[str, Any]
Headers = tuple[tuple[str, str], ...]

OK, CREATED = frozenset({200}), frozenset({201})
DONE = OK | CREATED
BAD = frozenset({400})
INVALID = frozenset({422})
WRONG = BAD | INVALID
MISSING = frozenset({404})
# What nobody can foretell, such as bytes flipped at random: taken, or refused as the client's mistake.
ANY = DONE | WRONG | frozenset({404, 405, 406, 409, 410, 413, 415})

JSON = "application/json"
_REPEATED = re.compile(rb"(.{1,12}?)\1{15,}", re.DOTALL)
_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Case:
    """``path`` and ``query`` as on the wire; ``codes`` are the answers that are right."""

    actor: str = "admin"
    method: str
    path: str
    query: str = ""
    headers: Headers = ()
    body: bytes = b""
    codes: frozenset[int]

    @property
    def is_valid(self) -> bool:
        """Must succeed."""
        return max(self.codes) < 400

    @property
    def writes_nothing(self) -> bool:
        return self.method in {"GET", "HEAD"} or self.query.endswith("dryRun=All")

    def __repr__(self) -> str:
        """Python that makes the case again; long repetitions are folded."""
        fields = {name: getattr(self, name) for name in ("actor", "method", "path", "query", "headers")}
        shown = [f"{name}={value!r}" for name, value in fields.items() if value]
        shown += [f"body={_literal(self.body)}"] if self.body else []
        return f"Case({', '.join(shown)}, codes={self.codes!r})"


def _literal(body: bytes) -> str:
    parts, at = [], 0
    for found in _REPEATED.finditer(body):
        times = len(found[0]) // len(found[1])
        parts += [repr(body[at : found.start()]), f"{found[1]!r} * {times}"]
        at = found.end()
    return " + ".join([*parts, repr(body[at:])])


def fresh(prefix: str = "f") -> str:
    """A name that no other case uses, always of the same length: what is drawn next may depend on it."""
    return f"{prefix}{next(_numbers):06}"


def send_json(method: str, path: str, doc: Any, codes: frozenset[int], *, as_: str = JSON, **more: Any) -> Case:
    """``doc`` may also be text or bytes that only look like JSON."""
    if isinstance(doc, str):
        doc = doc.encode("utf-8", "surrogatepass")
    body = doc if isinstance(doc, bytes) else orjson.dumps(doc)
    headers = (("Content-Type", as_), *more.pop("headers", ()))
    return Case(method=method, path=path, headers=headers, body=body, codes=codes, **more)
