"""What changed between the page that a user read and the moment of the decision.

A page carries resourceVersions; what they were is in the log of changes, which keeps at least its last ten minutes.
What the hub itself does to a new cluster in its first second, its finalizer and its taint, is no change to a person.
Reads only. Called by the services, which refuse a stale decision, by bulk decisions and by what is put off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import orjson

from clusters.kinds import (
    ACCEPTS_CLIENT_PATH,
    MANAGED_CLUSTER,
    OWN_FINALIZERS,
    finalizers_of,
    is_hub_taint,
    spec_of,
    taints_of,
)
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Change
from ocmconsole.kubeapi.storage import audit, reader
from registration import queries
from registration.keys import key_history
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind
    from ocmconsole.kubeapi.models import Resource
    from registration.evidence.assessment import Evidence
    from registration.models import CertificateSigningRequest

STALE = "The request changed while you were reading it; nothing was done."
LONGEST_VERSION = 18  # digits: below 64 bits
BOOKKEEPING = frozenset({"resourceVersion", "generation", "managedFields"})


@dataclass(frozen=True, slots=True)
class SeenVersions:
    """What a user has seen when deciding: resourceVersions, which must still be the present ones."""

    cluster: str
    requests: Mapping[str, str]


class Versioned(Protocol):
    """A request, as a row or as evidence."""

    @property
    def name(self) -> str: ...

    @property
    def resource_version(self) -> int: ...


class Requested(Protocol):
    """The same with its document."""

    @property
    def name(self) -> str: ...

    @property
    def doc(self) -> Doc: ...


def present_versions(row: Resource | None, waiting: Iterable[Versioned]) -> SeenVersions:
    """What somebody who looks now sees."""
    requests = {request.name: str(request.resource_version) for request in waiting}
    return SeenVersions(str(row.resource_version) if row else "", requests)


def seen_of(found: Evidence) -> SeenVersions:
    """The versions that a reader of this evidence has seen: anything newer is a Conflict."""
    return present_versions(found.cluster, found.waiting)


def is_present(seen: SeenVersions, row: Resource | None, waiting: Iterable[Versioned]) -> bool:
    """Whether a person who saw this would read the same now."""
    now = present_versions(row, waiting)
    if seen == now:
        return True
    before = _at(MANAGED_CLUSTER, row.name, seen.cluster) if row is not None and seen.requests == now.requests else None
    return row is not None and before is not None and as_read(before) == as_read(row.doc)


def as_read(doc: Doc) -> Doc:
    """A ManagedCluster without what changes when the hub takes it into its care (H4, H21)."""
    metadata = {name: value for name, value in doc["metadata"].items() if name not in BOOKKEEPING}
    metadata["finalizers"] = [each for each in finalizers_of(doc) if each not in OWN_FINALIZERS]
    taints = [taint for taint in taints_of(doc) if not is_hub_taint(taint)]
    return {**doc, "metadata": metadata, "spec": {**spec_of(doc), "taints": taints}}


def refusal_text(name: str, seen: SeenVersions) -> str:
    """The sentence of the refusal: that it is stale, and each difference."""
    row, waiting = reader.read_row(MANAGED_CLUSTER, Key("", name)), queries.waiting_requests(name)
    found = [*_of_requests(seen, waiting), *_of_cluster(name, seen, row)]
    return f"{STALE} What changed: {'; '.join(found)}." if found else f"{STALE} Look at it again."


def _of_cluster(name: str, seen: SeenVersions, row: Resource | None) -> Iterator[str]:
    if row is None or not seen.cluster:
        if row is not None:
            yield "its ManagedCluster was created"
        elif seen.cluster:
            yield "its ManagedCluster was removed"
        return
    if seen.cluster == str(row.resource_version):
        return
    before = _at(MANAGED_CLUSTER, name, seen.cluster)
    paths = [entry["path"] for entry in audit.diff(as_read(before), as_read(row.doc))] if before else []
    if ACCEPTS_CLIENT_PATH in paths:
        facts = queries.facts_of(name)
        yield f"the cluster was {facts.decision} by {facts.decided_by}" if facts.decision else "the cluster was decided"
    if others := list(dict.fromkeys(_field(path) for path in paths if path != ACCEPTS_CLIENT_PATH)):
        yield f"the cluster was changed: {', '.join(others)}"
    elif before is None:
        yield "the cluster was changed"


def _field(path: str) -> str:
    """``labels`` of ``metadata.labels.env``: what a person would call it."""
    parts = path.split(".")
    return parts[1] if parts[0] in {"metadata", "spec", "status"} and len(parts) > 1 else parts[0]


def _of_requests(seen: SeenVersions, waiting: Sequence[CertificateSigningRequest]) -> Iterator[str]:
    now = {request.name: request for request in waiting}
    keys = {key for name, version in seen.requests.items() if (key := _key_at(name, version))}
    for name, request in now.items():
        if name not in seen.requests:
            what = "a second request arrived" if seen.requests else "a certificate request arrived"
            key = request.key_fingerprint
            yield f"{what}, {name}" + (f", whose key differs: {key[:18]}…" if keys and key not in keys else "")
        elif str(request.resource_version) != seen.requests[name]:
            yield f"the request {name} was changed"
    for name in seen.requests.keys() - now.keys():
        yield _gone(name)


def _gone(name: str) -> str:
    row = queries.request_at(Key("", name))
    if row is None:
        return f"the request {name} is gone"
    return f"the request {name} is {row.state.lower()}"


def _key_at(name: str, version: str) -> str:
    doc = _at(CSR, name, version)
    return key_history.requested(doc).key_fingerprint if doc else ""


def _at(kind: Kind, name: str, version: str) -> Doc | None:
    """A document as it was; None when the log has forgotten it, or never knew it."""
    if not (version.isascii() and version.isdigit()) or len(version) > LONGEST_VERSION:
        return None
    change = Change.objects.filter(revision=int(version), resource=kind.resource, namespace="", name=name).first()
    found: Doc | None = orjson.loads(change.wire) if change else None
    return found
