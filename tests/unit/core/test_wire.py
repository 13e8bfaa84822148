"""Core kinds on the wire: two forms of an Event, plain text of secrets, and what `kubectl get` prints."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters import wire as clusters
from clustersets import wire as clustersets
from ocmconsole.core import wire
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.formats import tables
from ocmconsole.kubeapi.kinds import Kind, PrinterColumn, Served, Version
from ocmconsole.kubeapi.schema.compiled_schema import Schema
from registration import wire as registration

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
META: Doc = {"name": "n", "creationTimestamp": "2026-11-21T02:55:00Z"}
EVENT: Doc = {
    "kind": "Event",
    "apiVersion": "events.k8s.io/v1",
    "metadata": {"name": "c1.18", "namespace": "c1"},
    "eventTime": "2026-11-21T02:23:31.538806Z",
    "reportingController": "klusterlet-agent",
    "reportingInstance": "agent-0",
    "action": "Available",
    "reason": "Available",
    "regarding": {"kind": "ManagedCluster", "name": "c1", "fieldPath": "spec"},
    "note": " joined\n",
    "type": "Normal",
    "deprecatedSource": {"component": "old"},
    "deprecatedFirstTimestamp": "2026-11-21T02:00:00Z",
    "deprecatedLastTimestamp": "2026-11-21T02:58:30Z",
    "deprecatedCount": 4,
}


def cells(columns: tuple[PrinterColumn, ...], doc: Doc) -> dict[str, Any]:
    """What kubectl prints, by column."""
    version = Version(group="", version="v1", schema=Schema({}, name="x"), columns=columns)
    kind = Kind(kind="X", plural="xs", namespaced=False, versions=(version,), model=None)  # type: ignore[arg-type] # nothing is stored
    table = tables.table(Served(kind, version), [{"metadata": META} | doc], include_object="None", now=NOW, metadata={})
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


# Events


@pytest.mark.contract("W28", "W107")
def test_an_event_is_stored_in_core_form_and_comes_back() -> None:
    core = wire.event_to_core(EVENT, None)
    assert core == {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": "c1.18", "namespace": "c1"},
        "eventTime": "2026-11-21T02:23:31.538806Z",
        "reportingComponent": "klusterlet-agent",
        "reportingInstance": "agent-0",
        "action": "Available",
        "reason": "Available",
        "involvedObject": {"kind": "ManagedCluster", "name": "c1", "fieldPath": "spec"},
        "message": " joined\n",
        "type": "Normal",
        "source": {"component": "old"},
        "firstTimestamp": "2026-11-21T02:00:00Z",
        "lastTimestamp": "2026-11-21T02:58:30Z",
        "count": 4,
    }
    assert wire.event_from_core(core) == EVENT


@pytest.mark.contract("W28")
@pytest.mark.parametrize("form", [EVENT, wire.event_to_core(EVENT, None)])
def test_both_forms_of_an_event_print_the_same(form: Doc) -> None:
    assert cells(wire.EVENT_COLUMNS, form) == {
        "Last Seen": "90s",
        "Type": "Normal",
        "Reason": "Available",
        "Object": "managedcluster/c1",
        "Subobject": "spec",
        "Source": "old, agent-0",
        "Message": "joined",
        "First Seen": "60m",
        "Count": 4,
        "Name": "c1.18",
    }


@pytest.mark.parametrize(
    ("doc", "shown"),
    [
        (
            {},
            {
                "Last Seen": "<unknown>",
                "First Seen": "<unknown>",
                "Count": 1,
                "Object": "",
                "Source": "",
                "Subobject": "",
            },
        ),
        ({"eventTime": "2026-11-21T02:59:00.000000Z"}, {"Last Seen": "60s", "First Seen": "60s", "Count": 1}),
        (
            {
                "eventTime": "2026-11-21T02:59:00.000000Z",
                "series": {"count": 7, "lastObservedTime": "2026-11-21T02:59:30.000000Z"},
                "involvedObject": {"kind": "Pod"},
                "reportingComponent": "k",
            },
            {"Last Seen": "30s", "First Seen": "60s", "Count": 7, "Object": "pod", "Source": "k"},
        ),
    ],
)
def test_an_event_prints_what_it_has(doc: Doc, shown: dict[str, Any]) -> None:
    assert cells(wire.EVENT_COLUMNS, doc).items() >= shown.items()


# Secrets


def test_plain_text_replaces_bytes_of_the_same_key() -> None:
    secret = {"type": "Opaque", "data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "new é", "c": "\0"}}
    assert wire.fold_string_data(secret) == {
        "type": "Opaque",
        "data": {"a": base64.b64encode("new é".encode()).decode(), "b": "Yg==", "c": "AA=="},
    }
    assert secret["data"] == {"a": "b2xk", "b": "Yg=="}


def test_empty_plain_text_leaves_nothing_behind() -> None:
    assert wire.fold_string_data({"stringData": {}}) == {}
    assert wire.fold_string_data({"stringData": {"a": ""}, "data": None}) == {"data": {"a": ""}}
    assert wire.fold_string_data({"data": {}}) == {"data": {}}


@given(
    st.dictionaries(
        st.sampled_from(["data", "stringData"]),
        st.none() | st.text() | st.dictionaries(st.text(), st.none() | st.integers() | st.text()),
    )
)
def test_what_is_no_text_is_left_for_the_schema(doc: Doc) -> None:
    folded = wire.fold_string_data(doc)
    assert "stringData" not in folded or folded == doc


@pytest.mark.parametrize("texts", [None, "x", [1], {"a": 1}, {"a": None}, {"a": "\ud800"}])
def test_plain_text_of_a_wrong_type_stays_where_it_is(texts: Any) -> None:
    assert wire.fold_string_data({"stringData": texts}) == {"stringData": texts}


# Columns


@pytest.mark.contract("W9", "W130")
@pytest.mark.parametrize(
    ("columns", "doc", "shown"),
    [
        (wire.NAMESPACE_COLUMNS, {"status": {"phase": "Active"}}, {"Name": "n", "Status": "Active", "Age": "5m"}),
        (wire.SECRET_COLUMNS, {"type": "Opaque", "data": {"a": "", "b": ""}}, {"Name": "n", "Type": "Opaque", "Data": 2, "Age": "5m"}),
        (wire.SECRET_COLUMNS, {"type": "Opaque"}, {"Name": "n", "Type": "Opaque", "Data": 0, "Age": "5m"}),
        (wire.CONFIG_MAP_COLUMNS, {"data": {"a": ""}, "binaryData": {"b": ""}}, {"Name": "n", "Data": 2, "Age": "5m"}),
        (wire.SERVICE_ACCOUNT_COLUMNS, {}, {"Name": "n", "Age": "5m"}),
        (wire.ROLE_COLUMNS, {}, {"Name": "n", "Created At": "2026-11-21T02:55:00Z"}),
        (wire.CLUSTER_ROLE_COLUMNS, {}, {"Name": "n", "Created At": "2026-11-21T02:55:00Z"}),
        (wire.CUSTOM_RESOURCE_DEFINITION_COLUMNS, {}, {"Name": "n", "Created At": "2026-11-21T02:55:00Z"}),
        (clusters.LEASE_COLUMNS, {"spec": {"holderIdentity": "h"}}, {"Name": "n", "Holder": "h", "Age": "5m"}),
        (clustersets.MANAGED_CLUSTER_SET_COLUMNS, {}, {"Name": "n", "Empty": None, "Age": "5m"}),
    ],
)  # fmt: skip
def test_kinds_print_their_columns_in_order(
    columns: tuple[PrinterColumn, ...], doc: Doc, shown: dict[str, Any]
) -> None:
    assert list(cells(columns, doc).items()) == list(shown.items())


@pytest.mark.contract("W130")
@pytest.mark.parametrize("columns", [wire.ROLE_BINDING_COLUMNS, wire.CLUSTER_ROLE_BINDING_COLUMNS])
def test_a_binding_prints_its_role_and_its_subjects(columns: tuple[PrinterColumn, ...]) -> None:
    subjects = [
        {"kind": "User", "name": "ana"},
        {"kind": "ServiceAccount", "name": "sa", "namespace": "ns"},
        {"kind": "Group", "name": "g"},
        {"kind": "User", "name": "raj"},
    ]
    doc = {"roleRef": {"kind": "ClusterRole", "name": "x"}, "subjects": subjects}
    assert list(cells(columns, doc).items()) == [
        ("Name", "n"),
        ("Role", "ClusterRole/x"),
        ("Age", "5m"),
        ("Users", "ana, raj"),
        ("Groups", "g"),
        ("ServiceAccounts", "ns/sa"),
    ]


@pytest.mark.contract("W23", "W130")
@pytest.mark.parametrize(
    ("types", "certificate", "shown"),
    [
        ([], "", "Pending"),
        (["Approved"], "", "Approved"),
        (["Approved"], "YQ==", "Approved,Issued"),
        (["Denied"], "", "Denied"),
        (["Approved", "Denied"], "", "Denied"),
        (["Approved", "Failed"], "", "Approved,Failed"),
        (["Failed"], "", "Pending,Failed"),
        (["Other"], "", "Pending"),
    ],
)
def test_a_signing_request_prints_what_became_of_it(types: list[str], certificate: str, shown: str) -> None:
    doc = {"status": {"conditions": [{"type": type_, "status": "True"} for type_ in types], "certificate": certificate}}
    assert cells(registration.CSR_COLUMNS, doc)["Condition"] == shown


@pytest.mark.contract("W130")
@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, "<none>"), (600, "10m"), (86400, "24h"), (31536000, "365d"), (2**31 - 1, "68y")]
)
def test_a_signing_request_prints_the_duration_it_asks_for(seconds: int | None, shown: str) -> None:
    spec = {"username": "u", "signerName": "s/x"} | ({} if seconds is None else {"expirationSeconds": seconds})
    assert list(cells(registration.CSR_COLUMNS, {"spec": spec}).items()) == [
        ("Name", "n"),
        ("Age", "5m"),
        ("SignerName", "s/x"),
        ("Requestor", "u"),
        ("RequestedDuration", shown),
        ("Condition", "Pending"),
    ]


@pytest.mark.contract("T1", "W9", "W130")
def test_a_cluster_prints_acceptance_address_and_health() -> None:
    conditions = [
        {"type": "ManagedClusterJoined", "status": "True"},
        {"type": "ManagedClusterConditionAvailable", "status": "Unknown"},
    ]
    configs = [{"url": "https://a:6443"}, {"url": "https://b:6443"}]
    doc = {
        "spec": {"hubAcceptsClient": False, "managedClusterClientConfigs": configs},
        "status": {"conditions": conditions},
    }
    assert list(cells(clusters.MANAGED_CLUSTER_COLUMNS, doc).items()) == [
        ("Name", "n"),
        ("Hub Accepted", False),
        ("Managed Cluster URLs", "https://a:6443"),
        ("Joined", "True"),
        ("Available", "Unknown"),
        ("Age", "5m"),
    ]
    assert cells(clusters.MANAGED_CLUSTER_COLUMNS, {})["Hub Accepted"] is None
