"""Forms of names and labels, with the texts in which the reference API server refuses them.

Each function yields what is wrong and nothing when the text is fine. Called by ``metadata``, and by rules that give a
name to something themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_MAX_LABEL = 63  # characters: RFC 1123
_MAX_SUBDOMAIN = 253  # characters: RFC 1123

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"


def _form(text: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {listed}regex used for validation is '{pattern}')"


_ENDS = "and must start and end with an alphanumeric character"
_KEY_PARTS = _form(
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}", _KEY, "MyName", "my.name", "123-abc"
)
_VALUE_FORM = _form(
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_LABEL_FORM = _form(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_FORM = _form(
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}",
    _SUBDOMAIN,
    "example.com",
)

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch


def _too_long(text: str, limit: int) -> Iterator[str]:
    if len(text) > limit:
        yield f"must be no more than {limit} bytes"


def label_flaws(name: str) -> Iterator[str]:
    """Why a text is no RFC 1123 label, which a namespace must be."""
    yield from _too_long(name, _MAX_LABEL)
    if not _is_label(name):
        yield "must not contain dots" if _is_subdomain(name) else _LABEL_FORM


def subdomain_flaws(name: str) -> Iterator[str]:
    """Why a text is no RFC 1123 subdomain, which most names must be."""
    yield from _too_long(name, _MAX_SUBDOMAIN)
    if not _is_subdomain(name):
        yield _SUBDOMAIN_FORM


def segment_flaws(name: str) -> Iterator[str]:
    """Why a text cannot be one part of a URL path, which RBAC names must be; longer ones no column holds."""
    yield from _too_long(name, _MAX_SUBDOMAIN)
    if name in {".", ".."}:
        yield f"may not be '{name}'"
        return
    for part in ("/", "%"):
        if part in name:
            yield f"may not contain '{part}'"


def key_flaws(key: str) -> Iterator[str]:
    """Why a text is no label key: an optional domain, a slash, a name."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        yield f"a valid label key {_KEY_PARTS} {example}"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {flaw}" for flaw in subdomain_flaws(prefix))
    if not name:
        yield "name part must be non-empty"
    yield from (f"name part {flaw}" for flaw in _too_long(name, _MAX_LABEL))
    if not _is_key(name):
        yield f"name part {_KEY_PARTS}"


def value_flaws(value: str) -> Iterator[str]:
    """Why a text is no label value."""
    yield from _too_long(value, _MAX_LABEL)
    if not _is_value(value):
        yield _VALUE_FORM
