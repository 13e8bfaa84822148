"""One object watched in three versions: each stream speaks its own, from the first event to the last (D1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import httpx
import pytest

from tests.watch.streams import INITIAL, PLAIN, TABLE, Doc, events

GROUP = "cluster.open-cluster-management.io"
VERSIONS = ("v1beta2", "v1beta1", "v1alpha1")
SPECS: dict[str, Doc | None] = {
    "v1beta2": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}},
    "v1beta1": {"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}},
    "v1alpha1": None,
}
MERGE = {"Content-Type": "application/merge-patch+json"}


def sets(version: str) -> str:
    return f"/apis/{GROUP}/{version}/managedclustersets"


def create(admin: httpx.Client, name: str, version: str) -> None:
    metadata = {"name": name, "labels": {"suite": name}}
    doc = {"apiVersion": f"{GROUP}/{version}", "kind": "ManagedClusterSet", "metadata": metadata}
    admin.post(sets(version), json=doc).raise_for_status()


def relabel(admin: httpx.Client, name: str, version: str, **labels: str | None) -> None:
    body = {"metadata": {"labels": labels}}
    admin.patch(f"{sets(version)}/{name}", json=body, headers=MERGE).raise_for_status()


def watched(admin: httpx.Client, version: str, suite: str, accept: str = PLAIN) -> Iterator[Doc]:
    return events(admin, sets(version), accept=accept, labelSelector=f"suite={suite}", timeoutSeconds="60", **INITIAL)


def until(stream: Iterator[Doc], kind: str) -> list[Doc]:
    """Events up to the first of a kind."""
    found = []
    for event in islice(stream, 20):
        found.append(event)
        if event["type"] == kind:
            return found
    raise AssertionError(found)


@pytest.mark.contract("D1", "W11", "W12")
@pytest.mark.parametrize("version", VERSIONS)
def test_every_event_speaks_the_version_of_its_stream(admin: httpx.Client, version: str) -> None:
    name = f"faces-{version}"
    create(admin, name, "v1alpha1")
    stream = watched(admin, version, name)
    seen = until(stream, "BOOKMARK")
    relabel(admin, name, "v1beta1", suite="other")
    seen += until(stream, "DELETED")  # out of the selection
    relabel(admin, name, "v1beta2", suite=name)
    seen += until(stream, "ADDED")
    admin.delete(f"{sets('v1alpha1')}/{name}").raise_for_status()
    seen += until(stream, "DELETED")
    assert {event["object"]["apiVersion"] for event in seen} == {f"{GROUP}/{version}"}
    objects = [event["object"] for event in seen if event["type"] != "BOOKMARK"]
    assert all(each.get("spec") == SPECS[version] for each in objects)
    stream.close()  # type: ignore[attr-defined] # a generator


@pytest.mark.contract("D1", "W9")
def test_rows_of_a_watched_table_are_of_its_version(admin: httpx.Client) -> None:
    create(admin, "rows", "v1beta2")
    stream = watched(admin, "v1beta1", "rows", TABLE + ",application/json")
    table = next(stream)["object"]
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Empty", "Age"]
    assert table["rows"][0]["cells"][0] == "rows"
    stream.close()  # type: ignore[attr-defined] # a generator


@pytest.mark.contract("D1")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_watch_of_an_older_version_begins_with_the_warning(admin: httpx.Client, version: str) -> None:
    text = f'299 - "{GROUP}/{version} ManagedClusterSet is deprecated; use {GROUP}/v1beta2 ManagedClusterSet"'
    with admin.stream("GET", sets(version), params={"watch": "true", "timeoutSeconds": "1"}) as answer:
        assert answer.headers.get("Warning") == (text if version != "v1beta2" else None)
