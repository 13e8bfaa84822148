"""The word for a state as SQL says what the pure function says, for facts in every order of their instants (ADR 13)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from clusters import queries
from clusters.health import fleet_counts, status_sql
from clusters.health.status import Word
from clusters.kinds import LEASE_NAME, microseconds
from clusters.models import ClusterFacts, Lease, ManagedCluster
from ocmconsole.kubeapi.models import writing

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)
LEASE_SECONDS = 60
# The instants at which a rule turns, what lies a microsecond beside them, and what is far from all.
TURNS = [timedelta(), timedelta(seconds=2 * LEASE_SECONDS), timedelta(seconds=5 * LEASE_SECONDS), timedelta(days=9)]
INSTANTS = [NOW - turn + beside for turn in TURNS for beside in (-MOMENT, timedelta(), MOMENT)]
INSTANTS += [NOW + timedelta(days=300), datetime(1969, 7, 20, 20, 17, 40, 5, tzinfo=UTC)]
CONDITIONS = ["", "True", "False", "Unknown"]

instants = st.sampled_from(INSTANTS)
maybe = st.none() | instants
conditions = st.sampled_from(CONDITIONS)

cluster_columns = st.fixed_dictionaries(
    {
        "created": instants,
        "deleted_at": st.sampled_from([None, None, None, NOW - MOMENT]),
        "hub_accepts_client": st.booleans(),
        "accepted": conditions,
        "accepted_since": maybe,
        "joined": conditions,
        "available": conditions,
        "available_since": maybe,
        "clock_synced": conditions,
        "clock_since": maybe,
        "in_maintenance": st.booleans(),
        "maintenance_since": maybe,
        "lease_duration_seconds": st.sampled_from([1, LEASE_SECONDS, 2**31 - 1]),
    }
)
facts_columns = st.none() | st.fixed_dictionaries(
    {
        "decision": st.sampled_from(["", "accepted", "declined", "disconnected"]),
        "decided_at": maybe,
        "certificate_not_before": maybe,
        "certificate_not_after": maybe,
        "certificate_revoked_at": st.sampled_from([None, None, None, *INSTANTS]),
    }
)
lease_columns = st.none() | st.fixed_dictionaries(
    {"renew_time": st.none() | instants.map(microseconds), "skew": st.sampled_from([None, 0, -5_000_000])}
)
# Sixty clusters at once are not worth shrinking.
QUICKLY = [phase for phase in Phase if phase not in {Phase.shrink, Phase.explain}]
a_cluster = st.tuples(cluster_columns, facts_columns, lease_columns)

AROUND = [None, NOW - timedelta(days=9), NOW - MOMENT, NOW, NOW + MOMENT]
WELL: dict[str, Any] = {
    "created": NOW - MOMENT,
    "hub_accepts_client": True,
    "accepted": "True",
    "accepted_since": NOW - timedelta(days=8),
    "joined": "True",
    "available": "True",
    "available_since": NOW - timedelta(days=7),
}


def outside() -> Iterator[tuple[Any, ...]]:
    """Those that are not let in: what was decided, and when, counted from what came before."""
    for decision, decided_at, since, accepted in itertools.product(
        ClusterFacts.Decision.values, AROUND, AROUND, CONDITIONS
    ):
        columns = {**WELL, "hub_accepts_client": False, "accepted": accepted, "accepted_since": since}
        yield columns, {"decision": decision, "decided_at": decided_at}, None


def entering() -> Iterator[tuple[Any, ...]]:
    for begins, ends, since in itertools.product(AROUND, AROUND, AROUND):
        facts = {"certificate_not_before": begins, "certificate_not_after": ends}
        yield {**WELL, "joined": "", "accepted_since": since}, facts, None


def revoked() -> Iterator[tuple[Any, ...]]:
    for ends, joined, available in itertools.product(AROUND, ["", "True"], CONDITIONS):
        facts = {"certificate_not_after": ends, "certificate_revoked_at": NOW - MOMENT}
        yield {**WELL, "joined": joined, "available": available}, facts, None


def inside() -> Iterator[tuple[Any, ...]]:
    for ends, available, clock, maintained, heard in itertools.product(
        [None, NOW, NOW + MOMENT], CONDITIONS, ["True", "False"], [True, False], [None, *INSTANTS[:9], INSTANTS[-1]]
    ):
        columns = {**WELL, "created": INSTANTS[-1], "available": available, "clock_synced": clock}
        lease = None if heard is None else {"renew_time": microseconds(heard), "skew": 0}
        yield {**columns, "in_maintenance": maintained}, {"certificate_not_after": ends}, lease


def told(clusters: list[tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]]) -> list[Word]:
    """The words of these clusters, which both must agree upon; nothing is left behind."""
    with transaction.atomic():
        _store(clusters)
        rows = status_sql.with_word(ManagedCluster.objects.order_by("name"), NOW)
        stated = [(row.name, status_sql.WORST_FIRST[row.rank], row.since) for row in rows]
        observed = queries.observe_clusters(ManagedCluster.objects.order_by("name"), NOW)
        pure = [(each.row.name, each.status.word, each.status.since) for each in observed]
        counts = fleet_counts.counted(ManagedCluster.objects.all(), NOW)
        transaction.set_rollback(True)
    assert stated == pure
    assert {status_sql.WORST_FIRST[rank]: n for (rank,), n in counts.items()} == Counter(word for _, word, _ in pure)
    return [word for _, word, _ in pure]


def _store(clusters: list[tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]]) -> None:
    with writing():
        ManagedCluster.objects.bulk_create(
            ManagedCluster(uid=f"uid-{n:06}", name=f"c-{n:06}", resource_version=n, wire="{}", **columns)
            for n, (columns, _, _) in enumerate(clusters)
        )
        Lease.objects.bulk_create(
            Lease(uid=f"{name}-{n:06}", namespace=f"c-{n:06}", name=name, created=NOW, resource_version=n, wire="{}")
            for n, (_, _, lease) in enumerate(clusters)
            for name in (("another", LEASE_NAME) if lease is not None else ("another",))
        )
        for n, (_, _, lease) in enumerate(clusters):
            if lease is not None:
                Lease.objects.filter(uid=f"{LEASE_NAME}-{n:06}").update(**lease)
    ClusterFacts.objects.bulk_create(
        ClusterFacts(cluster=f"c-{n:06}", **facts) for n, (_, facts, _) in enumerate(clusters) if facts is not None
    )


@settings(max_examples=25, phases=QUICKLY)
@given(clusters=st.lists(a_cluster, min_size=60, max_size=60))
def test_any_facts_have_one_word(clusters: list[Any]) -> None:
    told(clusters)


def test_every_turn_of_every_rule_has_one_word() -> None:
    removing = ({**WELL, "deleted_at": NOW}, None, None)
    assert set(told([removing, *outside(), *entering(), *revoked(), *inside()])) == set(Word)


def test_lists_have_a_place_for_every_word() -> None:
    assert sorted(status_sql.WORST_FIRST) == sorted(Word)
