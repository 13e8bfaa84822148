"""Conditions keep their place and their time."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.schema.conditions import Condition, find_condition, set_condition, status_of

EARLIER, NOW = "2026-11-21T02:00:00Z", "2026-11-21T03:00:00Z"
AVAILABLE = "ManagedClusterConditionAvailable"
JOINED = "ManagedClusterJoined"

conditions = st.builds(
    Condition,
    type=st.sampled_from(["A", "B", "C"]),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(["One", "Two"]),
    message=st.text(max_size=5),
)


def stored(type_: str, status: str, reason: str = "Old") -> Doc:
    return {"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": EARLIER}


def test_a_new_condition_goes_to_the_end() -> None:
    found = set_condition([stored(JOINED, "True")], Condition(AVAILABLE, "True", "Up", "fine"), NOW)
    assert [item["type"] for item in found] == [JOINED, AVAILABLE]
    assert found[1] == {
        "type": AVAILABLE,
        "status": "True",
        "reason": "Up",
        "message": "fine",
        "lastTransitionTime": NOW,
    }


@pytest.mark.contract("T2")
def test_another_reason_leaves_the_transition_time() -> None:
    found = set_condition([stored(AVAILABLE, "True")], Condition(AVAILABLE, "True", "New"), NOW)
    assert (found[0]["reason"], found[0]["lastTransitionTime"]) == ("New", EARLIER)


@pytest.mark.contract("T2")
def test_another_status_moves_the_transition_time() -> None:
    found = set_condition([stored(AVAILABLE, "True")], Condition(AVAILABLE, "Unknown", "Old"), NOW)
    assert (found[0]["status"], found[0]["lastTransitionTime"]) == ("Unknown", NOW)


@pytest.mark.contract("T2")
def test_a_condition_without_a_time_gets_one() -> None:
    found = set_condition([{"type": AVAILABLE, "status": "True"}], Condition(AVAILABLE, "True", "Old"), NOW)
    assert found[0]["lastTransitionTime"] == NOW


def test_an_observed_generation_of_an_earlier_writer_is_not_vouched_for() -> None:
    found = set_condition([{**stored(JOINED, "True"), "observedGeneration": 3}], Condition(JOINED, "True", "Old"), NOW)
    assert "observedGeneration" not in found[0]


def test_status_of_an_absent_condition_is_empty() -> None:
    assert status_of([stored(JOINED, "True")], AVAILABLE) == ""
    assert status_of([stored(JOINED, "True")], JOINED) == "True"
    assert find_condition([], JOINED) is None


@pytest.mark.contract("T2", "W16")
@given(st.lists(conditions, max_size=8), conditions)
def test_setting_is_idempotent_keeps_order_and_changes_no_argument(before: list[Condition], new: Condition) -> None:
    old: list[Doc] = []
    for condition in before:
        old = set_condition(old, condition, EARLIER)
    untouched = deepcopy(old)
    found = set_condition(old, new, NOW)
    assert old == untouched
    assert set_condition(found, new, "2026-11-21T04:00:00Z") == found
    types = [item["type"] for item in old]
    assert [item["type"] for item in found] == types + ([] if new.type in types else [new.type])
    assert [item for item in found if item["type"] != new.type] == [item for item in old if item["type"] != new.type]
