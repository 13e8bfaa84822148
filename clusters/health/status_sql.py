"""The word for a cluster's state as SQL, for counting, filtering and ordering thousands of them in one statement.

``status.status_of`` stays the definition: a property test holds the two together for every combination of facts, and
pages take sentence, reason and next step of the rows they show from it (docs/adr/0013). Called by ``queries`` and
pages.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import Case, DateTimeField, F, FilteredRelation, Func, Q, SmallIntegerField, Value, When
from django.db.models.functions import Coalesce, Greatest

from clusters.health.status import LATE_LEASES, Word
from clusters.kinds import LEASE_NAME, SECOND, microseconds
from clusters.models import ClusterFacts

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models import QuerySet
    from django.db.models.sql.compiler import SQLCompiler

# Worst first: the order in which lists show states, and by which they sort them.
WORST_FIRST = (
    Word.SILENT,
    Word.REVOKED,
    Word.EXPIRED,
    Word.UNHEALTHY,
    Word.LATE,
    Word.CLOCK_SKEW,
    Word.DISCONNECTED,
    Word.REMOVING,
    Word.NEEDS_REVIEW,
    Word.WAITING,
    Word.JOINING,
    Word.MAINTENANCE,
    Word.UNKNOWN,
    Word.DECLINED,
    Word.HEALTHY,
)
RANKS = {word: rank for rank, word in enumerate(WORST_FIRST)}
# Somebody should look: not what is well, on purpose, or on its way.
TROUBLED = tuple(word for word in WORST_FIRST if word.tone in {"danger", "caution", "warn", "accent"})


# Nothing is expected of their agents: not let in, on the way in or out, or in maintenance.
OUT_OF_SERVICE = frozenset(
    {
        Word.REMOVING,
        Word.DECLINED,
        Word.NEEDS_REVIEW,
        Word.DISCONNECTED,
        Word.WAITING,
        Word.JOINING,
        Word.MAINTENANCE,
    }
)


class Instant(Func):
    """Microseconds since 1970 as the database's own time."""

    output_field = DateTimeField()

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Any:  # noqa: ARG002 - Django's signature
        sql, parameters = compiler.compile(self.get_source_expressions()[0])
        return f"('epoch'::timestamptz + ({sql}) * interval '1 microsecond')", parameters

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Any:  # noqa: ARG002 - Django's signature
        """As Django writes times there: text, with a fraction only where there is one."""
        sql, parameters = compiler.compile(self.get_source_expressions()[0])
        rest = f"((({sql}) %% {SECOND} + {SECOND}) %% {SECOND})"  # SQLite divides towards zero, also before 1970
        seconds = f"strftime('%%Y-%%m-%%d %%H:%%M:%%S', (({sql}) - {rest}) / {SECOND}, 'unixepoch')"
        fraction = f"CASE WHEN {rest} = 0 THEN '' ELSE printf('.%%06d', {rest}) END"
        return f"({seconds} || {fraction})", [*parameters] * 4


class StatusRule(NamedTuple):
    """One line of the vocabulary; the first that applies is the state."""

    word: Word
    applies: Q
    since: Any


def with_word(clusters: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """Each cluster with ``rank`` (see ``RANKS``), ``since`` and ``heard``, the microsecond of its last heartbeat."""
    rules = _rules(now)
    found: QuerySet[Any] = with_heard(clusters).annotate(
        rank=Case(
            *(When(rule.applies, then=Value(RANKS[rule.word])) for rule in rules),
            default=Value(RANKS[Word.UNKNOWN]),
            output_field=SmallIntegerField(),
        ),
        since=Case(
            *(When(rule.applies, then=rule.since) for rule in rules),
            default=F("accepted_since"),
            output_field=DateTimeField(),
        ),
    )
    return found


def with_heard(clusters: QuerySet[Any]) -> QuerySet[Any]:
    """The hub makes the lease, an earlier cluster of the name may have left it: no heartbeat of this one (H15, H18)."""
    renewed = F("lease__renew_time")
    beaten = Q(lease__skew__isnull=False) & Q(created__lte=Instant(renewed))
    lease = FilteredRelation("leases", condition=Q(leases__name=LEASE_NAME))
    found: QuerySet[Any] = clusters.annotate(lease=lease).annotate(heard=Case(When(beaten, then=renewed), default=None))
    return found


def _rules(now: datetime) -> list[StatusRule]:
    """As ``status.status_of`` reads, in its order."""
    at = F("facts__decided_at")
    ends, begins = F("facts__certificate_not_after"), F("facts__certificate_not_before")
    accepted = F("accepted_since")
    outside, declined = Q(hub_accepts_client=False), Q(facts__decision=ClusterFacts.Decision.DECLINED)
    stands = Q(facts__decided_at__isnull=True) | Q(accepted_since__isnull=True) | Q(accepted_since__lte=at)
    in_this_life = Q(facts__decided_at__gte=F("created"))
    sent_away = Q(facts__decision=ClusterFacts.Decision.DISCONNECTED) & in_this_life
    let_in = Q(facts__decision=ClusterFacts.Decision.ACCEPTED) & in_this_life
    entering = ~Q(joined="True")
    uncertified = Q(facts__certificate_not_after__isnull=True) | Q(facts__certificate_not_after__lte=now)
    overdue = F("lease_duration_seconds") * (LATE_LEASES * SECOND)
    return [
        StatusRule(Word.REMOVING, Q(deleted_at__isnull=False), F("deleted_at")),
        StatusRule(Word.DECLINED, outside & declined & stands, at),
        StatusRule(Word.DISCONNECTED, outside & sent_away, at),
        StatusRule(Word.DISCONNECTED, outside & (~Q(accepted="") | let_in), accepted),
        StatusRule(Word.NEEDS_REVIEW, outside, F("created")),
        StatusRule(Word.REVOKED, Q(facts__certificate_revoked_at__isnull=False), F("facts__certificate_revoked_at")),
        StatusRule(Word.WAITING, entering & uncertified, accepted),
        StatusRule(Word.JOINING, entering, Greatest(Coalesce(begins, accepted), Coalesce(accepted, begins))),
        StatusRule(Word.EXPIRED, Q(facts__certificate_not_after__lte=now), ends),
        StatusRule(Word.SILENT, Q(available="Unknown"), F("available_since")),
        StatusRule(Word.LATE, Q(heard__lt=Value(microseconds(now)) - overdue), Instant(F("heard") + overdue)),
        StatusRule(Word.CLOCK_SKEW, Q(clock_synced="False"), F("clock_since")),
        StatusRule(Word.UNHEALTHY, Q(available="False"), F("available_since")),
        StatusRule(Word.MAINTENANCE, Q(in_maintenance=True), F("maintenance_since")),
        StatusRule(Word.HEALTHY, Q(available="True"), F("available_since")),
    ]
