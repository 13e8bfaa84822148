"""Durations of scheduling, with upstream's names and buckets (H46, P34)."""

from __future__ import annotations

from typing import Any

import pytest

from ocmconsole.kubeapi.health import metrics
from ocmconsole.kubeapi.kinds import Key
from placements.controller import metrics as placement_metrics
from tests import factories as make
from tests.controllers.placement_scene import bound_set, members, place

pytestmark = [pytest.mark.django_db, pytest.mark.contract("H46", "P34")]

NAME = 'name="placement_scheduling"'


def counts() -> dict[str, float]:
    """Observations of each series, without ``scheduling_`` and ``_duration_seconds_count``."""
    found = {}
    for line in metrics.exposition().decode().splitlines():
        if line.startswith("scheduling_") and "_duration_seconds_count" in line:
            series, _, count = line.rpartition(" ")
            found[series.removeprefix("scheduling_").replace("_duration_seconds_count", "")] = float(count)
    return found


def test_each_run_of_a_placement_and_each_of_its_plugins_is_timed() -> None:
    bound_set()
    members("c1")
    make.settle()
    before = counts()
    scores = [{"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "r", "scoreName": "s"}}, "weight": 1}]
    spec: dict[str, Any] = {
        "numberOfClusters": 1,
        "predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": ["true"]}}}],
        "prioritizerPolicy": {"configurations": scores},
    }
    place(**spec)
    after = counts()
    moved = {series: after[series] - before.get(series, 0) for series in after}
    plugins = [
        ("filter", "Predicate"),
        ("filter", "TaintToleration"),
        ("prioritizer", "AddOn"),
        ("prioritizer", "Balance"),
        ("prioritizer", "Steady"),
    ]
    series = [f"scheduling{{{NAME}}}", f"bind{{{NAME}}}", f"cel_runtime{{{NAME}}}"]
    series += [f'plugin{{{NAME},plugin_name="{name}",plugin_type="{type_}"}}' for type_, name in plugins]
    assert {each: moved[each] >= 1 for each in series} == dict.fromkeys(series, True)


def test_scheduling_lasts_from_the_first_turn_to_the_last_and_binding_as_long_as_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Expressions may take several turns; what is written for one placement is not the time of another."""
    clock = [0.0]
    monkeypatch.setattr(placement_metrics, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(placement_metrics, "_begun", {})
    before = sums()

    def at(second: float) -> None:
        clock[0] = second

    one, two = Key("shop", "p1"), Key("shop", "p2")
    placement_metrics.begin(one)
    at(5)
    placement_metrics.begin(two)
    placement_metrics.begin(one)
    at(7)
    with placement_metrics.binding(one):
        at(10)
    assert {name: sums()[name] - before[name] for name in before} == {"scheduling": 7, "bind": 3}
    with placement_metrics.binding(two):
        at(11)
    assert {name: sums()[name] - before[name] for name in before} == {"scheduling": 12, "bind": 4}


def sums() -> dict[str, float]:
    """Seconds that were observed."""
    lines = metrics.exposition().decode().splitlines()
    parts = {name: f"scheduling_{name}_duration_seconds_sum" for name in ("scheduling", "bind")}
    return {
        name: sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(part))
        for name, part in parts.items()
    }


def test_the_buckets_are_those_of_upstream() -> None:
    placed = [
        line for line in metrics.exposition().decode().splitlines() if "scheduling_bind_duration_seconds_b" in line
    ]
    bounds = [line.partition('le="')[2].partition('"')[0] for line in placed]
    wanted = [10.0**exponent for exponent in range(-6, 4)]
    assert [float(bound) for bound in bounds[:-1]] == pytest.approx(wanted)
    assert bounds[-1] == "+Inf"
