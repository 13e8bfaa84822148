"""Protobuf bodies as Go's typed clients write them, by field number; knows nothing of any table.

A message is made of (number, value): text, bytes, whole numbers, truth, or bytes of another message. Fields may repeat.
"""

from __future__ import annotations

MAGIC = b"k8s\0"
Value = str | bytes | int | bool


def message(*fields: tuple[int, Value]) -> bytes:
    return b"".join(_field(number, value) for number, value in fields)


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + message((1, message((1, api_version), (2, kind))), (2, raw), (3, ""), (4, ""))


def metadata(name: str, **fields: str) -> bytes:
    """Go writes all that is no pointer: empty texts, and a creationTimestamp of no length that means none."""
    numbers = {"generateName": 2, "namespace": 3, "selfLink": 4, "uid": 5, "resourceVersion": 6}
    texts = [(number, fields.get(each, "")) for each, number in numbers.items()]
    return message((1, name), *texts, (7, 0), (8, b""))


def labels(**pairs: str) -> list[tuple[int, bytes]]:
    return [(11, message((1, key), (2, value))) for key, value in pairs.items()]


def moment(seconds: int, nanos: int = 0) -> bytes:
    return message((1, seconds), (2, nanos))


def _field(number: int, value: Value) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    payload = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
