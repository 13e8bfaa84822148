"""Times of managedFields: what changes nothing else is no change (W141)."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from tests.actors import namespace
from tests.api import entry
from tests.api.entry import APPLY, JSON

pytestmark = [pytest.mark.django_db, pytest.mark.contract("W141")]

URL = "/api/v1/namespaces/here/configmaps/empty?fieldManager=me"


@pytest.mark.parametrize(
    "parts", [{"data": {}}, {"metadata": {"name": "empty", "labels": {}}}, {"data": {"a": "1"}}], ids=str
)
def test_what_is_applied_again_a_second_later_changes_nothing(parts: entry.Doc) -> None:
    namespace("here")
    doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "empty"}, **parts}
    root = entry.root()
    made = root.patch(URL, doc, APPLY)
    assert made.code == 201
    with time_machine.travel(timezone.now() + timedelta(seconds=2)):
        again = root.patch(URL, doc, APPLY)
        assert (again.code, again.doc) == (200, made.doc)
        same = root.send("PUT", URL.replace("=me", "=other"), made.doc, JSON)
        assert (same.code, same.doc) == (200, made.doc)


def test_a_change_has_its_time() -> None:
    namespace("here")
    doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "empty"}, "data": {"a": "1"}}
    root = entry.root()
    made = root.patch(URL, doc, APPLY).doc
    with time_machine.travel(timezone.now() + timedelta(seconds=2)):
        changed = root.patch(URL, doc | {"data": {"a": "2"}}, APPLY).doc
    assert changed["metadata"]["managedFields"][0]["time"] > made["metadata"]["managedFields"][0]["time"]
    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
