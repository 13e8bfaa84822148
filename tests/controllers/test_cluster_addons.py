"""Add-ons and their cluster: labels that say how they are, and silence that covers all of them (H40, H41)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON
from clusters.health import addon_health
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.control.controllers import Reconcile
from ocmconsole.kubeapi.kinds import Key
from tests import factories as make
from tests.factories import Doc
from tests.kept import kept

pytestmark = pytest.mark.django_db

SILENCE = ("Unknown", "ManagedClusterLeaseUpdateStopped", "Registration agent stopped updating its lease.")


@pytest.fixture
@kept
def c1() -> str:
    make.serve_since(timedelta(days=1))
    make.cluster("c1", accepted=True)
    make.settle()
    return "c1"


def say(name: str, status: str) -> None:
    """An add-on's agent says how the add-on is."""
    now = timezone.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Available", "status": status, "reason": "Said", "message": "", "lastTransitionTime": now}
    degraded = {**condition, "type": "Degraded", "status": "False"}

    def change(doc: Doc) -> None:
        doc["status"] = {**doc.get("status", {}), "conditions": [condition, degraded]}

    make.edit(MANAGED_CLUSTER_ADDON, name, change, namespace="c1", subresource="status")


def features() -> dict[str, str]:
    labels = make.stored("c1").doc["metadata"]["labels"]
    prefix = "feature.open-cluster-management.io/addon-"
    return {label.removeprefix(prefix): value for label, value in labels.items() if label.startswith(prefix)}


def state(name: str) -> tuple[str, str, str]:
    doc = verbs.find(MANAGED_CLUSTER_ADDON, Key("c1", name))
    assert doc is not None
    return make.condition(doc, "Available")


def fall_silent() -> None:
    make.renew("c1", timezone.now() - timedelta(seconds=301))
    make.sweep()


# ---------------------------------------------------------------- labels


@pytest.mark.contract("H40")
@pytest.mark.parametrize(
    ("status", "label"),
    [("True", "available"), ("False", "unhealthy"), ("Unknown", "unreachable"), ("", "unreachable")],
)
def test_a_label_of_the_cluster_says_how_an_addon_is(c1: str, status: str, label: str) -> None:
    make.available(c1)
    make.addon(c1, "work-manager")
    if status:
        say("work-manager", status)
    make.settle()
    assert features() == {"work-manager": label}


@pytest.mark.contract("H40")
def test_labels_follow_addons_as_they_come_change_and_go(c1: str) -> None:
    make.available(c1)
    make.label(c1, team="edge")
    make.addon(c1, "one")
    make.addon(c1, "two", finalizers=["example.com/hold"])
    make.settle()
    assert features() == {"one": "unreachable", "two": "unreachable"}
    say("one", "True")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_ADDON, Key(c1, "two"))
    make.settle()
    assert features() == {"one": "available"}
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_ADDON, Key(c1, "one"))
    make.settle()
    assert features() == {}
    assert make.stored(c1).doc["metadata"]["labels"]["team"] == "edge"


@pytest.mark.contract("H40")
def test_a_label_that_somebody_edits_or_invents_is_put_right(c1: str) -> None:
    make.available(c1)
    make.addon(c1, "one")
    make.settle()
    prefix = "feature.open-cluster-management.io/addon-"
    make.label(c1, {f"{prefix}one": "available", f"{prefix}ghost": "available"})
    make.settle()
    assert features() == {"one": "unreachable"}


@pytest.mark.contract("H40")
def test_a_cluster_that_never_said_how_it_is_gets_no_label(c1: str) -> None:
    make.addon(c1, "one")
    say("one", "True")
    make.settle()
    assert features() == {}
    make.available(c1)
    make.settle()
    assert features() == {"one": "available"}


@pytest.mark.contract("H40")
def test_a_cluster_being_deleted_keeps_its_labels_as_they_are(c1: str) -> None:
    make.available(c1)
    make.addon(c1, "one", finalizers=["example.com/hold"])
    make.settle()
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", c1))
    make.settle()
    assert features() == {"one": "unreachable"}


@pytest.mark.contract("H40", "D12")
def test_an_addon_whose_name_is_no_label_hides_no_other(c1: str) -> None:
    make.available(c1)
    make.addon(c1, "a" * 58)
    make.addon(c1, "one")
    make.settle()
    assert features() == {"one": "unreachable"}


# ---------------------------------------------------------------- silence


@pytest.mark.contract("H41", "H40")
def test_addons_of_a_silent_cluster_are_unknown_for_the_same_reason(c1: str) -> None:
    make.available(c1)
    make.addon(c1, "one")
    make.addon(c1, "two")
    say("one", "True")
    make.settle()
    fall_silent()
    assert state("one") == state("two") == SILENCE
    assert features() == {"one": "unreachable", "two": "unreachable"}
    doc = verbs.find(MANAGED_CLUSTER_ADDON, Key(c1, "one"))
    assert doc is not None
    assert make.condition(doc, "Degraded")[0] == "False"


@pytest.mark.contract("H41")
def test_an_addon_that_comes_or_speaks_while_its_cluster_is_silent_is_unknown_too(c1: str) -> None:
    make.available(c1)
    make.settle()
    fall_silent()
    make.addon(c1, "one")
    make.settle()
    assert state("one") == SILENCE
    say("one", "True")
    make.settle()
    assert state("one") == SILENCE


@pytest.mark.contract("H41")
@pytest.mark.parametrize("status", ["", "True", "False"])
def test_what_addons_say_counts_unless_the_cluster_is_silent(c1: str, status: str) -> None:
    make.addon(c1, "one")
    say("one", "True")
    if status:
        make.available(c1, status)
    make.settle()
    assert state("one") == ("True", "Said", "")


@pytest.mark.contract("H41")
def test_the_hub_leaves_it_to_addons_to_say_that_they_are_back(c1: str) -> None:
    make.available(c1)
    make.addon(c1, "one")
    make.settle()
    fall_silent()
    make.renew(c1)
    make.available(c1)
    make.settle()
    assert state("one") == SILENCE
    say("one", "True")
    make.settle()
    assert features() == {"one": "available"}


@pytest.mark.contract("H40", "H41")
@pytest.mark.parametrize("reconcile", [addon_health.reconcile_features, addon_health.reconcile_addon_health])
def test_nobody_is_missed_when_cluster_or_addons_are_gone(c1: str, reconcile: Reconcile) -> None:
    reconcile(Key("", "nobody"))
    assert make.writes_of(reconcile, Key("", c1)) == []
