"""The inbox: what waits for a person, what was decided, what gave way. Reads only, for pages.

Invariant: users read only of names that they may see (D16), and the number of queries does not grow with the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Any

from clusters import queries as clusters
from clusters.models import ClusterFacts
from ocmconsole.core.tokens import bootstrap_terms
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import AuditEvent
from registration import queries
from registration.approvals import services, snooze, stale_decision
from registration.evidence import assessment, evidence_queries
from registration.evidence.evidence_items import RISK, State, Verdict

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from ocmconsole.components.cursors import Cursor
    from ocmconsole.kubeapi.access.actor import Actor
    from registration.approvals.stale_decision import SeenVersions
    from registration.evidence.evidence_items import Evidence
    from registration.evidence.evidence_queries import Origin
    from registration.models import Snooze

# So long a row that somebody decided stays in its place, greyed.
GONE_SHOWN = timedelta(minutes=2)
UNDO = timedelta(minutes=10)  # in which a decline can be lifted from the inbox
# Beyond these a page would be slow; a flood of names must not make the inbox useless.
MOST_WEIGHED = 1_000
MOST_GONE = 200  # a bulk act decides thousands at once; greyed rows are there for who looks at one of them
LONGEST_WHY = 110  # characters that fit into a row
LONGEST_ID = 18  # digits of a row's number
Decision = ClusterFacts.Decision
# States of requests; others are shown as they are.
ANSWERED: dict[str, str] = {State.APPROVED: "approved", State.ISSUED: "approved"}


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """What became of a request."""

    decision: str
    by: str
    at: datetime | None
    reason: str = ""
    verdict: str = ""
    facts: tuple[str, ...] = ()
    can_undo: bool = False


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A line of the inbox. ``outcome`` is set when it has just been decided."""

    found: Evidence
    verdict: Verdict
    is_allowed: bool
    outcome: RequestOutcome | None = None
    put_off: Snooze | None = None

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def why(self) -> str:
        """The worst fact, and the next if both fit into two lines."""
        worst, *others = [fact.title for fact in self.found.failed[:2]] or [self.found.why]
        both = "; ".join([worst, *(_continued(title) for title in others)])
        return both if len(both) <= LONGEST_WHY else worst

    @property
    def token(self) -> str:
        """The id of the bootstrap token, for the filter."""
        token = self.found.recorded.token
        return token.pk if token else ""

    @property
    def credential(self) -> str:
        token = self.found.recorded.token
        return (token.name or token.pk) if token else self.found.recorded.credential

    @property
    def source(self) -> str:
        return self.found.recorded.source

    @property
    def uses(self) -> str:
        token = self.found.recorded.token
        return token.uses_text if token else ""

    @property
    def asked(self) -> datetime | None:
        return self.found.since

    @property
    def keys(self) -> int:
        return len({asked.fingerprint for asked in self.found.waiting})

    @property
    def requests(self) -> int:
        return len(self.found.waiting) + (self.found.superseded if self.found.waiting else 0)

    @property
    def certificate(self) -> str:
        """What became of the newest request; empty where none was made."""
        newest = next(iter(self.found.asked), None)
        return ANSWERED.get(newest.state, newest.state.lower()) if newest is not None else ""

    @property
    def clusterset(self) -> str:
        return self.found.cluster.clusterset if self.found.cluster else ""

    @property
    def seen(self) -> SeenVersions:
        return stale_decision.seen_of(self.found)

    @property
    def can_select(self) -> bool:
        return self.outcome is None and self.is_allowed and self.verdict is not Verdict.BLOCKED and self.is_whole

    @property
    def is_whole(self) -> bool:
        """Without a ManagedCluster there is nothing to let in."""
        return self.found.cluster is not None

    @property
    def order(self) -> tuple[int, float]:
        return RISK[self.verdict], self.asked.timestamp() if self.asked else 0.0

    @property
    def sort_key(self) -> str:
        """The order as digits of one number, for scripts that put a row in its place."""
        risk, asked = self.order
        return f"{risk}{asked:015.3f}"


def _continued(title: str) -> str:
    """As the second half of a sentence."""
    return title[:1].lower() + title[1:]


# ---------------------------------------------------------------- waiting


@dataclass(frozen=True, slots=True)
class Inbox:
    """What a filter lets through of what waits for one person.

    ``waiting`` and ``put_off`` are all names in sight and out of it, whatever the filter, in the order of the names.
    ``rows`` are those of one of the two that match all of the filter but the verdict, weighed, worst first, then
    oldest; ``gone`` the matching ones that were just decided; ``tokens`` ids and words of the bootstrap tokens that a
    filter by token may name. ``beyond`` is how many more match than one page can weigh: then ``rows`` are those that
    have waited longest.
    """

    waiting: list[str]
    put_off: list[str]
    rows: list[InboxRow]
    gone: list[InboxRow]
    tokens: list[tuple[str, str]]
    beyond: int = 0

    @property
    def everything(self) -> list[InboxRow]:
        """With what has just been decided, in its place."""
        return sorted([*self.rows, *self.gone], key=lambda row: row.order)


def count_by_verdict(rows: Iterable[InboxRow]) -> dict[str, int]:
    found = Counter(str(row.verdict) for row in rows if row.outcome is None)
    return {"all": found.total()} | {str(verdict): found[str(verdict)] for verdict in Verdict}


def inbox_for(actor: Actor, wanted: Filter | None = None, *, with_gone: bool = False) -> Inbox:
    """What waits for the actor's eyes. All of it is counted; what the filter leaves is weighed."""
    wanted = wanted or Filter()
    since = queries.waiting(actor)
    out_of_sight = snooze.put_off_by(actor, since)
    in_sight = snooze.in_sight(actor)
    called = [name for name in (sorted(out_of_sight) if wanted.later else in_sight) if wanted.calls(name)]
    if len(called) > MOST_WEIGHED and wanted.is_of_origin:
        origins, now = evidence_queries.origins(called), clock.now()
        called = [name for name in called if wanted.keeps(origins[name], now)]
    weighed = sorted(called, key=lambda name: since[name].since)[:MOST_WEIGHED]
    recent = _just_decided(actor, wanted, since.keys()) if with_gone and not wanted.later else {}
    found, allowed = assessment.of_all([*weighed, *recent]), services.acceptable(actor, weighed)
    rows = [
        InboxRow(found[name], found[name].verdict, name in allowed, put_off=out_of_sight.get(name)) for name in weighed
    ]
    return Inbox(
        waiting=in_sight,
        put_off=sorted(out_of_sight),
        rows=sorted(filtered_rows(rows, wanted), key=lambda row: row.order),
        gone=filtered_rows((_gone(found[name], outcome) for name, outcome in recent.items()), wanted),
        tokens=sorted({(row.token, row.credential) for row in rows if row.token}, key=lambda choice: choice[1]),
        beyond=len(called) - len(weighed),
    )


def oldest_first(actor: Actor) -> list[str]:
    """The names in sight by the time of their newest request, else of their cluster; nothing is weighed."""
    since = queries.waiting(actor)
    return sorted(snooze.in_sight(actor), key=lambda name: (since[name].since, name))


def _gone(found: Evidence, outcome: RequestOutcome) -> InboxRow:
    verdict = Verdict(outcome.verdict) if outcome.verdict in set(Verdict) else Verdict.SAFE
    return InboxRow(found, verdict, is_allowed=False, outcome=outcome)


def _just_decided(actor: Actor, wanted: Filter, waiting: Collection[str]) -> dict[str, RequestOutcome]:
    """Those of the last moment that are called so, the newest first; at most ``MOST_GONE`` of them."""
    since = clock.now() - GONE_SHOWN
    rows = _facts_for(actor).filter(decided_at__gte=since, decision__in=(Decision.ACCEPTED, Decision.DECLINED))
    called = [each for each in rows if each.cluster not in waiting and wanted.calls(each.cluster)]
    return {each.cluster: outcome for each, outcome in _with_outcomes(called[:MOST_GONE])}


# ---------------------------------------------------------------- filtered


@dataclass(frozen=True, slots=True)
class Filter:
    """What a person wants to see of it."""

    verdict: str = ""
    token: str = ""
    source: IPv4Network | IPv6Network | None = None
    older_than: timedelta | None = None
    younger_than: timedelta | None = None
    name: str = ""
    later: bool = False  # of what the person has put off

    def calls(self, name: str) -> bool:
        return not self.name or is_called(name, self.name)

    @property
    def is_of_origin(self) -> bool:
        """Whether it asks who made the request, from where, or when."""
        return bool(self.token or self.source is not None or self.older_than or self.younger_than)

    @property
    def is_narrow(self) -> bool:
        """Whether it may leave out something, other than by its verdict."""
        return bool(self.name or self.is_of_origin)

    def keeps(self, row: InboxRow | Origin, now: datetime) -> bool:
        """All but the verdict, whose counts are shown beside each other."""
        return (
            self.calls(row.name)
            and (not self.token or row.token == self.token)
            and (self.source is None or bootstrap_terms.is_within(row.source, [str(self.source)]))
            and (self.older_than is None or (row.asked is not None and now - row.asked >= self.older_than))
            and (self.younger_than is None or (row.asked is not None and now - row.asked < self.younger_than))
        )


def is_called(name: str, pattern: str) -> bool:
    """``eu-web-*`` is a pattern; any other text is looked for in the name."""
    return fnmatchcase(name, pattern) if set(pattern) & set("*?[") else pattern in name


def filtered_rows(rows: Iterable[InboxRow], wanted: Filter) -> list[InboxRow]:
    now = clock.now()
    return [row for row in rows if wanted.keeps(row, now)]


def shown_rows(rows: Iterable[InboxRow], wanted: Filter) -> list[InboxRow]:
    """What the list has of an inbox of this filter on all its pages."""
    return [row for row in rows if wanted.verdict in {"", row.verdict}]


def rows_of(actor: Actor, names: Iterable[str]) -> list[InboxRow]:
    """Those of the names that wait for a decision and that the actor may see, put off or not."""
    waiting = sorted(set(names).intersection(queries.waiting_names(actor)))
    found, allowed = assessment.of_all(waiting), services.acceptable(actor, waiting)
    return [InboxRow(found[name], found[name].verdict, name in allowed) for name in waiting]


def joins(rows: Iterable[InboxRow]) -> str:
    """``web (3) and edge (2)``."""
    found = Counter(row.clusterset or "no set" for row in rows)
    parts = [f"{name} ({count})" for name, count in found.most_common()]
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


# ---------------------------------------------------------------- decided


def _facts_for(actor: Actor) -> QuerySet[ClusterFacts]:
    """Decisions about names that the actor may see; of names that are gone, who sees every cluster (D16)."""
    rows = ClusterFacts.objects.exclude(decision="").exclude(decided_at=None)
    if not clusters.sees_all(actor):
        rows = rows.filter(cluster__in=clusters.clusters_for(actor).order_by().values("name"))
    return rows.order_by("-decided_at", "cluster")


def decided_names(
    actor: Actor, *, limit: int, after: Cursor | None = None
) -> list[tuple[ClusterFacts, RequestOutcome]]:
    """The last word about each name, newest first; ``after`` goes on where a page ended."""
    rows = _facts_for(actor)
    if after is not None:
        rows = rows.filter(after.beyond("-decided_at", "cluster"))
    return _with_outcomes(rows[:limit])


def own_decline(actor: Actor) -> ClusterFacts | None:
    """What the person declined last, while that can be undone with one click."""
    since = clock.now() - UNDO
    found = _facts_for(actor).filter(decision=Decision.DECLINED, decided_by=actor.user[:320], decided_at__gte=since)
    return found.first()


def outcome_of(facts: ClusterFacts) -> RequestOutcome | None:
    """What was decided about one name, and on what."""
    return next((outcome for _, outcome in _with_outcomes([facts])), None) if facts.decision else None


def _with_outcomes(rows: Iterable[ClusterFacts]) -> list[tuple[ClusterFacts, RequestOutcome]]:
    """With the evidence that each was decided on, in one query."""
    found = list(rows)
    if not found:
        return []
    notes = AuditEvent.objects.filter(
        act=queries.EVIDENCE,
        name__in=[each.cluster for each in found],
        time__gte=min(each.decided_at or clock.now() for each in found) - timedelta(minutes=1),
    )
    latest = {note.name: note for note in notes.order_by("time", "pk")}
    return [(each, _outcome(each, latest.get(each.cluster))) for each in found]


def _outcome(facts: ClusterFacts, note: AuditEvent | None) -> RequestOutcome:
    """A decision by kubectl leaves no evidence; it stands alone."""
    recorded: dict[str, Any] = {entry["path"]: entry.get("new") for entry in note.diff} if note else {}
    if note is None or note.reason != facts.decision or note.user != facts.decided_by:
        recorded = {}
    is_fresh = facts.decided_at is not None and facts.decided_at > clock.now() - UNDO
    return RequestOutcome(
        decision=facts.decision,
        by=facts.decided_by,
        at=facts.decided_at,
        reason=facts.decision_reason,
        verdict=recorded.get("evidence.verdict", ""),
        facts=tuple(recorded.get("evidence.facts", ())),
        can_undo=facts.decision == Decision.DECLINED and is_fresh,
    )


# ---------------------------------------------------------------- superseded


@dataclass(frozen=True, slots=True)
class Superseded:
    """A request that gave way to a newer one of the same asker (K11)."""

    entry: int
    name: str
    at: datetime
    text: str


def superseded_requests(actor: Actor, *, limit: int, after: Cursor | None = None) -> list[Superseded]:
    rows = queries.superseded_notes(clock.now() - timedelta(days=365))
    if not clusters.sees_all(actor):
        rows = rows.filter(name__in=clusters.clusters_for(actor).order_by().values("name"))
    if after is not None and after.key.isascii() and after.key.isdecimal() and len(after.key) <= LONGEST_ID:
        rows = rows.filter(after.beyond("-time", "-pk"))
    return [Superseded(row.pk, row.name, row.time, row.reason) for row in rows.order_by("-time", "-pk")[:limit]]
