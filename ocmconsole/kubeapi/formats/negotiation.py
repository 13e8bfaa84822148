"""Content negotiation (W1, W4, W9, W172): which form an answer takes, and what a request body says.

Plain functions on header texts and bytes, so that the views and tests share them. Called by
``hooks``, ``responses`` and ``endpoints``; anything wrong is a 400, 406, 413 or 415 with the text that clients know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import orjson
import yaml

from ocmconsole.kubeapi.errors import BadRequest, Doc, NotAcceptable, RequestTooLarge, unknown_format
from ocmconsole.kubeapi.formats import documents
from ocmconsole.kubeapi.formats.protobuf import Message, decode

Media = Literal["json", "yaml"]
Shape = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList", "APIGroupDiscoveryList"]
PatchKind = Literal["json", "merge", "strategic", "apply"]

PEOPLE = ("curl/", "Wget/", "Mozilla/")  # how user agents begin that get JSON with indents

_MEDIA: dict[str, Media] = {
    "application/json": "json",
    "application/*": "json",
    "*/*": "json",
    "application/yaml": "yaml",
}
_META = ("meta.k8s.io", ("v1", "v1beta1"))
_SHAPES: dict[Shape, tuple[str, tuple[str, ...]]] = {
    "Table": _META,
    "PartialObjectMetadata": _META,
    "PartialObjectMetadataList": _META,
    "APIGroupDiscoveryList": ("apidiscovery.k8s.io", ("v2",)),
}
_QUALITY = re.compile(r"0(\.\d*)?|1(\.0*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """The form of an answer; ``version`` is that of the shape's group."""

    media: Media = "json"
    shape: Shape = ""
    version: str = "v1"


def negotiate(accept_header: str, *, want: tuple[Shape, ...]) -> ResponseForm:
    """The best form that the client accepts; ``want`` are the shapes that this endpoint can take."""
    for name, parameters in _clauses(accept_header or "*/*"):
        media = _MEDIA.get(name)
        if media is None:
            continue
        if "as" not in parameters:
            return ResponseForm(media)
        for shape in want:
            group, versions = _SHAPES[shape]
            version = parameters.get("v", "")
            if parameters["as"] == shape and parameters.get("g") == group and version in versions:
                return ResponseForm(media, shape, version)
    raise NotAcceptable("only the following media types are accepted: application/json, application/yaml")


def _clauses(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Media types with their parameters, best first; what has a quality of 0 is not wanted at all."""
    found = []
    for clause in header.split(","):
        name, *rest = (part.strip() for part in clause.split(";"))
        parameters = {key.strip().lower(): value.strip() for key, _, value in (part.partition("=") for part in rest)}
        given = parameters.get("q", "1")
        quality = float(given) if _QUALITY.fullmatch(given) else 1.0
        if quality:
            found.append((quality, name.lower(), parameters))
    found.sort(key=lambda clause: -clause[0])
    return ((name, parameters) for _, name, parameters in found)


def read_body(
    raw: bytes,
    content_type: str,
    *,
    protobuf: Callable[[str, str], Message | None] | None,
    find_duplicates: bool = False,
    expected: str = "",
) -> tuple[Doc, list[str]]:
    """The document in a POST, PUT or DELETE, and the paths of fields given twice when asked for (strict decoding).

    ``protobuf`` finds the table for apiVersion and kind; None for custom kinds, which have no such form. ``expected``
    is the kind that messages name.
    """
    _check_size(raw)
    given = media_type(content_type)
    if given == "application/vnd.kubernetes.protobuf" and protobuf is not None:
        return decode(raw, protobuf), []  # protobuf knows neither duplicate nor unknown fields
    try:
        if given in {"", "application/json"}:
            doc, duplicates = documents.read_json(raw, find_duplicates=find_duplicates)
        elif given == "application/yaml":
            doc, duplicates = documents.read_yaml(raw)
        else:
            raise unknown_format()
        return _mapping(doc), duplicates if find_duplicates else []
    except BadRequest as error:
        subject = f" (must be of type {expected})" if expected else ""
        text = f"the object provided is unrecognized{subject}: couldn't get version/kind; {error.message}"
        raise BadRequest(text) from error


def read_patch(raw: bytes, how: PatchKind) -> tuple[Any, list[str]]:
    """The body of a PATCH, and the paths of fields given twice. An apply patch is YAML; kubectl sends JSON text."""
    _check_size(raw)
    try:
        if how != "apply":
            return documents.read_json(raw, find_duplicates=True)
        with suppress(BadRequest):
            return documents.read_json(raw, find_duplicates=True)
        return documents.read_yaml(raw)
    except BadRequest as error:
        raise BadRequest(f"error decoding patch: {error.message}") from error


def dump(doc: Doc, media: Media) -> bytes:
    if media == "json":
        return orjson.dumps(doc)
    return yaml.dump(doc, Dumper=_PlainDumper, allow_unicode=True, encoding="utf-8", default_flow_style=False)


class _PlainDumper(yaml.CSafeDumper):
    """YAML without anchors: a value that stands twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class asks for each value
        return True


def media_type(content_type: str) -> str:
    """In lower case, without parameters; "" for none."""
    return content_type.partition(";")[0].strip().lower()


def _check_size(raw: bytes) -> None:
    if len(raw) > documents.MAX_BODY:
        raise RequestTooLarge(f"Request entity too large: limit is {documents.MAX_BODY}")


def _mapping(value: Any) -> Doc:
    if not isinstance(value, dict):
        names = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
        given = names.get(type(value), "null")
        raise BadRequest(
            f"json parse error: json: cannot unmarshal {given} into Go value of type map[string]interface {{}}"
        )
    return value
