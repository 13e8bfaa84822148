"""Stored roles and bindings that are alike but for one name, parsed once (W22).

A hub gives each cluster the same role and bindings, in which nothing differs but the cluster's name. ``AlikeDocuments``
takes the name out of the part of a stored text that grants rights, and parses what is left once, with a gap there.
Used by ``rule_index`` while it reads all rows.

Invariant: filling the gap makes what parsing the whole text would. A name has no character that JSON escapes, so to put
it into a text and to parse that text are interchangeable. For any text that is not of the form in which the hub writes
these kinds (metadata, then what grants rights), or is being deleted, the answer is None: the caller parses the whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

GAP = "\ue000"  # stands for the name; of Unicode's private use
PLAIN_NAME = re.compile(r"[a-z0-9][-a-z0-9.]*")
GAP_IN_FIELD = re.compile(f'{GAP}[^"]*":')  # a name that is a field too, such as "kind"
MOST_FORMS = 1_000  # that are remembered of one kind; roles of people are all different

T = TypeVar("T")


class AlikeDocuments(Generic[T]):
    """Of one kind. What grants rights begins with the field ``first``; ``second``, if there is one, follows it.

    ``read`` makes a value of that part.
    """

    def __init__(self, first: str, second: str, read: Callable[[Doc], T]) -> None:
        self._first, self._second = f'"{first}":', f'"{second}":'
        self._read = read
        self._forms: dict[str, T | None] = {}

    def find(self, name: str, text: str) -> T | None:
        """The value with a gap for the name, by which alike documents differ."""
        begin = text.rfind(self._first)
        if begin < 0 or text[begin - 2 : begin] != "}," or GAP in text or not PLAIN_NAME.fullmatch(name):
            return None
        if '"deletionTimestamp":' in text or text.find(self._second, 0, begin) >= 0:
            return None
        form = text[begin:].replace(name, GAP)
        if form not in self._forms:
            if len(self._forms) >= MOST_FORMS:
                return None
            self._forms[form] = self._parsed(form)
        return self._forms[form]

    def _parsed(self, form: str) -> T | None:
        if GAP_IN_FIELD.search(form):
            return None
        try:
            part: Any = orjson.loads(f"{{{form}")
            return self._read(part)
        except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError):
            return None
