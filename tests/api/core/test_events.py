"""Events: one store, two forms."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ocmconsole.core import kinds, reconcilers
from ocmconsole.core.models import Event
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage.selectors import FieldSelector
from tests.actors import ROOT, namespace, refused_at_worst

pytestmark = pytest.mark.django_db
CORE, NEWER = kinds.EVENT.versions
NOW = "2026-11-21T02:21:11.123456Z"


def newer(**more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "c1.16f0"},
        "regarding": {"kind": "ManagedCluster", "name": "c1", "namespace": "c1"},
        "eventTime": NOW,
        "reportingController": "agent",
        "reportingInstance": "agent-1",
        "action": "Register",
        "reason": "Registered",
        "note": "it joined",
        "type": "Normal",
        **more,
    }


def create(doc: dict[str, Any]) -> dict[str, Any]:
    stored = verbs.create(ROOT, kinds.EVENT, doc, namespace="c1", options=verbs.Options(version=NEWER)).doc
    assert stored is not None
    return stored


@pytest.fixture(autouse=True)
def _cluster_namespace() -> None:
    namespace("c1")


@pytest.mark.contract("W28")
def test_an_event_of_the_newer_group_is_read_as_a_core_event_and_back() -> None:
    stored = create(newer())
    assert stored["apiVersion"] == "v1"
    assert stored["involvedObject"]["name"] == "c1"
    assert stored["message"] == "it joined"
    assert stored["reportingComponent"] == "agent"
    shown = NEWER.from_storage(stored)
    assert {name: shown[name] for name in newer() if name != "metadata"} == {
        name: value for name, value in newer().items() if name != "metadata"
    }


@pytest.mark.contract("W28")
@pytest.mark.parametrize(
    ("version", "selector"),
    [
        (
            CORE,
            "involvedObject.name=c1,involvedObject.kind=ManagedCluster,reason=Registered,reportingComponent=agent,source=agent",
        ),
        (NEWER, "regarding.name=c1,involvedObject.namespace=c1,reportingController=agent,type=Normal"),
    ],
)
def test_field_selectors_work_in_both_forms(version: Any, selector: str) -> None:
    doc = version.from_storage(create(newer()))
    parsed = FieldSelector.parse(selector)
    parsed.check_supported(version.fields)
    assert parsed.matches({label: value(doc) for label, value in version.fields.items()})


@pytest.mark.contract("W28")
def test_the_newer_group_asks_for_the_time() -> None:
    doc = newer()
    del doc["eventTime"]
    with pytest.raises(errors.Invalid) as refused:
        create(doc)
    assert refused.value.message == 'Event "c1.16f0" is invalid: eventTime: Required value'
    core = {"metadata": {"name": "a"}, "involvedObject": {"kind": "X", "namespace": "c1"}, "eventTime": None}
    verbs.create(ROOT, kinds.EVENT, core, namespace="c1")


@pytest.mark.contract("W28")
def test_a_series_patch_through_the_newer_group_reaches_the_store() -> None:
    create(newer())
    series = {"count": 2, "lastObservedTime": NOW}
    options = verbs.Options(version=NEWER)
    verbs.edit(ROOT, kinds.EVENT, Key("c1", "c1.16f0"), lambda doc: doc.update(series=series), options=options)
    found = verbs.find(kinds.EVENT, Key("c1", "c1.16f0"))
    assert found is not None
    assert found["series"] == series
    assert found["involvedObject"]["name"] == "c1"


@pytest.mark.contract("W28")
def test_an_event_lies_in_the_namespace_of_its_object() -> None:
    """As in Kubernetes: one with an eventTime only has to be in some namespace of its own."""
    old = {"metadata": {"name": "a"}, "type": "Normal"}
    said = {
        "reportingComponent": "agent",
        "reportingInstance": "a",
        "action": "Did",
        "reason": "Done",
        "eventTime": NOW,
    }
    cases: list[tuple[dict[str, Any], str, bool]] = [
        ({}, "c1", True),
        ({}, "elsewhere", False),
        ({}, "", False),
        (said, "c1", True),
        (said, "elsewhere", True),
        (said, "", False),
    ]
    for number, (more, place, is_taken) in enumerate(cases):
        about = {"kind": "ManagedCluster", "name": "c1", "namespace": place}
        doc = {**old, **more, "metadata": {"name": f"e{number}"}, "involvedObject": about}
        if is_taken:
            assert verbs.create(ROOT, kinds.EVENT, doc, namespace="c1").doc
            continue
        with pytest.raises(errors.Invalid, match=r"involvedObject.namespace: .* does not match event.namespace"):
            verbs.create(ROOT, kinds.EVENT, doc, namespace="c1")
    with pytest.raises(errors.Invalid, match=r"involvedObject.namespace: .* does not match event.namespace"):
        create(newer(regarding={"kind": "ManagedCluster", "name": "c1"}))
    namespace("default")
    free = {**old, "involvedObject": {"kind": "ManagedCluster", "name": "c1"}}
    assert verbs.create(ROOT, kinds.EVENT, free, namespace="default").doc


@pytest.mark.contract("W28")
@pytest.mark.parametrize("field", ["reportingComponent", "reportingInstance", "action", "reason"])
@pytest.mark.parametrize("value", ["", "x" * 129])
def test_a_core_event_with_an_event_time_says_who_did_what(field: str, value: str) -> None:
    said = {"reportingComponent": "agent", "reportingInstance": "a", "action": "Did", "reason": "Done", field: value}
    about = {"kind": "ManagedCluster", "name": "c1", "namespace": "c1"}
    doc = {"metadata": {"name": "a"}, "involvedObject": about, "eventTime": NOW, **said}
    named = "reportingController" if field == "reportingComponent" else field
    with pytest.raises(errors.Invalid, match=f"{named}: "):
        verbs.create(ROOT, kinds.EVENT, doc, namespace="c1")
    assert verbs.create(ROOT, kinds.EVENT, {**doc, "eventTime": None}, namespace="c1").doc


def test_a_put_creates_a_missing_event() -> None:
    doc = {"metadata": {"name": "a"}, "involvedObject": {"kind": "X", "name": "y", "namespace": "c1"}}
    assert verbs.update(ROOT, kinds.EVENT, Key("c1", "a"), doc).created


def test_events_are_found_by_their_object_and_leave_no_audit() -> None:
    create(newer())
    row = Event.objects.get(regarding_kind="ManagedCluster", regarding_name="c1")
    assert row.regarding_namespace == "c1"
    assert not AuditEvent.objects.filter(resource="events").exists()


@pytest.mark.contract("W28")
def test_events_that_nobody_touched_for_an_hour_are_forgotten() -> None:
    create(newer())
    now = timezone.now()
    assert reconcilers.expire_events(now + timedelta(minutes=59)) == 0
    assert reconcilers.expire_events(now + timedelta(minutes=61)) == 1
    assert not Event.objects.exists()


@pytest.mark.parametrize("odd", [7, "x", [7], {"kind": 7}, {"name": None}, None, "9999-99-99T00:00:00Z"])
@pytest.mark.parametrize("field", ["regarding", "series", "note", "eventTime", "deprecatedLastTimestamp", "metadata"])
def test_odd_events_are_refused_and_nothing_worse(field: str, odd: object) -> None:
    with refused_at_worst():
        create(newer(**{field: odd}) if field != "metadata" else newer(metadata={"name": "x", "annotations": odd}))
