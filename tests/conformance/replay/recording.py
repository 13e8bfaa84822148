"""What a real hub said to the real agent and to the real clusteradm, as JSON lines in the order in which it was said.

`traffic.jsonl` has three kinds of lines. An exchange is a request with the status and the answer, both as recorded, the
answer in the plain form of `comparing`. A delivery says which events one of the open watches brought before the next
line. An act (`between-…`) was not recorded, only its effect: what the admin did by kubectl in between. `{…}` in a path
or a body stands for what the player has learnt by then, `{"as": "agent-4 body"}` for what another line says already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.conformance.replay.comparing import Doc

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Delivery:
    """``last`` is the object of the last event; the states before it are the hub's own steps, in any order."""

    id: str
    watch: str
    types: list[str]
    last: Doc


@dataclass(frozen=True)
class Exchange:
    id: str
    who: str
    method: str
    path: str
    status: int
    query: str = ""
    accept: str = "application/json"
    type: str = "application/json"
    body: Doc | None = None
    # The object's version in the body is one that is not the newest any more.
    stale: bool = False
    # What was answered, in one of five forms: a document, the first items of a list, a text, a stream, or not recorded.
    answer: Doc | None = None
    begins: list[Doc] | None = None
    text: str | None = None
    watch: bool = False
    first: list[Doc] | None = None
    answer_type: str = ""
    # The answer was protobuf and is written here as its JSON, in which an unset field may stand as null or empty.
    decoded: bool = False
    command: str = ""
    # Long answers are brought down by this one of `describing.FORMS`.
    form: str = ""

    @property
    def is_read(self) -> bool:
        return self.method == "GET" and not self.watch

    @property
    def was_recorded(self) -> bool:
        return not self.id.startswith("between-")


def lines(name: str) -> Iterator[Doc]:
    known: dict[str, Any] = {}
    for line in (FOLDER / name).read_bytes().splitlines():
        doc = orjson.loads(line)
        for part in ("body", "answer", "begins", "last"):
            if part in doc:
                doc[part] = known.get(doc[part]["as"]) if "as" in doc[part] else doc[part]
                known[f"{doc['id']} {part}"] = doc[part]
        yield doc


def recorded(name: str) -> list[Exchange | Delivery]:
    return [Delivery(**doc) if "types" in doc else Exchange(**doc) for doc in lines(name)]
