"""Deleting a cluster: what is in its namespace goes first (ocm.md 3.7). Config maps stand in for add-ons."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from clusters import removal
from clusters.kinds import MANAGED_CLUSTER
from clusters.removal import PRIORITY
from ocmconsole.corekinds.kinds import CONFIG_MAP, SECRET
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem
from tests import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def c1(settings: Any, tmp_path: Path) -> str:
    settings.OCMCONSOLE_HOME = tmp_path  # without a CA no config map of the hub's own stands in the namespace
    settings.OCMCONSOLE_GC_RESOURCES = ["example.com/v1/unknowns", "/v1/configmaps", "/v1/secrets"]
    make.cluster("c1", accepted=True)
    make.settle()
    return "c1"


def thing(name: str, kind: Any = CONFIG_MAP, **metadata: Any) -> None:
    make.create(kind, make.document(kind, name, **metadata), namespace="c1")


def left(kind: Any = CONFIG_MAP) -> list[str]:
    return sorted(kind.model.objects.filter(namespace="c1", deleted_at=None).values_list("name", flat=True))


def delete_cluster() -> None:
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()


def five_seconds_later() -> None:
    WorkItem.objects.update(due=timezone.now())
    make.settle()


def deleting() -> tuple[str, str, str]:
    return make.condition(make.stored("c1").doc, "Deleting")


@pytest.mark.contract("H28", "H29", "H31", "K30")
def test_kinds_go_in_order_and_priorities_within_a_kind(c1: str) -> None:
    thing("late", annotations={PRIORITY: "100"})
    thing("early")
    thing("odd", annotations={PRIORITY: "101"})
    thing("secret", SECRET)
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", c1))
    seen = []
    for _ in range(4):
        again = removal.reconcile_resource_cleanup(Key("", c1))
        seen.append((left(), left(SECRET), again == timedelta(seconds=5)))
    assert seen == [(["late"], ["secret"], True), ([], ["secret"], True), ([], [], True), ([], [], False)]
    make.settle()
    assert verbs.find(MANAGED_CLUSTER, Key("", c1)) is None


@pytest.mark.contract("H29", "K29", "K30")
def test_what_a_finalizer_holds_is_counted_and_waited_for(c1: str) -> None:
    thing("held", finalizers=["example.com/hold"])
    thing("free", annotations={PRIORITY: "7"})
    delete_cluster()
    assert deleting() == (
        "False",
        "ResourceRemaining",
        "The resource configmaps is remaning, the remaining count is 2, the finalizer pending count is 1",
    )
    assert WorkItem.objects.filter(reconciler="resource_cleanup", name=c1, due__gt=timezone.now()).exists()
    assert left() == ["free"]
    verbs.edit(make.ADMIN, CONFIG_MAP, Key(c1, "held"), lambda doc: doc["metadata"].pop("finalizers"))
    five_seconds_later()
    five_seconds_later()
    assert verbs.find(MANAGED_CLUSTER, Key("", c1)) is None


@pytest.mark.contract("H29")
def test_the_last_word_is_that_nothing_is_left(c1: str) -> None:
    make.edit(MANAGED_CLUSTER, c1, lambda doc: doc["metadata"]["finalizers"].append("example.com/hold"))
    delete_cluster()
    assert deleting() == ("True", "NoResource", "No cleaned resource in cluster ns.")
    assert make.stored(c1).doc["metadata"]["finalizers"] == ["example.com/hold"]


@pytest.mark.contract("H30")
def test_a_cluster_removed_by_force_is_cleaned_up_after_all_the_same(c1: str) -> None:
    thing("orphan")
    make.edit(MANAGED_CLUSTER, c1, lambda doc: doc["metadata"].pop("finalizers"))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", c1))
    make.settle()
    assert left() == []


@pytest.mark.contract("K26")
def test_an_empty_list_is_nothing_to_do(c1: str, settings: Any) -> None:
    settings.OCMCONSOLE_GC_RESOURCES = []
    thing("stays")
    delete_cluster()
    assert verbs.find(MANAGED_CLUSTER, Key("", c1)) is None
    assert left() == ["stays"]


@pytest.mark.contract("H32")
def test_without_the_gate_nothing_is_cleaned_up_and_nothing_hangs(c1: str, settings: Any) -> None:
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "ResourceCleanup": False}
    thing("stays")
    make.cluster("c2")
    make.settle()
    assert "finalizers" not in make.stored("c2").doc["metadata"]
    delete_cluster()
    assert verbs.find(MANAGED_CLUSTER, Key("", c1)) is None
    assert left() == ["stays"]


@pytest.mark.contract("K41")
def test_a_cluster_that_was_never_let_in_goes_too() -> None:
    make.cluster("c1")
    make.settle()
    delete_cluster()
    assert verbs.find(MANAGED_CLUSTER, Key("", "c1")) is None
