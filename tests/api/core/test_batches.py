"""Several writes in one transaction: each sees what those before it leave, and all are stored or none."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.core import kinds
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, Change, Revision, WorkItem
from ocmconsole.kubeapi.storage import reader
from tests import factories as make
from tests.actors import ROOT, grant, person, rule

pytestmark = pytest.mark.django_db

A, B = Key("", "a"), Key("a", "b")
CONFIG = {"metadata": {"name": "b"}, "data": {"x": "1"}}
HOLD = ["example.com/hold"]


def log() -> list[str]:
    return [f"{each.verb} {each.resource.split('.')[0]} {each.name}" for each in Change.objects.order_by("revision")]


def acts() -> list[str]:
    return list(AuditEvent.objects.order_by("pk").values_list("act", flat=True))


def test_a_namespace_and_what_is_in_it_come_together() -> None:
    with verbs.batch(ROOT) as batch:
        batch.create(kinds.NAMESPACE, {"metadata": {"name": "a"}})
        batch.create(kinds.CONFIG_MAP, CONFIG, namespace="a")
        assert batch.find(kinds.CONFIG_MAP, B) is not None
        assert not Change.objects.exists()
    assert log() == ["ADDED namespaces a", "ADDED configmaps b"]
    assert acts() == ["namespace:create", "configmap:create"]
    assert len(set(AuditEvent.objects.values_list("request_id", flat=True))) == 1
    assert reader.check_wire()[1] == []
    assert {"namespace"} <= set(WorkItem.objects.values_list("reconciler", flat=True))


def test_nothing_comes_into_a_namespace_that_the_same_batch_deletes() -> None:
    make.namespace("a")

    def write() -> None:
        with verbs.batch(ROOT) as batch:
            batch.delete(kinds.NAMESPACE, A)
            batch.create(kinds.CONFIG_MAP, CONFIG, namespace="a")

    with pytest.raises(errors.Forbidden, match="being terminated"):
        write()
    assert "deletionTimestamp" not in (verbs.find(kinds.NAMESPACE, A) or {})["metadata"]


def test_one_object_may_be_made_edited_and_deleted_in_turn() -> None:
    make.namespace("a")
    before = Change.objects.count()
    with verbs.batch(ROOT) as batch:
        batch.create(kinds.CONFIG_MAP, CONFIG, namespace="a")
        batch.edit(kinds.CONFIG_MAP, B, lambda doc: doc["data"].update(y="2"))
        batch.edit(kinds.CONFIG_MAP, B, lambda doc: doc["metadata"].update(labels={"l": "1"}))
        assert batch.delete(kinds.CONFIG_MAP, B)
        with pytest.raises(errors.NotFound):
            batch.edit(kinds.CONFIG_MAP, B, lambda doc: doc.update(data={}))
        batch.create(kinds.CONFIG_MAP, CONFIG | {"data": {"z": "3"}}, namespace="a")
        with pytest.raises(errors.AlreadyExists):
            batch.create(kinds.CONFIG_MAP, CONFIG, namespace="a")
    told = [line.split()[0] for line in log()[before:]]
    assert told == ["ADDED", "MODIFIED", "MODIFIED", "DELETED", "ADDED"]
    found = verbs.find(kinds.CONFIG_MAP, B)
    assert found is not None
    assert found["data"] == {"z": "3"}
    assert int(found["metadata"]["resourceVersion"]) == Revision.objects.get().value
    labelled = Change.objects.order_by("revision")[before + 2]
    assert '"y":"2"' in labelled.before  # a selector may have seen what was there only inside of the transaction
    assert reader.check_wire()[1] == []


def test_spec_and_status_of_one_object_are_two_changes_of_one_transaction() -> None:
    make.cluster("c1")
    seen = make.stored("c1").resource_version
    with verbs.batch(ROOT) as batch:
        batch.edit(MANAGED_CLUSTER, Key("", "c1"), lambda doc: doc["metadata"].update(labels={"l": "1"}))
        batch.edit(
            MANAGED_CLUSTER,
            Key("", "c1"),
            lambda doc: doc.update(status={"conditions": [], "version": {"kubernetes": "v1"}}),
            subresource="status",
        )
    doc = make.stored("c1").doc
    assert (doc["metadata"]["labels"]["l"], doc["status"]["version"]["kubernetes"]) == ("1", "v1")
    assert make.stored("c1").resource_version == seen + 2
    assert reader.check_wire()[1] == []


def test_a_held_object_can_be_let_go_deleted_and_made_anew() -> None:
    make.namespace("a")
    make.create(kinds.CONFIG_MAP, {**CONFIG, "metadata": {"name": "b", "finalizers": HOLD}}, namespace="a")
    uid = (verbs.find(kinds.CONFIG_MAP, B) or {})["metadata"]["uid"]
    with verbs.batch(ROOT) as batch:
        batch.edit(kinds.CONFIG_MAP, B, lambda doc: doc["metadata"].pop("finalizers"))
        assert batch.delete(kinds.CONFIG_MAP, B)
        batch.create(kinds.CONFIG_MAP, CONFIG, namespace="a")
    assert (verbs.find(kinds.CONFIG_MAP, B) or {})["metadata"]["uid"] != uid


def test_what_came_first_at_the_commit_leaves_nothing_of_the_batch() -> None:
    make.namespace("a")

    def write() -> None:
        with verbs.batch(ROOT) as batch:
            batch.create(kinds.NAMESPACE, {"metadata": {"name": "other"}})
            batch.create(kinds.NAMESPACE, {"metadata": {"name": "a"}})

    with pytest.raises(errors.AlreadyExists):
        write()
    assert verbs.find(kinds.NAMESPACE, Key("", "other")) is None


@pytest.mark.contract("D11")
def test_who_may_not_create_or_delete_does_not_in_a_batch() -> None:
    make.namespace("a")
    make.create(kinds.CONFIG_MAP, CONFIG, namespace="a")
    li = person("li")
    acts_of: list[tuple[str, Any]] = [
        ("create", lambda batch: batch.create(kinds.CONFIG_MAP, {"metadata": {"name": "c"}}, namespace="a")),
        ("delete", lambda batch: batch.delete(kinds.CONFIG_MAP, B)),
    ]
    for verb, act in acts_of:
        with pytest.raises(errors.Forbidden), verbs.batch(li) as batch:
            act(batch)
        assert AuditEvent.objects.filter(user="li", outcome="denied", verb=verb).count() == 1
        grant(li, rule(verb, "configmaps"))
        with verbs.batch(li) as batch:
            act(batch)


@pytest.mark.parametrize("is_settled", [True, False])
def test_what_is_settled_is_not_looked_at_again(*, is_settled: bool) -> None:
    make.namespace("a")
    make.settle()
    with verbs.batch(ROOT) as batch:
        batch.edit(kinds.NAMESPACE, A, lambda doc: doc["metadata"].update(labels={"l": "1"}))
        if is_settled:
            batch.settled.add(("namespace", A))
    assert WorkItem.objects.filter(reconciler="namespace").exists() is not is_settled


def test_who_is_looked_up_and_missing_is_not_asked_for_again(django_assert_num_queries: Any) -> None:
    make.namespace("a")
    verbs.create(ROOT, kinds.CONFIG_MAP, CONFIG, namespace="a")
    with verbs.batch(ROOT) as batch:
        batch.look_up(kinds.CONFIG_MAP, {B, Key("a", "missing"), Key("c", "b")})
        with django_assert_num_queries(0):
            assert batch.find(kinds.CONFIG_MAP, B) is not None
            assert batch.part().find(kinds.CONFIG_MAP, Key("a", "missing")) is None
            assert batch.find(kinds.CONFIG_MAP, Key("c", "b")) is None
        batch.create(kinds.CONFIG_MAP, {**CONFIG, "metadata": {"name": "missing"}}, namespace="a")
        assert batch.find(kinds.CONFIG_MAP, Key("a", "missing")) is not None


def test_who_came_after_it_was_looked_up_is_not_made_twice() -> None:
    make.namespace("a")
    batch = verbs.Batch(ROOT)
    batch.look_up(kinds.CONFIG_MAP, {B})
    verbs.create(ROOT, kinds.CONFIG_MAP, CONFIG, namespace="a")
    assert batch.find(kinds.CONFIG_MAP, B) is None
    batch.create(kinds.CONFIG_MAP, CONFIG, namespace="a")
    with pytest.raises(errors.AlreadyExists):
        batch.commit()
