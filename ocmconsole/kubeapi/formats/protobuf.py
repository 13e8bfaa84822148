"""Protobuf request bodies (W1, W2): typed Go clients send nothing else for built-in kinds.

A kind is a table of numbered fields; this module knows the encoding and no kind. Whatever the bytes are, the outcome is
a document or a 400. Nesting is bounded by the tables, which are finite trees; JSON inside a body has its own bound.
Called by ``negotiation``; the tables are in ``core.protobuf_fields``. Answers are always JSON, so nothing is encoded
here.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from ocmconsole.kubeapi.errors import BadRequest, Doc, unknown_format
from ocmconsole.kubeapi.formats import documents

Scalar = Literal["string", "bytes", "bool", "int32", "int64", "time", "micro-time", "json", "strings"]

MAGIC = b"k8s\0"

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5  # wire types of the encoding
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10  # bytes of 64 bits, seven in each
_UNSIGNED = 1 << 64  # ten bytes carry 70 bits, of which 64 count
_SECOND = 10**9  # nanoseconds
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - all times of the wire are UTC


@dataclass(frozen=True, slots=True)
class Field:
    """One numbered field. ``type`` is a scalar, or the table of a nested message.

    ``json`` is a message around JSON text (FieldsV1, RawExtension); ``strings`` a message around a list of strings
    (ExtraValue). ``map`` has string keys. ``pointer``: presence matters, so a zero value is kept.
    """

    name: str
    type: Scalar | Message = "string"
    repeated: bool = False
    map: bool = False
    pointer: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    name: str
    fields: Mapping[int, Field]


def decode(body: bytes, find: Callable[[str, str], Message | None]) -> Doc:
    """The document in a body. ``find`` gets apiVersion and kind of the envelope and answers with the table, if any."""
    if not body:
        raise BadRequest("empty data")
    if not body.startswith(MAGIC):
        raise BadRequest("the body is not Kubernetes protobuf: it does not begin with the bytes 6b 38 73 00")
    if len(body) == len(MAGIC):
        raise BadRequest("empty body")
    type_meta: Doc = {}
    raw = b""
    for number, _, value in _items(body[len(MAGIC) :]):
        if number == 1:
            type_meta = decode_message(_bytes(value, "typeMeta"), _TYPE_META)
        elif number == 2:  # noqa: PLR2004 - absent means an empty message
            raw = _bytes(value, "raw")
    message = find(type_meta.get("apiVersion", ""), type_meta.get("kind", ""))
    if message is None:
        raise unknown_format()
    return {**type_meta, **decode_message(raw, message)}


def decode_message(raw: bytes, message: Message) -> Doc:
    """The JSON form of one message. Unknown fields are skipped, malformed bytes are a BadRequest."""
    doc: Doc = {}
    _fill(doc, raw, message)
    return doc


def _fill(doc: Doc, raw: bytes, message: Message) -> None:
    for number, wire, value in _items(raw):
        field = message.fields.get(number)
        if field is None:
            continue
        if field.map:
            _put_entry(doc.setdefault(field.name, {}), value, field)
        elif field.repeated:
            doc.setdefault(field.name, []).extend(_elements(wire, value, field))
        else:
            _put(doc, wire, value, field)


def _put(doc: Doc, wire: int, value: Any, field: Field) -> None:
    """The last of several scalars counts, several messages are one.

    Go sends every field that is no pointer. Empty scalars go, or ``namespace: ""`` would be a wrong namespace; empty
    messages stay, as in Go's JSON, where a required ``spec`` may be ``{}``.
    """
    if isinstance(field.type, Message):
        _fill(doc.setdefault(field.name, {}), _bytes(value, field.name), field.type)
        return
    read = _scalar(wire, value, field)
    if read or (field.pointer and read is not None):
        doc[field.name] = read
    else:
        doc.pop(field.name, None)


def _put_entry(entries: Doc, value: Any, field: Field) -> None:
    """A map is a list of messages ``{1: key, 2: value}``; a zero value is a value."""
    key, content = "", _zero(field)
    for number, wire, part in _items(_bytes(value, field.name)):
        if number == 1:
            key = _text(_bytes(part, field.name))
        elif number == 2:  # noqa: PLR2004 - the value's field number
            content = _element(wire, part, field)
    entries[key] = content


def _zero(field: Field) -> Any:
    if isinstance(field.type, Message):
        return {}
    return {"strings": [], "bool": False, "int32": 0, "int64": 0}.get(field.type, "")


def _elements(wire: int, value: Any, field: Field) -> list[Any]:
    if wire == _LENGTH and field.type in {"bool", "int32", "int64"}:
        return [_scalar(_VARINT, number, field) for number in _packed(value)]
    return [_element(wire, value, field)]


def _element(wire: int, value: Any, field: Field) -> Any:
    if isinstance(field.type, Message):
        return decode_message(_bytes(value, field.name), field.type)
    return _scalar(wire, value, field)


def _scalar(wire: int, value: Any, field: Field) -> Any:
    assert not isinstance(field.type, Message)
    wanted, read = _SCALARS[field.type]
    if wire != wanted:
        raise _malformed(f"field {field.name} has wire type {wire}")
    return read(value)


# Scalars


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _malformed("a string is not UTF-8") from error


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _signed(bits: int) -> Callable[[int], int]:
    """Negative numbers come as the two's complement of 64 bits, whatever their type."""
    limit, mask = 1 << (bits - 1), (1 << bits) - 1

    def read(value: int) -> int:
        value &= mask
        return value - mask - 1 if value >= limit else value

    return read


_int32, _int64 = _signed(32), _signed(64)


def _moment(raw: bytes) -> datetime | None:
    """No bytes at all is Go's zero time, null in JSON, and not 1970."""
    if not raw:
        return None
    seconds = nanos = 0
    for number, wire, value in _items(raw):
        if number in {1, 2} and wire != _VARINT:
            raise _malformed("a time has a field that is no number")
        if number == 1:
            seconds = _int64(value)
        elif number == 2:  # noqa: PLR2004 - its field number
            nanos = _int32(value)
    if not 0 <= nanos < _SECOND:
        raise _malformed("a time has nanoseconds out of range")
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise _malformed("a time is out of range") from error


def _time(raw: bytes) -> str | None:
    moment = _moment(raw)
    return f"{moment.isoformat(timespec='seconds')}Z" if moment else None


def _micro_time(raw: bytes) -> str | None:
    """W29: a MicroTime has exactly six decimals."""
    moment = _moment(raw)
    return f"{moment.isoformat(timespec='microseconds')}Z" if moment else None


def _json(raw: bytes) -> Any:
    text = next((value for number, wire, value in _items(raw) if number == 1 and wire == _LENGTH), b"")
    return documents.read_json(text)[0] if text else None


def _strings(raw: bytes) -> list[str]:
    return [_text(value) for number, wire, value in _items(raw) if number == 1 and wire == _LENGTH]


_SCALARS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "string": (_LENGTH, _text),
    "bytes": (_LENGTH, _base64),
    "bool": (_VARINT, bool),
    "int32": (_VARINT, _int32),
    "int64": (_VARINT, _int64),
    "time": (_LENGTH, _time),
    "micro-time": (_LENGTH, _micro_time),
    "json": (_LENGTH, _json),
    "strings": (_LENGTH, _strings),
}


# The encoding


def _items(raw: bytes) -> Iterator[tuple[int, int, Any]]:
    """Field number, wire type and value: bytes where a length stands before them, else a number."""
    at, end = 0, len(raw)
    while at < end:
        tag, at = _varint(raw, at)
        wire = tag & 7
        if wire == _VARINT:
            value, at = _varint(raw, at)
            yield tag >> 3, wire, value
            continue
        if wire == _LENGTH:
            size, at = _varint(raw, at)
        elif wire in _WIDTHS:
            size = _WIDTHS[wire]
        else:
            raise _malformed(f"wire type {wire} is unknown")
        if size > end - at:
            raise _malformed("the message is cut short")
        payload = raw[at : at + size]
        yield tag >> 3, wire, payload if wire == _LENGTH else int.from_bytes(payload, "little")
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in raw[at : at + _LONGEST_VARINT]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says more follows
            return value % _UNSIGNED, at
        shift += 7
    raise _malformed("a number is cut short or too long")


def _packed(raw: bytes) -> Iterator[int]:
    at = 0
    while at < len(raw):
        value, at = _varint(raw, at)
        yield value


def _bytes(value: Any, name: str) -> bytes:
    if not isinstance(value, bytes):
        raise _malformed(f"field {name} is a number")
    return value


def _malformed(what: str) -> BadRequest:
    return BadRequest(f"the body is malformed protobuf: {what}")


_TYPE_META = Message("TypeMeta", {1: Field("apiVersion"), 2: Field("kind")})
