"""Label selectors and field selectors: parsing, checking, matching (W10, T3, T6).

Invariant: a selector object is valid and immutable, so that matching cannot fail. Callers are the list and watch verbs
(text from the query), rules and reconcilers (LabelSelector documents), and the store, which reads ``requirements`` and
``terms`` to narrow its SQL. The texts of errors are those of a Kubernetes API server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from ocmconsole.kubeapi.errors import BadRequest, Doc
from ocmconsole.kubeapi.schema.names import key_flaws, value_flaws
from ocmconsole.kubeapi.schema.values import quoted


class Operator(StrEnum):
    EQUALS = "="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    NOT_EXISTS = "!"
    GREATER = "gt"
    LESS = "lt"


_SET_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.NOT_EXISTS,
}
_BINARY = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_INT64 = 2**63  # one more than the largest integer that Kubernetes compares


def _integer(text: str) -> int | None:
    number = int(text) if _INTEGER.fullmatch(text) else _INT64
    return number if -_INT64 <= number < _INT64 else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label; ``values`` is sorted and without repetitions."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    @classmethod
    def checked(cls, key: str, operator: Operator, values: Iterable[str] = ()) -> Requirement:
        """Raises ValueError unless key, number of values and values are as Kubernetes wants them."""
        if flaws := list(key_flaws(key)):
            _refuse("key", key, flaws)
        requirement = cls(key, operator, tuple(sorted(set(values))))
        requirement._check_values()
        return requirement

    def _check_values(self) -> None:
        match self.operator:
            case Operator.IN | Operator.NOT_IN if not self.values:
                _refuse("values", None, ["for 'in', 'notin' operators, values set can't be empty"])
            case Operator.EXISTS | Operator.NOT_EXISTS if self.values:
                _refuse("values", list(self.values), ["values set must be empty for exists and does not exist"])
            case Operator.GREATER | Operator.LESS if _integer(self.values[0]) is None:
                _refuse("values[0]", self.values[0], ["for 'Gt', 'Lt' operators, the value must be an integer"])
        for index, value in enumerate(self.values):
            if flaws := list(value_flaws(value)):
                _refuse(f"values[{index}][{self.key}]", value, flaws)

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.EQUALS | Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_EQUALS | Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.NOT_EXISTS:
                return value is None
            case _:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        number, bound = _integer(value), _integer(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GREATER else number < bound

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.NOT_EXISTS:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(self.values) or ','})"
            case Operator.GREATER:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS:
                return f"{self.key}<{self.values[0]}"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"


def _wrong(text: str) -> NoReturn:
    raise ValueError(text)


def _refuse(path: str, value: object, flaws: list[str]) -> NoReturn:
    _wrong(f"{path}: Invalid value: {quoted(value)}: {'; '.join(flaws)}")


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All ``requirements`` must hold."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """The grammar of ``?labelSelector=``."""
        try:
            return cls(tuple(_LabelParser(text).requirements()))
        except ValueError as error:
            raise BadRequest(str(error)) from None

    @classmethod
    def from_wire(cls, doc: Doc | None) -> LabelSelector:
        """A metav1.LabelSelector: none selects nothing, an empty one everything (T6).

        Raises ValueError: schemas let a bad operator pass, so callers have to isolate it (K24: other objects go on).
        """
        if doc is None:
            return NOTHING
        if not isinstance(doc, dict):
            _wrong("a label selector must be an object")
        exact = _typed(doc, "matchLabels", dict)
        requirements = [Requirement.checked(key, Operator.IN, [_text(value)]) for key, value in sorted(exact.items())]
        requirements += [_from_expression(item) for item in _typed(doc, "matchExpressions", list)]
        return cls(tuple(requirements))

    @property
    def is_empty(self) -> bool:
        """Selects everything."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = LabelSelector()
# A requirement that cannot hold, and not a flag: callers that read the requirements need no special case.
NOTHING = LabelSelector((Requirement("", Operator.IN, ()),))


def _from_expression(item: Any) -> Requirement:
    if not isinstance(item, dict):
        _wrong("matchExpressions: every element must be an object")
    operator = _SET_OPERATORS.get(str(item.get("operator", "")))
    if operator is None:
        raise ValueError(f"{quoted(item.get('operator', ''))} is not a valid label selector operator")
    return Requirement.checked(_text(item.get("key", "")), operator, map(_text, _typed(item, "values", list)))


def _typed(doc: Doc, field: str, kind: type[Any]) -> Any:
    value = doc.get(field)
    if value is not None and not isinstance(value, kind):
        _wrong(f"{field} must be {'an object' if kind is dict else 'a list'}")
    return value or kind()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        _wrong(f"{quoted(value)} is not a string")
    return value


_WORD = re.compile(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_SYMBOLS = frozenset(("==", "!=", *"=!(),<>"))
_NO_START = _SYMBOLS - {"!"}


class _LabelParser:
    """Recursive descent over words; the empty word is the end of the text. Raises ValueError."""

    def __init__(self, text: str) -> None:
        self._words = _WORD.findall(text)
        self._position = 0

    def _peek(self) -> str:
        return self._words[self._position] if self._position < len(self._words) else ""

    def _take(self) -> str:
        word = self._peek()
        self._position += 1
        return word

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if self._peek() in _NO_START:
            _unexpected(self._peek(), "!, identifier, or 'end of string'")
        while self._peek():
            try:
                found.append(self._requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            if not (word := self._take()):
                break
            if word != ",":
                _unexpected(word, "',' or 'end of string'")
            if not self._peek() or self._peek() in _NO_START:
                _unexpected(self._peek(), "identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        key = self._take()
        absent = key == "!"
        if absent:
            key = self._take()
        if not key or key in _SYMBOLS:
            _unexpected(key, "identifier")
        if absent or self._peek() in ("", ","):
            return Requirement.checked(key, Operator.NOT_EXISTS if absent else Operator.EXISTS)
        if flaws := list(key_flaws(key)):
            _refuse("key", key, flaws)
        word = self._take()
        if word not in _BINARY:
            _unexpected(word, "in, notin, =, ==, !=, gt, lt")
        operator = _BINARY[word]
        values = self._values() if operator in (Operator.IN, Operator.NOT_IN) else [self._value()]
        return Requirement.checked(key, operator, values)

    def _value(self) -> str:
        """An identifier or, before a comma or the end, the empty string."""
        if self._peek() in ("", ","):
            return ""
        word = self._take()
        if word in _SYMBOLS:
            _unexpected(word, "identifier")
        return word

    def _values(self) -> list[str]:
        if (word := self._take()) != "(":
            raise ValueError(f"found '{word}' expected: '('")
        if self._peek() == ")":  # `()` holds the empty value, as in the reference
            self._take()
            return [""]
        values = []
        while True:
            values.append("" if self._peek() in (",", ")") else self._take())
            if not values[-1] and self._peek() not in (",", ")"):
                _unexpected("", "',', ')' or identifier")
            if values[-1] in _SYMBOLS:
                _unexpected(values[-1], "',', or identifier")
            word = self._take()
            if word == ")":
                return values
            if word != ",":
                _unexpected(word, "',' or ')'")


def _unexpected(word: str, expected: str) -> NoReturn:
    _wrong(f"found '{word}', expected: {expected}")


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """``operator`` is ``=`` or ``!=``."""

    label: str
    operator: str
    value: str

    def __str__(self) -> str:
        escaped = _ESCAPED.sub(r"\\\g<0>", self.value)
        return f"{self.label}{self.operator}{escaped}"


_ESCAPED = re.compile(r"[\\,=]")
_TERM_END = re.compile(r"((?:\\.|[^\\,])*\\?)(?:,|\Z)", re.DOTALL)
_COMPARISON = re.compile(r"!=|==|=")


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All ``terms`` must hold. A field that an object does not have counts as the empty string."""

    terms: tuple[FieldTerm, ...] = ()

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        """The grammar of ``?fieldSelector=``."""
        terms = [_field_term(text, part) for part in _TERM_END.findall(text) if part]
        # `=` alone is accepted and says nothing, as in the reference.
        return cls(tuple(term for term in terms if term.label or term.value))

    @property
    def is_empty(self) -> bool:
        return not self.terms

    def pinned(self, label: str) -> str | None:
        """The one value that the selector allows for ``label`` (W13)."""
        values = {term.value for term in self.terms if term.label == label and term.operator == "="}
        return values.pop() if len(values) == 1 else None

    def matches(self, values: Mapping[str, str]) -> bool:
        return all((values.get(term.label, "") == term.value) is (term.operator == "=") for term in self.terms)

    def check_supported(self, labels: Collection[str]) -> None:
        for term in self.terms:
            if term.label not in labels:
                raise BadRequest(f"field label not supported: {term.label}")

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


def _field_term(text: str, part: str) -> FieldTerm:
    comparison = _COMPARISON.search(part)
    if comparison is None:
        raise BadRequest(f"invalid selector: '{text}'; can't understand '{part}'")
    value = _unescaped(part[comparison.end() :])
    return FieldTerm(part[: comparison.start()], "!=" if comparison[0] == "!=" else "=", value)


def _unescaped(text: str) -> str:
    if "\\" not in text and "=" not in text:
        return text
    for escape in re.findall(r"\\.?", text, re.DOTALL):
        if escape[1:] not in ("\\", ",", "="):
            raise BadRequest(f"invalid field selector: invalid escape sequence: {escape}")
    if "=" in re.sub(r"\\.", "", text, flags=re.DOTALL):
        raise BadRequest("invalid field selector: unescaped character in value: =")
    return re.sub(r"\\(.)", r"\1", text)
