"""The words in which schemas are written, so that a ``schemas.py`` reads as a table of fields and their meaning.

Each function gives one node of a structural schema (``kubeapi.schema``). Used by every app's ``schemas.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ocmconsole.kubeapi.errors import Doc

LABEL_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
QUALIFIED_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


def text(description: str, **more: Any) -> Doc:
    return {"type": "string", "description": description, **more}


def flag(description: str, **more: Any) -> Doc:
    return {"type": "boolean", "description": description, **more}


def int32(description: str, **more: Any) -> Doc:
    return {"type": "integer", "format": "int32", "description": description, **more}


def int64(description: str, **more: Any) -> Doc:
    return {"type": "integer", "format": "int64", "description": description, **more}


def moment(description: str, **more: Any) -> Doc:
    """A time with the precision of a second."""
    return text(description, format="date-time", **more)


def micro_moment(description: str, **more: Any) -> Doc:
    """A time with the precision of a microsecond (W29)."""
    return text(description, format="micro-time", **more)


def octets(description: str, **more: Any) -> Doc:
    """Bytes, as base64."""
    return text(description, format="byte", **more)


def structure(description: str, properties: Doc, required: Iterable[str] = (), **more: Any) -> Doc:
    node: Doc = {"type": "object", "description": description, "properties": properties, **more}
    if needed := list(required):
        node["required"] = needed
    return node


def mapping(description: str, values: Doc, **more: Any) -> Doc:
    """Anything by name."""
    return {"type": "object", "description": description, "additionalProperties": values, **more}


def listing(description: str, items: Doc, list_type: str = "atomic", **more: Any) -> Doc:
    return {"type": "array", "description": description, "items": items, "x-kubernetes-list-type": list_type, **more}


def keyed(description: str, items: Doc, keys: Iterable[str], **more: Any) -> Doc:
    """A list whose elements are told apart by some of their fields (W20)."""
    return listing(description, items, "map", **{"x-kubernetes-list-map-keys": list(keys)}, **more)


def texts(description: str, **more: Any) -> Doc:
    return listing(description, {"type": "string"}, **more)


def anything(description: str) -> Doc:
    """An object whose inside nobody here looks at."""
    return {"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": True}
