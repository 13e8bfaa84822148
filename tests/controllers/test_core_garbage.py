"""Garbage collection by owner references."""

from __future__ import annotations

from typing import Any

import pytest

from ocmconsole.core import kinds
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.control import controllers, workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Owner
from ocmconsole.kubeapi.watch import change_log
from tests.actors import ROOT, namespace

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _here() -> None:
    namespace("here")
    workqueue.drain()


def make(name: str, *owners: dict[str, Any], finalizers: tuple[str, ...] = (), block: bool = False) -> dict[str, Any]:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        | ({"blockOwnerDeletion": True} if block else {})
        for owner in owners
    ]
    metadata = {"name": name, "ownerReferences": references, "finalizers": list(finalizers)}
    doc = verbs.create(ROOT, kinds.CONFIG_MAP, {"metadata": metadata}, namespace="here").doc
    assert doc is not None
    return doc


def delete(name: str, propagation: str = "Background") -> None:
    verbs.delete(ROOT, kinds.CONFIG_MAP, Key("here", name), options=verbs.Options(propagation=propagation))


def settle() -> None:
    workqueue.drain()
    before = change_log.newest_revision()
    for row in Owner.objects.all():
        controllers.find_reconciler("dependents").reconcile(Key("", row.owner_uid))  # type: ignore[union-attr]
        controllers.find_reconciler("waiting_owner").reconcile(Key("", f"configmaps/{row.owner_uid}"))  # type: ignore[union-attr]
    assert change_log.newest_revision() == before


def find(name: str) -> dict[str, Any] | None:
    return verbs.find(kinds.CONFIG_MAP, Key("here", name))


def references(name: str) -> list[str]:
    doc = find(name)
    assert doc is not None
    return [reference["name"] for reference in doc["metadata"].get("ownerReferences") or []]


@pytest.mark.contract("W18", "W181")
def test_dependents_go_with_their_owner_and_theirs_with_them() -> None:
    parent = make("parent")
    make("grandchild", make("child", parent))
    delete("parent")
    settle()
    assert find("child") is None
    assert find("grandchild") is None


@pytest.mark.contract("W18")
def test_another_owner_keeps_a_dependent_which_loses_the_reference() -> None:
    make("child", make("one"), make("two"))
    settle()
    delete("one")
    settle()
    assert references("child") == ["two"]
    delete("two")
    settle()
    assert find("child") is None


@pytest.mark.contract("W18")
def test_an_object_whose_owner_was_gone_already_goes_too() -> None:
    parent = make("parent")
    delete("parent")
    settle()
    make("late", parent)
    settle()
    assert find("late") is None


def test_an_owner_of_another_namespace_is_no_owner() -> None:
    namespace("there")
    doc = verbs.create(ROOT, kinds.CONFIG_MAP, {"metadata": {"name": "parent"}}, namespace="there").doc
    assert doc is not None
    make("child", doc)
    settle()
    assert find("child") is None


def test_an_owner_of_a_kind_that_is_not_served_counts_as_present() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "1-2-3"}
    doc = {"metadata": {"name": "child", "ownerReferences": [owner]}}
    verbs.create(ROOT, kinds.CONFIG_MAP, doc, namespace="here")
    settle()
    assert find("child") is not None


def test_a_uid_that_nobody_can_have_harms_nobody() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u" * 300}
    verbs.create(ROOT, kinds.CONFIG_MAP, {"metadata": {"name": "child", "ownerReferences": [owner]}}, namespace="here")
    settle()
    assert find("child") is not None


def test_a_dependent_that_is_held_is_marked_once() -> None:
    make("child", make("parent"), finalizers=("a.b/c",))
    delete("parent")
    settle()
    doc = find("child")
    assert doc is not None
    assert doc["metadata"]["deletionTimestamp"]


@pytest.mark.contract("W18", "W180", "W181")
def test_orphan_leaves_the_dependents_without_the_reference() -> None:
    make("child", make("parent"))
    delete("parent", "Orphan")
    doc = find("parent")
    assert doc is not None
    assert doc["metadata"]["finalizers"] == ["orphan"]
    settle()
    assert find("parent") is None
    assert references("child") == []


@pytest.mark.contract("W18", "W180")
def test_foreground_waits_for_dependents_that_block() -> None:
    parent = make("parent")
    make("blocks", parent, finalizers=("a.b/c",), block=True)
    make("other", parent, finalizers=("a.b/c",))
    delete("parent", "Foreground")
    settle()
    doc = find("parent")
    assert doc is not None
    assert doc["metadata"]["finalizers"] == ["foregroundDeletion"]
    verbs.edit(ROOT, kinds.CONFIG_MAP, Key("here", "blocks"), lambda doc: doc["metadata"].update(finalizers=[]))
    settle()
    assert find("parent") is None
    assert find("other") is not None


@pytest.mark.parametrize("propagation", ["Foreground", "Orphan", "Background"])
def test_without_dependents_every_policy_deletes_at_once(propagation: str) -> None:
    make("alone")
    delete("alone", propagation)
    assert find("alone") is None


def test_a_finalizer_of_ours_set_by_hand_is_taken_off_at_deletion() -> None:
    make("alone", finalizers=("orphan",))
    make("other", finalizers=("foregroundDeletion",))
    settle()
    assert find("alone") is not None
    delete("alone")
    delete("other")
    settle()
    assert find("alone") is None
    assert find("other") is None
