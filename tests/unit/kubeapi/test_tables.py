"""Tables: columns, cells, ages and the small JSONPath reader."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.formats import tables
from ocmconsole.kubeapi.kinds import Kind, PrinterColumn, Served, Version
from ocmconsole.kubeapi.schema.compiled_schema import Schema

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY, YEAR = 1, 60, 3600, 86400, 365 * 86400
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


def served(*columns: PrinterColumn) -> Served:
    version = Version("example.io", "v1", Schema({}, name="io.example.v1.Widget"), columns=columns)
    return Served(Kind("Widget", "widgets", namespaced=False, versions=(version,), model=cast("Any", None)), version)


def table(*columns: PrinterColumn, docs: list[Doc], include_object: str = "Metadata", with_columns: bool = True) -> Doc:
    return tables.table(
        served(*columns),
        docs,
        include_object=include_object,
        now=NOW,
        metadata={"resourceVersion": "7"},
        with_columns=with_columns,
    )


def cells(doc: Doc, *columns: PrinterColumn) -> list[Any]:
    found: list[Any] = table(*columns, docs=[doc])["rows"][0]["cells"][1:]
    return found


CLUSTER: Doc = {
    "apiVersion": "example.io/v1",
    "kind": "Widget",
    "metadata": {"name": "c1", "labels": {"a.b/c": "d"}, "creationTimestamp": "2026-11-21T10:33:00Z"},
    "spec": {"accepts": False, "configs": [{"url": "https://a"}, {"url": "https://b"}], "size": 3.0, "map": {"k": 1}},
    "status": {"conditions": [{"type": "Joined", "status": "True"}, {"type": "Available", "status": "Unknown"}]},
}


@pytest.mark.contract("W9")
def test_a_table_has_the_observed_shape() -> None:
    columns = (
        PrinterColumn("Hub Accepted", "boolean", ".spec.accepts"),
        PrinterColumn("URLs", "string", ".spec.configs[*].url"),
        PrinterColumn("Joined", "string", '.status.conditions[?(@.type=="Joined")].status'),
        PrinterColumn("Denied", "string", '.status.conditions[?(@.type=="Denied")].status'),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp", priority=1),
    )
    found = table(*columns, docs=[CLUSTER])
    assert [
        (column["name"], column["type"], column["format"], column["priority"]) for column in found["columnDefinitions"]
    ] == [
        ("Name", "string", "name", 0),
        ("Hub Accepted", "boolean", "", 0),
        ("URLs", "string", "", 0),
        ("Joined", "string", "", 0),
        ("Denied", "string", "", 0),
        ("Age", "date", "", 1),
    ]
    row = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": CLUSTER["metadata"]}
    assert found["rows"] == [{"cells": ["c1", False, "https://a", "True", None, "87m"], "object": row}]
    assert (found["kind"], found["apiVersion"], found["metadata"]) == (
        "Table",
        "meta.k8s.io/v1",
        {"resourceVersion": "7"},
    )


@pytest.mark.contract("W9")
def test_a_kind_without_columns_shows_name_and_age() -> None:
    found = table(docs=[CLUSTER])
    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Age"]
    assert found["rows"][0]["cells"] == ["c1", "87m"]


def test_a_kind_that_places_its_name_itself_has_it_there() -> None:
    found = table(
        PrinterColumn("Last Seen", "string", ".x"),
        PrinterColumn("Name", "string", ".metadata.name", "name", priority=1),
        docs=[CLUSTER],
    )
    assert found["rows"][0]["cells"] == [None, "c1"]


@pytest.mark.contract("W9")
@pytest.mark.parametrize(
    ("include", "expected"), [("None", None), ("Object", CLUSTER), ("Metadata", tables.partial(CLUSTER))]
)
def test_rows_carry_what_the_client_asked_for(include: str, expected: Doc | None) -> None:
    assert table(docs=[CLUSTER], include_object=include)["rows"][0]["object"] == expected


@pytest.mark.contract("W9")
def test_later_events_of_a_watch_carry_no_columns() -> None:
    assert table(docs=[CLUSTER], with_columns=False)["columnDefinitions"] is None


@pytest.mark.contract("W177")
def test_a_bookmark_is_a_table_whose_row_carries_the_metadata() -> None:
    metadata = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    found = tables.bookmark(metadata)
    assert (found["kind"], found["metadata"]) == ("Table", {"resourceVersion": "9"})
    assert found["rows"] == [{"cells": [], "object": tables.partial({"metadata": metadata})}]


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("integer", ".spec.size", 3),
        ("integer", ".spec.accepts", None),
        ("number", ".spec.size", 3.0),
        ("number", ".metadata.name", None),
        ("boolean", ".metadata.name", None),
        ("string", ".spec.accepts", "false"),
        ("string", ".spec.size", "3"),
        ("string", ".spec.map", '{"k":1}'),
        ("date", ".metadata.name", "<invalid>"),
        ("date", ".spec.size", None),
        ("string", r".metadata.labels.a\.b/c", "d"),
        ("string", ".metadata.labels['a.b/c']", "d"),
        ("string", ".spec.configs[1].url", "https://b"),
        ("string", ".spec.configs[-1].url", "https://b"),
        ("string", ".spec.configs[2].url", None),
        ("string", ".spec.map.*", "1"),
        ("string", ".spec.accepts.deeper[*].x", None),
    ],
)
def test_cells_are_the_printed_value_or_blank(kind: str, path: str, expected: Any) -> None:
    assert cells(CLUSTER, PrinterColumn("X", kind, path)) == [expected]


def test_a_column_can_be_a_function() -> None:
    doc = {"metadata": {"name": "s"}, "data": {"a": "", "b": ""}}
    assert cells(doc, PrinterColumn("Data", "integer", lambda secret: len(secret["data"]))) == [2]


def test_a_date_column_can_show_the_time_itself() -> None:
    column = PrinterColumn("Created At", "date", ".metadata.creationTimestamp", age=False)
    assert cells(CLUSTER, column) == ["2026-11-21T10:33:00Z"]


@pytest.mark.parametrize("path", ["spec", ".a[", ".a[?(@.b>1)]", "{.a}", ".a[?(@.b==c)]"])
def test_a_path_that_cannot_be_read_is_refused_at_once(path: str) -> None:
    with pytest.raises(ValueError, match="cannot read the path"):
        tables.compile_path(path)


@given(JSON)
def test_any_document_fills_a_row(spec: Any) -> None:
    doc = {"metadata": {"name": "w"}, "a": spec}
    paths = [".a", ".a.b", ".a[*].b", ".a[0]", '.a[?(@.b=="x")].c', ".a.*"]
    columns = [
        PrinterColumn("X", kind, path) for path in paths for kind in ("string", "integer", "number", "boolean", "date")
    ]
    json.dumps(cells(doc, *columns), allow_nan=False)


@pytest.mark.contract("W9")
@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE, "10m"),
        (87 * MINUTE + 30, "87m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 3 * DAY, "2y3d"),
        (8 * YEAR + 3 * DAY, "8y"),
    ],
)
def test_ages_are_printed_as_kubectl_prints_them(seconds: int, expected: str) -> None:
    assert tables.age(NOW - timedelta(seconds=seconds), NOW) == expected


@pytest.mark.contract("W9")
def test_no_time_is_an_unknown_age() -> None:
    assert tables.age(None, NOW) == "<unknown>"
    assert tables.age(datetime(1, 1, 1, tzinfo=UTC), NOW) == "<unknown>"


@given(st.integers(0, 20 * YEAR), st.integers(0, 20 * YEAR))
def test_older_never_looks_younger(one: int, other: int) -> None:
    younger, older = sorted((one, other))
    assert told(younger) <= told(older) <= older


def told(seconds: int) -> int:
    units = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "y": YEAR}
    text = tables.age(NOW - timedelta(seconds=seconds), NOW)
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([smhdy])", text))
