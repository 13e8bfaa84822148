"""What the scheduler keeps of the fleet in memory is what is stored, whatever has been written in between."""

from __future__ import annotations

import random

import pytest

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clusters.models import ManagedCluster
from clustersets.membership import Membership, membership_of
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema.times import time_of
from placements.controller import snapshot
from tests import factories as make

pytestmark = pytest.mark.django_db


def _set(name: str, **selector: object) -> Membership:
    return membership_of({"metadata": {"name": name}, "spec": {"clusterSelector": selector}})


SETS = (
    _set("web", selectorType="ExclusiveClusterSetLabel"),
    _set("db", selectorType="ExclusiveClusterSetLabel"),
    _set("everything", selectorType="LabelSelector", labelSelector={}),
    _set("prod", selectorType="LabelSelector", labelSelector={"matchLabels": {"env": "prod"}}),
)


@pytest.mark.contract("P5", "T6")
@pytest.mark.parametrize("most", [500, 3])
def test_members_follow_each_write(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MOST_MOVED", most)
    chance, seen = random.Random(most), []  # noqa: S311 - the same each time
    for name in ("web", "db"):
        make.clusterset(name)
    for _ in range(40):
        _write_something(chance)
        if chance.random() < 0.6:
            fleet = snapshot.present.fleet(SETS, with_scores=False, with_decided=False)
            members = {name: [each.name for each in found] for name, found in fleet.members.items()}
            assert members == _stored()
            seen.append((fleet, members))
    for fleet, members in seen:  # what was returned once stays as it was
        assert {name: [each.name for each in found] for name, found in fleet.members.items()} == members


def _write_something(chance: random.Random) -> None:
    name = f"c{chance.randrange(8)}"
    labels = {
        key: chance.choice(values) for key, values in ((CLUSTERSET_LABEL, ("web", "db")), ("env", ("prod", "dev")))
    }
    kept = {key: value for key, value in labels.items() if chance.random() < 0.7}
    row = ManagedCluster.objects.filter(name=name).first()
    if row is None:
        make.cluster(name, labels=kept)
    elif chance.random() < 0.3:
        verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", name))
        make.settle()
    elif time_of(row.doc["metadata"].get("deletionTimestamp")) is None:
        make.edit(MANAGED_CLUSTER, name, lambda doc: doc["metadata"].update(labels=kept))


def _stored() -> dict[str, list[str]]:
    rows = ManagedCluster.objects.order_by("name")
    labels = {row.name: row.doc["metadata"].get("labels") or {} for row in rows}
    return {each.name: [name for name, found in labels.items() if each.includes(found)] for each in SETS}
