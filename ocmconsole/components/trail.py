"""What happened, as one stream: Events that components report and entries of the audit, newest first, page by page.

The caller decides what may be seen, by the two querysets that it passes; nothing here checks a permission. Used
by the page of a cluster and by Activity.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import audit_acts

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from ocmconsole.core.models import Event
    from ocmconsole.kubeapi.errors import Doc

PAGE = 30  # rows
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
CURSOR = re.compile(r"(?P<at>[0-9]{1,17})\.(?P<source>audit|event)\.(?P<id>[0-9a-zA-Z-]{1,36})", re.ASCII)
LONGEST_ID = 18  # digits of a row's number
# What the audit writes about besides kinds, as people call it.
NOUNS = {
    "users": "User",
    "groups": "Group",
    "bootstraptokens": "Bootstrap token",
    "approvalpolicies": "Approval policy",
    "accessrequests": "Access request",
}
PEOPLE = "people"
HUB = EntryPoint.CONTROLLER.value
# User names that no account can have: agents, service accounts, the hub and strangers.
MACHINES = "system:"
# Of the entries of one request: kinds that people ask for first, and acts that only support another.
LEADING = ("ManagedCluster", "ManagedClusterSet", "ManagedClusterSetBinding")
SUPPORTING = frozenset({"managedcluster:evidence"})
WHOLE = frozenset({"create", "delete"})  # their difference is the object itself
LONGEST_TEXT = 60  # characters of a value in a sentence; longer ones are left out


@dataclass(frozen=True, slots=True)
class TrailEntry:
    """One thing that happened. ``id`` is a row's key; ``audit`` and ``event`` are what it expands to, one of them."""

    source: str
    id: str
    at: datetime
    kind: str
    name: str
    namespace: str
    actor: str
    verb: str
    title: str
    text: str
    tone: str
    count: int = 1
    audit: AuditEvent | None = None
    event: Doc | None = None

    @property
    def cursor(self) -> str:
        return f"{(self.at - EPOCH) // MICROSECOND}.{self.source}.{self.id}"

    @property
    def is_by_hub(self) -> bool:
        return self.audit is not None and self.audit.entry_point == HUB


@dataclass(frozen=True, slots=True)
class Fold:
    """Neighbouring entries with one cause, newest first, at least two: writes of the hub itself, or of one request."""

    entries: tuple[TrailEntry, ...]

    @property
    def at(self) -> datetime:
        return self.entries[0].at

    @property
    def is_by_hub(self) -> bool:
        return self.entries[0].is_by_hub

    @property
    def lead(self) -> TrailEntry:
        """The entry that says best what the request did: the one that changed the first of ``LEADING``, if any."""
        return min(self.entries, key=_rank)

    @property
    def titles(self) -> str:
        """What they did, the most frequent first: ``Created 4 times, Changed``."""
        counts = Counter(entry.title for entry in self.entries)
        return ", ".join(f"{title} {count} times" if count > 1 else title for title, count in counts.most_common())


@dataclass(frozen=True, slots=True)
class TrailFilters:
    """The filters of a stream; empty is anything. Events have no actor, verb or act: such filters drop them.

    ``source`` is ``audit``, ``event`` or ``people``: entries of the audit that neither the hub nor an agent caused.
    """

    source: str = ""
    kind: str = ""
    actor: str = ""
    verb: str = ""
    outcome: str = ""
    act: str = ""

    @property
    def takes_events(self) -> bool:
        return self.source in {"", "event"} and not (self.actor or self.verb or self.outcome or self.act)

    @property
    def takes_audit(self) -> bool:
        return self.source in {"", "audit", PEOPLE}


@dataclass(frozen=True, slots=True)
class TrailPage:
    entries: list[TrailEntry] = field(default_factory=list)
    next: str = ""


def trail_page(
    events: QuerySet[Event], audit: QuerySet[AuditEvent], wanted: TrailFilters, *, after: str = "", size: int = PAGE
) -> TrailPage:
    """``after`` is the cursor of an earlier page's last entry; what is no cursor is the beginning. Two queries."""
    found: list[TrailEntry] = []
    if wanted.takes_audit:
        found += [_entry_of_audit(row) for row in _after(audit_rows(audit, wanted), "audit", "time", after)[: size + 1]]
    if wanted.takes_events:
        found += [
            _entry_of_event(row) for row in _after(_events(events, wanted), "event", "last_seen", after)[: size + 1]
        ]
    found.sort(key=lambda entry: (entry.at, entry.source), reverse=True)
    return TrailPage(found[:size], found[size - 1].cursor if len(found) > size else "")


def folded(entries: list[TrailEntry]) -> list[TrailEntry | Fold]:
    """The same stream with neighbouring writes of the hub itself, and those of one request, put together."""
    found: list[TrailEntry | Fold] = []
    for _, group in groupby(entries, key=_cause):
        members = tuple(group)
        found += [Fold(members)] if len(members) > 1 else members
    return found


def _cause(entry: TrailEntry) -> str:
    if entry.is_by_hub:
        return HUB
    return (entry.audit.request_id if entry.audit else "") or entry.cursor


def _rank(entry: TrailEntry) -> int:
    act = entry.audit.act if entry.audit else ""
    return (
        len(LEADING) + 1 if act in SUPPORTING else LEADING.index(entry.kind) if entry.kind in LEADING else len(LEADING)
    )


def audit_rows(rows: QuerySet[AuditEvent], wanted: TrailFilters) -> QuerySet[AuditEvent]:
    if wanted.source == PEOPLE:
        rows = rows.exclude(entry_point=HUB).exclude(user__startswith=MACHINES)
    if wanted.kind:
        rows = rows.filter(_is_of(wanted.kind))
    if wanted.act:
        rows = rows.filter(act=wanted.act)
    if wanted.actor:
        rows = rows.filter(user=wanted.actor)
    if wanted.verb:
        rows = rows.filter(verb=wanted.verb)
    return rows.filter(outcome=wanted.outcome) if wanted.outcome else rows


def _events(rows: QuerySet[Event], wanted: TrailFilters) -> QuerySet[Event]:
    return rows.filter(regarding_kind=wanted.kind) if wanted.kind else rows


def _after(rows: QuerySet[Any], source: str, moment: str, cursor: str) -> QuerySet[Any]:
    """Rows that come after the cursor in (time, source, key), all descending."""
    rows = rows.order_by(f"-{moment}", "-pk")
    found = CURSOR.fullmatch(cursor)
    if found is None:
        return rows
    try:
        at = EPOCH + int(found["at"]) * MICROSECOND
    except OverflowError:
        return rows
    if source != found["source"]:
        return rows.filter(**{f"{moment}__lte" if source < found["source"] else f"{moment}__lt": at})
    key = found["id"]
    if source == "audit" and not (key.isdigit() and len(key) <= LONGEST_ID):
        return rows
    return rows.filter(Q(**{f"{moment}__lt": at}) | Q(**{moment: at, "pk__lt": key}))


# ---------------------------------------------------------------- in words


def _entry_of_audit(row: AuditEvent) -> TrailEntry:
    denied = row.outcome == AuditEvent.Outcome.DENIED
    return TrailEntry(
        source="audit",
        id=str(row.pk),
        at=row.time,
        kind=noun_of(row.resource),
        name=row.name,
        namespace=row.namespace,
        actor=row.user,
        verb=row.verb,
        title=_title(row, denied=denied),
        text=row.reason if denied else "" if row.verb in WHOLE else _summary(row.diff),
        tone="danger" if denied else "warn" if row.verb == "delete" else "quiet",
        count=row.count,
        audit=row,
    )


def _title(row: AuditEvent, *, denied: bool) -> str:
    """The sentence of the act; entries of earlier releases may hold an act that is no longer made."""
    if denied:
        return audit_acts.refusal_sentence(row.act, row.verb)
    return audit_acts.done_sentence(row.act) or f"Changed: {row.act}"


def _summary(diff: list[Doc]) -> str:
    """Which fields moved, and to what when it is one short value; all values are in the details."""
    if len(diff) == 1 and (sentence := _one(diff[0])):
        return sentence
    paths = list(dict.fromkeys(_short_path(str(each.get("path", ""))) for each in diff))
    shown, more = paths[:3], len(paths) - 3
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _one(part: Doc) -> str:
    value = part.get("new")
    text = str(value).lower() if isinstance(value, bool) else value
    if not isinstance(text, str | int) or len(str(text)) > LONGEST_TEXT:
        return ""
    return f"{part.get('path', '')}: {text}"


def _short_path(path: str) -> str:
    """Of maps with qualified names the whole; of a status its first two parts."""
    if path.startswith(("metadata.labels.", "metadata.annotations.")):
        return path.partition(".")[2]
    return ".".join(path.split(".")[:2])


def kind_of(resource: str) -> str:
    """``ManagedCluster`` of ``managedclusters/accept.register.open-cluster-management.io``; empty for no kind's."""
    plural = re.split("[./]", resource, maxsplit=1)[0]
    return next((kind.kind for kind in kinds.all_kinds() if kind.plural == plural), "")


def noun_of(resource: str) -> str:
    """The kind, or what people call what is none."""
    return kind_of(resource) or NOUNS.get(re.split("[./]", resource, maxsplit=1)[0], resource)


def _is_of(kind: str) -> Q:
    """As the audit may write it: with its group, and denials with a subresource, perhaps in another group."""
    plural = next((each.plural for each in kinds.all_kinds() if each.kind == kind), None)
    if plural is None:
        return Q(pk__in=())
    return Q(resource=plural) | Q(resource__startswith=f"{plural}.") | Q(resource__startswith=f"{plural}/")


def _entry_of_event(row: Event) -> TrailEntry:
    doc = row.doc
    series = doc.get("series") or {}
    component = doc.get("reportingComponent") or (doc.get("source") or {}).get("component") or ""
    warns = doc.get("type") == "Warning"
    return TrailEntry(
        source="event",
        id=row.pk,
        at=row.last_seen,
        kind=row.regarding_kind,
        name=row.regarding_name,
        namespace=row.regarding_namespace,
        actor=component,
        verb="",
        title=doc.get("reason") or "Event",
        text=doc.get("message") or "",
        tone="warn" if warns else "info",
        count=series.get("count") or doc.get("count") or 1,
        event=doc,
    )
