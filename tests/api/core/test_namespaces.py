"""Namespaces: what the server adds, what ends with them, and what cannot be made in them."""

from __future__ import annotations

import pytest

from ocmconsole.core import kinds
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from tests.actors import ROOT, namespace, refused_at_worst

pytestmark = pytest.mark.django_db
CONFIG_MAP = {"metadata": {"name": "x"}, "data": {"a": "b"}}


@pytest.mark.contract("W27")
def test_a_new_namespace_is_labelled_finalized_and_active() -> None:
    doc = verbs.create(ROOT, kinds.NAMESPACE, {"metadata": {"name": "c1"}, "status": {"phase": "Odd"}}).doc
    assert doc is not None
    assert doc["metadata"]["labels"] == {"kubernetes.io/metadata.name": "c1"}
    assert doc["spec"] == {"finalizers": ["kubernetes"]}
    assert doc["status"] == {"phase": "Active"}
    assert "generation" not in doc["metadata"]


@pytest.mark.contract("W27")
def test_nothing_is_made_in_a_namespace_that_is_not_there() -> None:
    with pytest.raises(errors.NotFound) as refused:
        verbs.create(ROOT, kinds.CONFIG_MAP, CONFIG_MAP, namespace="nons")
    assert refused.value.message == 'namespaces "nons" not found'
    assert refused.value.details == {"name": "nons", "kind": "namespaces"}


@pytest.mark.contract("W27", "W18")
def test_a_deleted_namespace_stays_terminating_and_takes_nothing_new() -> None:
    namespace("tmp1")
    doc = verbs.delete(ROOT, kinds.NAMESPACE, Key("", "tmp1")).doc
    assert doc is not None
    assert doc["status"]["phase"] == "Terminating"
    assert doc["metadata"]["deletionTimestamp"]
    with pytest.raises(errors.Forbidden) as refused:
        verbs.create(ROOT, kinds.CONFIG_MAP, CONFIG_MAP, namespace="tmp1")
    status = refused.value.status()
    assert status["message"] == (
        'configmaps "x" is forbidden: unable to create new content in namespace tmp1 because it is being terminated'
    )
    assert status["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace tmp1 is being terminated",
            "field": "metadata.namespace",
        }
    ]


def test_deleting_again_changes_nothing() -> None:
    namespace("tmp1")
    first = verbs.delete(ROOT, kinds.NAMESPACE, Key("", "tmp1")).doc
    assert verbs.delete(ROOT, kinds.NAMESPACE, Key("", "tmp1")).doc == first


def test_each_endpoint_writes_its_own_part() -> None:
    namespace("c1")
    key = Key("", "c1")

    def everything(doc: dict[str, object]) -> None:
        doc.update(spec={"finalizers": ["kubernetes", "a/b"]}, status={"phase": "Active", "conditions": []})

    def parts(subresource: str) -> tuple[object, object]:
        doc = verbs.edit(ROOT, kinds.NAMESPACE, key, everything, subresource=subresource).doc
        assert doc is not None
        return doc["spec"], doc["status"]

    before = verbs.find(kinds.NAMESPACE, key)
    assert before is not None
    assert parts("") == (before["spec"], before["status"])
    assert parts("status") == (before["spec"], {"phase": "Active", "conditions": []})
    assert parts("finalize")[0] == {"finalizers": ["kubernetes", "a/b"]}


def test_a_finalize_that_empties_the_finalizers_of_a_deleted_namespace_ends_it() -> None:
    namespace("c1")
    verbs.delete(ROOT, kinds.NAMESPACE, Key("", "c1"))
    done = verbs.edit(ROOT, kinds.NAMESPACE, Key("", "c1"), lambda doc: doc.update(spec={}), subresource="finalize")
    assert done.doc is None
    assert verbs.find(kinds.NAMESPACE, Key("", "c1")) is None


@pytest.mark.contract("W27")
def test_the_namespaces_of_the_system_cannot_be_deleted() -> None:
    namespace("kube-system")
    with pytest.raises(errors.Forbidden, match="this namespace may not be deleted"):
        verbs.delete(ROOT, kinds.NAMESPACE, Key("", "kube-system"))


@pytest.mark.contract("W27")
@pytest.mark.parametrize("name", ["A", "a.b", "a" * 64, "-a"])
def test_a_namespace_is_named_by_a_label(name: str) -> None:
    with pytest.raises(errors.Invalid, match=r"RFC 1123 label|must be no more than 63|must not contain dots"):
        namespace(name)


@pytest.mark.parametrize("odd", [7, "x", [7], {"finalizers": 7}, {"finalizers": [7]}, None])
@pytest.mark.parametrize("field", ["spec", "status", "metadata"])
def test_odd_namespaces_are_refused_and_nothing_worse(field: str, odd: object) -> None:
    doc = (
        {"metadata": {"name": "odd", "labels": odd}}
        if field == "metadata"
        else {"metadata": {"name": "odd"}, field: odd}
    )
    with refused_at_worst():
        made = verbs.create(ROOT, kinds.NAMESPACE, doc).doc
        assert made is not None
        assert made["metadata"]["labels"]["kubernetes.io/metadata.name"] == "odd"
        assert made["spec"]["finalizers"] == ["kubernetes"]
