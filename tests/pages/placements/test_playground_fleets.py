"""Of random fleets and random Placements the playground answers what the scheduler then decides.

The question goes as a request through URL, session, rights and every middleware to the page, as Django's test client sends
it; the decision is what the reconciler writes and the API stores. ``FULL=1`` asks about 10,000 fleets.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import orjson
import pytest
from django.test import Client

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clusters.models import ManagedCluster
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import writing
from ocmconsole.kubeapi.schema.times import timestamp
from ocmconsole.kubeapi.storage import reader
from placements.controller import snapshot
from placements.kinds import ADD_ON_PLACEMENT_SCORE, PLACEMENT
from placements.models import Placement
from placements.reconcilers import reconcile_placement
from tests import factories as make
from tests.actors import signed_in
from tests.pages.placements.test_playground import address, chosen, decided
from tests.selection import FULL

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]
TEAM, NAME = "shop", "p1"
SETS = ("web", "db")
SCORED = ("c0", "c3", "c5")
MOST = 8  # clusters of a fleet
FLEETS = 100 if FULL else 25  # of one test, which keeps its Placement: each decision begins from the one before
KEYS = ("env", "region")
VALUES = ("prod", "test", "eu")
EFFECTS = ("NoSelect", "NoSelectIfNew", "PreferNoSelect")
BUILT_IN = ("Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory")
EXPRESSIONS = (
    "managedCluster.metadata.labels.env == 'prod'",
    "managedCluster.status.clusterClaims.exists(c, c.name == 'region' && c.value == 'eu')",
    "managedCluster.scores('load').exists(s, s.value > 40)",
)


@pytest.mark.contract("P4", "P5", "P6", "P7", "P9", "P11", "P14", "P15", "P16", "P17", "P18", "P19", "D7")
@pytest.mark.parametrize("seed", range(100 if FULL else 2))
def test_the_playground_answers_what_the_scheduler_decides(seed: int) -> None:
    admin, random = signed_in("root", is_superuser=True), Random(seed)  # noqa: S311 - a seed, no secret
    _arrange(random)
    for number in range(FLEETS):
        _replace_fleet(_fleet(random))
        spec = _spec(random)
        answer = _ask(admin, spec)
        make.edit(PLACEMENT, NAME, lambda doc, spec=spec: doc.update(spec=spec), namespace=TEAM)  # type: ignore[misc]
        reconcile_placement(Key(TEAM, NAME))
        assert decided(NAME) == answer, (seed, number, spec)


def _ask(admin: Client, spec: Doc) -> list[str]:
    return chosen(admin.get(address(spec, **{"from": f"{TEAM}/{NAME}"})))


def _arrange(random: Random) -> None:
    """Two sets in one namespace; scores; decisions of another Placement, which Balance counts."""
    make.namespace(TEAM)
    for name in SETS:
        make.clusterset(name)
        make.binding(name, namespace=TEAM)
    for name in SCORED:
        make.namespace(name)
        score = make.create(ADD_ON_PLACEMENT_SCORE, make.document(ADD_ON_PLACEMENT_SCORE, "load"), namespace=name)
        value = {"scores": [{"name": "free", "value": random.randrange(-100, 101)}]}
        make.edit(
            ADD_ON_PLACEMENT_SCORE, score["metadata"]["name"], lambda doc, value=value: doc.update(status=value),  # type: ignore[misc]
            namespace=name, subresource="status",
        )  # fmt: skip
    _replace_fleet([_cluster(f"c{each}", random) for each in range(MOST)])
    for name, most in (("other", 3), (NAME, 2)):
        make.create(PLACEMENT, make.document(PLACEMENT, name, spec={"numberOfClusters": most}), namespace=TEAM)
        reconcile_placement(Key(TEAM, name))
    assert Placement.objects.count() == 2


def _replace_fleet(fleet: list[Doc]) -> None:
    """Rows as the store would write them: verbs would take 50 ms for each cluster. The scheduler reads them anew."""
    rows = [
        reader.row_of(MANAGED_CLUSTER, Key("", doc["metadata"]["name"]), doc, orjson.dumps(doc).decode(), 1)
        for doc in fleet
    ]
    with writing():
        ManagedCluster.objects.all().delete()
        ManagedCluster.objects.bulk_create(rows)
    snapshot.present.forget()


def _fleet(random: Random) -> list[Doc]:
    names = sorted(random.sample([f"c{number}" for number in range(MOST)], random.randint(0, MOST)))
    return [_cluster(name, random) for name in names]


def _cluster(name: str, random: Random) -> Doc:
    now = clock.now()
    labels = {key: random.choice(VALUES) for key in KEYS if random.random() < 0.7}
    if random.random() < 0.85:
        labels[CLUSTERSET_LABEL] = random.choice(SETS)
    taints = [
        {
            "key": random.choice(KEYS),
            "value": random.choice(VALUES),
            "effect": random.choice(EFFECTS),
            "timeAdded": timestamp(now - timedelta(minutes=random.randrange(10), seconds=30)),
        }
        for _ in range(random.choice((0, 0, 1, 2)))
    ]
    amounts = {each: f"{random.randint(1, 9)}" for each in ("cpu", "memory") if random.random() < 0.8}
    metadata: Doc = {"name": name, "uid": f"u-{name}", "resourceVersion": "1", "labels": labels}
    metadata["creationTimestamp"] = timestamp(datetime(2026, 1, 1, tzinfo=UTC))
    if random.random() < 0.05:
        metadata |= {"deletionTimestamp": timestamp(now), "finalizers": ["example.com/hold"]}
    claims = [{"name": key, "value": random.choice(VALUES)} for key in KEYS if random.random() < 0.7]
    return {
        "apiVersion": MANAGED_CLUSTER.storage.api_version,
        "kind": MANAGED_CLUSTER.kind,
        "metadata": metadata,
        "spec": {"hubAcceptsClient": True, "taints": taints},
        "status": {"allocatable": amounts, "capacity": amounts, "clusterClaims": claims, "conditions": []},
    }


def _spec(random: Random) -> Doc:
    """Each part in some of the Placements."""
    parts: dict[str, Any] = {
        "numberOfClusters": random.randint(0, 5),
        "predicates": [{"requiredClusterSelector": _selector(random)} for _ in range(random.randint(1, 2))],
        "tolerations": [_toleration(random) for _ in range(random.randint(1, 2))],
        "clusterSets": random.sample([*SETS, "missing"], random.randint(1, 2)),
        "prioritizerPolicy": {
            "mode": random.choice(("Additive", "Exact")),
            "configurations": [_weight(random) for _ in range(random.randint(1, 3))],
        },
        "spreadPolicy": {
            "spreadConstraints": [
                {
                    "topologyKey": random.choice(KEYS),
                    "topologyKeyType": random.choice(("Label", "Claim")),
                    "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
                }
            ]
        },
        "sortBy": "Score",
    }
    often = {"spreadPolicy": 0.15, "sortBy": 0.15, "clusterSets": 0.3}
    return {name: part for name, part in parts.items() if random.random() < often.get(name, 0.6)}


def _selector(random: Random) -> Doc:
    found: Doc = {}
    for part in ("labelSelector", "claimSelector"):
        if random.random() < 0.5:
            operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
            values = {"values": random.sample(VALUES, random.randint(1, 2))} if operator in {"In", "NotIn"} else {}
            found[part] = {"matchExpressions": [{"key": random.choice(KEYS), "operator": operator, **values}]}
    if random.random() < 0.2:
        found["celSelector"] = {"celExpressions": [random.choice(EXPRESSIONS)]}
    return found


def _toleration(random: Random) -> Doc:
    found: Doc = {"key": random.choice(KEYS)} if random.random() < 0.9 else {}
    if not found or random.random() < 0.6:
        found["operator"] = "Exists"
    else:
        found["value"] = random.choice(VALUES)
    if random.random() < 0.3:
        found["effect"] = random.choice(EFFECTS)
    if random.random() < 0.4:
        found["tolerationSeconds"] = 60 * random.randrange(10)
    return found


def _weight(random: Random) -> Doc:
    coordinate: Doc = {"type": "BuiltIn", "builtIn": random.choice(BUILT_IN)}
    if random.random() < 0.3:
        coordinate = {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "free"}}
    return {"scoreCoordinate": coordinate, "weight": random.randint(-2, 3)}
