"""Several placements that one worker schedules on one look and writes in one commit: each as if it were alone (D12)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.core.kinds import CONFIG_MAP
from ocmconsole.core.models import Event
from ocmconsole.kubeapi import clock, many_writes, verbs
from ocmconsole.kubeapi.control import controllers, workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, WorkItem
from ocmconsole.kubeapi.writes.amendments import Alike
from placements.controller import decisions, runs
from placements.controller.shared_changes import SharedChanges
from placements.kinds import PLACEMENT, PLACEMENT_DECISION, PLACEMENT_LABEL
from placements.models import DecisionMove, Placement, PlacementDecision
from placements.reconcilers import reconcile_placement
from tests import factories as make
from tests.controllers.placement_scene import TEAM, bound_set
from tests.controllers.placement_scene import members as clusters

pytestmark = pytest.mark.django_db

NAMES = ("p1", "p2", "p3")
KEYS = [Key(TEAM, name) for name in NAMES]


@pytest.fixture(autouse=True)
def web(db: None) -> None:
    """Three clusters, and three placements of one cluster each that nobody has scheduled."""
    bound_set()
    clusters("c1", "c2", "c3")
    make.settle()
    for name in NAMES:
        make.create(PLACEMENT, make.document(PLACEMENT, name, spec={"numberOfClusters": 1}), namespace=TEAM)


def decided() -> dict[str, list[str]]:
    rows = PlacementDecision.objects.order_by("placement")
    return {row.placement: list(decisions.names_in(row.doc)) for row in rows}


@pytest.mark.contract("P15")
def test_they_choose_what_one_after_the_other_would_and_share_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later one is balanced against what an earlier one of the same commit has just chosen."""
    commits: list[int] = []
    store = verbs.Batch.store

    def counted(batch: verbs.Batch, *given: Any) -> None:
        commits.append(len(batch.writes))
        store(batch, *given)

    monkeypatch.setattr(verbs.Batch, "store", counted)
    assert runs.run_together(KEYS) == dict.fromkeys(KEYS)
    assert len(commits) == 1
    assert decided() == {"p1": ["c1"], "p2": ["c2"], "p3": ["c3"]}
    for key in KEYS:
        assert make.writes_of(reconcile_placement, key) == []


@pytest.mark.contract("D12")
def test_one_that_fails_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = runs.Run.settle

    def fails(run: runs.Run, *given: Any) -> None:
        if run.row.name == "p2":
            raise ValueError("no")
        settle(run, *given)

    with monkeypatch.context() as patch:
        patch.setattr(runs.Run, "settle", fails)
        workqueue.drain()
        assert decided() == {"p1": ["c1"], "p3": ["c2"]}
        assert WorkItem.objects.get(reconciler="placement").name == "p2"  # it alone is tried again later
    WorkItem.objects.update(due=timezone.now())
    workqueue.drain()
    assert decided()["p2"] == ["c3"]


@pytest.mark.contract("D12")
def test_one_that_somebody_writes_meanwhile_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settle, written = runs.Run.settle, list[str]()

    def overtaken(run: runs.Run, *given: Any) -> None:
        settle(run, *given)
        if not written:
            written.append(run.row.name)
            make.edit(PLACEMENT, "p2", lambda doc: doc["spec"].update(numberOfClusters=2), namespace=TEAM)

    monkeypatch.setattr(runs.Run, "settle", overtaken)
    assert runs.run_together(KEYS).keys() == {KEYS[0], KEYS[2]}
    make.settle()
    assert len(decided()["p2"]) == 2


@pytest.mark.contract("D12")
def test_after_its_time_none_is_begun_and_all_come_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SLICE", 0.0)
    assert runs.run_together(KEYS) == {KEYS[0]: None, KEYS[1]: timedelta(), KEYS[2]: timedelta()}
    assert decided().keys() == {"p1"}
    make.settle()
    assert decided().keys() == set(NAMES)


@pytest.mark.contract("P26", "P24")
@pytest.mark.parametrize(("owner", "other"), [("p1", "p3"), ("p3", "p1")])
def test_a_decision_that_is_given_the_label_of_another_placement_is_taken_back(owner: str, other: str) -> None:
    """Both are woken by it, and run together: the other one removes what is not its own."""
    make.settle()
    before = decided()
    labels = {PLACEMENT_LABEL: other}
    given = lambda doc: doc["metadata"].update(labels=labels)  # noqa: E731 - one use
    make.edit(PLACEMENT_DECISION, f"{owner}-decision-1", given, namespace=TEAM)
    make.settle()
    assert decided()[owner] == before[owner]
    assert len(decided()[other]) == 1
    assert PlacementDecision.objects.count() == len(NAMES)


def test_a_worker_takes_no_more_than_some_together() -> None:
    items = [WorkItem(reconciler=name) for name in ["placement"] * (workqueue.MOST_TOGETHER + 1) + ["taints"] * 2]
    assert [len(each) for each in workqueue._groups(items)] == [workqueue.MOST_TOGETHER, 1, 1, 1]


def test_they_are_left_to_runs_of_their_own_where_they_cannot_be_written_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any) -> list[Key]:
        raise ValueError("no")

    monkeypatch.setattr(many_writes, "write_each", fails)
    workqueue.drain()
    assert decided().keys() == set(NAMES)


def test_who_is_asked_for_again_meanwhile_stays_due_and_the_others_end(monkeypatch: pytest.MonkeyPatch) -> None:
    make.settle()

    def asks_again(keys: Sequence[Key]) -> dict[Key, None]:
        workqueue.put([("placement", KEYS[1])], clock.now())
        return dict.fromkeys(keys)

    placement = controllers.find_reconciler("placement")
    assert placement is not None
    monkeypatch.setitem(controllers._reconcilers, "placement", replace(placement, together=asks_again))
    workqueue.put([("placement", key) for key in KEYS], clock.now())
    assert workqueue.drain(limit=1) == len(KEYS)
    [left] = WorkItem.objects.all()
    assert (left.key, left.busy_until) == (KEYS[1], None)
    assert left.due <= clock.now()


def test_none_is_claimed_that_was_asked_for_again_or_is_with_another_worker() -> None:
    make.settle()
    now = clock.now()
    workqueue.put([("placement", key) for key in KEYS], now)
    items = workqueue._due(())
    WorkItem.objects.filter(name="p1").update(due=now - timedelta(seconds=1))
    WorkItem.objects.filter(name="p3").update(busy_until=now + timedelta(seconds=30))
    assert [item.key for item in workqueue._take_all(items)] == [KEYS[1]]
    assert list(WorkItem.objects.order_by("name").values_list("attempts", flat=True)) == [0, 1, 0]


# ---------------------------------------------------------------- what the audit says of late


def test_what_others_did_is_remembered_and_what_is_not_complete_is_not_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, now = SharedChanges(), timezone.now()
    head = AuditEvent.objects.order_by("-revision").values_list("revision", flat=True).first() or 0

    def names(since: int, upto: int) -> list[str] | None:
        known = found.since(since, PLACEMENT, TEAM, now, upto)
        return None if known is None else [entry.name for entry in known]

    assert names(0, head) == [*NAMES]
    make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(numberOfClusters=2), namespace=TEAM)
    last = AuditEvent.objects.order_by("-revision").values_list("revision", flat=True).first() or 0
    assert names(head, last) == ["p1"]
    assert names(head, head) == []
    monkeypatch.setattr("placements.controller.shared_changes.MOST_KEPT", 1)
    make.settle()  # the scheduler's own writes are not kept
    make.edit(PLACEMENT, "p3", lambda doc: doc["spec"].update(numberOfClusters=2), namespace=TEAM)
    newest = AuditEvent.objects.order_by("-revision").values_list("revision", flat=True).first() or 0
    assert names(last, newest) == ["p3"]
    assert names(0, newest) is None


def test_what_is_remembered_is_all_that_the_audit_says_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any two revisions, whenever a process began to follow, and however little it keeps."""
    monkeypatch.setattr("placements.controller.shared_changes.MOST_KEPT", 4)
    start = AuditEvent.objects.order_by("-revision").values_list("revision", flat=True).first() or 0
    heads = [start]
    for number in range(12):
        name = NAMES[number % 3]
        make.edit(PLACEMENT, name, lambda doc: doc["spec"].update(numberOfClusters=number + 2), namespace=TEAM)  # noqa: B023 - called at once
        make.create(CONFIG_MAP, make.document(CONFIG_MAP, f"m{number}"), namespace=TEAM)  # not of interest
        heads.append(AuditEvent.objects.order_by("-revision").values_list("revision", flat=True).first() or 0)
    of_placements = AuditEvent.objects.filter(resource=PLACEMENT.resource).order_by("revision")
    audited = list(of_placements.values_list("revision", flat=True))
    now, answers = timezone.now(), Counter[bool]()
    for first in heads:
        found = SharedChanges()
        found.since(0, PLACEMENT, TEAM, now, first)
        for upto in heads:
            for since in heads:
                known = found.since(since, PLACEMENT, TEAM, now, upto)
                if known is not None:
                    assert [each.revision for each in known] == [each for each in audited if since < each <= upto]
                answers[known is None] += 1
    assert answers[True]
    assert answers[False]
    cut = SharedChanges()
    assert cut.since(start, PLACEMENT, TEAM, now, heads[-1]) is None
    assert len(cut.since(heads[-5], PLACEMENT, TEAM, now, heads[-1]) or ()) == 4
    assert cut.since(heads[-6], PLACEMENT, TEAM, now, heads[-1]) is None


# What is another one's own: uids, times, versions, scores, names of Events, of placements and of the cluster that was free.
OWN = (
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    r"\d{4}-\d\d-\d\dT[\d:.]+Z",
    r"(?<=resourceVersion\": \")\d+",
    r"(?<=c\d:)-?\d+",
    r"(?<=p\d\.)[0-9a-f]{16}",
)


@pytest.mark.contract("P24", "P28", "W16", "W141")
def test_what_a_run_writes_is_what_the_endpoints_would_have_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents with their owners of fields, Events, and what the audit says: by amendments, and without any."""

    def written(name: str) -> list[str]:
        rows = [*Placement.objects.filter(name=name), *PlacementDecision.objects.filter(placement=name)]
        events = Event.objects.filter(namespace=TEAM, name__startswith=f"{name}.").order_by("resource_version")
        said = AuditEvent.objects.filter(namespace=TEAM, name__startswith=name, user=runs.CONTROLLER.user)
        entries = said.order_by("revision").values_list("resource", "verb", "act", "reason", "diff")
        docs = [each.doc for each in [*rows, *events]]
        texts = [re.sub("|".join(OWN), "its own", json.dumps(each)) for each in [*docs, *map(list, entries)]]
        return [re.sub(r"\b([pc])\d\b", r"\1", text) for text in texts]

    assert runs.run_together(KEYS[:2]).keys() == {*KEYS[:2]}
    monkeypatch.setattr(verbs.Batch, "amend", lambda *_given, **_named: False)
    monkeypatch.setattr(Alike, "create", lambda *_given: None)
    reconcile_placement(KEYS[2])
    first, second, third = map(written, NAMES)
    assert first == second == third
    assert '"numberOfSelectedClusters": 1' in first[0]
    assert '"clusterName": "c"' in first[1]
    assert "DecisionCreate" in first[2]


@pytest.mark.contract("W16")
def test_a_run_that_finds_its_status_as_it_is_asks_for_no_write_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    make.settle()
    asked: list[object] = []
    monkeypatch.setattr(runs, "_write_status", lambda *given: asked.append(given))
    assert runs.run_together(KEYS).keys() == {*KEYS}
    assert asked == []


def tainted(key: str) -> Callable[[Any], None]:
    taint = {"key": key, "effect": "NoSelect"}
    return lambda doc: doc["spec"].update(taints=[taint])


@pytest.mark.contract("K43")
def test_clusters_that_fall_out_for_other_taints_have_reasons_of_their_own() -> None:
    make.create(PLACEMENT, make.document(PLACEMENT, "all", spec={}), namespace=TEAM)
    make.settle()
    for name, key in (("c1", "old"), ("c2", "old"), ("c3", "slow")):
        make.edit(MANAGED_CLUSTER, name, tainted(key))
    runs.run_together([Key(TEAM, "all"), *KEYS])
    moves = DecisionMove.objects.filter(run__name="all", is_entered=False).order_by("first")
    found = [(each.names.split(), each.reason) for each in moves]
    assert [names for names, _ in found] == [["c1", "c2"], ["c3"]]
    assert ["old" in found[0][1], "slow" in found[1][1], "old" in found[1][1]] == [True, True, False]
