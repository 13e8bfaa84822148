"""Audit entries and seals as lines of JSON: what they are outside of the hub.

An entry goes out when it is committed, so a denial with the count that it has then; the seal that holds it says what
became of that. The id of a line never changes, and no other line has it, also after a restore, which gives numbers of
entries anew.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.outbound.delivery import OutboundLine, shortened
from ocmconsole.kubeapi.storage import audit_chain

if TYPE_CHECKING:
    from datetime import datetime

    from ocmconsole.kubeapi.models import AuditSeal

ENTRY, SEAL = "audit.entry", "audit.seal"
LONGEST = 256 * 1024  # bytes; receivers refuse more than a MiB in all, and a line that none takes holds up the others
OPTIONS = orjson.OPT_UTC_Z


def entry_line(entry: AuditEvent, hub: str) -> OutboundLine:
    """``data`` is the entry as ``audit export`` writes it."""
    exported = audit_chain.line(entry)
    mark = hashlib.sha256(entry.same.encode() if entry.same else exported).hexdigest()[:16]
    return _line(ENTRY, f"{entry.pk}-{mark}", entry.time, hub, orjson.Fragment(exported), is_refusal=_is_refusal(entry))


def seal_line(seal: AuditSeal, hub: str, *, with_counts: bool) -> OutboundLine:
    """``counted``: denials of the segment that happened more than once, as they were sealed."""
    data: dict[str, Any] = {
        name: getattr(seal, name) for name in ("number", "first", "last", "count", "newest", "digest")
    }
    if with_counts:
        counted = audit_chain.segment(seal).filter(count__gt=1)
        data["counted"] = [{"id": entry.pk, "count": entry.count, "time": entry.time} for entry in counted]
    return _line(SEAL, f"seal-{seal.number}-{seal.digest[:16]}", seal.newest, hub, data)


def _is_refusal(entry: AuditEvent) -> bool:
    return entry.outcome == AuditEvent.Outcome.DENIED


def _line(kind: str, name: str, time: datetime, hub: str, data: Any, *, is_refusal: bool = False) -> OutboundLine:
    body = orjson.dumps({"type": kind, "id": name, "timestamp": time, "hub": hub, "data": data}, option=OPTIONS)
    return OutboundLine(name, kind, time, body if len(body) <= LONGEST else shortened(body), is_refusal)
