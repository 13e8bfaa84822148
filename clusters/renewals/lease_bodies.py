"""The bytes of a Lease as Go's clients write them, read by hand: a third of what ``formats.protobuf`` takes.

Invariant: the document is the one that ``formats.protobuf.decode`` makes of these bytes, keys in the same order.
Whatever is not written as Go writes it (another order inside of a map or a time, a field twice, a number of more bytes
than it needs, fields that no agent sends) is None here, and read there. Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

API_VERSION, KIND = "coordination.k8s.io/v1", "Lease"
_TYPE_META = bytes([0x0A, len(API_VERSION)]) + API_VERSION.encode() + bytes([0x12, len(KIND)]) + KIND.encode()
# The magic number, the type, and the tag of the object; behind it no encoding of the content and no media type.
_BEGINNING = b"k8s\0" + bytes([0x0A, len(_TYPE_META)]) + _TYPE_META + b"\x12"
_ENDING = b"\x1a\x00\x22\x00"
# Tags of length-delimited fields (number << 3 | 2) that hold text.
_METADATA_TEXTS = {
    0x0A: "name",
    0x12: "generateName",
    0x1A: "namespace",
    0x22: "selfLink",
    0x2A: "uid",
    0x32: "resourceVersion",
}
_ENTRY_TEXTS = {0x0A: "manager", 0x12: "operation", 0x1A: "apiVersion", 0x32: "fieldsType", 0x42: "subresource"}
_MAPS = {0x5A: "labels", 0x62: "annotations"}
_GENERATION, _CREATION, _MANAGED = b"\x38\x00", 0x42, 0x8A  # the last is the first of two bytes, before 0x01
_ENTRY_TIME, _ENTRY_FIELDS = 0x22, 0x3A  # likewise tags of length-delimited fields
_HOLDER, _TIMES = 0x0A, {0x1A: "acquireTime", 0x22: "renewTime"}
_NUMBERS = {0x10: "leaseDurationSeconds", 0x28: "leaseTransitions"}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - all times of the wire are UTC
_LAST_SECOND = 253_402_300_799  # of the year 9999
_LARGEST_INT32 = 2**31 - 1  # what the schema takes; a larger one is negative in 32 bits
_SECOND = 10**9  # nanoseconds
_DEEPEST = 100  # braces in the text of a set of fields


class _Unusual(Exception):
    """To be read by the general decoder."""


def decode(body: bytes) -> Doc | None:
    if not body.startswith(_BEGINNING) or not body.endswith(_ENDING):
        return None
    end = len(body) - len(_ENDING)
    try:
        at, stop = _length(body, len(_BEGINNING))
        if stop != end or body[at] != 0x0A:  # noqa: PLR2004 - the tag of metadata
            return None
        at, stop = _length(body, at + 1)
        metadata = _metadata(body, at, stop)
        if body[stop] != 0x12:  # noqa: PLR2004 - the tag of spec
            return None
        at, stop = _length(body, stop + 1)
        if stop != end:
            return None
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": _spec(body, at, stop)}
    except (_Unusual, IndexError, UnicodeDecodeError, orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None


def _length(raw: bytes, at: int) -> tuple[int, int]:
    """Beginning and end of what a length of one or two bytes stands before."""
    size = raw[at]
    if size < 0x80:  # noqa: PLR2004 - the bit that says more follows
        return at + 1, at + 1 + size
    more = raw[at + 1]
    if not 0 < more < 0x80:  # noqa: PLR2004 - likewise
        raise _Unusual
    return at + 2, at + 2 + (size & 0x7F | more << 7)


def _number(raw: bytes, at: int) -> tuple[int, int]:
    """A varint of at most five bytes, and where it ends."""
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says more follows
            return value, at
        shift += 7
        if shift > 28:  # noqa: PLR2004 - of five bytes
            raise _Unusual


def _metadata(raw: bytes, at: int, end: int) -> Doc:
    doc: Doc = {}
    while at < end:
        tag = raw[at]
        if tag == _MANAGED:
            if raw[at + 1] != 1:
                raise _Unusual
            at += 1
        elif raw[at : at + 2] == _GENERATION:
            at += 2
            continue
        at, stop = _length(raw, at + 1)
        if stop > end:
            raise _Unusual
        if (name := _METADATA_TEXTS.get(tag)) is not None:
            _put_text(doc, name, raw[at:stop])
        elif tag == _MANAGED:
            doc.setdefault("managedFields", []).append(_entry(raw, at, stop))
        elif (name := _MAPS.get(tag)) is not None:
            key, value = _pair(raw, at, stop)
            doc.setdefault(name, {})[key] = value
        elif tag == _CREATION and "creationTimestamp" not in doc:
            doc["creationTimestamp"] = _second(*_moment(raw, at, stop))
        else:
            raise _Unusual
        at = stop
    return doc


def _put_text(doc: Doc, name: str, text: bytes) -> None:
    """Go writes empty texts too, which are no values."""
    if name in doc:
        raise _Unusual
    if text:
        doc[name] = text.decode()


def _pair(raw: bytes, at: int, end: int) -> tuple[str, str]:
    """One of a map: key, then value."""
    if raw[at] != 0x0A:  # noqa: PLR2004 - the tag of the key
        raise _Unusual
    at, middle = _length(raw, at + 1)
    if raw[middle] != 0x12:  # noqa: PLR2004 - the tag of the value
        raise _Unusual
    begin, stop = _length(raw, middle + 1)
    if stop != end:
        raise _Unusual
    return raw[at:middle].decode(), raw[begin:stop].decode()


def _entry(raw: bytes, at: int, end: int) -> Doc:
    """Of managedFields."""
    doc: Doc = {}
    while at < end:
        tag = raw[at]
        at, stop = _length(raw, at + 1)
        if stop > end:
            raise _Unusual
        if (name := _ENTRY_TEXTS.get(tag)) is not None:
            _put_text(doc, name, raw[at:stop])
        elif tag == _ENTRY_TIME and "time" not in doc:
            doc["time"] = _second(*_moment(raw, at, stop))
        elif tag == _ENTRY_FIELDS and "fieldsV1" not in doc and raw[at] == 0x0A:  # noqa: PLR2004 - the tag of its text
            at, text_end = _length(raw, at + 1)
            if text_end != stop:
                raise _Unusual
            doc["fieldsV1"] = _fields(raw[at:stop])
        else:
            raise _Unusual
        at = stop
    return doc


@lru_cache(maxsize=256)
def _fields(text: bytes) -> Doc:
    """A set of fields, the same for many leases: nobody may change it. Written again it is what came: no key twice."""
    found: Any = orjson.loads(text)
    if not isinstance(found, dict) or not found or text.count(b"{") > _DEEPEST or orjson.dumps(found) != text:
        raise _Unusual
    return found


def _spec(raw: bytes, at: int, end: int) -> Doc:
    doc: Doc = {}
    while at < end:
        tag = raw[at]
        name = _NUMBERS.get(tag) or _TIMES.get(tag) or ("holderIdentity" if tag == _HOLDER else "")
        if not name or name in doc:
            raise _Unusual
        if tag in _NUMBERS:
            doc[name], at = _number(raw, at + 1)
            if doc[name] > _LARGEST_INT32:
                raise _Unusual
            continue
        at, stop = _length(raw, at + 1)
        if tag == _HOLDER:
            doc[name] = raw[at:stop].decode()
        else:
            seconds, nanos = _moment(raw, at, stop)
            moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
            doc[name] = f"{moment.isoformat(timespec='microseconds')}Z"
        at = stop
    if at != end:
        raise _Unusual
    return doc


@lru_cache(maxsize=4_096)
def _second(seconds: int, nanos: int) -> str:  # noqa: ARG001 - which this form leaves out
    """The same for all leases that were renewed in a second."""
    return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat(timespec='seconds')}Z"


def _moment(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """Seconds, then nanoseconds, both of which Go writes always."""
    if raw[at] != 0x08:  # noqa: PLR2004 - the tag of the seconds
        raise _Unusual
    seconds, at = _number(raw, at + 1)
    if raw[at] != 0x10:  # noqa: PLR2004 - the tag of the nanoseconds
        raise _Unusual
    nanos, at = _number(raw, at + 1)
    if at != end or nanos >= _SECOND or seconds > _LAST_SECOND:
        raise _Unusual
    return seconds, nanos
