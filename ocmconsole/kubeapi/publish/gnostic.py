"""OpenAPI v2 as protobuf, the only form in which kubectl reads it (W8, W185).

Writes the subset of gnostic's ``openapi.v2.Document`` that clients look at; the input is the same document as JSON.
Extensions are YAML texts there, and JSON is YAML. Called by ``openapi``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from ocmconsole.kubeapi.errors import Doc

_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def encode(document: Doc) -> bytes:
    """The bytes of an ``openapi.v2.Document``."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(_named(2, path, _path_item(item)) for path, item in document["paths"].items())
    definitions = b"".join(_named(1, name, _schema(node)) for name, node in document["definitions"].items())
    return _text(1, document["swagger"]) + _bytes(2, info) + _bytes(8, paths) + _bytes(9, definitions)


def _path_item(item: Doc) -> bytes:
    return b"".join(_bytes(_METHODS[method], _operation(item[method])) for method in item if method in _METHODS)


def _operation(operation: Doc) -> bytes:
    answers = b"".join(
        _named(1, code, _bytes(1, _text(1, response["description"])))
        for code, response in operation["responses"].items()
    )
    return b"".join(
        (
            _text(3, operation["description"]),
            _text(5, operation["operationId"]),
            _texts(6, operation.get("produces", ())),
            _texts(7, operation.get("consumes", ())),
            *(_parameter(parameter) for parameter in operation["parameters"] if parameter["in"] == "query"),
            _bytes(9, answers),
            _extensions(13, operation),
        )
    )


def _parameter(parameter: Doc) -> bytes:
    """ParametersItem of Parameter of NonBodyParameter of QueryParameterSubSchema."""
    inner = (
        _text(2, "query")
        + _text(3, parameter["description"])
        + _text(4, parameter["name"])
        + _text(6, parameter["type"])
    )
    return _bytes(8, _bytes(1, _bytes(2, _bytes(3, inner))))


def _schema(node: Doc) -> bytes:
    more = node.get("additionalProperties")
    properties = node.get("properties", {}).items()
    parts = [
        _text(1, node.get("$ref", "")),
        _text(2, node.get("format", "")),
        _text(4, node.get("description", "")),
        _texts(19, node.get("required", ())),
    ]
    if more is not None:
        parts.append(_bytes(21, _bytes(1, _schema(more)) if isinstance(more, dict) else b"\x10" + bytes([more])))
    if "type" in node:
        parts.append(_bytes(22, _text(1, node["type"])))
    if "items" in node:
        parts.append(_bytes(23, _bytes(1, _schema(node["items"]))))
    if properties:
        parts.append(_bytes(25, b"".join(_named(1, name, _schema(sub)) for name, sub in properties)))
    return b"".join((*parts, _extensions(31, node)))


def _extensions(number: int, node: Doc) -> bytes:
    return b"".join(
        _named(number, key, _bytes(2, orjson.dumps(value))) for key, value in node.items() if key.startswith("x-")
    )


def _named(number: int, name: str, message: bytes) -> bytes:
    return _bytes(number, _text(1, name) + _bytes(2, message))


def _texts(number: int, values: Iterable[Any]) -> bytes:
    return b"".join(_text(number, value) for value in values)


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode()) if value else b""


def _bytes(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
