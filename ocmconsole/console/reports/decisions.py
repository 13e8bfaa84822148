"""What a report says: the decisions of a period, each with the evidence that the audit kept with it, and the chain."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db.models import Max, Q, Sum

from ocmconsole.components import trail
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.models import AuditEvent, AuditSeal
from ocmconsole.kubeapi.storage import audit_acts, audit_chain
from registration import queries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import QuerySet

MOST = 20_000  # decisions of a report: what is longer nobody reads, and it is in memory
MOST_VERIFIED = 100_000  # entries whose seals are computed again for a page: some 5 s
AROUND = timedelta(seconds=1)  # entries of one transaction have times of one transaction
LONGEST_CHANGE = 400  # characters of what changed
CLUSTERS = ("accept", "accept-key", "decline", "lift-decline", "disconnect", "detach", "delete")
ON_EVIDENCE = ("managedcluster:accept", "managedcluster:decline")
POLICIES = ("create", "update", "enable", "disable", "delete")
GENERIC = ("create", "update", "patch", "delete", "deletecollection")
RBAC_KINDS = ("role", "clusterrole", "rolebinding", "clusterrolebinding")

WAYS = {
    EntryPoint.API: "Kubernetes API",
    EntryPoint.WEB: "console",
    EntryPoint.ADMIN: "Django admin",
    EntryPoint.CLI: "command line",
    EntryPoint.STANDING: "approval policy",
    EntryPoint.CONTROLLER: "the hub itself",
}


def _acts(kind: str, *names: str) -> frozenset[str]:
    return frozenset(f"{kind}:{name}" for name in names)


ACCOUNTS = _acts("user", "create", "update", "delete")


@dataclass(frozen=True, slots=True)
class ReportKind:
    """``by_people`` are acts that count unless the hub itself did them, as it does all day.

    ``of_accounts`` are acts that count where they change what an account may do.
    """

    label: str
    acts: frozenset[str] = frozenset()
    by_people: frozenset[str] = frozenset()
    of_accounts: frozenset[str] = frozenset()

    def __or__(self, other: ReportKind) -> ReportKind:
        acts, by_people = self.acts | other.acts, self.by_people | other.by_people
        return ReportKind(self.label, acts, by_people, self.of_accounts | other.of_accounts)

    def among(self, rows: QuerySet[AuditEvent]) -> Iterator[AuditEvent]:
        asked = Q(act__in=self.by_people) & ~Q(entry_point=EntryPoint.CONTROLLER)
        found = rows.filter(
            Q(act__in=self.acts | self.of_accounts) | asked, outcome=AuditEvent.Outcome.ALLOWED
        ).iterator()
        return (entry for entry in found if entry.act not in self.of_accounts or account_rights(entry))


def account_rights(entry: AuditEvent) -> list[dict[str, Any]]:
    """What an act on an account changed of its rights: superuser, or not any more; into groups, and out of them."""
    return [
        part
        for part in entry.diff
        if part.get("path") == "groups" or (part.get("path") == "is_superuser" and (part.get("old") or part.get("new")))
    ]


_ACCEPTANCES = ReportKind(
    "Clusters let in and sent away",
    _acts("managedcluster", *CLUSTERS) | _acts("certificate", "revoke") | _acts("approvalpolicy", *POLICIES),
    _acts("certificatesigningrequest", "approve", "deny"),
)
_BINDINGS = ReportKind("Sets bound to namespaces", _acts("managedclustersetbinding", *GENERIC))
_RIGHTS = ReportKind(
    "Rights given and taken",
    _acts("permission", "grant", "revoke")
    | _acts("accessrequest", "grant", "dismiss")
    | _acts("bootstraptoken", "create", "revoke"),
    frozenset().union(*(_acts(kind, *GENERIC) for kind in RBAC_KINDS)),
    ACCOUNTS,
)
_SECOND_APPROVALS = ReportKind(
    "Second approvals", _acts("second-approval", "approve", "decline", "done", "break-glass")
)
KINDS = {
    "decisions": ReportKind("All decisions") | _ACCEPTANCES | _BINDINGS | _RIGHTS | _SECOND_APPROVALS,
    "acceptances": _ACCEPTANCES,
    "bindings": _BINDINGS,
    "rights": _RIGHTS,
}


class TooManyDecisions(Exception):
    """More than ``MOST``."""


@dataclass(frozen=True, slots=True)
class ReportedDecision:
    """``verdict``, ``facts`` and ``keys`` are the evidence at the decision; a decision by kubectl leaves none."""

    entry: AuditEvent
    seal: AuditSeal | None
    verdict: str = ""
    facts: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """With the kind where the act alone says nothing, as "Created" does."""
        if self.entry.act in audit_acts.declared():
            return audit_acts.declared()[self.entry.act].done
        return f"{audit_acts.done_sentence(self.entry.act) or self.entry.act}: {self.kind}"

    @property
    def is_on_evidence(self) -> bool:
        """Whether the console keeps evidence with such a decision."""
        return self.entry.act in ON_EVIDENCE

    @property
    def kind(self) -> str:
        return trail.noun_of(self.entry.resource)

    @property
    def way(self) -> str:
        return WAYS.get(EntryPoint(self.entry.entry_point), self.entry.entry_point)

    @property
    def changes(self) -> str:
        """What was written, where it is short; of a whole object that was made or deleted its name says it."""
        is_account = self.entry.act in ACCOUNTS
        if self.entry.verb in trail.WHOLE and not is_account:
            return ""
        diff = account_rights(self.entry) if is_account else self.entry.diff
        parts = [f"{part.get('path')}: {_change(part)}" for part in diff]
        text = "; ".join(parts)
        return text if len(text) <= LONGEST_CHANGE else f"{text[:LONGEST_CHANGE]}…"


def _change(part: dict[str, Any]) -> str:
    old, new = part.get("old"), part.get("new")
    return f"{old} taken away" if new is None else str(new) if old is None else f"{old} → {new}"


@dataclass(frozen=True, slots=True)
class ChainStatement:
    """What the hash chain says of the report. ``covering`` is the seal that holds the newest entry of the period."""

    head: AuditSeal | None
    covering: AuditSeal | None
    unsealed: int
    verified: int | None  # entries; None where there are too many to compute while somebody waits
    is_empty: bool  # no entry is of the period, so no seal is either
    flaws: tuple[str, ...]
    is_whole: bool

    @property
    def sentence(self) -> str:
        if self.flaws:
            return f"THE AUDIT IS NOT AS IT WAS SEALED: {'; '.join(self.flaws[:5])}"
        if self.verified is None and not self.is_empty:
            return f"not computed for so many entries while you wait: {PROGRAM} audit report or audit verify does"
        if self.is_empty and not self.is_whole:
            return "there is no entry of this period, and so no seal"
        what = "the whole chain" if self.is_whole else "the seals of this period"
        late = f"; {self.unsealed} entries of the period are not sealed yet" if self.unsealed else ""
        return f"verified: {what}, {self.verified} entries as they were sealed{late}"


@dataclass(frozen=True, slots=True)
class DecisionReport:
    """``entries`` counts all audit entries of the period that the reader may see; ``digest`` is that of the rows."""

    kind: str
    since: datetime
    until: datetime
    reader: str
    made_at: datetime
    entries: int
    decisions: tuple[ReportedDecision, ...]
    digest: str
    chain: ChainStatement | None

    @property
    def label(self) -> str:
        return KINDS[self.kind].label

    @property
    def by_act(self) -> list[tuple[str, int]]:
        return Counter(each.title for each in self.decisions).most_common()

    @property
    def by_user(self) -> list[tuple[str, int]]:
        return Counter(each.entry.user for each in self.decisions).most_common()


def make_report(
    rows: QuerySet[AuditEvent],
    kind: str,
    since: datetime,
    until: datetime,
    *,
    reader: str,
    with_chain: bool = True,
    is_whole: bool = False,
) -> DecisionReport:
    """Of the rows, which are those that the reader may see; ``until`` is not in the period.

    ``is_whole`` computes the chain again from its beginning, and not the seals of the period alone. Raises
    TooManyDecisions.
    """
    top = AuditEvent.objects.aggregate(top=Max("pk"))["top"] or 0  # what comes meanwhile is in no figure
    period = rows.filter(time__gte=since, time__lt=until, pk__lte=top).order_by("pk")
    found = list(islice(KINDS[kind].among(period), MOST + 1))
    if len(found) > MOST:
        msg = f"there are more than {MOST:,} decisions in this time: choose a shorter one, or a kind"
        raise TooManyDecisions(msg)
    seals = _seals_of(found)
    notes = _notes_of(rows, since, until) if found else {}
    decisions = tuple(_decision(entry, seals, notes) for entry in found)
    lines = hashlib.sha256(b"\n".join(map(audit_chain.line, found))).hexdigest()
    chain = _chain_of(since, until, top, is_whole=is_whole) if with_chain else None
    return DecisionReport(kind, since, until, reader, clock.now(), period.count(), decisions, lines, chain)


def _seals_of(entries: list[AuditEvent]) -> list[AuditSeal]:
    if not entries:
        return []
    return list(AuditSeal.objects.filter(last__gte=entries[0].pk, first__lte=entries[-1].pk).order_by("number"))


Notes = dict[tuple[str, str, str], list[AuditEvent]]


def _notes_of(rows: QuerySet[AuditEvent], since: datetime, until: datetime) -> Notes:
    """Evidence that was kept with decisions, by cluster, user and request."""
    found: Notes = {}
    kept = rows.filter(act=queries.EVIDENCE, time__gte=since - AROUND, time__lt=until + AROUND)
    for note in kept.order_by("pk"):
        found.setdefault((note.name, note.user, note.request_id), []).append(note)
    return found


def _decision(entry: AuditEvent, seals: list[AuditSeal], notes: Notes) -> ReportedDecision:
    place = bisect_left(seals, entry.pk, key=lambda seal: seal.last)
    seal = seals[place] if place < len(seals) and seals[place].first <= entry.pk else None
    near = [
        note
        for note in notes.get((entry.name, entry.user, entry.request_id), ())
        if abs(note.time - entry.time) <= AROUND
    ]
    if not near or not entry.act.startswith("managedcluster:"):
        return ReportedDecision(entry, seal)
    note = min(near, key=lambda each: abs(each.pk - entry.pk))
    kept = {part["path"]: part.get("new") for part in note.diff}
    return ReportedDecision(
        entry,
        seal,
        str(kept.get("evidence.verdict") or ""),
        tuple(map(str, kept.get("evidence.facts") or ())),
        tuple(map(str, kept.get("evidence.keys") or ())),
    )


def _chain_of(since: datetime, until: datetime, top: int, *, is_whole: bool) -> ChainStatement:
    period = AuditEvent.objects.filter(time__gte=since, time__lt=until, pk__lte=top)
    numbers = period.order_by("pk").values_list("pk", flat=True)
    first, last = numbers.first() or 0, numbers.last() or 0
    is_empty = not last
    head = audit_chain.newest_seal()
    made = AuditSeal.objects.filter(number__lte=head.number if head else 0)  # not what is made meanwhile
    covering = made.filter(first__lte=last).order_by("-number").first()
    unsealed = period.filter(pk__gt=covering.last if covering else 0).count()
    report = None
    if is_whole:
        report = audit_chain.verify_chain()
    elif is_empty:
        report = None
    elif (audit_chain.seals_between(first, last).aggregate(total=Sum("count"))["total"] or 0) <= MOST_VERIFIED:
        report = audit_chain.verify_between(first, last)
    flaws = tuple(f"seal {flaw.seal}: {flaw.text}" for flaw in report.flaws) if report else ()
    verified = report.entries if report else None
    return ChainStatement(head, covering, unsealed, verified, is_empty, flaws, is_whole)
