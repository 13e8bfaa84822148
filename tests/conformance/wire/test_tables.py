"""Tables, which are final text: kubectl prints their cells as they are (W9, W130)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conformance.wire.api import TABLE, Api, Doc, types, version
from tests.conformance.wire.conftest import Made
from tests.conformance.wire.documents import (
    CLUSTERS,
    MANAGED_CLUSTER,
    NAMESPACE,
    REQUEST,
    ROLE_BINDING,
    SAMPLES,
    SECRET,
    WORK,
    Sample,
)

AGE = re.compile(r"\d+s|\d+m(\d+s)?")


def row(admin: Api, sample: Sample, ns: str, name: str, **query: Any) -> dict[str, Any]:
    """The cells of one object by column."""
    table = admin.read(sample.path(ns, name), accept=TABLE, **query)
    return dict(zip([column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))


@pytest.mark.contract("W9", "W130")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_columns_are_those_of_the_kind(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    made(sample)
    table = admin.read(sample.path(ns), accept=TABLE, fieldSelector=f"metadata.name={name}", limit=500)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = table["columnDefinitions"]
    assert tuple(column["name"] for column in columns) == sample.columns
    names = [column for column in columns if column["format"] == "name"]
    assert [column["name"] for column in names] == ["Name"]
    assert {column["type"] for column in columns} <= {"string", "integer", "number", "boolean", "date"}
    (only,) = table["rows"]
    assert len(only["cells"]) == len(columns)
    assert only["cells"][sample.columns.index("Name")] == name
    assert only["object"]["kind"] == "PartialObjectMetadata"
    assert only["object"]["metadata"]["name"] == name
    if "Age" in sample.columns:
        assert AGE.fullmatch(only["cells"][sample.columns.index("Age")])
    assert int(table["metadata"]["resourceVersion"]) > 0


@pytest.mark.contract("W9")
@pytest.mark.parametrize("include", ["Object", "Metadata", "None"])
def test_rows_bring_the_object_as_asked_for(admin: Api, ns: str, name: str, made: Made, include: str) -> None:
    made(WORK)
    for path in (WORK.path(ns, name), WORK.path(ns)):
        brought = admin.read(path, accept=TABLE, includeObject=include)["rows"][0]["object"]
        if include == "None":
            assert brought is None
        else:
            assert brought["kind"] == ("ManifestWork" if include == "Object" else "PartialObjectMetadata")
            assert ("spec" in brought) is (include == "Object")


@pytest.mark.contract("W9", "W130")
def test_row_of_a_cluster_shows_what_is_known(admin: Api, name: str, cluster: Doc) -> None:
    cells = row(admin, MANAGED_CLUSTER, "", name)
    assert cells["Hub Accepted"] is False
    assert cells["Managed Cluster URLs"] in {None, ""}
    assert cells["Joined"] in {None, ""}
    configs = [{"url": f"https://{each}.example.com"} for each in ("a", "b")]
    admin.merge(f"{CLUSTERS}/{name}", {"spec": {"managedClusterClientConfigs": configs}})
    assert row(admin, MANAGED_CLUSTER, "", name)["Managed Cluster URLs"] == "https://a.example.com"


@pytest.mark.contract("W9")
def test_rows_of_built_in_kinds(admin: Api, ns: str, name: str, made: Made) -> None:
    for sample in (SECRET, ROLE_BINDING, REQUEST):
        made(sample)
    assert row(admin, NAMESPACE, ns, ns)["Status"] == "Active"
    secret = row(admin, SECRET, ns, name)
    assert (secret["Type"], secret["Data"]) == ("Opaque", 1)
    binding = row(admin, ROLE_BINDING, ns, name)
    assert (binding["Role"], binding["Users"]) == ("ClusterRole/view", "ana")
    request = row(admin, REQUEST, ns, name)
    assert (request["RequestedDuration"], request["Condition"]) == ("<none>", "Pending")
    assert request["SignerName"] == "kubernetes.io/kube-apiserver-client"


@pytest.mark.contract("W9", "W177", "W131")
@pytest.mark.parametrize("sample", [WORK, SECRET], ids=str)
def test_watch_sends_tables_of_one_row(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    made(sample)
    query: dict[str, Any] = {"fieldSelector": f"metadata.name={name}"}
    with admin.watch(sample.path(ns), accept=TABLE, **query) as watch:
        first = watch.next()
        admin.merge(sample.path(ns, name), {"metadata": {"labels": {"a": "b"}}})
        second = watch.next()
        admin.delete(sample.path(ns, name))
        third = watch.next()
    assert types([first, second, third]) == ["ADDED", "MODIFIED", "DELETED"]
    for event in (first, second, third):
        assert event["object"]["kind"] == "Table"
        assert [each["cells"][0] for each in event["object"]["rows"]] == [name]
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == [*sample.columns]
    assert not second["object"]["columnDefinitions"]
    assert second["object"]["rows"][0]["object"]["metadata"]["labels"] == {"a": "b"}


@pytest.mark.contract("W177", "W11")
def test_bookmark_of_a_table_is_a_table(admin: Api, ns: str, name: str, made: Made) -> None:
    made(WORK)
    listing: dict[str, Any] = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    with admin.watch(WORK.path(ns), accept=TABLE, **listing) as watch:
        for event in watch:
            assert event["object"]["kind"] == "Table"
            if event["type"] == "BOOKMARK":
                break
    metadata = event["object"]["rows"][0]["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(metadata["resourceVersion"]) >= version(admin.read(WORK.path(ns, name)))


@pytest.mark.contract("W131")
def test_watch_of_one_name_from_zero_begins_with_what_is(admin: Api, ns: str, name: str, made: Made) -> None:
    """`kubectl get NAME -w` takes the first ADDED for what it has shown already."""
    made(WORK)
    query: dict[str, Any] = {"fieldSelector": f"metadata.name={name}", "resourceVersion": "0"}
    with admin.watch(WORK.path(ns), accept=TABLE, **query) as watch:
        assert watch.next()["type"] == "ADDED"


@pytest.mark.contract("W9")
def test_wide_columns_have_priority(admin: Api, ns: str) -> None:
    columns = admin.read(ROLE_BINDING.path(ns), accept=TABLE)["columnDefinitions"]
    assert {column["name"]: column["priority"] > 0 for column in columns} == {
        "Name": False, "Role": False, "Age": False, "Users": True, "Groups": True, "ServiceAccounts": True,
    }  # fmt: skip
