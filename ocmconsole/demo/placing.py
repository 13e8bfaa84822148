"""Placements of a demonstration: one in each state, as teams of the retailer write them, and their past."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from clusters.kinds import MAINTENANCE_TAINT, UNREACHABLE_TAINT, TaintEffect, taints_of
from ocmconsole.demo.agents import Agent, Outage
from ocmconsole.demo.states import CLEARED, GRACE, SWEEP, StoryFleet, clear, edit_as
from ocmconsole.demo.story import Story, look_at
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Key
from placements.controller.scheduling import decided_in
from placements.kinds import DISABLE_ANNOTATION, PLACEMENT
from placements.queries import decisions_of

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
        {"numberOfClusters": 2, "predicates": _labelled(env="prod", pci="true"), "tolerations": TOLERANT},
        3 * DAY,
        False,
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
CHECKOUT = Key("shop", "checkout")
POWERLESS = {"key": "rack/power", "value": "off", "effect": TaintEffect.NO_SELECT.value}
SILENT_FOR = timedelta(minutes=12)  # it leaves when the Placement has tolerated it for half an hour
MISTYPED = ("shop", "loyalty"), 6 * HOUR


def place(story: Story, admin: Actor) -> None:
    """Each at its time."""
    for (namespace, name), (spec, ago, is_paused) in PLACEMENTS.items():
        story.at(story.now - ago, partial(_create, admin, namespace, name, spec, is_paused=is_paused))
    (namespace, name), ago = MISTYPED
    story.at(story.now - ago, partial(_mistype, admin, Key(namespace, name)))


# ---------------------------------------------------------------- what one of them lives through


def live_through(fleet: StoryFleet, admin: Actor) -> None:
    """A larger number, a cluster that lost its label, one without power, and one that is silent now."""
    story, now = fleet.story, fleet.story.now
    story.at(now - 50 * HOUR, partial(verbs.edit, admin, PLACEMENT, CHECKOUT, _want_another))
    story.at(now - 19 * HOUR, partial(_edit_a_chosen, _lose_label))
    story.at(now - 15 * HOUR, partial(_clear_all, fleet))
    story.at(now - 6 * HOUR, partial(_edit_a_chosen, _lose_power))
    story.at(now - 4 * HOUR, partial(_power_all, fleet))
    story.at(now - SILENT_FOR, partial(_fall_silent, fleet), settle=False)
    story.at(
        now - SILENT_FOR + GRACE + SWEEP, lambda: [look_at("lease_health", each.name)() for each in _silent(fleet)]
    )


def _want_another(doc: Doc) -> None:
    doc["spec"]["numberOfClusters"] += 1


def _chosen() -> list[str]:
    return sorted(decided_in(decisions_of(*CHECKOUT)))


def _edit_a_chosen(change: Callable[[Doc], None]) -> None:
    for name in _chosen()[:1]:
        edit_as("ana", name, change)


def _lose_label(doc: Doc) -> None:
    del doc["metadata"]["labels"][CLEARED]


def _lose_power(doc: Doc) -> None:
    doc["spec"]["taints"] = [*taints_of(doc), POWERLESS]


def _get_power(doc: Doc) -> None:
    doc["spec"]["taints"] = [taint for taint in taints_of(doc) if taint["key"] != POWERLESS["key"]]


def _clear_all(fleet: StoryFleet) -> None:
    for agent in fleet.cleared:
        clear(agent.name)


def _power_all(fleet: StoryFleet) -> None:
    for agent in fleet.cleared:
        edit_as("ana", agent.name, _get_power)


def _fall_silent(fleet: StoryFleet) -> None:
    """Its last heartbeat; ``past`` writes what follows into the history of heartbeats."""
    for agent in fleet.cleared:
        if [agent.name] == _chosen()[-1:]:
            agent.beat()
            agent.outages.append(Outage(agent.now()))


def _silent(fleet: StoryFleet) -> list[Agent]:
    return [each for each in fleet.cleared if each.outages]


# ---------------------------------------------------------------- how they are written


def _create(admin: Actor, namespace: str, name: str, spec: Doc, *, is_paused: bool) -> None:
    metadata: Doc = {"name": name} | ({"annotations": {DISABLE_ANNOTATION: "true"}} if is_paused else {})
    doc = {"apiVersion": PLACEMENT.storage.api_version, "kind": PLACEMENT.kind, "metadata": metadata, "spec": spec}
    verbs.create(admin, PLACEMENT, doc, namespace=namespace)


def _mistype(admin: Actor, key: Key) -> None:
    """A toleration that lacks its key (P12)."""
    wrong = [{"operator": "Equal", "value": "true"}]
    verbs.edit(admin, PLACEMENT, key, lambda doc: doc["spec"].update(tolerations=wrong))
