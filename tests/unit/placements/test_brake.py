"""The brake on evictions (D27) as the pipeline applies it: what it holds, until when, and what holds for any fleet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.kinds import UNAVAILABLE_TAINT, UNREACHABLE_TAINT
from clustersets.membership import membership_of
from placements.scheduler import brake
from placements.scheduler.brake import Brake
from placements.scheduler.fleet import Cluster, Fleet
from placements.scheduler.pipeline import PlacementResult, schedule
from tests.unit.placements.test_pipeline import FLEETS, NOW, SPECS, cluster, names

pytestmark = pytest.mark.contract("D27")

Doc = dict[str, Any]
AGO = timedelta(minutes=5)
ALL = Brake(None, NOW - AGO, NOW + brake.WAIT)
WEB = membership_of({"metadata": {"name": "web"}, "spec": {}})
EXCLUSIVE = "cluster.open-cluster-management.io/clusterset"


def decide(
    spec: Doc, clusters: Sequence[Cluster], present: Sequence[str], *brakes: Brake, **more: Any
) -> PlacementResult:
    doc = {"metadata": {"name": "p1", "namespace": "ns1"}, "spec": spec}
    fleet = Fleet({"all": clusters}, brakes=brakes)
    return schedule(doc, fleet, bound=["all"], present=present, now=more.pop("now", NOW))


def silent(name: str, **parts: Any) -> Cluster:
    return cluster(name, taints=[UNREACHABLE_TAINT, *parts.pop("taints", ())], **parts)


def test_a_chosen_cluster_stays_and_the_scheduler_looks_again_at_the_end() -> None:
    found = decide({}, [silent("c1"), cluster("c2"), silent("c3")], ["c1", "c2"], ALL)
    assert names(found) == ["c1", "c2"]
    assert found.held == {"c1": brake.Hold(ALL.until)}
    assert found.look_again == ALL.until
    assert ALL.until is not None
    assert names(decide({}, [silent("c1")], ["c1"], ALL, now=ALL.until)) == []


def test_one_that_a_person_holds_has_no_end() -> None:
    found = decide({}, [silent("c1")], ["c1"], ALL, Brake(None, NOW - AGO, None))
    assert found.held == {"c1": brake.Hold(None)}
    assert found.look_again is None


def test_the_longest_brake_counts() -> None:
    longer = Brake(None, NOW, NOW + 2 * brake.WAIT)
    assert decide({}, [silent("c1")], ["c1"], longer, ALL).held == {"c1": brake.Hold(longer.until)}


def test_of_several_ends_the_last_counts_and_a_person_may_take_as_long_as_they_want() -> None:
    assert brake.last_end([NOW, NOW + AGO, NOW - AGO]) == NOW + AGO
    assert brake.last_end([NOW, None]) is None
    assert brake.last_end([]) is None


@pytest.mark.parametrize(
    "taint",
    [
        UNAVAILABLE_TAINT,
        {"key": "gpu", "effect": "NoSelect"},
        {**UNREACHABLE_TAINT, "timeAdded": "2026-11-23T11:54:59Z"},
    ],
)
def test_other_taints_and_older_silence_are_not_held(taint: Doc) -> None:
    assert names(decide({}, [cluster("c1", taints=[taint])], ["c1"], ALL)) == []
    assert names(decide({}, [silent("c1", taints=[taint])], ["c1"], ALL)) == []


def test_the_brake_of_a_set_is_about_its_members() -> None:
    of_web = Brake(WEB, NOW - AGO, ALL.until)
    clusters = [silent("c1", labels={EXCLUSIVE: "web"}), silent("c2", labels={EXCLUSIVE: "db"})]
    assert names(decide({}, clusters, ["c1", "c2"], of_web)) == ["c1"]


def test_it_holds_after_the_end_of_a_toleration_and_not_before() -> None:
    short = [{"key": UNREACHABLE_TAINT["key"], "operator": "Exists", "tolerationSeconds": 60}]
    before = decide({"tolerations": short}, [silent("c1")], ["c1"], ALL)
    assert (names(before), before.held, before.look_again) == (["c1"], {}, NOW + timedelta(seconds=60))
    after = decide({"tolerations": short}, [silent("c1")], ["c1"], ALL, now=NOW + timedelta(seconds=60))
    assert (names(after), set(after.held)) == (["c1"], {"c1"})


@pytest.mark.parametrize(
    ("count", "members", "is_set", "is_most"),
    [(1, 1, False, True), (1, 2, False, False), (2, 3, False, True), (5, 9, True, False), (5, 10, True, False), (6, 10, True, True), (0, 0, False, False)],
)  # fmt: skip
def test_most_is_more_than_half_and_a_set_has_ten(count: int, members: int, is_set: bool, is_most: bool) -> None:
    assert brake.is_most(count, members, is_set=is_set) is is_most


@given(SPECS, FLEETS, st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_a_brake_loses_no_cluster_and_lets_none_in(
    spec: Doc, fleet: list[Cluster], quiet: set[int], has: set[int]
) -> None:
    """For any fleet without a number: who is chosen with the brake is chosen without it, or was chosen and is silent."""
    spec = {key: value for key, value in spec.items() if key != "numberOfClusters"}
    now = [_silenced(each) if number in quiet else each for number, each in enumerate(fleet)]
    present = [fleet[number].name for number in sorted(has) if number < len(fleet)]
    without, held = decide(spec, now, present), decide(spec, now, present, ALL)
    gained = set(names(held)) - set(names(without))
    assert set(names(without)) <= set(names(held))
    assert gained == set(held.held)
    assert gained <= set(present) & {fleet[number].name for number in quiet if number < len(fleet)}


@given(SPECS, FLEETS)
def test_with_all_silent_at_once_decisions_are_those_from_before(spec: Doc, fleet: list[Cluster]) -> None:
    settled = names(decide(spec, fleet, names(decide(spec, fleet, []))))
    after = decide(spec, list(map(_silenced, fleet)), settled, ALL)
    assert sorted(names(after)) == sorted(settled)


def _silenced(each: Cluster) -> Cluster:
    taints = [*each.doc["spec"]["taints"], {**UNREACHABLE_TAINT, "timeAdded": "2026-11-23T12:00:00Z"}]
    return Cluster({**each.doc, "spec": {**each.doc["spec"], "taints": taints}})


def test_what_would_begin_with_a_silence_that_is_pretended() -> None:
    before = [_accepted(f"c{number:02}") for number in range(12)]
    for count, scopes in ((6, []), (7, [None, WEB]), (12, [None, WEB])):
        after = [_silenced(each) if number < count else each for number, each in enumerate(before)]
        found = brake.would_begin(before, after, [WEB])
        assert [each.scope for each in found] == scopes
        assert all(each.until == NOW + brake.WAIT for each in found)
    assert brake.would_begin(after, after, [WEB]) == []


def _accepted(name: str) -> Cluster:
    made = cluster(name, labels={EXCLUSIVE: "web"})
    return Cluster({**made.doc, "spec": {**made.doc["spec"], "hubAcceptsClient": True}})
