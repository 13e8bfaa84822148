"""Durations of scheduling, with upstream's names and buckets (H46, P34)."""

from __future__ import annotations

import pytest

from clusters.kinds import CLUSTERSET_LABEL
from ocmconsole.kubeapi.health import metrics
from placements.kinds import PLACEMENT
from tests import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.contract("H46", "P34")]

TEAM = "shop"
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
    make.namespace(TEAM)
    make.clusterset("web")
    make.binding("web", namespace=TEAM)
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.said("c1", "ManagedClusterConditionAvailable", "True")
    make.settle()
    before = counts()
    scores = [{"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "r", "scoreName": "s"}}, "weight": 1}]
    spec = {
        "numberOfClusters": 1,
        "predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": ["true"]}}}],
        "prioritizerPolicy": {"configurations": scores},
    }
    make.create(PLACEMENT, make.document(PLACEMENT, "p1", spec=spec), namespace=TEAM)
    make.settle()
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


def test_the_buckets_are_those_of_upstream() -> None:
    placed = [
        line for line in metrics.exposition().decode().splitlines() if "scheduling_bind_duration_seconds_b" in line
    ]
    bounds = [line.partition('le="')[2].partition('"')[0] for line in placed]
    wanted = [10.0**exponent for exponent in range(-6, 4)]
    assert [float(bound) for bound in bounds[:-1]] == pytest.approx(wanted)
    assert bounds[-1] == "+Inf"
