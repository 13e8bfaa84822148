"""Pages of tables: rows are kept while their object stays what it is, and the answer is what it is without (W9)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import orjson
import pytest
import time_machine
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.kinds import MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET
from ocmconsole.core import kinds
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.http import table_rows
from ocmconsole.kubeapi.kinds import Key, Kind
from tests import factories
from tests.actors import ROOT
from tests.api import entry

pytestmark = [pytest.mark.django_db, pytest.mark.contract("W9")]

NAMES = ("a", "b", "c")
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
SETS = "/apis/cluster.open-cluster-management.io/{}/managedclustersets"


def kept(path: str) -> bytes:
    answer = entry.root().get(f"{path}?limit=50", accept=entry.TABLE)
    assert answer.code == 200, answer.body
    return answer.body


def anew(path: str) -> bytes:
    """Made of documents, as where a selector has to look at each."""
    answer = entry.root().get(f"{path}?limit=50&labelSelector=!nobody-has-it", accept=entry.TABLE)
    assert answer.code == 200, answer.body
    return answer.body


def change(kind: Kind, name: str, act: str) -> None:
    if verbs.find(kind, Key("", name)) is None:
        factories.cluster(name) if kind is MANAGED_CLUSTER else factories.clusterset(name)
    elif act == "remove":
        verbs.delete(ROOT, kind, Key("", name))
    else:
        verbs.edit(ROOT, kind, Key("", name), lambda doc: doc["metadata"].setdefault("labels", {}).update(act=act))


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["one", "two", "remove"]), st.integers(0, 10**8)), max_size=8
    )
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize(("kind", "path"), [(MANAGED_CLUSTER, CLUSTERS), (MANAGED_CLUSTER_SET, SETS.format("v1beta2"))])
def test_a_page_is_to_the_byte_what_its_documents_are_at_its_time(
    kind: Kind, path: str, steps: list[tuple[str, str, int]]
) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        for name, act, seconds in steps:
            change(kind, name, act)
            assert kept(path) == anew(path)
            clock.shift(timedelta(seconds=seconds % 3000))
            assert kept(path) == anew(path)


@pytest.fixture
def still() -> Iterator[None]:
    """No second passes, in which an age would be another."""
    with time_machine.travel(timezone.now(), tick=False):
        yield


@pytest.mark.usefixtures("still")
def test_each_version_has_rows_of_its_own() -> None:
    factories.clusterset("blue")
    for version in ("v1beta1", "v1beta2", "v1beta1"):
        assert kept(SETS.format(version)) == anew(SETS.format(version))


@pytest.mark.usefixtures("still")
def test_what_does_not_fit_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "_kept", table_rows.KeptRows())
    factories.cluster("first")
    kept(CLUSTERS)
    monkeypatch.setattr(table_rows, "MOST_BYTES", table_rows._kept.size)
    factories.cluster("second")
    rows: list[Any] = orjson.loads(kept(CLUSTERS))["rows"]
    assert [row["object"]["metadata"]["name"] for row in rows] == ["first", "second"]
    assert len(table_rows._kept.rows) == 1
    verbs.edit(ROOT, MANAGED_CLUSTER, Key("", "first"), lambda doc: doc["metadata"].update(labels={"longer": "x"}))
    assert kept(CLUSTERS) == anew(CLUSTERS)
    assert sum(row.size for row in table_rows._kept.rows.values()) == table_rows._kept.size <= table_rows.MOST_BYTES


def test_nothing_of_a_secret_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "_kept", table_rows.KeptRows())
    factories.namespace("here")
    verbs.create(ROOT, kinds.SECRET, {"metadata": {"name": "hidden"}}, namespace="here")
    assert b'"hidden"' in kept("/api/v1/namespaces/here/secrets")
    assert not table_rows._kept.rows
