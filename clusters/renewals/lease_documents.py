"""A renewal as a document: the stored lease with another ``spec.renewTime``, and nothing else. Pure.

Invariant: an agent that sends exactly that gets, to the byte, what ``verbs.update`` would store; that pruning,
defaulting and validating leave a stored document as it is follows from its being stored. Anything else is None here,
and ordinary.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

import orjson

from clusters.kinds import LEASE, microseconds
from clusters.renewals import lease_bodies
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.formats import apply, documents, protobuf
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import times
from ocmconsole.kubeapi.writes.renewals import Renewal

if TYPE_CHECKING:
    from datetime import datetime

    from ocmconsole.kubeapi.errors import Doc

JSON = b"application/json"
PROTOBUF = b"application/vnd.kubernetes.protobuf"
COLUMNS = ("renew_time", "skew")  # of a Lease's row: what ``kinds`` projects of a renewal besides its text
# As every client writes a MicroTime (W29). Another spelling is stored in this one, by the ordinary path.
MICRO_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z", re.ASCII)
RENEW_TIME = ("f:spec", "f:renewTime")  # as managedFields names it
# A lease with other metadata (owners, finalizers, an end) is for the ordinary path: rules and warnings look at it.
PLAIN = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "labels", "annotations", "managedFields"}
)
# Stands for the resourceVersion until the commit knows it; cannot occur in a client's text.
_PLACEHOLDER = f"rv-{secrets.token_hex(16)}"


def renewed(body: bytes, media: bytes, stored_text: str, *, manager: str, now: datetime) -> Renewal | None:
    """What to write for a body of that media type over the stored text; None if it is no plain renewal of it."""
    proposed, stored = _read(body, media), orjson.loads(stored_text)
    moment = _new_time(proposed, stored)
    if moment is None or not isinstance(proposed, dict):
        return None
    fields = apply.track_renewal(
        stored["metadata"].get("managedFields") or [],
        RENEW_TIME,
        manager=manager,
        api_version=LEASE.storage.api_version,
        now=times.timestamp(now),
    )
    if fields is None:
        return None
    metadata, at = proposed["metadata"], microseconds(moment)
    key, old = Key(metadata["namespace"], metadata["name"]), int(metadata["resourceVersion"])
    metadata["managedFields"], metadata["resourceVersion"] = fields, _PLACEHOLDER
    head, _, tail = orjson.dumps(proposed).decode().partition(_PLACEHOLDER)
    return Renewal(key, metadata["uid"], old, head, tail, (at, microseconds(now) - at))


def _new_time(proposed: object, stored: Doc) -> datetime | None:
    """The one thing that is new; None where it is not later, not a plain one, or not the only one."""
    spec, before = _part(proposed, "spec"), _part(stored, "spec").get("renewTime")
    renew_time = spec.get("renewTime")
    if not isinstance(renew_time, str) or not MICRO_TIME.fullmatch(renew_time):
        return None
    # A time that is taken back makes a reconciler look (H16).
    if before is None or renew_time <= before or _part(stored, "metadata").keys() - PLAIN:
        return None
    spec["renewTime"] = before
    is_same = _is_same(proposed, stored)
    spec["renewTime"] = renew_time
    return times.time_of(renew_time) if is_same else None


def _part(doc: object, name: str) -> Doc:
    found = doc.get(name) if isinstance(doc, dict) else None
    return found if isinstance(found, dict) else {}


def _read(body: bytes, media: bytes) -> object:
    try:
        if media == PROTOBUF:
            return lease_bodies.decode(body) or protobuf.decode(body, lambda *_: LEASE.storage.protobuf)
        doc = orjson.loads(body)
        # What is written again as it came has no key twice; nobody else needs to be read with that care.
        if orjson.dumps(doc) == body.rstrip(b"\n"):
            return doc
        doc, doubled = documents.read_json(body, find_duplicates=True)
    except (errors.ApiError, orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    return None if doubled else doc


def _is_same(proposed: object, stored: Doc) -> bool:
    """As text: in Python 1, 1.0 and True are equal."""
    try:
        shown = orjson.dumps(proposed, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # nested deeper than it writes
        return False
    return shown == orjson.dumps(stored, option=orjson.OPT_SORT_KEYS)
