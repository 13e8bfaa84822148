"""A draft: the specification of a Placement and what is pretended, as text of an address, and checked by the schema.

An address holds the draft and never an answer: who opens it sees the fleet of that moment with their own rights.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.formats import documents
from ocmconsole.kubeapi.schema import values
from placements.kinds import PLACEMENT

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

LARGEST = 64 * 1024  # bytes of a draft as JSON or YAML
LONGEST = 6_000  # characters in an address: servers and browsers take 8,000 of one
MOST_PRETENCES = 20  # of one draft, so that its address stays short


@dataclass(frozen=True, slots=True)
class Pretence:
    """Something that does not hold. ``what``: label, taint, health, binding, time; the others as they were typed."""

    what: str
    where: str
    value: str

    @property
    def short(self) -> str:
        """Without what it is about."""
        return self.value if self.what == "label" else f"{self.what} {self.value}".strip()

    def wire(self) -> list[str]:
        return [self.what, self.where, self.value]

    def __str__(self) -> str:
        where = "everything" if self.where == "*" else self.where
        match self.what:
            case "binding":
                return f"set {where} is bound"
            case "time":
                return f"{self.value} later"
            case "health":
                return f"{where}: {self.value}"
            case _:
                return f"{where}: {self.what} {self.value}"


@dataclass(frozen=True, slots=True)
class Draft:
    spec: Doc
    pretences: tuple[Pretence, ...] = ()

    def encoded(self) -> str:
        raw = orjson.dumps({"spec": self.spec, "pretend": [each.wire() for each in self.pretences]})
        return base64.urlsafe_b64encode(zlib.compress(raw, 9)).decode().rstrip("=")

    def trying(self, cluster: str, trial: tuple[str, str]) -> Draft:
        """With the smallest change that ``reasons.Why.trial`` names: of the draft, or pretended of the cluster."""
        what, value = trial
        if what == "number":
            return Draft({**self.spec, "numberOfClusters": int(value)}, self.pretences)
        if what == "set":
            return Draft({**self.spec, "clusterSets": [*(self.spec.get("clusterSets") or ()), value]}, self.pretences)
        pretence = Pretence(what, value, "") if what == "binding" else Pretence(what, cluster, value)
        return Draft(self.spec, (*self.pretences, pretence)[:MOST_PRETENCES])

    @classmethod
    def read(cls, text: str) -> Draft:
        """Raises ValueError for what ``encoded`` has not written."""
        if len(text) > LARGEST:
            raise ValueError("the draft is too long")
        try:
            packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            opened = zlib.decompressobj()
            raw = opened.decompress(packed, LARGEST)
            if not opened.eof:
                raise ValueError("the draft is cut off or too long")
            found, _ = documents.read_json(raw)
        except (binascii.Error, zlib.error, errors.ApiError, UnicodeError) as error:
            raise ValueError("the address holds no draft") from error
        return cls(*_parts(found))


def _parts(found: Any) -> tuple[Doc, tuple[Pretence, ...]]:
    spec, pretend = (found.get("spec"), found.get("pretend")) if isinstance(found, dict) else (None, None)
    if not isinstance(spec, dict) or not isinstance(pretend, list) or len(pretend) > MOST_PRETENCES:
        raise ValueError("the address holds no draft")
    if not all(map(_is_pretence, pretend)):
        raise ValueError("the address holds no draft")
    return spec, tuple(Pretence(*each) for each in pretend)


def _is_pretence(found: Any) -> bool:
    fields = ("what", "where", "value")
    return isinstance(found, list) and len(found) == len(fields) and all(isinstance(each, str) for each in found)


def document(namespace: str, name: str, spec: Doc) -> Doc:
    """As kubectl would send it."""
    version = PLACEMENT.storage
    return {
        "apiVersion": version.api_version,
        "kind": PLACEMENT.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def checked(spec: Doc) -> Doc:
    """The specification as it would be stored, with its defaults. Raises Invalid, BadRequest for unknown fields."""
    schema = PLACEMENT.storage.schema
    if flaw := next(iter(values.flaws(spec)), None):
        raise errors.BadRequest(str(flaw))
    doc, unknown = schema.prune(document("default", "draft", spec))
    if unknown:
        raise errors.BadRequest(f"unknown field {', '.join(sorted(unknown))}")
    if causes := schema.validate(doc):
        raise errors.is_invalid(PLACEMENT.group, PLACEMENT.kind, "draft", causes)
    found: Doc = schema.default(doc)["spec"]
    return found


def parsed(text: str) -> Doc:
    """A specification in YAML; a whole Placement is taken for its specification. Raises BadRequest."""
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST:
        raise errors.BadRequest(f"the text is longer than {LARGEST // 1024} KiB")
    found, doubled = documents.read_yaml(text.encode("utf-8", "surrogatepass"))
    if doubled:
        raise errors.BadRequest(f"given twice: {', '.join(doubled)}")
    if found is None:
        return {}
    if isinstance(found, dict) and "kind" in found:
        if found["kind"] != PLACEMENT.kind:
            raise errors.BadRequest("this is no Placement")
        found = found.get("spec") or {}
    if not isinstance(found, dict):
        raise errors.BadRequest("a specification is an object")
    return found


_INDEX = re.compile(r"([A-Za-z]+)\[(\d+)\]")
_KINDS = {
    "predicates": "predicates",
    "tolerations": "tolerations",
    "configurations": "weights",
    "decisionGroups": "groups",
    "spreadConstraints": "spread",
}


def row_of(cause: errors.Cause) -> tuple[str, int] | None:
    """The kind and the number of the row of the form that it is about, from 0; of a predicate its number."""
    found = _INDEX.search(cause.field)
    kind = _KINDS.get(found[1]) if found else None
    return (kind, int(found[2])) if found and kind else None


def by_section(causes: Sequence[errors.Cause]) -> dict[str, list[str]]:
    """Messages by the field of the specification that they are about; "" for what is about none."""
    found: dict[str, list[str]] = {}
    for cause in causes:
        head, _, rest = cause.field.partition(".")
        section = rest.partition(".")[0].partition("[")[0] if head == "spec" else ""
        found.setdefault(section, []).append(str(cause))
    return found
