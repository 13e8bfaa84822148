"""Deleting a cluster: what is in its namespace goes first, add-ons before works (H27 to H32)."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from clusters.acceptance import resource_cleanup
from clusters.acceptance.resource_cleanup import LOOK_AGAIN, PRIORITY
from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON, MANIFEST_WORK
from clusters.kinds import CLUSTER_LABEL, MANAGED_CLUSTER
from clusters.models import ManagedClusterAddOn, ManifestWork
from ocmconsole.core.kinds import CONFIG_MAP, NAMESPACE, ROLE_BINDING
from ocmconsole.kubeapi import admission, errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem
from tests import factories as make

pytestmark = pytest.mark.django_db

HOLD = ["example.com/hold"]


@pytest.fixture
def c1() -> str:
    make.cluster("c1", accepted=True)
    make.settle()
    return "c1"


def addons() -> list[str]:
    return sorted(ManagedClusterAddOn.objects.values_list("name", flat=True))


def works() -> list[str]:
    return sorted(ManifestWork.objects.values_list("name", flat=True))


def delete_cluster() -> None:
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()


def hold_cluster() -> None:
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["metadata"]["finalizers"].extend(HOLD))


def deleting() -> tuple[str, str, str]:
    return make.condition(make.stored("c1").doc, "Deleting")


def remaining(kind: str, count: int, held: int) -> tuple[str, str, str]:
    text = f"The resource {kind} is remaning, the remaining count is {count}, the finalizer pending count is {held}"
    return "False", "ResourceRemaining", text


def is_gone() -> bool:
    return verbs.find(MANAGED_CLUSTER, Key("", "c1")) is None


@pytest.mark.contract("H27", "H28")
@pytest.mark.parametrize("accepted_at_creation", [True, False])
def test_a_deletion_right_after_the_acceptance_does_not_overtake_the_clean_up(accepted_at_creation: bool) -> None:
    """No reconciler has run before the deletion; the namespace and what is in it were there before the cluster."""
    make.namespace("c1")
    make.addon("c1")
    make.work("c1")
    make.cluster("c1", accepted=accepted_at_creation)
    if not accepted_at_creation:
        make.accept("c1")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    assert not is_gone()
    for _ in range(3):  # add-ons, works, the cluster
        WorkItem.objects.update(due=timezone.now())
        make.settle()
    assert addons() == works() == []
    assert is_gone()


@pytest.mark.contract("H27")
def test_nothing_holds_an_accepted_cluster_where_the_clean_up_is_switched_off(settings: Any) -> None:
    settings.OCMCONSOLE_FEATURE_GATES = settings.OCMCONSOLE_FEATURE_GATES | {"ResourceCleanup": False}
    assert "finalizers" not in make.cluster("c1", accepted=True)["metadata"]


@pytest.mark.contract("H28", "H29", "H31", "K30")
def test_addons_go_before_works_and_low_priorities_before_high_ones(c1: str) -> None:
    make.addon(c1, "late", annotations={PRIORITY: "100"})
    for name, priority in {"early": None, "odd": "101", "word": "x", "below": "-1"}.items():
        make.addon(c1, name, annotations={PRIORITY: priority} if priority else {})
    make.work(c1, "first")
    make.work(c1, "second", annotations={PRIORITY: "5"})
    hold_cluster()
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", c1))
    seen = []
    for _ in range(5):
        again = resource_cleanup.reconcile_resource_cleanup(Key("", c1))
        seen.append((addons(), works(), deleting(), again))
    assert seen == [
        (["late"], ["first", "second"], remaining("managedclusteraddons", 5, 0), LOOK_AGAIN),
        ([], ["first", "second"], remaining("managedclusteraddons", 1, 0), LOOK_AGAIN),
        ([], ["second"], remaining("manifestworks", 2, 0), LOOK_AGAIN),
        ([], [], remaining("manifestworks", 1, 0), LOOK_AGAIN),
        ([], [], ("True", "NoResource", "No cleaned resource in cluster ns."), None),
    ]
    assert LOOK_AGAIN.total_seconds() == 5


@pytest.mark.contract("H28", "H10")
def test_nobody_waits_five_seconds_for_what_goes_at_once(c1: str) -> None:
    make.addon(c1, "first")
    make.addon(c1, "last", annotations={PRIORITY: "9"})
    make.work(c1)
    delete_cluster()
    assert is_gone()
    assert (addons(), works()) == ([], [])


@pytest.mark.contract("H29", "K29", "K30")
def test_what_a_finalizer_holds_is_counted_and_waited_for(c1: str) -> None:
    make.addon(c1, "held", finalizers=HOLD)
    make.addon(c1, "free", annotations={PRIORITY: "7"})
    make.work(c1)
    delete_cluster()
    assert deleting() == remaining("managedclusteraddons", 2, 1)
    assert WorkItem.objects.filter(reconciler="resource_cleanup", name=c1, due__gt=timezone.now()).exists()
    assert (addons(), works()) == (["free", "held"], ["work"])
    make.let_go(MANAGED_CLUSTER_ADDON, "held", namespace=c1)
    make.settle()
    assert is_gone()


@pytest.mark.contract("H28", "H29", "H10", "H31")
def test_an_agent_that_finishes_its_works_is_heard_at_once(c1: str) -> None:
    """The add-on is gone, the works wait for the agent; rights for works last as long as they do."""
    make.addon(c1)
    make.work(c1, "first", finalizers=HOLD)
    make.work(c1, "second", finalizers=HOLD)
    delete_cluster()
    assert deleting() == remaining("manifestworks", 2, 2)
    assert [row.name for row in ROLE_BINDING.model.objects.filter(namespace=c1)] == [
        "open-cluster-management:managedcluster:c1:work"
    ]
    make.let_go(MANIFEST_WORK, "first", namespace=c1)
    make.settle()
    assert deleting() == remaining("manifestworks", 1, 1)
    make.let_go(MANIFEST_WORK, "second", namespace=c1)
    make.settle()
    assert is_gone()
    assert not ROLE_BINDING.model.objects.filter(namespace=c1).exists()


@pytest.mark.contract("H28")
def test_a_departure_hurries_only_those_who_wait(c1: str) -> None:
    make.addon(c1)
    make.settle()
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_ADDON, Key(c1, "addon"))
    make.settle()
    assert not WorkItem.objects.exists()


@pytest.mark.contract("H29")
def test_the_last_word_is_that_nothing_is_left(c1: str) -> None:
    hold_cluster()
    delete_cluster()
    assert deleting() == ("True", "NoResource", "No cleaned resource in cluster ns.")
    assert make.stored(c1).doc["metadata"]["finalizers"] == HOLD


@pytest.mark.contract("H29", "D12")
def test_what_cannot_be_deleted_is_said_once_and_stops_nothing_else(c1: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule of somebody's refuses to let one of the add-ons go."""

    def stays(actor: Actor, old: dict[str, Any]) -> None:
        if old["metadata"]["name"] == "stubborn":
            raise errors.BadRequest("it stays")

    monkeypatch.setitem(admission._delete_validators, MANAGED_CLUSTER_ADDON.resource, [stays])
    make.addon(c1, "stubborn")
    make.addon(c1, "willing")
    delete_cluster()
    assert deleting() == ("False", "DeletingError", "it stays")
    assert addons() == ["stubborn"]
    assert make.writes_of(resource_cleanup.reconcile_resource_cleanup, Key("", c1)) == []


@pytest.mark.contract("H28")
def test_a_kind_that_the_hub_does_not_serve_is_skipped(c1: str, settings: Any) -> None:
    settings.OCMCONSOLE_GC_RESOURCES = [
        "example.com/v1/unknowns",
        "nonsense",
        "work.open-cluster-management.io/v1/manifestworks",
    ]
    make.work(c1)
    make.addon(c1)
    delete_cluster()
    assert is_gone()
    assert (addons(), works()) == (["addon"], [])


@pytest.mark.contract("H30")
def test_a_cluster_removed_by_force_is_cleaned_up_after_all_the_same(c1: str) -> None:
    make.addon(c1, finalizers=HOLD)
    make.work(c1)
    make.let_go(MANAGED_CLUSTER, c1)
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", c1))
    assert is_gone()
    make.settle()
    assert (addons(), works()) == (["addon"], ["work"])
    make.let_go(MANAGED_CLUSTER_ADDON, "addon", namespace=c1)
    make.settle()
    assert (addons(), works()) == ([], [])


@pytest.mark.contract("H30", "H11")
@pytest.mark.parametrize("labels", [{}, {CLUSTER_LABEL: "c2"}])
def test_a_namespace_that_is_not_the_clusters_is_left_alone(labels: dict[str, str]) -> None:
    """Somebody had a namespace of that name; the cluster was never let in."""
    make.namespace("c1", labels=labels)
    make.addon("c1")
    make.cluster("c1")
    make.settle()
    make.let_go(MANAGED_CLUSTER, "c1")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    assert is_gone()
    assert addons() == ["addon"]


@pytest.mark.contract("H30", "H11")
def test_works_that_wait_for_the_next_cluster_of_that_name_are_not_touched(c1: str) -> None:
    delete_cluster()
    make.work(c1, "one")
    make.work(c1, "other")
    verbs.delete(make.ADMIN, MANIFEST_WORK, Key(c1, "one"))
    make.settle()
    assert works() == ["other"]


@pytest.mark.contract("K26")
def test_an_empty_list_is_nothing_to_do(c1: str, settings: Any) -> None:
    settings.OCMCONSOLE_GC_RESOURCES = []
    make.addon(c1)
    delete_cluster()
    assert is_gone()
    assert addons() == ["addon"]


@pytest.mark.contract("H32")
def test_without_the_gate_nothing_is_cleaned_up_and_nothing_hangs(c1: str, settings: Any) -> None:
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "ResourceCleanup": False}
    make.addon(c1)
    make.cluster("c2")
    make.settle()
    assert "finalizers" not in make.stored("c2").doc["metadata"]
    delete_cluster()
    assert is_gone()
    assert addons() == ["addon"]


@pytest.mark.contract("K41", "H27")
def test_a_cluster_that_was_never_let_in_goes_too() -> None:
    make.cluster("c1")
    make.settle()
    delete_cluster()
    assert is_gone()


@pytest.mark.contract("H11", "K29")
def test_what_is_not_in_the_list_stays(c1: str) -> None:
    make.create(CONFIG_MAP, make.document(CONFIG_MAP, "mine"), namespace=c1)
    delete_cluster()
    assert verbs.find(NAMESPACE, Key("", c1)) is not None
    assert verbs.find(CONFIG_MAP, Key(c1, "mine")) is not None


@pytest.mark.contract("H27")
def test_the_finalizer_comes_back_when_somebody_takes_it_off(c1: str) -> None:
    before = make.stored(c1).doc["metadata"]["finalizers"]
    make.let_go(MANAGED_CLUSTER, c1)
    make.settle()
    assert sorted(make.stored(c1).doc["metadata"]["finalizers"]) == sorted(before)
