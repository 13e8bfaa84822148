"""Placements of a demonstration: one in each state, as teams of the retailer write them, and their past."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from clusters.kinds import MAINTENANCE_TAINT, UNREACHABLE_TAINT
from ocmconsole.demo.story import Story
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Key
from placements.kinds import DISABLE_ANNOTATION, PLACEMENT

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
UNBOUND = "sandbox"  # a namespace without any binding


def _labelled(**labels: str) -> list[Doc]:
    return [{"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}]


TOLERANT: list[Doc] = [
    {"key": MAINTENANCE_TAINT, "operator": "Exists", "tolerationSeconds": 365 * 24 * 3600},
    {"key": UNREACHABLE_TAINT["key"], "operator": "Exists", "tolerationSeconds": 1800},
]
GROUPS: Doc = {
    "groupStrategy": {
        "clustersPerDecisionGroup": "50%",
        "decisionGroups": [
            {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"country": "de"}}}}
        ],
    }
}
# By namespace and name: the specification, how long ago it was made, and whether another scheduler has it (P2).
PLACEMENTS: dict[tuple[str, str], tuple[Doc, timedelta, bool]] = {
    # Satisfied
    ("shop", "checkout"): (
        {"numberOfClusters": 3, "predicates": _labelled(env="prod"), "tolerations": TOLERANT}, 3 * DAY, False,
    ),
    ("shop", "catalog"): ({"decisionStrategy": GROUPS}, 2 * DAY, False),
    ("telemetry", "collectors"): ({"clusterSets": ["global"]}, 3 * DAY, False),
    # n short
    ("shop", "price-labels"): ({"numberOfClusters": 2_000, "clusterSets": ["stores-fr"]}, DAY, False),
    # No match: nothing with a GPU is bound there
    ("shop", "gpu-forecast"): ({"predicates": _labelled(gpu="true")}, 20 * HOUR, False),
    # Misconfigured since its last edit; its last good decisions are kept
    ("shop", "loyalty"): ({"numberOfClusters": 2, "clusterSets": ["stores-de"]}, 2 * DAY, False),
    # Paused
    ("payments", "ledger"): ({"numberOfClusters": 1}, 2 * DAY, True),
    # Nothing bound
    (UNBOUND, "first-steps"): ({}, 5 * HOUR, False),
}  # fmt: skip
MISTYPED = ("shop", "loyalty"), 6 * HOUR


def place(story: Story, admin: Actor) -> None:
    """Each at its time."""
    for (namespace, name), (spec, ago, is_paused) in PLACEMENTS.items():
        story.at(story.now - ago, partial(_create, admin, namespace, name, spec, is_paused=is_paused))
    (namespace, name), ago = MISTYPED
    story.at(story.now - ago, partial(_mistype, admin, Key(namespace, name)))


def _create(admin: Actor, namespace: str, name: str, spec: Doc, *, is_paused: bool) -> None:
    metadata: Doc = {"name": name} | ({"annotations": {DISABLE_ANNOTATION: "true"}} if is_paused else {})
    doc = {"apiVersion": PLACEMENT.storage.api_version, "kind": PLACEMENT.kind, "metadata": metadata, "spec": spec}
    verbs.create(admin, PLACEMENT, doc, namespace=namespace)


def _mistype(admin: Actor, key: Key) -> None:
    """A toleration that lacks its key (P12)."""
    wrong = [{"operator": "Equal", "value": "true"}]
    verbs.edit(admin, PLACEMENT, key, lambda doc: doc["spec"].update(tolerations=wrong))
