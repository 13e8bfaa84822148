"""What the hub writes of a silent cluster at once is what writes of the two endpoints would leave (H16, H21, W141)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import orjson
import pytest
import time_machine
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from clusters.health import hub_taints, verdicts
from clusters.kinds import HUB_TAINTS, MAINTENANCE_TAINT, MANAGED_CLUSTER, ConditionType, taints_of
from clusters.object_writer import CONTROLLER, set_condition
from ocmconsole.core.event_documents import event_document, object_reference
from ocmconsole.core.kinds import EVENT, NAMESPACE
from ocmconsole.kubeapi import admission, clock, errors, verbs
from ocmconsole.kubeapi.access.authorization import AccessDecision
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Change
from ocmconsole.kubeapi.schema import times
from ocmconsole.kubeapi.storage import audit
from ocmconsole.kubeapi.writes import proposals
from ocmconsole.kubeapi.writes.amendments import Alike
from ocmconsole.kubeapi.writes.proposals import Options
from tests import factories as make

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]

KEY = Key("", "c1")
BEGIN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
OWN = (
    {"key": "a.example.com/x", "value": "v", "effect": "NoSelectIfNew"},
    {"key": MAINTENANCE_TAINT, "effect": "NoSelect"},
)
TAINTS = (*OWN, *HUB_TAINTS, {**HUB_TAINTS[0], "effect": "PreferNoSelect"}, {**HUB_TAINTS[0], "value": "mine"})
TYPES = ("Own", *ConditionType)


def _of_status(edit: Any, doc: Doc) -> None:
    edit(doc.setdefault("status", {}))


def _condition(type_: str, status: str, reason: str, status_doc: Doc) -> None:
    others = [each for each in status_doc.get("conditions") or () if each["type"] != type_]
    said = {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": times.timestamp(clock.now()),
    }
    status_doc["conditions"] = [*others, said]


conditions = st.builds(
    lambda *said: ("status", partial(_of_status, partial(_condition, *said))),
    st.sampled_from(TYPES), st.sampled_from(("True", "False", "Unknown")), st.sampled_from(("Said", verdicts.SILENT.reason)),
)  # fmt: skip
statuses = st.sampled_from(
    [
        ("status", lambda doc: doc.pop("status", None)),
        ("status", lambda doc: doc.setdefault("status", {}).pop("conditions", None)),
        ("status", lambda doc: doc.setdefault("status", {}).update(conditions=[])),
        ("status", lambda doc: doc.setdefault("status", {}).update(clusterClaims=[{"name": "a", "value": "b"}])),
        ("", lambda doc: doc["spec"].pop("taints", None)),
        ("", lambda doc: doc["spec"].update(taints=[])),
        ("", lambda doc: doc["spec"].update(leaseDurationSeconds=30)),
        ("", lambda doc: doc["metadata"].update(labels={"a": "b"})),
        ("", lambda doc: doc["metadata"].update(managedFields=[{}])),
    ]
)
taints = st.lists(st.sampled_from(TAINTS), max_size=4, unique_by=lambda each: (each["key"], each["effect"])).map(
    lambda found: ("", lambda doc: doc["spec"].update(taints=[dict(each) for each in found]))
)
histories = st.lists(
    st.tuples(st.one_of(conditions, statuses, taints), st.sampled_from(("agent", "kubectl", "ocmconsole")), st.integers(0, 2)),
    max_size=12,
)  # fmt: skip


def _lived(history: list[Any], *, leaves: bool, traveller: Any) -> verbs.Batch:
    """A batch in which a cluster was created and then written by others; some of these writes are refused."""
    batch = verbs.Batch(CONTROLLER)
    batch.create(MANAGED_CLUSTER, make.document(MANAGED_CLUSTER, KEY.name, spec={"hubAcceptsClient": False}))
    for (endpoint, change), manager, pause in history:
        traveller.shift(timedelta(seconds=pause))
        options = Options(batch=batch, manager=manager)
        allowed = AccessDecision(allowed=True, reason="")
        try:
            batch.add(
                proposals.decided(
                    make.ADMIN, "patch", MANAGED_CLUSTER, KEY, proposals.changed_by(change), allowed, options, endpoint
                )
            )
        except errors.ApiError:
            continue
    if leaves:
        batch.edit(MANAGED_CLUSTER, KEY, lambda doc: doc["metadata"].update(finalizers=["example.com/hold"]))
        batch.delete(MANAGED_CLUSTER, KEY)
    return batch


def _silent(doc: Doc) -> None:
    set_condition(verdicts.SILENT)(doc)
    hub_taints.set_taint(doc)


def _diffs(part: verbs.Batch) -> list[Doc]:
    return sorted(
        (each for write in part.writes for each in audit.diff(write.old, write.new)), key=lambda each: each["path"]
    )


@given(histories, st.booleans(), st.integers(0, 1))
@pytest.mark.contract("H16", "H21", "W141")
def test_one_write_leaves_what_the_writes_of_the_endpoints_leave(history: list[Any], leaves: bool, later: int) -> None:
    with time_machine.travel(BEGIN, tick=False) as traveller:
        lived = _lived(history, leaves=leaves, traveller=traveller)
        traveller.shift(timedelta(seconds=later))
        one, two = lived.part(), lived.part()
        assume(one.amend(MANAGED_CLUSTER, KEY, _silent, verdicts.OF_SILENCE))  # else the endpoints write
        one.accompany()
        two.edit(MANAGED_CLUSTER, KEY, set_condition(verdicts.SILENT), subresource="status")
        two.edit(MANAGED_CLUSTER, KEY, hub_taints.set_taint)
        assert len(one.writes) == min(1, len(two.writes))
        assert one.find(MANAGED_CLUSTER, KEY) == two.find(MANAGED_CLUSTER, KEY)
        assert _diffs(one) == _diffs(two)


def test_what_is_not_named_is_left_to_the_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that has something to add, one that refuses, and a writer who is not the hub."""
    make.joined("c1")
    fields = verdicts.OF_SILENCE
    assert verbs.Batch(CONTROLLER).amend(MANAGED_CLUSTER, KEY, _silent, fields)
    assert not verbs.Batch(CONTROLLER).amend(MANAGED_CLUSTER, KEY, _silent, fields[:1])
    assert not verbs.Batch(make.ADMIN).amend(MANAGED_CLUSTER, KEY, _silent, fields)
    with pytest.raises(errors.NotFound):
        verbs.Batch(CONTROLLER).amend(MANAGED_CLUSTER, Key("", "c2"), _silent, fields)
    with pytest.raises(errors.Conflict):
        verbs.Batch(CONTROLLER).amend(MANAGED_CLUSTER, KEY, _silent, fields, expect="1")

    def refuse(*_: object) -> None:
        raise errors.BadRequest("no")

    monkeypatch.setattr(admission, "run_validators", lambda *_, **__: refuse())
    batch = verbs.Batch(CONTROLLER)
    assert not batch.amend(MANAGED_CLUSTER, KEY, _silent, fields)
    assert batch.writes == []


@pytest.mark.contract("H16", "H21")
def test_watchers_never_see_a_silent_cluster_without_its_taint() -> None:
    make.serve_since(timedelta(days=1))
    make.joined("c1")
    make.available("c1", "True")
    make.settle()
    head = Change.objects.order_by("-revision").values_list("revision", flat=True)[0]
    make.renew("c1", clock.now() - timedelta(seconds=301))
    make.sweep()
    log = Change.objects.filter(resource=MANAGED_CLUSTER.resource, revision__gt=head)
    seen = [orjson.loads(wire) for wire in log.values_list("wire", flat=True)]
    silent = [doc for doc in seen if hub_taints.available(doc) == "Unknown"]
    assert silent
    assert all(hub_taints.called_for(doc) == taints_of(doc) for doc in seen)


# ---------------------------------------------------------------- objects that are alike

PLACES = ("c1", "c2", "closed", "absent")
TEXTS = st.sampled_from(("x", "c1", "c2", "", "Name", "a" * 1025, "a/b", "\x00", "ü"))


@st.composite
def events(draw: st.DrawFn) -> tuple[str, Doc]:
    """An Event as the hub writes it, or nearly so, and the namespace for it."""
    place = draw(st.sampled_from(PLACES))
    about = object_reference(MANAGED_CLUSTER, place, draw(st.sampled_from((place, "c2"))), draw(TEXTS))
    event = event_document(
        draw(st.sampled_from((f"{place}.1", f"{place}.2"))) + draw(st.sampled_from(("", "", "/", "-"))), about,
        type_="Warning", reason="AvailableUnknown", action="AvailableUnknown", message=draw(TEXTS),
        reporter="registration-controller", now=draw(st.sampled_from((BEGIN, BEGIN, BEGIN + timedelta(seconds=1)))),
    )  # fmt: skip
    odd: list[Doc] = [{"count": 2}, {"source": {"host": "x"}}, {"series": {"count": 1}}, {"unknown": "y"}]
    plain: list[Doc] = [{}] * 3
    return place, event | draw(st.sampled_from(plain + odd))


@pytest.fixture
def places() -> None:
    for name in PLACES[:3]:
        make.namespace(name, **({"finalizers": ["example.com/hold"]} if name == "closed" else {}))
    verbs.delete(make.ADMIN, NAMESPACE, Key("", "closed"))


def _made(batch: verbs.Batch, place: str, event: Doc, alike: Alike | None) -> Doc | str:
    """The new object without what the hub makes up, or why it was refused."""
    count = len(batch.writes)
    try:
        batch.create(EVENT, event, namespace=place, alike=alike)
    except errors.ApiError as error:
        return f"{error.code} {error.reason} {error.message}"
    [write] = batch.writes[count:]
    assert write.new is not None
    metadata = {**write.new["metadata"], "uid": len(write.new["metadata"]["uid"])}
    return {"doc": {**write.new, "metadata": metadata}, "act": write.act, "verb": write.verb, "key": write.key}


@given(st.lists(st.tuples(events(), st.integers(0, 1)), max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.contract("H44", "W27", "W28")
def test_objects_that_are_alike_are_what_each_would_be_alone(places: None, found: list[Any]) -> None:
    with time_machine.travel(BEGIN, tick=False) as traveller:
        alike, together, alone = Alike(), verbs.Batch(CONTROLLER), verbs.Batch(CONTROLLER)
        for (place, event), pause in found:
            traveller.shift(timedelta(seconds=pause))
            assert _made(together, place, event, alike) == _made(alone, place, event, None)


@pytest.mark.contract("H44")
def test_only_the_first_of_those_that_are_alike_goes_the_whole_way(
    places: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: list[Any] = []
    decided = proposals.decided

    def noted(*given: Any, **more: Any) -> Any:
        whole.append(given)
        return decided(*given, **more)

    monkeypatch.setattr(proposals, "decided", noted)
    alike, batch = Alike(), verbs.Batch(CONTROLLER)
    for place in PLACES[:2]:
        about = object_reference(MANAGED_CLUSTER, place, place, "u")
        said = {"type_": "Warning", "reason": "A", "action": "B", "message": f"of {place}", "reporter": "x"}
        event = event_document(f"{place}.1", about, now=BEGIN, **said)
        batch.create(EVENT, event, namespace=place, alike=alike)
    assert len(whole) == 1
    assert [write.new["message"] for write in batch.writes if write.new] == ["of c1", "of c2"]
    assert len({write.new["metadata"]["uid"] for write in batch.writes if write.new}) == 2
