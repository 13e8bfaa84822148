"""Server-side apply and managedFields: who owns what after which write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocmconsole.kubeapi.errors import BadRequest, Conflict, Doc
from ocmconsole.kubeapi.formats import apply as ssa
from ocmconsole.kubeapi.kinds import same

V1 = "cluster.open-cluster-management.io/v1"
T1, T2, T3 = "2026-11-21T01:00:00Z", "2026-11-21T02:00:00Z", "2026-11-21T03:00:00Z"

TEXT: Doc = {"type": "string"}
SCHEMA: Doc = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "hubAcceptsClient": {"type": "boolean"},
                "leaseDurationSeconds": {"type": "integer"},
                "note": {"type": "string", "nullable": True},
                "taints": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
                "sets": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "protocol"],
                    "items": {
                        "type": "object",
                        "properties": {"name": TEXT, "protocol": {**TEXT, "default": "TCP"}, "port": {}, "note": TEXT},
                    },
                },
                "limits": {"type": "object", "additionalProperties": {"type": "object", "properties": {"max": TEXT}}},
                "selector": {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "x-kubernetes-map-type": "atomic"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": TEXT,
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {"type": "object", "properties": {"type": TEXT, "status": TEXT}},
                },
            },
        },
    },
}

FORMS = {V1: ssa.Form(SCHEMA, same)}


def body(spec: Any = None, *, status: Any = None, **metadata: Any) -> Doc:
    doc: Doc = {"apiVersion": V1, "kind": "ManagedCluster", "metadata": {"name": "c1", **metadata}}
    if spec is not None:
        doc["spec"] = spec
    if status is not None:
        doc["status"] = status
    return doc


def applied(  # a call of apply with its usual surroundings
    old: Doc | None, new: Doc, manager: str = "m1", *, force: bool = False, now: str = T1, subresource: str = ""
) -> Doc:
    before = deepcopy((old, new))
    result = ssa.apply(
        old, new, manager=manager, force=force, api_version=V1, schema=SCHEMA, now=now, subresource=subresource
    )
    assert (old, new) == before
    return result


def updated(old: Doc | None, new: Doc, manager: str = "m1", *, now: str = T1, subresource: str = "") -> Doc:
    """The new document as ``verbs`` stores it."""
    new = deepcopy(new)
    if old is not None:
        new["metadata"].setdefault("managedFields", old["metadata"].get("managedFields", []))
    before = deepcopy((old, new))
    fields = ssa.track_update(old, new, manager=manager, api_version=V1, forms=FORMS, now=now, subresource=subresource)
    assert (old, new) == before
    new["metadata"]["managedFields"] = fields
    return new


def fields_of(doc: Doc, manager: str, operation: str = "Apply", subresource: str = "") -> Any:
    for entry in doc["metadata"].get("managedFields", []):
        if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (manager, operation, subresource):
            return entry["fieldsV1"]
    return None


def times(doc: Doc) -> dict[str, str]:
    return {entry["manager"]: entry["time"] for entry in doc["metadata"].get("managedFields", [])}


# ---- Apply


@pytest.mark.contract("W141")
def test_applying_to_nothing_creates_the_document_with_its_owner() -> None:
    doc = applied(None, body({"hubAcceptsClient": True}, labels={"a": "1"}))
    assert doc == {
        "apiVersion": V1,
        "kind": "ManagedCluster",
        "metadata": {
            "name": "c1",
            "labels": {"a": "1"},
            "managedFields": [
                {
                    "manager": "m1",
                    "operation": "Apply",
                    "apiVersion": V1,
                    "time": T1,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:hubAcceptsClient": {}}},
                }
            ],
        },
        "spec": {"hubAcceptsClient": True},
    }


@pytest.mark.contract("W141")
def test_every_kind_of_list_and_map_has_its_own_elements() -> None:
    doc = applied(
        None,
        body(
            {
                "taints": [{"key": "a"}],
                "sets": ["x", "y"],
                "ports": [{"name": "web", "port": 80}],
                "limits": {"cpu": {"max": "1"}},
                "selector": {"a": "1"},
                "free": {"x": {"y": [1]}},
            },
            finalizers=["a/b"],
            ownerReferences=[{"uid": "u1", "name": "o", "kind": "K", "apiVersion": "v1"}],
        ),
    )
    assert fields_of(doc, "m1") == {
        "f:metadata": {
            "f:finalizers": {'v:"a/b"': {}},
            "f:ownerReferences": {
                'k:{"uid":"u1"}': {".": {}, "f:uid": {}, "f:name": {}, "f:kind": {}, "f:apiVersion": {}}
            },
        },
        "f:spec": {
            "f:taints": {},
            "f:sets": {'v:"x"': {}, 'v:"y"': {}},
            "f:ports": {'k:{"name":"web","protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}},
            "f:limits": {"f:cpu": {".": {}, "f:max": {}}},
            "f:selector": {},
            "f:free": {"f:x": {".": {}, "f:y": {}}},
        },
    }


@pytest.mark.contract("W141")
def test_another_value_of_another_manager_is_a_conflict() -> None:
    old = applied(None, body({"hubAcceptsClient": True}))
    with pytest.raises(Conflict) as refused:
        applied(old, body({"hubAcceptsClient": False}), "m2")
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "m1": .spec.hubAcceptsClient'
    assert refused.value.status()["details"] == {
        "causes": [
            {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".spec.hubAcceptsClient"}
        ]
    }
    assert refused.value.code == 409


@pytest.mark.contract("W141")
def test_several_conflicts_are_listed_by_manager() -> None:
    old = applied(None, body({"hubAcceptsClient": True, "leaseDurationSeconds": 60}))
    old = updated(old, {**old, "metadata": {**old["metadata"], "labels": {"x.io/a": "1"}}}, "kubectl-edit", now=T2)
    wanted = body({"hubAcceptsClient": False, "leaseDurationSeconds": 5}, labels={"x.io/a": "2"})
    with pytest.raises(Conflict) as refused:
        applied(old, wanted, "m2")
    assert refused.value.message == (
        f'Apply failed with 3 conflicts: conflicts with "kubectl-edit" using {V1} at {T2}:\n'
        "- .metadata.labels.x.io/a\n"
        'conflicts with "m1":\n- .spec.hubAcceptsClient\n- .spec.leaseDurationSeconds'
    )


@pytest.mark.contract("W141")
def test_elements_of_lists_are_named_by_key_or_value_in_conflicts() -> None:
    ports = [{"name": "web", "protocol": "UDP", "port": 80}]
    old = applied(None, body({"ports": ports}))
    with pytest.raises(Conflict, match=r': \.spec\.ports\[name="web",protocol="UDP"\]\.port$'):
        applied(old, body({"ports": [{**ports[0], "port": 81}]}), "m2")


@pytest.mark.contract("W141")
def test_a_conflict_with_a_status_writer_names_the_subresource() -> None:
    old = updated(None, body({"hubAcceptsClient": True}))
    old = updated(old, {**old, "status": {"phase": "A"}}, "agent", subresource="status")
    with pytest.raises(
        Conflict, match=r'conflict with "agent" with subresource "status" using .* at .*: \.status\.phase'
    ):
        applied(old, body(status={"phase": "B"}), "m2", subresource="status")


@pytest.mark.contract("W141")
def test_force_moves_ownership() -> None:
    old = applied(None, body({"hubAcceptsClient": True, "leaseDurationSeconds": 60}))
    doc = applied(old, body({"hubAcceptsClient": False}), "m2", force=True, now=T2)
    assert doc["spec"] == {"hubAcceptsClient": False, "leaseDurationSeconds": 60}
    assert fields_of(doc, "m1") == {"f:spec": {"f:leaseDurationSeconds": {}}}
    assert fields_of(doc, "m2") == {"f:spec": {"f:hubAcceptsClient": {}}}
    assert times(doc) == {"m1": T1, "m2": T2}


@pytest.mark.contract("W141")
def test_the_same_value_is_shared_and_stays_until_the_last_owner_drops_it() -> None:
    doc = applied(None, body({"hubAcceptsClient": True}, labels={"a": "1"}))
    doc = applied(doc, body({"hubAcceptsClient": True}), "m2")
    assert fields_of(doc, "m2") == {"f:spec": {"f:hubAcceptsClient": {}}}
    doc = applied(doc, body(labels={"a": "1"}), now=T2)
    assert doc["spec"] == {"hubAcceptsClient": True}
    doc = applied(doc, body(), "m2", now=T2)
    assert "spec" not in doc
    assert doc["metadata"]["labels"] == {"a": "1"}
    assert list(times(doc)) == ["m1"]


@pytest.mark.contract("W141")
def test_a_field_dropped_by_its_only_manager_disappears() -> None:
    old = applied(
        None,
        body(
            {
                "sets": ["x", "y"],
                "ports": [{"name": "web", "port": 1}, {"name": "ssh", "port": 2}],
                "limits": {"cpu": {"max": "1"}, "mem": {}},
                "leaseDurationSeconds": 1,
            },
            labels={"a": "1"},
            finalizers=["x/y"],
        ),
    )
    doc = applied(old, body({"sets": ["y"], "ports": [{"name": "ssh"}]}))
    assert doc["spec"] == {"sets": ["y"], "ports": [{"name": "ssh"}]}
    assert set(doc["metadata"]) == {"name", "managedFields"}


@pytest.mark.contract("W141")
def test_what_nobody_owns_survives_in_what_the_manager_drops() -> None:
    old = applied(None, body({"leaseDurationSeconds": 1}))
    old["spec"]["hubAcceptsClient"] = False
    doc = applied(old, body())
    assert doc["spec"] == {"hubAcceptsClient": False}


@pytest.mark.contract("W141")
def test_fields_of_others_survive_in_a_list_element_that_the_manager_drops() -> None:
    old = applied(None, body({"ports": [{"name": "web", "port": 1}]}))
    old = applied(old, body({"ports": [{"name": "web", "note": "n"}]}), "m2")
    doc = applied(old, body({"hubAcceptsClient": True}))
    assert doc["spec"] == {"ports": [{"name": "web", "note": "n"}], "hubAcceptsClient": True}


@pytest.mark.contract("W141")
def test_the_key_of_a_list_element_stays_as_long_as_the_element() -> None:
    old = applied(None, body({"ports": [{"name": "web"}]}))
    old = updated(old, {**old, "spec": {"ports": [{"name": "web", "port": 1}]}}, "editor")
    assert applied(old, body())["spec"] == {"ports": [{"name": "web", "port": 1}]}


@pytest.mark.contract("W141")
def test_a_value_of_another_type_takes_everything_below_it() -> None:
    old = applied(None, body({"free": {"a": {"b": 1}}}))
    with pytest.raises(Conflict, match=r"\.spec\.free\.a\.b"):
        applied(old, body({"free": {"a": 0}}), "m2")
    doc = applied(old, body({"free": {"a": 0}}), "m2", force=True)
    assert (fields_of(doc, "m1"), fields_of(doc, "m2")) == (None, {"f:spec": {"f:free": {"f:a": {}}}})
    doc = updated(doc, {**doc, "spec": {"free": {"a": {"c": 1}}}}, "editor")
    assert fields_of(doc, "m2") is None
    assert fields_of(doc, "editor", "Update") == {"f:spec": {"f:free": {"f:a": {".": {}, "f:c": {}}}}}


@pytest.mark.contract("W141")
def test_an_apply_that_changes_nothing_gives_an_equal_document() -> None:
    wanted = body({"leaseDurationSeconds": 60}, labels={"a": "1"})
    old = applied(None, wanted)
    assert applied(old, wanted, now=T3) == old
    other = applied(old, body({"leaseDurationSeconds": 60}), "m2", now=T2)
    assert applied(other, wanted, now=T3) == other


@pytest.mark.contract("W141")
def test_new_elements_follow_the_stored_ones() -> None:
    old = applied(None, body({"sets": ["b"], "ports": [{"name": "b"}]}))
    doc = applied(old, body({"sets": ["a", "b"], "ports": [{"name": "a"}, {"name": "b", "port": 1}]}), "m2")
    assert doc["spec"] == {"sets": ["b", "a"], "ports": [{"name": "b", "port": 1}, {"name": "a"}]}


@pytest.mark.contract("W141")
def test_lists_without_a_type_are_taken_whole() -> None:
    old = applied(None, body({"taints": [{"key": "a"}]}))
    with pytest.raises(Conflict, match=r"\.spec\.taints$"):
        applied(old, body({"taints": [{"key": "b"}]}), "m2")
    assert applied(old, body({"taints": [{"key": "b"}]}), "m2", force=True)["spec"] == {"taints": [{"key": "b"}]}


@pytest.mark.contract("W5")
def test_null_is_no_opinion_unless_the_field_may_be_null() -> None:
    old = applied(None, body({"leaseDurationSeconds": 60}, labels={"a": "1"}))
    wanted = body(
        {"leaseDurationSeconds": None, "note": None, "sets": None}, labels=None, creationTimestamp=None, uid=None
    )
    doc = applied(old, wanted, "m2")
    assert doc["spec"] == {"leaseDurationSeconds": 60, "note": None}
    assert doc["metadata"]["labels"] == {"a": "1"}
    assert fields_of(doc, "m2") == {"f:spec": {"f:note": {}}}


@pytest.mark.contract("W141")
def test_an_empty_container_takes_nothing_from_others() -> None:
    old = applied(None, body(labels={"a": "1"}))
    doc = applied(old, body(labels={}), "m2")
    assert doc["metadata"]["labels"] == {"a": "1"}
    doc = applied(doc, body(), "m2")
    assert doc["metadata"]["labels"] == {"a": "1"}


def test_identity_in_the_body_stands_in_the_result_for_the_caller_to_check() -> None:
    old = applied(None, body({"leaseDurationSeconds": 60}))
    old["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 2, "creationTimestamp": T1}
    wanted = body({"leaseDurationSeconds": 60}, uid="other", resourceVersion="3", generation=9)
    metadata = applied(old, wanted)["metadata"]
    assert (metadata["uid"], metadata["resourceVersion"], metadata["generation"]) == ("other", "3", 2)
    assert metadata["creationTimestamp"] == T1


@pytest.mark.contract("W16")
def test_a_main_apply_leaves_status_alone_and_a_status_apply_everything_else() -> None:
    old = {**applied(None, body({"leaseDurationSeconds": 60})), "status": {"phase": "A"}}
    doc = applied(old, body({"leaseDurationSeconds": 60}, status={"phase": "B"}))
    assert doc == old
    doc = applied(old, body({"leaseDurationSeconds": 5}, status={"phase": "B"}), "m2", subresource="status", now=T2)
    assert (doc["spec"], doc["status"]) == ({"leaseDurationSeconds": 60}, {"phase": "B"})
    assert fields_of(doc, "m2", subresource="status") == {"f:status": {"f:phase": {}}}
    assert fields_of(doc, "m1") == {"f:spec": {"f:leaseDurationSeconds": {}}}
    assert "status" not in applied(doc, body(), "m2", subresource="status")


@pytest.mark.contract("W8")
def test_unknown_fields_stay_for_the_schema_to_report_and_are_owned_by_nobody() -> None:
    doc = applied(None, body({"zz": {"a": 1}, "leaseDurationSeconds": 1}))
    assert doc["spec"]["zz"] == {"a": 1}
    assert fields_of(doc, "m1") == {"f:spec": {"f:leaseDurationSeconds": {}}}


@pytest.mark.contract("W141")
@pytest.mark.parametrize("sent", [[], [{}], [{"manager": "x"}], {}])
def test_managed_fields_in_the_body_are_refused(sent: Any) -> None:
    with pytest.raises(BadRequest, match=r"^metadata\.managedFields must be nil$"):
        applied(None, body({}, managedFields=sent))
    applied(None, body({}, managedFields=None))


@pytest.mark.parametrize(
    "spec",
    [
        {"ports": [{"port": 1}]},
        {"ports": [{"name": "a"}, {"name": "a", "protocol": "TCP"}]},
        {"ports": ["a"]},
        {"ports": [{"name": {}}]},
        {"sets": ["a", "a"]},
        {"sets": [{}]},
    ],
)
def test_elements_that_cannot_be_distinguished_are_a_bad_request(spec: Doc) -> None:
    with pytest.raises(BadRequest, match=r"^\.spec\.(ports|sets): the elements of this list need keys"):
        applied(None, body(spec))


@pytest.mark.parametrize("broken", [{}, {"metadata": None}, {"metadata": []}, [], None, "x"])
def test_a_body_without_metadata_is_a_bad_request(broken: Any) -> None:
    with pytest.raises(BadRequest):
        applied(None, broken)


@pytest.mark.parametrize("depth", [100, 100_000])
def test_deep_nesting_in_an_applied_body_is_a_bad_request(depth: int) -> None:
    deep: Doc = {}
    for _ in range(depth):
        deep = {"a": deep}
    with pytest.raises(BadRequest, match="nested deeper"):
        ssa.apply(None, body({"free": deep}), manager="m", force=False, api_version=V1, schema=SCHEMA, now=T1)
    assert ssa.track_update(None, body({"free": deep}), manager="m", api_version=V1, forms=FORMS, now=T1)


# ---- Other writes


@pytest.mark.contract("W141")
def test_a_create_owns_everything_but_what_the_server_sets() -> None:
    doc = body(
        {"leaseDurationSeconds": 60, "taints": []},
        status={"phase": "A"},
        finalizers=["a/b"],
        generateName="c",
        uid="u",
        resourceVersion="1",
        generation=1,
        creationTimestamp=T1,
        deletionTimestamp=T1,
        deletionGracePeriodSeconds=0,
        selfLink="x",
        namespace="n",
    )
    assert updated(None, doc)["metadata"]["managedFields"] == [
        {
            "manager": "m1",
            "operation": "Update",
            "apiVersion": V1,
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:generateName": {}, "f:finalizers": {".": {}, 'v:"a/b"': {}}},
                "f:spec": {".": {}, "f:leaseDurationSeconds": {}, "f:taints": {}},
            },
        }
    ]


@pytest.mark.contract("W141")
def test_an_update_takes_what_it_changes_and_drops_what_it_removes() -> None:
    old = applied(None, body({"hubAcceptsClient": True, "leaseDurationSeconds": 60, "sets": ["a", "b"]}))
    new = {**old, "spec": {"hubAcceptsClient": False, "leaseDurationSeconds": 60, "sets": ["b", "c"]}}
    doc = updated(old, new, "editor", now=T2)
    assert fields_of(doc, "m1") == {"f:spec": {"f:leaseDurationSeconds": {}, "f:sets": {'v:"b"': {}}}}
    assert fields_of(doc, "editor", "Update") == {"f:spec": {"f:hubAcceptsClient": {}, "f:sets": {'v:"c"': {}}}}
    assert times(doc) == {"m1": T1, "editor": T2}


@pytest.mark.contract("W141")
def test_managers_with_nothing_left_are_forgotten() -> None:
    old = updated(None, body({"leaseDurationSeconds": 60}), "a")
    doc = updated(old, {**old, "spec": {"leaseDurationSeconds": 5}}, "b")
    assert fields_of(doc, "a", "Update") == {"f:spec": {}}
    doc = updated(doc, body(managedFields=doc["metadata"]["managedFields"]), "b")
    assert doc["metadata"]["managedFields"] == []


@pytest.mark.contract("W16", "W141")
def test_a_write_that_changes_nothing_keeps_the_entries_as_they_are() -> None:
    old = updated(None, body({"leaseDurationSeconds": 60}), "a")
    assert updated(old, old, "b", now=T2) == old


@pytest.mark.contract("W16", "W141")
def test_status_belongs_to_the_status_endpoint() -> None:
    old = updated(None, body({"leaseDurationSeconds": 60}), "a")
    new = {**old, "spec": {"leaseDurationSeconds": 5}, "status": {"conditions": [{"type": "X", "status": "True"}]}}
    doc = updated(old, new, "agent", subresource="status")
    element: Doc = {".": {}, "f:type": {}, "f:status": {}}
    assert fields_of(doc, "agent", "Update", "status") == {
        "f:status": {".": {}, "f:conditions": {".": {}, 'k:{"type":"X"}': element}}
    }
    assert fields_of(doc, "a", "Update") == fields_of(old, "a", "Update")
    assert updated(old, {**old, "status": {"phase": "A"}}, "b")["metadata"] == old["metadata"]


def test_other_subresources_own_whatever_they_change() -> None:
    old = updated(None, body({"leaseDurationSeconds": 60}), "a")
    doc = updated(old, {**old, "status": {"phase": "A"}}, "approver", subresource="approval")
    assert fields_of(doc, "approver", "Update", "approval") == {"f:status": {".": {}, "f:phase": {}}}


@pytest.mark.contract("W141")
def test_a_client_may_rewrite_managed_fields_as_kubectl_does_when_it_migrates() -> None:
    old = updated(None, body({"leaseDurationSeconds": 60}), "kubectl-client-side-apply")
    moved = [{**old["metadata"]["managedFields"][0], "manager": "kubectl", "operation": "Apply"}]
    doc = updated(old, {**old, "metadata": {**old["metadata"], "managedFields": moved}}, "kubectl", now=T2)
    assert doc["metadata"]["managedFields"] == moved
    assert applied(doc, body({"leaseDurationSeconds": 5}), "kubectl")["spec"] == {"leaseDurationSeconds": 5}


def test_one_empty_entry_asks_to_forget_all_owners() -> None:
    old = updated(None, body({"leaseDurationSeconds": 60}))
    doc = updated(old, {**old, "metadata": {**old["metadata"], "managedFields": [{}]}})
    assert doc["metadata"]["managedFields"] == []


ENTRY = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": V1,
    "time": T1,
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:note": {}}},
}


@pytest.mark.contract("W141")
@pytest.mark.parametrize(
    "sent",
    [
        None,
        [],
        7,
        {"a": 1},
        [7],
        [{**ENTRY, "manager": 7}],
        [{**ENTRY, "operation": "Delete"}],
        [{**ENTRY, "apiVersion": ""}],
        [{**ENTRY, "fieldsType": "FieldsV2"}],
        [{**ENTRY, "time": "2026-13-21T01:00:00Z"}],
        [{**ENTRY, "time": "yesterday"}],
        [{**ENTRY, "fieldsV1": None}],
        [{**ENTRY, "fieldsV1": {"f:a": 1}}],
        [{**ENTRY, "fieldsV1": {"x:a": {}}}],
        [{**ENTRY, "fieldsV1": {"": {}}}],
        [{**ENTRY, "fieldsV1": {"k:1": {}}}],
        [{**ENTRY, "fieldsV1": {"k:{": {}}}],
        [{**ENTRY, "fieldsV1": {'k:{"a":[1]}': {}}}],
        [{**ENTRY, "fieldsV1": {'v:{"a":1}': {}}}],
        [{**ENTRY, "fieldsV1": {'v:"\\ud800"': {}}}],
        [{**ENTRY, "fieldsV1": {"v:" + "[" * 100_000: {}}}],
    ],
)
def test_managed_fields_that_cannot_be_read_are_ignored(sent: Any) -> None:
    old = updated(None, body({"leaseDurationSeconds": 60}))
    doc = updated(old, {**old, "metadata": {**old["metadata"], "managedFields": sent}})
    assert doc["metadata"]["managedFields"] == old["metadata"]["managedFields"]


def test_managed_fields_are_kept_in_one_spelling() -> None:
    sent = [
        {**ENTRY, "subresource": "", "fieldsV1": {"f:spec": {"f:ports": {'k:{"protocol": "T","name": "\\u0061"}': {}}}}}
    ]
    doc = updated(None, body(managedFields=sent))
    assert fields_of(doc, "m", "Update") == {"f:spec": {"f:ports": {'k:{"name":"a","protocol":"T"}': {}}}}


def test_the_number_of_updaters_is_bounded() -> None:
    doc = updated(None, body(labels={}), "creator")
    for index in range(30):
        labels = {**doc["metadata"]["labels"], f"l{index}": "x"}
        new = {**doc, "metadata": {**doc["metadata"], "labels": labels}}
        doc = updated(doc, new, f"agent-{index}", now=f"2026-11-21T02:00:{index:02}Z")
    entries = doc["metadata"]["managedFields"]
    assert len(entries) == ssa.MAX_UPDATERS
    assert fields_of(doc, "ancient-changes", "Update")["f:metadata"]["f:labels"].keys() >= {"f:l0", "f:l20"}
    assert fields_of(doc, "agent-29", "Update") == {"f:metadata": {"f:labels": {"f:l29": {}}}}


# ---- Laws

texts = st.sampled_from(["a", "b", "c"])
ports = st.lists(
    st.fixed_dictionaries({"name": texts}, optional={"port": st.integers(0, 2), "note": texts}),
    max_size=3,
    unique_by=lambda port: port["name"],
)
free = st.recursive(st.integers(0, 1), lambda inner: st.dictionaries(texts, inner, max_size=2), max_leaves=4)
specs = st.fixed_dictionaries(
    {},
    optional={
        "hubAcceptsClient": st.booleans(),
        "leaseDurationSeconds": st.integers(0, 2),
        "taints": st.lists(st.fixed_dictionaries({"key": texts}), max_size=2),
        "sets": st.lists(texts, unique=True, max_size=3),
        "ports": ports,
        "limits": st.dictionaries(texts, st.fixed_dictionaries({}, optional={"max": texts}), max_size=2),
        "selector": st.dictionaries(st.sampled_from("ab"), texts, max_size=2),
        "free": st.dictionaries(texts, free, max_size=2),
    },
)
bodies = st.builds(
    lambda spec, labels, finalizers: body(spec, labels=labels, finalizers=finalizers),
    specs,
    st.dictionaries(texts, texts, max_size=2),
    st.lists(texts, unique=True, max_size=2),
)
managers = st.sampled_from(["m1", "m2", "m3"])
writes = st.lists(st.tuples(st.sampled_from(["apply", "force", "update"]), managers, bodies), min_size=1, max_size=6)


def history(steps: list[tuple[str, str, Doc]]) -> Iterator[tuple[str, str, Doc, Doc | None, Doc]]:
    """Each write with the document before and after it; conflicts change nothing."""
    doc: Doc | None = None
    for index, (how, manager, new) in enumerate(steps):
        old, now = doc, f"2026-11-21T02:00:{index:02}Z"
        if how == "update":
            doc = updated(old, new, manager, now=now)
        else:
            try:
                doc = applied(old, new, manager, force=how == "force", now=now)
            except Conflict:
                continue
        yield how, manager, new, old, doc


def leaves(value: Any, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """An independent reading of a body: every element that FieldsV1 can name, with its value."""
    lists = {"finalizers": None, "sets": None, "ports": ("name", "protocol")}
    found: dict[tuple[str, ...], Any] = {}
    if isinstance(value, dict) and (not above or above[-1] != "f:selector"):
        for key, item in value.items():
            found |= {(*above, f"f:{key}"): item} | leaves(item, (*above, f"f:{key}"))
    elif isinstance(value, list) and above[-1][2:] in lists:
        for item in value:
            keys = lists[above[-1][2:]]
            element = f"v:{json.dumps(item)}"
            if keys:
                named = {"name": item["name"], "protocol": item.get("protocol", "TCP")}
                element = "k:" + json.dumps(named, separators=(",", ":"))
            found |= {(*above, element): item} | leaves(item, (*above, element))
    return found


def members(tree: Doc, above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = {above} if above and (not tree or "." in tree) else set()
    for element, node in tree.items():
        if element != ".":
            found |= members(node, (*above, element))
    return found


def is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list)


@pytest.mark.contract("W141")
@settings(max_examples=150)
@given(writes)
def test_one_who_writes_gets_what_was_written_and_owns_it(steps: list[tuple[str, str, Doc]]) -> None:
    for how, manager, new, old, doc in history(steps):
        there, wanted = leaves(doc), leaves({key: new[key] for key in ("spec",)})
        for path, value in wanted.items():
            if is_plain(value):
                assert there[path] == value
        if how == "update":
            before = leaves(old) if old else {}
            mine = members(fields_of(doc, manager, "Update") or {})
            for path, value in wanted.items():
                if is_plain(value) and before.get(path, ...) != value:
                    assert path in mine
                    assert all(
                        path not in members(entry["fieldsV1"])
                        for entry in doc["metadata"]["managedFields"]
                        if (entry["manager"], entry["operation"]) != (manager, "Update")
                    )
        else:
            mine = members(fields_of(doc, manager) or {})
            assert {path for path, value in wanted.items() if is_plain(value)} <= mine


@pytest.mark.contract("W141")
@settings(max_examples=150)
@given(writes)
def test_everything_owned_is_there_and_no_entry_is_empty(steps: list[tuple[str, str, Doc]]) -> None:
    for *_, doc in history(steps):
        there = leaves(doc).keys()
        for entry in doc["metadata"].get("managedFields", []):
            assert entry["fieldsV1"]
            assert members(entry["fieldsV1"]) <= there
        json.dumps(doc)


@pytest.mark.contract("W141", "W16")
@settings(max_examples=150)
@given(writes)
def test_applying_the_same_again_changes_nothing(steps: list[tuple[str, str, Doc]]) -> None:
    for how, manager, new, _, doc in history(steps):
        if how != "update":
            assert applied(doc, new, manager, now=T3) == doc


@pytest.mark.contract("W141")
@settings(max_examples=150)
@given(writes, bodies)
def test_applying_and_then_applying_nothing_leaves_the_values_that_others_own(
    steps: list[tuple[str, str, Doc]], wanted: Doc
) -> None:
    doc: Doc | None = None
    for *_, last in history(steps):
        doc = last
    assert doc is not None
    first = applied(doc, wanted, "visitor", force=True)
    gone = applied(first, body(), "visitor")
    assert fields_of(gone, "visitor") is None
    remaining = leaves(gone)
    for entry in first["metadata"].get("managedFields", []):
        if entry["manager"] != "visitor":
            for path in members(entry["fieldsV1"]):
                assert path in remaining
    visited = {
        path
        for path, value in leaves(wanted["spec"], ("f:spec",)).items()
        if is_plain(value) and not (path[-2].startswith("k:") and path[-1] == "f:name")  # a key goes with its element
    }
    theirs = {
        path
        for entry in first["metadata"].get("managedFields", [])
        if entry["manager"] != "visitor"
        for path in members(entry["fieldsV1"])
    }
    assert not (visited - theirs) & remaining.keys()


trees: st.SearchStrategy[Doc] = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(
        st.one_of(st.sampled_from([".", "f:spec", "f:metadata", 'k:{"a":1}', 'v:"x"']), st.text(max_size=4)), inner
    ),
    max_leaves=8,
)
odd = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=2))
entries = st.fixed_dictionaries(
    {},
    optional={
        "manager": st.one_of(texts, odd),
        "operation": st.one_of(st.sampled_from(["Apply", "Update"]), odd),
        "apiVersion": st.one_of(st.just(V1), odd),
        "fieldsType": st.one_of(st.just("FieldsV1"), odd),
        "fieldsV1": st.one_of(trees, odd),
        "time": st.one_of(st.just(T1), odd),
        "subresource": st.one_of(st.just("status"), odd),
    },
)


@given(st.one_of(odd, st.lists(st.one_of(entries, odd), max_size=3)), bodies, bodies)
def test_any_managed_fields_sent_by_a_client_do_no_harm(sent: Any, new: Doc, wanted: Doc) -> None:
    new["metadata"]["managedFields"] = sent
    doc = updated(None, new)
    result = applied(doc, wanted, "m2", force=True)
    json.dumps(result).encode()
