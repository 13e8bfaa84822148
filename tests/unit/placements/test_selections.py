"""What a filter let pass, remembered: the same as filtering anew, whatever has come, changed and gone since."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placements.scheduler.fleet import Cluster
from placements.scheduler.selections import LONGEST_KEPT, Selections

NAMES = [f"c{number:02}" for number in range(40)]
# Between two looks: for a few clusters a new value of their label, or None: it goes.
CHANGES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["in", "out", None]), max_size=8)
FLEET = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["in", "out"]), min_size=20)


def cluster(name: str, value: str) -> Cluster:
    return Cluster({"metadata": {"name": name, "labels": {"is": value}}})


def inside(clusters: Sequence[Cluster]) -> list[Cluster]:
    return [each for each in clusters if each.labels["is"] == "in"]


@pytest.mark.contract("P6")
@given(FLEET, st.lists(CHANGES, max_size=5), st.sampled_from([2_000, 60, 0]))
def test_what_is_remembered_is_what_the_filter_says(
    first: dict[str, str], later: list[dict[str, str | None]], most: int
) -> None:
    """Also with room for one answer, and for none."""
    fleet = {name: cluster(name, value) for name, value in first.items()}
    selections = Selections(most)
    for changes in ({}, *later):
        for name, value in changes.items():
            fleet.pop(name, None)
            if value is not None:
                fleet[name] = cluster(name, value)
        clusters = [fleet[name] for name in sorted(fleet)]
        for _ in range(2):
            assert list(selections.passing("inside", clusters, inside)) == inside(clusters)
            assert list(selections.passing("all", clusters, list)) == clusters


def test_only_what_has_changed_is_looked_at_again() -> None:
    looked: list[list[str]] = []

    def look(clusters: Sequence[Cluster]) -> list[Cluster]:
        looked.append([each.name for each in clusters])
        return inside(clusters)

    selections = Selections()
    clusters = [cluster(name, "in") for name in NAMES]
    first = selections.passing("inside", clusters, look)
    moved = [*clusters]
    moved[7] = cluster(NAMES[7], "out")
    second = selections.passing("inside", moved, look)
    assert [len(each) for each in looked] == [40, 1]
    assert (len(first), len(second)) == (40, 39), "a result that was returned once stays as it is"


def test_what_is_not_asked_for_any_more_is_forgotten() -> None:
    """Else a draft of last week would keep the fleet of last week in memory."""
    moments = iter([0.0, LONGEST_KEPT, LONGEST_KEPT + 1])
    selections = Selections(seconds=lambda: next(moments))
    draft = cluster("c1", "in")
    selections.passing("draft", [draft], inside)
    held = ref(draft)
    del draft
    for is_held in (True, False):
        selections.passing("placement", [cluster("c1", "in")], inside)
        assert (held() is not None) == is_held
