"""What a Go client would send: documents encoded by the field tables, for tests only.

Like Go it writes every field that is no pointer, also when the document has none: empty strings, zeros, empty messages.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import orjson

from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.formats.protobuf import MAGIC, Field, Message


def encode(doc: Doc, message: Message, api_version: str, kind: str) -> bytes:
    """A request body."""
    type_meta = _text(1, api_version) + _text(2, kind)
    return MAGIC + chunk(1, type_meta) + chunk(2, encode_message(doc, message)) + _text(3, "") + _text(4, "")


def encode_message(doc: Doc, message: Message) -> bytes:
    return b"".join(part for number, field in message.fields.items() for part in _field(number, field, doc))


def chunk(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(number: int, text: str) -> bytes:
    return chunk(number, text.encode())


def _field(number: int, field: Field, doc: Doc) -> Iterable[bytes]:
    value = doc.get(field.name)
    if field.map:
        return [chunk(number, _text(1, key) + _value(2, field, item)) for key, item in (value or {}).items()]
    if field.repeated:
        return [_value(number, field, item) for item in value or ()]
    if value is None and field.pointer:
        return []
    return [_value(number, field, value)]


def _value(number: int, field: Field, value: Any) -> bytes:
    if isinstance(field.type, Message):
        return chunk(number, encode_message(value or {}, field.type))
    if field.type in {"bool", "int32", "int64"}:
        return varint(number << 3) + varint(int(value or 0))
    return chunk(number, _PAYLOADS[field.type](value))


def _moment(value: str | None) -> bytes:
    if value is None:
        return b""
    gone = datetime.fromisoformat(value) - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = gone.days * 86400 + gone.seconds
    return varint(1 << 3) + varint(seconds) + varint(2 << 3) + varint(gone.microseconds * 1000)


_PAYLOADS: dict[str, Callable[[Any], bytes]] = {
    "string": lambda value: (value or "").encode(),
    "bytes": lambda value: base64.b64decode(value or ""),
    "time": _moment,
    "micro-time": _moment,
    "json": lambda value: chunk(1, orjson.dumps(value)),
    "strings": lambda value: b"".join(_text(1, item) for item in value or ()),
}
