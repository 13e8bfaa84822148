"""The scheduler's pipeline alone on a hub's own clusters, in a process of its own: CPU time, nothing is written."""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import orjson
from django.utils import timezone

from clusters.models import ManagedCluster
from placements.controller import decisions
from placements.controller.snapshot import StoredCluster
from placements.scheduler.fleet import AddOnScore, Fleet
from placements.scheduler.pipeline import PlacementResult, schedule
from placements.scheduler.specification import PlacementSpec

Doc = dict[str, Any]

ROUNDS = 7
TEN: Doc = {"numberOfClusters": 10, "tolerations": [{"key": "dedicated", "operator": "Exists"}]}
BUILT_IN = {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableCPU"}}
ADD_ON = {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "free"}}}
CEL = "managedCluster.metadata.labels.env == 'prod'"
SHAPES: dict[str, Doc] = {
    "ten of all": TEN,
    "ten by labels": TEN
    | {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}]},
    "ten by claims": TEN
    | {
        "predicates": [
            {
                "requiredClusterSelector": {
                    "claimSelector": {
                        "matchExpressions": [{"key": "region", "operator": "In", "values": ["lyon", "paris"]}]
                    }
                }
            }
        ]
    },
    "ten by CPU and an add-on's score": TEN | {"prioritizerPolicy": {"configurations": [BUILT_IN, ADD_ON]}},
    "half of all": {"numberOfClusters": 5_000},
    "all": {},
    "all in the order of scores": {"sortBy": "Score"},
    "ten by CEL, evaluated before": TEN
    | {"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": [CEL]}}}]},
    "groups of one": {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": 1}}},
}


def main() -> None:
    """Writes milliseconds by shape."""
    chance = random.Random(1)  # noqa: S311 - the same each time
    rows = ManagedCluster.objects.order_by("name").values_list("wire", flat=True)
    clusters = [StoredCluster(text) for text in rows]
    decided = {each.name: chance.randrange(1, 10) for each in clusters if chance.random() < 0.5}
    scores = {(each.name, "load"): AddOnScore({"free": chance.randrange(100)}) for each in clusters}
    fleet = Fleet({"global": clusters}, scores, decided)
    found = {name: _best(spec, fleet) for name, spec in SHAPES.items()}
    sys.stdout.write(f"\n{orjson.dumps(found).decode()}\n")


def _best(spec: Doc, fleet: Fleet) -> float:
    plan = PlacementSpec.of({"metadata": {"name": "p"}, "spec": spec})
    present = {each.name for each in _run(plan, fleet, ()).chosen}
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        _run(plan, fleet, present)
        taken.append(time.process_time() - began)
    return 1000 * min(taken)


def _run(plan: PlacementSpec, fleet: Fleet, present: Any) -> PlacementResult:
    """All that the reconciler computes before it writes."""
    result = schedule(plan, fleet, bound=["global"], present=present, now=timezone.now())
    decisions.decisions_of("p", result.groups)
    decisions.group_statuses("p", result.groups)
    _ = result.conditions, result.look_again
    return result
