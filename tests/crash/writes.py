"""What people do to a hub in one test: lists of writes, one for each cluster, one for all sets, one for placements, at once.

No list writes what another one does, each write may be sent twice, and the hub's own work is waited for only where the
outcome would hang on it. So the objects at the end follow from the seed alone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from tests.crash.agents import CLUSTERS, LEASE, MERGE, PATIENCE, Caller, Doc

FLEET = 12
CHANGES_EACH = 3
SET_WRITES = 30
SETS = "/apis/cluster.open-cluster-management.io/v1beta2/managedclustersets"
SET_NAMES = ("blue", "green", "by-tier", "passing")
SET_LABEL = "cluster.open-cluster-management.io/clusterset"
PLACEMENTS = "/apis/cluster.open-cluster-management.io/v1beta1"
PLACEMENT_NAMES = ("all", "few", "grouped", "third")
PLACEMENT_WRITES = 16
NAMESPACES = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE = "open-cluster-management:managedcluster:{}"


class Until(StrEnum):
    """What is waited for before the next write."""

    ACCEPTED = "accepted"
    THERE = "there"
    GONE = "gone"


@dataclass(frozen=True)
class Step:
    method: str
    path: str
    body: Doc | None = None
    until: Until | None = None


def scripts(seed: int) -> list[list[Step]]:
    dice = random.Random(seed)  # noqa: S311 - a repeatable choice
    clusters = [[*_life_of_cluster(dice, f"c{number:02}")] for number in range(FLEET)]
    return [*clusters, [*_life_of_sets(dice)], [*_life_of_placements(dice)]]


# ---------------------------------------------------------------- clusters


def _life_of_cluster(dice: random.Random, name: str) -> Iterator[Step]:
    at = f"{CLUSTERS}/{name}"
    yield _create_cluster(dice, name)
    if dice.random() < 0.2:
        yield _relabel(dice, at)  # never let in
        return
    yield Step("PATCH", at, _accepting(yes=True), Until.ACCEPTED)
    yield Step("GET", LEASE.format(name), until=Until.THERE)  # a cluster that goes before it has one is reported silent
    for _ in range(dice.randrange(CHANGES_EACH + 1)):
        yield from _change(dice, name)
    yield from dice.choice(
        [
            (),
            (Step("PATCH", at, _accepting(yes=False)),),
            (Step("PATCH", at, _accepting(yes=False)), Step("DELETE", at)),
            (Step("DELETE", at),),
            (Step("DELETE", at, until=Until.GONE), _create_cluster(dice, name)),
        ]
    )


def _change(dice: random.Random, name: str) -> Iterator[Step]:
    at, role = f"{CLUSTERS}/{name}", ROLE.format(name)
    match dice.randrange(4):
        case 0:
            yield Step("PATCH", at, _accepting(yes=False))
            yield Step("PATCH", at, _accepting(yes=True))
        case 1:
            yield _relabel(dice, at)
        case 2:
            yield Step("DELETE", f"{RBAC}/clusterroles/{role}", until=Until.THERE)
        case _:
            yield Step("DELETE", f"{RBAC}/namespaces/{name}/rolebindings/{role}:registration", until=Until.THERE)


def _create_cluster(dice: random.Random, name: str) -> Step:
    """A lease so long that no cluster falls silent, which would be a matter of time."""
    spec = {"hubAcceptsClient": False, "leaseDurationSeconds": 3600}
    metadata = {"name": name, "labels": _labels(dice)}
    doc = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": metadata}
    return Step("POST", CLUSTERS, doc | {"spec": spec})


def _relabel(dice: random.Random, at: str) -> Step:
    return Step("PATCH", at, {"metadata": {"labels": _labels(dice)}})


def _labels(dice: random.Random) -> Doc:
    return {SET_LABEL: dice.choice(["default", "blue", "green", "passing"]), "tier": dice.choice(["a", "b"])}


def _accepting(*, yes: bool) -> Doc:
    return {"spec": {"hubAcceptsClient": yes}}


# ---------------------------------------------------------------- sets and bindings


def _life_of_sets(dice: random.Random) -> Iterator[Step]:
    for team in ("red-team", "grey-team", "old-team"):
        yield Step("POST", NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
    for name in SET_NAMES:
        yield _create_set(name)
    for _ in range(SET_WRITES):
        team, name = dice.choice(["red-team", "grey-team", "old-team"]), dice.choice(SET_NAMES)
        bindings = f"{SETS.rpartition('/')[0]}/namespaces/{team}/managedclustersetbindings"
        yield dice.choice(
            [
                _create_binding(bindings, name),
                Step("DELETE", f"{bindings}/{name}"),
                Step("DELETE", f"{SETS}/{name}"),
                _create_set(name),
                Step("DELETE", f"{SETS}/{dice.choice(['default', 'global'])}"),
            ]
        )
    yield Step("DELETE", f"{NAMESPACES}/old-team")


def _create_set(name: str) -> Step:
    selector: Doc = {"selectorType": "ExclusiveClusterSetLabel"}
    if name == "by-tier":
        selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"tier": "a"}}}
    spec = {"clusterSelector": selector, "managedNamespaces": [{"name": f"{name}-apps"}]}
    about = {"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSet"}
    return Step("POST", SETS, about | {"metadata": {"name": name}, "spec": spec})


def _create_binding(bindings: str, name: str) -> Step:
    about = {"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding"}
    return Step("POST", bindings, about | {"metadata": {"name": name}, "spec": {"clusterSet": name}})


# ---------------------------------------------------------------- placements


def _life_of_placements(dice: random.Random) -> Iterator[Step]:
    """In a namespace of their own, bound to sets that come and go."""
    team = "placing-team"
    yield Step("POST", NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
    group = SETS.rpartition("/")[0]
    for name in ("blue", "green", "by-tier"):
        yield _create_binding(f"{group}/namespaces/{team}/managedclustersetbindings", name)
    placements = f"{PLACEMENTS}/namespaces/{team}/placements"
    there: set[str] = set()
    for name in [*PLACEMENT_NAMES, *dice.choices(PLACEMENT_NAMES, k=PLACEMENT_WRITES - len(PLACEMENT_NAMES))]:
        if name not in there:
            doc = {"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement"}
            yield Step("POST", placements, doc | {"metadata": {"name": name}, "spec": _spec(dice)})
            there.add(name)
        elif dice.random() < 0.2:
            yield Step("DELETE", f"{placements}/{name}", until=Until.GONE)
            there.remove(name)
        else:
            yield Step("PATCH", f"{placements}/{name}", {"spec": _spec(dice)})


def _spec(dice: random.Random) -> Doc:
    """Every field, as a patch keeps what it does not name. No score follows what was chosen before: that is chance."""
    exact = {"mode": "Exact", "configurations": [{"scoreCoordinate": {"builtIn": "ResourceAllocatableCPU"}}]}
    labels = {"labelSelector": {"matchLabels": {"tier": dice.choice(["a", "b"])}}}
    strategy = {"clustersPerDecisionGroup": dice.choice([0, 1, 2, "40%"])}
    return {
        "clusterSets": dice.choice([[], ["blue"], ["green", "by-tier"]]),
        "numberOfClusters": dice.choice([None, 2, 5]),
        "predicates": dice.choice([[], [{"requiredClusterSelector": labels}]]),
        "prioritizerPolicy": exact,
        "decisionStrategy": {"groupStrategy": strategy},
        "tolerations": [{"operator": "Exists"}],
    }


# ---------------------------------------------------------------- doing it


def play(caller: Caller, script: list[Step]) -> None:
    """Do all of it, in order; what is so already, perhaps by an answer that was lost, is as good as done."""
    fine = {HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED}
    also = {"POST": HTTPStatus.CONFLICT, "DELETE": HTTPStatus.NOT_FOUND, "GET": HTTPStatus.NOT_FOUND}
    for step in script:
        headers = MERGE if step.method == "PATCH" else None
        code, doc = caller.send(step.method, step.path, step.body, headers)
        while step.method == "PATCH" and code == HTTPStatus.CONFLICT:  # lost against the hub's own writes too often
            code, doc = caller.send(step.method, step.path, step.body, headers)
        assert code in {*fine, also.get(step.method)}, f"{step.method} {step.path}: {doc}"
        caller.ledger.note_answered()
        if step.until is not None:
            _wait(caller, step.path, step.until)


def _wait(caller: Caller, path: str, until: Until) -> None:
    deadline = time.monotonic() + PATIENCE
    while not _is_reached(*caller.get(path), until):
        assert time.monotonic() < deadline, f"{path} is not {until}"
        time.sleep(0.2)


def _is_reached(code: int, doc: Doc, until: Until) -> bool:
    if code != HTTPStatus.OK or until is not Until.ACCEPTED:
        return code == (HTTPStatus.NOT_FOUND if until is Until.GONE else HTTPStatus.OK)
    conditions = (doc.get("status") or {}).get("conditions") or []
    return any(each["type"] == "HubAcceptedManagedCluster" and each["status"] == "True" for each in conditions)
