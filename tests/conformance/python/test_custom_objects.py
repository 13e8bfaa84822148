"""CustomObjectsApi: everything that is OCM's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.commands import eventually
from tests.conformance.python.clients import (
    APPLY,
    CLUSTERS,
    GROUP,
    JSON_PATCH,
    MERGE,
    SETS,
    Api,
    Doc,
    client,
    cluster,
    cluster_set,
    refused,
)

ADDONS = ("addon.open-cluster-management.io", "v1alpha1", "managedclusteraddons")
BINDINGS = (GROUP, "v1beta2", "managedclustersetbindings")
WORKS = ("work.open-cluster-management.io", "v1", "manifestworks")
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}
# Kind, specification, and what a merge patch changes in it.
NAMESPACED: list[tuple[tuple[str, str, str], str, Doc]] = [
    (ADDONS, "ManagedClusterAddOn", {"installNamespace": "agents"}),
    (BINDINGS, "ManagedClusterSetBinding", {}),
    (WORKS, "ManifestWork", {"workload": {"manifests": [MANIFEST]}}),
]


def names(listed: Doc) -> list[str]:
    return [doc["metadata"]["name"] for doc in listed["items"]]


@pytest.mark.contract("W157", "W1")
def test_a_cluster_is_created_read_and_listed(custom: Api, name: str) -> None:
    made = custom.create_cluster_custom_object(*CLUSTERS, cluster(name, suite=name))
    assert made["kind"] == "ManagedCluster"
    assert made["metadata"]["uid"]
    read = custom.get_cluster_custom_object(*CLUSTERS, name)
    assert read["metadata"]["uid"] == made["metadata"]["uid"]
    assert read["spec"]["hubAcceptsClient"] is False
    assert names(custom.list_cluster_custom_object(*CLUSTERS, label_selector=f"suite={name}")) == [name]
    assert names(custom.list_cluster_custom_object(*CLUSTERS, field_selector=f"metadata.name={name}")) == [name]
    assert names(custom.list_cluster_custom_object(*CLUSTERS, label_selector=f"suite={name},suite!={name}")) == []
    with refused(409, "AlreadyExists"):
        custom.create_cluster_custom_object(*CLUSTERS, cluster(name))


@pytest.mark.contract("W150")
def test_a_list_comes_in_pages(custom: Api, name: str) -> None:
    wanted = [f"{name}-{number}" for number in range(7)]
    for each in wanted:
        custom.create_cluster_custom_object(*SETS, cluster_set(each, suite=name))
    found: list[str] = []
    more: dict[str, Any] = {}
    revisions = set()
    while True:
        page = custom.list_cluster_custom_object(*SETS, label_selector=f"suite={name}", limit=3, **more)
        found += names(page)
        assert len(page["items"]) <= 3
        revisions.add(page["metadata"]["resourceVersion"])
        if not (token := page["metadata"].get("continue")):
            break
        more = {"_continue": token}
    assert found == wanted
    assert len(revisions) == 1
    with refused(400):
        custom.list_cluster_custom_object(*SETS, limit=1, _continue="bad")


@pytest.mark.contract("W16", "W157")
def test_each_form_of_patch_changes_what_it_names(custom: Api, name: str) -> None:
    custom.create_cluster_custom_object(*SETS, cluster_set(name, keep="a", go="b"))
    merged = custom.patch_cluster_custom_object(
        *SETS, name, {"metadata": {"labels": {"go": None, "come": "c"}}}, _content_type=MERGE
    )
    assert merged["metadata"]["labels"] == {"keep": "a", "come": "c"}
    steps = [
        {"op": "test", "path": "/metadata/labels/keep", "value": "a"},
        {"op": "remove", "path": "/metadata/labels/keep"},
    ]
    patched = custom.patch_cluster_custom_object(*SETS, name, steps, _content_type=JSON_PATCH)
    assert patched["metadata"]["labels"] == {"come": "c"}
    with refused(422, "Invalid"):
        custom.patch_cluster_custom_object(*SETS, name, steps, _content_type=JSON_PATCH)
    _settle(custom, name)
    patched = custom.get_cluster_custom_object(*SETS, name)
    same = custom.patch_cluster_custom_object(*SETS, name, {"metadata": {"labels": {"come": "c"}}})
    assert same["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]
    with refused(415, "UnsupportedMediaType"):
        custom.patch_cluster_custom_object(*SETS, name, {}, _content_type="application/strategic-merge-patch+json")


@pytest.mark.contract("W141")
def test_an_apply_owns_what_it_says(custom: Api, name: str) -> None:
    def apply(manager: str, **more: bool) -> Doc:
        """The client drops the body of a 201."""
        doc = cluster_set(name, owner=manager)
        custom.patch_cluster_custom_object(*SETS, name, doc, field_manager=manager, _content_type=APPLY, **more)
        labels: Doc = custom.get_cluster_custom_object(*SETS, name)["metadata"]["labels"]
        return labels

    assert apply("first") == {"owner": "first"}
    with refused(409, "Conflict") as status:
        apply("second")
    assert 'conflict with "first"' in status["message"]
    assert apply("second", force=True) == {"owner": "second"}


def _settle(custom: Api, name: str) -> None:
    """Until the hub has written the status of a set, so that what comes then meets no write of the hub."""
    eventually(lambda: custom.get_cluster_custom_object(*SETS, name).get("status", {}).get("conditions"))


@pytest.mark.contract("W14", "W178")
def test_a_replacement_names_the_version_that_it_replaces(custom: Api, name: str) -> None:
    made = custom.create_cluster_custom_object(*SETS, cluster_set(name))
    with refused(422, "Invalid"):
        custom.replace_cluster_custom_object(*SETS, name, cluster_set(name, a="b"))
    _settle(custom, name)
    wanted = cluster_set(name, a="b")
    wanted["metadata"]["resourceVersion"] = custom.get_cluster_custom_object(*SETS, name)["metadata"]["resourceVersion"]
    replaced = custom.replace_cluster_custom_object(*SETS, name, wanted)
    assert replaced["metadata"]["labels"] == {"a": "b"}
    assert replaced["metadata"]["uid"] == made["metadata"]["uid"]
    with refused(409, "Conflict"):
        custom.replace_cluster_custom_object(*SETS, name, wanted)


@pytest.mark.contract("W16")
def test_status_and_specification_are_written_apart(custom: Api, name: str) -> None:
    custom.create_cluster_custom_object(*CLUSTERS, cluster(name))
    both = {"spec": {"leaseDurationSeconds": 77}, "status": {"version": {"kubernetes": "v1.32.0"}}}
    told = custom.patch_cluster_custom_object_status(*CLUSTERS, name, both, _content_type=MERGE)
    assert told["status"]["version"] == {"kubernetes": "v1.32.0"}
    assert told["spec"].get("leaseDurationSeconds") != 77
    custom.patch_cluster_custom_object(
        *CLUSTERS, name, {**both, "status": {"version": {"kubernetes": "v0"}}}, _content_type=MERGE
    )
    read = custom.get_cluster_custom_object_status(*CLUSTERS, name)
    assert (read["spec"]["leaseDurationSeconds"], read["status"]["version"]["kubernetes"]) == (77, "v1.32.0")


@pytest.mark.contract("W160", "W157")
def test_what_is_deleted_is_gone(custom: Api, name: str) -> None:
    for number in range(3):
        custom.create_cluster_custom_object(*SETS, cluster_set(f"{name}-{number}", suite=name, odd=str(number % 2)))
    custom.delete_cluster_custom_object(*SETS, f"{name}-1")
    with refused(404, "NotFound"):
        custom.get_cluster_custom_object(*SETS, f"{name}-1")
    with refused(404, "NotFound"):
        custom.delete_cluster_custom_object(*SETS, f"{name}-1")
    custom.create_cluster_custom_object(*SETS, cluster_set(f"{name}-3", suite=name, odd="1"))
    custom.delete_collection_cluster_custom_object(*SETS, label_selector=f"suite={name},odd=0")
    assert names(custom.list_cluster_custom_object(*SETS, label_selector=f"suite={name}")) == [f"{name}-3"]


@pytest.mark.contract("W157")
def test_a_cluster_goes_when_the_hub_has_tidied_up(custom: Api, name: str) -> None:
    custom.create_cluster_custom_object(*CLUSTERS, cluster(name, suite=name))
    custom.delete_cluster_custom_object(*CLUSTERS, name)
    eventually(lambda: not custom.list_cluster_custom_object(*CLUSTERS, label_selector=f"suite={name}")["items"])


@pytest.mark.contract("W157", "W159")
@pytest.mark.parametrize(("where", "kind", "spec"), NAMESPACED)
def test_kinds_in_namespaces_have_the_same_life(
    custom: Api, namespace: str, where: tuple[str, str, str], kind: str, spec: Doc
) -> None:
    group, version, plural = where
    if plural == "managedclustersetbindings":
        custom.create_cluster_custom_object(*SETS, cluster_set(namespace))
        spec = {"clusterSet": namespace}
    doc = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": namespace}, "spec": spec}
    place = (group, version, namespace, plural)
    made = custom.create_namespaced_custom_object(*place, doc)
    assert made["metadata"]["namespace"] == namespace
    label = {"metadata": {"labels": {"suite": namespace}}}
    custom.patch_namespaced_custom_object(*place, namespace, label, _content_type=MERGE)
    assert names(custom.list_namespaced_custom_object(*place, label_selector=f"suite={namespace}")) == [namespace]
    everywhere = custom.list_custom_object_for_all_namespaces(
        group, version, plural, label_selector=f"suite={namespace}"
    )
    assert names(everywhere) == [namespace]
    assert spec.items() <= custom.get_namespaced_custom_object(*place, namespace)["spec"].items()
    replaced = eventually(lambda: _annotated(custom, place, namespace))
    assert replaced["metadata"]["annotations"]["replaced"] == "yes"
    custom.delete_namespaced_custom_object(*place, namespace)
    eventually(lambda: not custom.list_namespaced_custom_object(*place)["items"])
    with refused(404, "NotFound"):
        custom.create_namespaced_custom_object(
            group, version, f"{namespace}-absent", plural, doc | {"metadata": {"name": "x"}}
        )


def _annotated(custom: Api, place: tuple[str, ...], name: str) -> Doc | None:
    """Read and put back; nothing when the hub wrote in between."""
    doc = custom.get_namespaced_custom_object(*place, name)
    doc["metadata"]["annotations"] = {"replaced": "yes"}
    try:
        replaced: Doc = custom.replace_namespaced_custom_object(*place, name, doc)
    except client.ApiException as refusal:
        if refusal.status != 409:
            raise
        return None
    return replaced


@pytest.mark.contract("W143")
def test_an_unknown_field_is_refused_on_request(custom: Api, name: str) -> None:
    doc = cluster(name)
    doc["spec"]["zz"] = 1
    with refused(400, "BadRequest") as status:
        custom.create_cluster_custom_object(*CLUSTERS, doc, field_validation="Strict")
    assert 'unknown field "spec.zz"' in status["message"]
    assert "zz" not in custom.create_cluster_custom_object(*CLUSTERS, doc, dry_run="All")["spec"]
    with refused(404):
        custom.get_cluster_custom_object(*CLUSTERS, name)
