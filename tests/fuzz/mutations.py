"""Ways to spoil a valid document so that it surely has to be refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.cases import Doc
from tests.fuzz.texts import Draw

Place = tuple[Any, ...]
WRONG_VALUES: dict[type, list[Any]] = {
    str: [5, True, ["x"], {"a": "b"}, 1.5, [], {}],
    dict: ["x", 5, ["x"], True, "", [[]]],
    list: ["x", 5, {"a": "b"}, True, {}],
    int: ["x", {}, 1.5, True, [1], 2**63, -(2**63) - 1, 10**40, ""],
    bool: ["x", 5, [], {}],
}
SURROGATES = ["\ud800", "a\udfffb", "\udc00\ud800"]
# A Secret's stringData is bytes in the making, which NUL may be part of.
BYTES = frozenset({"stringData"})


def places(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value inside, with where it is."""
    if place:
        yield place, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*place, key))


def replaced(doc: Doc, place: Place, value: Any) -> Doc:
    changed = deepcopy(doc)
    parent: Any = changed
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    return changed


def chosen(draw: Draw, content: Doc, kind: type | tuple[type, ...] = object) -> tuple[Place, Any]:
    """Some place of the content whose value is of the kind."""
    found = [(place, value) for place, value in places(content) if isinstance(value, kind) and place[0] not in BYTES]
    chosen: tuple[Place, Any] = draw(st.sampled_from(found))
    return chosen


def text_of(doc: Any) -> bytes:
    """JSON as odd as need be: numbers of any size, lone surrogates as escapes."""
    return json.dumps(doc).encode()


def with_wrong_type(draw: Draw, doc: Doc, content: Doc) -> bytes:
    place, value = chosen(draw, content)
    return text_of(replaced(doc, place, draw(st.sampled_from(WRONG_VALUES[type(value)]))))


def with_nul(draw: Draw, doc: Doc, content: Doc) -> bytes:
    place, value = chosen(draw, content, str)
    at = draw(st.integers(0, len(value)))
    return text_of(replaced(doc, place, f"{value[:at]}\0{value[at:]}"))


def with_surrogate(draw: Draw, doc: Doc, content: Doc) -> bytes:
    place, _ = chosen(draw, content, str)
    return text_of(replaced(doc, place, draw(st.sampled_from(SURROGATES))))


def with_raw_surrogate(draw: Draw, doc: Doc, content: Doc) -> bytes:
    """As bytes, which are no UTF-8."""
    place, _ = chosen(draw, content, str)
    spoilt = replaced(doc, place, draw(st.sampled_from(SURROGATES)))
    return json.dumps(spoilt, ensure_ascii=False).encode("utf-8", "surrogatepass")


def with_depth(draw: Draw, doc: Doc, content: Doc) -> bytes:
    place, value = chosen(draw, content)
    mark = "replaced-below"
    opening, closing = draw(st.sampled_from([("[", "]"), ('{"a":', "}")]))
    # A field that an object's schema does not know is dropped, with all below it, if the document can be read at all.
    readable = [] if isinstance(value, dict) and opening != "[" else [65, 127, 128]
    depth = draw(st.sampled_from([*readable, 129, 1000, 20_000, 200_000]))
    inner = opening * depth + "1" + closing * depth
    return text_of(replaced(doc, place, mark)).replace(f'"{mark}"'.encode(), inner.encode(), 1)


def with_cut(draw: Draw, doc: Doc, content: Doc) -> bytes:
    whole = text_of(doc)
    return whole[: draw(st.integers(0, len(whole) - 1))]


MUTATIONS = [with_wrong_type, with_wrong_type, with_nul, with_surrogate, with_raw_surrogate, with_depth, with_cut]
