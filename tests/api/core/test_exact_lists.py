"""Lists of exactly an earlier state: whatever was written since, the list is what it was then, or 410 (W10)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocmconsole.core import kinds
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.control import compaction
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.watch import change_log
from tests.actors import ROOT, namespace
from tests.api import entry
from tests.selection import FULL

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]
KIND = kinds.CONFIG_MAP
steps = st.lists(
    st.tuples(
        st.sampled_from(["here", "there"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["write", "label", "delete"]),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=12,
)


@pytest.fixture(autouse=True)
def _places() -> None:
    for place in ("here", "there"):
        namespace(place)


def ask(place: str = "", **query: object) -> entry.Answer:
    inside = f"namespaces/{place}/" if place else ""
    return entry.root().get(f"/api/v1/{inside}configmaps?{urlencode(query)}")


def exact(revision: int, place: str = "", **query: object) -> list[Doc]:
    """All pages of it."""
    found: list[Doc] = []
    wanted: dict[str, object] = {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
    while True:
        answer = ask(place, **wanted, **query)
        assert answer.code == 200, answer.body
        assert answer.doc["metadata"]["resourceVersion"] == str(revision)
        found += answer.doc["items"]
        if not (token := answer.doc["metadata"].get("continue")):
            return found
        wanted = {"continue": token}


def write(place: str, name: str, act: str, value: int) -> None:
    key = Key(place, name)
    if act == "delete":
        with_it = verbs.find(KIND, key)
        if with_it is not None:
            verbs.delete(ROOT, KIND, key)
        return
    change: Doc = {"data": {"n": str(value)}} if act == "write" else {}
    metadata = {"name": name, "labels": {"n": str(value)} if act == "label" else {}}

    def rewrite(doc: Doc) -> None:
        doc.update(change)
        doc["metadata"].update(metadata)

    try:
        verbs.create(ROOT, KIND, {"metadata": metadata, **change}, namespace=place)
    except errors.AlreadyExists:
        verbs.edit(ROOT, KIND, key, rewrite)


@pytest.mark.contract("W10", "W151")
@settings(max_examples=25 if FULL else 10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(done=steps)
def test_a_list_of_an_earlier_version_is_what_it_was(done: list[tuple[str, str, str, int]]) -> None:
    told = {}
    for step in done:
        write(*step)
        listed = ask().doc
        told[int(listed["metadata"]["resourceVersion"])] = listed["items"]
    for revision, items in told.items():
        assert exact(revision) == items
        assert exact(revision, limit=1) == items
        assert exact(revision, "here") == [each for each in items if each["metadata"]["namespace"] == "here"]
        labelled = [each for each in items if (each["metadata"].get("labels") or {}).get("n") == "1"]
        assert exact(revision, labelSelector="n=1", limit=2) == labelled
        named = [each for each in items if each["metadata"]["name"] == "a"]
        assert exact(revision, fieldSelector="metadata.name=a") == named


@pytest.mark.contract("W10")
def test_a_version_that_the_log_does_not_tell_any_more_is_expired() -> None:
    for value in range(3):
        write("here", "a", "write", value)
        write("here", "b", "write", 0)
    before = change_log.newest_revision()
    write("there", "c", "write", 0)
    assert [each["metadata"]["name"] for each in exact(before)] == ["a", "b"]
    compaction.compact_log(timezone.now() + timedelta(hours=1), keep=1)
    assert [each["metadata"]["name"] for each in exact(change_log.newest_revision())] == ["a", "b", "c"]
    write("here", "a", "write", 9)
    for revision in (1, before, change_log.newest_revision() - 1):
        answer = ask(resourceVersion=revision, resourceVersionMatch="Exact")
        assert answer.said == (410, "Expired")
        assert answer.message == "The resourceVersion for the provided list is too old."
    assert {each["data"]["n"] for each in exact(change_log.newest_revision(), "here")} == {"9", "0"}
