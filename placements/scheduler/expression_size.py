"""How large the values of a CEL expression may become, found before it is evaluated (P7). Pure.

The evaluator bounds iterations, not values: ``[s].map(a, a + a)`` twenty times is a million times ``s``, in 300
characters. So the checked expression is walked with sizes instead of values. A size is an upper bound of the characters
and items of a value; the total of what is read and made is a polynomial in the size of the cluster's document whose
coefficients are not negative. Called by ``expressions``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

# Of one evaluation, in bytes that are read, which takes below a second. What is made weighs more, so that it takes some
# 300 MB of memory at most: a character 8, an item of a list 256.
MOST, CHARACTER, ITEM = 1_000_000_000, 8, 256
LARGEST_DOCUMENT = 2**24  # bytes; the API takes no larger one
SMALLEST_DOCUMENT = 2**10  # bytes; for a larger one it is not worth looking
MOST_NESTED = 5  # macros within the body of each other; each doubles the work of this module
MOST_VISITS = 10_000  # of subexpressions; some 50 ms
NUMBER = 700  # characters of a formatted number at most, with those that the pattern has
TEXT = 64  # characters of a number, time or address as text

_FIXED64 = 1  # the wire type
# What a cel.expr.Expr is, by the number of its field.
CONSTANT, NAME, FIELD, CALL, LIST, MAP, MACRO = range(3, 10)
# Functions that return a bool or a number.
_SMALL = frozenset({
    "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_in_", "!_", "_&&_", "_||_", "_-_", "_*_", "_/_", "_%_", "-_",
    "@not_strictly_false", "size", "contains", "startsWith", "endsWith", "hasValue", "int", "uint", "double",
    "bool", "type",
})  # fmt: skip
# Functions that may make a list, and how many items for each character or item that they are given.
_ITEMS = {"_+_": 1, "split": 2, "findAll": 2, "parseJSON": 2}
# Functions whose value is their argument, or a part of it.
_PART = frozenset({"_[_]", "_[?_]", "_?._", "value", "dyn"})

Message = Mapping[int, Sequence[Any]]
Scope = Mapping[str, int]


class _TooComplexError(Exception):
    """The expression has more subexpressions, or macros within each other, than are looked at."""


def largest_document(checked: bytes) -> int:
    """P7: size of the largest document for which the expression stays within ``MOST``; 0 if there is none.

    ``checked``: the serialized CheckedExpr of a compiled expression, in a google.protobuf.Any.
    """
    expression = _message(_message(checked)[2][0])[4][0]
    size = LARGEST_DOCUMENT
    try:
        while size >= SMALLEST_DOCUMENT:
            if _Walk(size).of(expression, {"managedCluster": size}, 0)[1] <= MOST:
                return size
            size //= 2
    except _TooComplexError:
        pass
    return 0


class _Walk:
    """Through the expression with sizes for values: those of a document of ``document`` bytes."""

    def __init__(self, document: int) -> None:
        self.document = document
        self.left = MOST_VISITS

    def of(self, raw: bytes, scope: Scope, depth: int) -> tuple[int, int]:
        """Bounds of the size of a subexpression's value, and of the total of all that it reads and makes."""
        self.left -= 1
        if self.left < 0:
            raise _TooComplexError
        found = _message(raw)
        if CONSTANT in found:
            return _constant(_message(found[CONSTANT][0])), 0
        if NAME in found:
            return scope.get(_text(_message(found[NAME][0])[1][0]), 1), 0
        if FIELD in found:  # a field of the operand
            return self.of(_message(found[FIELD][0])[1][0], scope, depth)
        if CALL in found:
            return self._call(_message(found[CALL][0]), scope, depth)
        if MACRO in found:
            return self._macro(_message(found[MACRO][0]), scope, depth)
        parts = [self.of(each, scope, depth) for each in _items(found)]
        size = 1 + len(parts) + sum(part for part, _ in parts)
        return size, ITEM * (1 + len(parts)) + sum(total for _, total in parts)

    def _call(self, found: Message, scope: Scope, depth: int) -> tuple[int, int]:
        name = _text(found[2][0])
        parts = [self.of(each, scope, depth) for each in (*found[1], *found[3])]
        sizes = [size for size, _ in parts]
        total, given = sum(total for _, total in parts), sum(sizes)
        if name in _SMALL:
            return 1, total + given
        if name in _PART:
            return sizes[0], total
        if name == "_?_:_":
            return sum(sizes[1:]), total
        if name == "matches":
            return 1, total + math.prod(1 + each for each in sizes)
        if name in _ITEMS:
            return _ITEMS[name] * given, total + ITEM * _ITEMS[name] * given
        size = self._text_size(name, sizes)
        return size, total + given + CHARACTER * size

    def _text_size(self, name: str, sizes: Sequence[int]) -> int:
        match name:
            case "replace":
                return (1 + sizes[0]) * (1 + sizes[2])
            case "join":
                return sizes[0] * (1 + sum(sizes[1:]))
            case "format":
                return sizes[0] * NUMBER + sizes[-1] * TEXT
            case "string" | "bytes" | "strings.quote":
                return 6 * sum(sizes) + TEXT
            case "scores":
                return self.document
            case _:
                return sum(sizes) + TEXT

    def _macro(self, found: Message, scope: Scope, depth: int) -> tuple[int, int]:
        """All items together have the size of the list, and what they cost is convex: f(R) + number * f(0) at most."""
        if depth >= MOST_NESTED:
            raise _TooComplexError
        names = [_text(name) for number in (1, 8) for name in found[number]]
        accumulator = _text(found[3][0])
        over, total = self.of(found[2][0], scope, depth) if found[2] else (0, 0)
        size, more = self.of(found[4][0], scope, depth)
        total += more
        for times, of_all in ((1, over), (over, 0)):
            inside = {**scope, **dict.fromkeys(names, of_all), accumulator: 0}
            _, condition = self.of(found[5][0], inside, depth + 1)
            grown, step = self.of(found[6][0], inside, depth + 1)
            total += times * (condition + step)
            size += times * grown
        result, more = self.of(found[7][0], {**scope, accumulator: size}, depth)
        return result, total + more


def _constant(found: Message) -> int:
    return max(1, *(len(each) for number in (6, 7) for each in found[number]), 1)


def _items(found: Message) -> list[bytes]:
    """Of a list, or keys and values of a map."""
    if LIST in found:
        return list(_message(found[LIST][0])[1])
    entries = [entry for each in found[MAP] for entry in _message(each)[2]]
    return [part for entry in map(_message, entries) for number in (3, 4) for part in entry[number]]


# ---------------------------------------------------------------- protobuf


def _message(raw: bytes) -> Message:
    """Fields by number. The whole schema of ``cel.expr`` would be more than what is read of it."""
    found: defaultdict[int, list[Any]] = defaultdict(list)
    place = 0
    value: Any
    while place < len(raw):
        tag, place = _varint(raw, place)
        match tag & 7:
            case 0:
                value, place = _varint(raw, place)
            case 2:
                length, place = _varint(raw, place)
                value, place = raw[place : place + length], place + length
            case kind:
                length = 8 if kind == _FIXED64 else 4
                value, place = raw[place : place + length], place + length
        found[tag >> 3].append(value)
    return found


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the last byte has no eighth bit
            return value, place


def _text(raw: bytes) -> str:
    return raw.decode()
