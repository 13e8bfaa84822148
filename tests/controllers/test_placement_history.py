"""What is kept of each change of a decision: who entered and left, at which stage, and because of which change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from ocmconsole.core.kinds import NAMESPACE
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.models import AuditEvent
from placements import tasks
from placements.controller import evidence, history, shared_changes, snapshot
from placements.controller.history import HistoryEntry
from placements.controller.scheduling import decided_in
from placements.kinds import DISABLE_ANNOTATION, PLACEMENT, PLACEMENT_DECISION, PLACEMENT_LABEL
from placements.models import DecisionMove, DecisionRun, PlacementDecision
from tests import factories as make
from tests.controllers import placement_scene
from tests.controllers.placement_scene import TEAM, bound_set, members

pytestmark = [pytest.mark.django_db, pytest.mark.contract("K43")]

Doc = dict[str, Any]
PROD = [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}]


@pytest.fixture(autouse=True)
def web(db: None) -> None:
    bound_set()
    cluster("c1")
    cluster("c2")


def cluster(name: str, env: str = "prod", **labels: str) -> None:
    members(name, spec=None, within="web", env=env, **labels)
    make.settle()


def place(name: str = "p1", **spec: Any) -> None:
    placement_scene.place(name, **{"predicates": PROD, **spec})


def remove(kind: Kind, name: str, *, namespace: str = TEAM, cascade: str = "Background") -> None:
    verbs.delete(make.ADMIN, kind, Key(namespace, name), options=verbs.Options(propagation=cascade))


def entries(name: str = "p1") -> tuple[HistoryEntry, ...]:
    return history.of_placement(TEAM, name).entries


def newest(name: str = "p1") -> list[tuple[str, list[str], str, str, str, str]]:
    """Of the newest run: direction, clusters, stage, reason, kind and words of the cause."""
    return [
        (
            "entered" if move.row.is_entered else "left",
            move.clusters,
            move.row.stage,
            move.row.reason,
            move.row.cause.get("kind", "none"),
            move.row.cause.get("what", "none"),
        )
        for move in entries(name)[0].moves
    ]


def taint(name: str, **more: str) -> None:
    added = {"key": "gpu", "effect": "NoSelect", **more}
    make.edit(MANAGED_CLUSTER, name, lambda doc: doc["spec"].setdefault("taints", []).append(added))
    make.settle()


def test_a_set_that_the_namespace_never_had_is_no_cause() -> None:
    """Its name would be said to people who may not see it, and it would not be true."""
    place()
    make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(numberOfClusters=1), namespace=TEAM)
    make.clusterset("secret")
    remove(MANAGED_CLUSTER_SET, "secret", namespace="")
    make.settle()
    assert newest()[0][4:] == ("Placement", "spec.numberOfClusters set")


def test_a_new_placement_enters_its_clusters_because_it_was_created() -> None:
    place()
    assert newest() == [("entered", ["c1", "c2"], "", "", "Placement", "created")]
    [entry] = entries()
    assert (entry.run.entered, entry.run.left, entry.run.chosen) == (2, 0, 2)
    assert entry.cause["name"] == "p1"


def test_a_cluster_that_leaves_has_its_stage_its_reason_and_the_change_of_its_label() -> None:
    place()
    make.label("c1", env="dev")
    make.settle()
    reason = "label env is dev, needs env in (prod)"
    assert newest() == [("left", ["c1"], "Predicate", reason, "ManagedCluster", "label env: prod → dev")]
    make.label("c1", env="prod")
    make.settle()
    assert newest() == [("entered", ["c1"], "", "", "ManagedCluster", "label env: dev → prod")]


def test_the_cause_has_the_revision_under_which_the_audit_has_the_change() -> None:
    place()
    make.label("c1", env="dev")
    make.settle()
    cause = entries()[0].moves[0].row.cause
    entry = AuditEvent.objects.get(revision=cause["revision"])
    assert (entry.resource, entry.name, entry.user) == (MANAGED_CLUSTER.resource, "c1", "root")


def test_a_taint_is_named_and_so_is_a_change_that_meant_nothing_in_between_not() -> None:
    place()
    taint("c1")
    make.label("c1", note="irrelevant")
    make.settle()
    reason = "taint gpu:NoSelect is not tolerated"
    assert newest() == [("left", ["c1"], "TaintToleration", reason, "ManagedCluster", "taint gpu:NoSelect added")]


def test_who_enters_because_the_toleration_of_another_ended_has_that_cause() -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        tolerated = {"key": "gpu", "operator": "Exists", "tolerationSeconds": 900}
        place(tolerations=[tolerated], numberOfClusters=1)
        taint("c1")
        clock.shift(timedelta(seconds=901))
        make.settle()
        found = [(way, names, what) for way, names, _, _, _, what in newest()]
    assert found == [("entered", ["c2"], "a toleration ended"), ("left", ["c1"], "a toleration ended")]


def test_of_several_changes_before_one_run_the_one_that_the_placement_reads_is_the_cause() -> None:
    place()
    make.label("c1", env="dev")
    make.label("c1", note="later")
    make.settle()
    assert newest()[0][5] == "label env: prod → dev"


def test_a_toleration_that_ends_is_the_cause_although_nothing_was_written() -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        place(tolerations=[{"key": "gpu", "operator": "Exists", "tolerationSeconds": 60}])
        taint("c1")
        runs = len(entries())
        clock.shift(timedelta(seconds=61))
        make.settle()
        assert len(entries()) == runs + 1
        [(way, names, stage, reason, kind, what)] = newest()
    assert (way, names, stage, kind, what) == ("left", ["c1"], "TaintToleration", "", "a toleration ended")
    assert reason == "taint gpu:NoSelect is tolerated no longer"


def test_the_placements_own_change_is_the_cause_for_clusters_that_did_not_change() -> None:
    place(numberOfClusters=2)
    make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(numberOfClusters=1), namespace=TEAM)
    make.settle()
    what = "spec.numberOfClusters: 2 → 1"
    assert newest() == [("left", ["c2"], "Score", "others come before it", "Placement", what)]


def test_who_takes_the_place_of_another_names_that_other() -> None:
    place(numberOfClusters=1)
    taint("c1")
    by_way = {move[0]: move for move in newest()}
    assert by_way["left"][1:3] == (["c1"], "TaintToleration")
    assert by_way["entered"][1] == ["c2"]
    cause = next(move.row.cause for move in entries()[0].moves if move.row.is_entered)
    assert (cause["kind"], cause["name"], cause["what"]) == ("ManagedCluster", "c1", "taint gpu:NoSelect added")


def test_bindings_and_sets_are_causes() -> None:
    place()
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET_BINDING, Key(TEAM, "web"))
    make.settle()
    [(way, names, stage, _, kind, what)] = newest()
    assert (way, names, stage, kind, what) == ("left", ["c1", "c2"], "Sets", "ManagedClusterSetBinding", "deleted")
    make.binding("web", namespace=TEAM)
    make.settle()
    assert newest() == [("entered", ["c1", "c2"], "", "", "ManagedClusterSetBinding", "created")]
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "web"))
    make.settle()
    assert newest()[0][4:] == ("ManagedClusterSet", "deleted")


def test_a_cluster_that_moves_to_another_set_or_is_deleted_leaves_for_that_reason() -> None:
    place()
    make.label("c1", {CLUSTERSET_LABEL: None})
    make.settle()
    assert newest()[0][1:3] == (["c1"], "Sets")
    assert newest()[0][4] == "ManagedCluster"
    assert newest()[0][5].startswith(f"label {CLUSTERSET_LABEL}")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c2"))
    make.settle()
    assert newest()[0][1] == ["c2"]
    assert newest()[0][4:] in {("ManagedCluster", "deleted"), ("ManagedCluster", "is being deleted")}


def test_a_decision_that_somebody_changed_is_restored_with_that_as_the_cause() -> None:
    place()

    def empty(doc: Doc) -> None:
        doc["status"]["decisions"] = []

    make.edit(PLACEMENT_DECISION, "p1-decision-1", empty, namespace=TEAM, subresource="status")
    make.settle()
    assert newest() == [("entered", ["c1", "c2"], "", "", "PlacementDecision", "changed by somebody else")]


def test_what_somebody_else_makes_of_decisions_stands_in_the_history_and_what_mended_it_with_its_cause() -> None:
    place()
    _decide("p1-decision-1", "c2", "c3")
    changed = "its PlacementDecision was changed"
    cause = ("PlacementDecision", "changed by somebody else")
    assert newest() == [("entered", ["c3"], "", changed, *cause), ("left", ["c1"], "", changed, *cause)]
    evidence.forget()  # as after a start: the history says what the scheduler had seen
    make.settle()
    found = [(run.entered, run.left, run.chosen) for run in (each.run for each in entries())]
    assert found == [(1, 1, 2), (1, 1, 2), (2, 0, 2)]
    assert {(each[0], *each[4:]) for each in newest()} == {("entered", *cause), ("left", *cause)}


@pytest.mark.contract("P2")
def test_another_schedulers_decisions_have_a_history_in_which_a_cluster_is_chosen_once() -> None:
    """It moves a cluster from one PlacementDecision to the next, adding it first."""
    placement = make.document(PLACEMENT, "p1", annotations={DISABLE_ANNOTATION: "true"}, spec={})
    make.create(PLACEMENT, placement, namespace=TEAM)
    for name in ("p1-decision-1", "theirs"):
        make.create(
            PLACEMENT_DECISION, make.document(PLACEMENT_DECISION, name, labels={PLACEMENT_LABEL: "p1"}), namespace=TEAM
        )
    _decide("p1-decision-1", "c1", "c2")
    _decide("theirs", "c2")
    _decide("p1-decision-1", "c1")
    _decide("theirs")
    make.settle()
    found = [(run.entered, run.left, run.chosen) for run in (each.run for each in entries())]
    assert found == [(0, 1, 1), (2, 0, 2)]
    make.edit(
        PLACEMENT_DECISION, "p1-decision-1", lambda doc: doc["metadata"]["labels"].clear(), namespace=TEAM
    )  # it belongs to no Placement any more
    assert newest()[0][:2] == ("left", ["c1"])
    assert entries()[0].run.chosen == 0


@pytest.mark.contract("P2")
def test_a_write_among_very_many_decisions_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "MOST_DECISIONS", 1)
    place()
    for name in ("x1", "x2"):
        make.create(
            PLACEMENT_DECISION, make.document(PLACEMENT_DECISION, name, labels={PLACEMENT_LABEL: "p1"}), namespace=TEAM
        )
    known = DecisionRun.objects.count()
    _decide("x1", "c3")
    assert DecisionRun.objects.count() == known


def _decide(decision: str, *names: str) -> None:
    status = {"decisions": [{"clusterName": name, "reason": ""} for name in names]}
    make.edit(PLACEMENT_DECISION, decision, lambda doc: doc.update(status=status), namespace=TEAM, subresource="status")


@pytest.mark.parametrize("cascade", ["Background", "Foreground"])
def test_the_end_of_decisions_stands_in_the_history_when_a_placement_is_deleted(cascade: str) -> None:
    place()
    remove(PLACEMENT, "p1", cascade=cascade)
    make.settle()
    assert not PlacementDecision.objects.exists()
    left = ("left", ["c1", "c2"], "", "the Placement was deleted", "Placement", "deleted")
    assert newest() == [left]
    assert [(each.run.left, each.run.chosen) for each in entries()] == [(2, 0), (0, 2)]
    cause = entries()[0].moves[0].row.cause
    entry = AuditEvent.objects.get(revision=cause["revision"])
    assert (entry.resource, entry.verb, entry.user) == (PLACEMENT.resource, "delete", "root")
    place()  # another of the same name
    assert newest()[0][:2] == ("entered", ["c1", "c2"])
    assert [each.moves[0].row.is_entered for each in history.of_cluster("c1").entries] == [True, False, True]


def test_orphaned_decisions_end_when_they_are_deleted_and_not_before() -> None:
    place()
    remove(PLACEMENT, "p1", cascade="Orphan")
    make.settle()
    assert newest()[0][0] == "entered"
    remove(PLACEMENT_DECISION, "p1-decision-1")
    assert newest()[0][:4] == ("left", ["c1", "c2"], "", "the Placement was deleted")


def test_a_decision_that_somebody_deleted_ends_and_is_made_anew() -> None:
    place()
    remove(PLACEMENT_DECISION, "p1-decision-1")
    make.settle()
    found = [(run.entered, run.left, run.chosen) for run in (each.run for each in entries())]
    assert found == [(2, 0, 2), (0, 2, 0), (2, 0, 2)]
    assert entries()[1].moves[0].row.reason == "its PlacementDecision was deleted"


def test_decisions_of_a_namespace_that_is_deleted_end() -> None:
    place()
    remove(NAMESPACE, TEAM, namespace="")
    make.settle()
    assert not PlacementDecision.objects.exists()
    assert (entries()[0].run.left, entries()[0].run.chosen) == (2, 0)


def test_what_no_cluster_is_called_is_mended_and_not_recorded() -> None:
    place()

    def write(doc: Doc) -> None:
        doc["status"]["decisions"] = [{"clusterName": name, "reason": ""} for name in ("c1", "x" * 300, "a\nb", "")]

    make.edit(PLACEMENT_DECISION, "p1-decision-1", write, namespace=TEAM, subresource="status")
    make.settle()
    assert newest() == [("entered", ["c2"], "", "", "PlacementDecision", "changed by somebody else")]
    assert decided_in(PlacementDecision.objects.all()) == {"c1", "c2"}
    make.edit(PLACEMENT_DECISION, "p1-decision-1", write, namespace=TEAM, subresource="status")
    remove(PLACEMENT_DECISION, "p1-decision-1")
    assert newest()[0][:2] == ("left", ["c1"])


def test_what_this_process_has_not_followed_is_looked_up_in_the_audit() -> None:
    place()
    make.label("c1", env="dev")
    snapshot.present.forget()  # as after a start
    evidence.forget()
    make.settle()
    assert newest()[0][:3] == ("left", ["c1"], "Predicate")
    assert newest()[0][4:] == ("ManagedCluster", "metadata.labels.env: prod → dev")


def test_a_cause_that_is_not_known_is_left_empty() -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        place()
        make.label("c1", env="dev")
        clock.shift(shared_changes.LATEST + timedelta(minutes=1))
        make.settle()
    assert newest()[0][4:] == ("none", "none")


def test_a_run_that_changes_nothing_leaves_nothing() -> None:
    place()
    make.label("c1", note="irrelevant")
    tasks.resync_placements()
    for turn in range(tasks.TURNS):
        tasks.resync(turn)
    make.settle()
    assert len(entries()) == 1


def test_clusters_that_only_change_their_group_are_counted() -> None:
    place()
    groups = {"groupStrategy": {"clustersPerDecisionGroup": 1}}
    make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(decisionStrategy=groups), namespace=TEAM)
    make.settle()
    entry = entries()[0]
    assert (entry.run.entered, entry.run.left, entry.run.regrouped, entry.moves) == (0, 0, 1, ())
    assert entry.cause["what"].startswith("spec.decisionStrategy")


def test_a_storm_is_few_rows_of_bounded_size_and_no_name_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DecisionMove, "MOST", 3)
    monkeypatch.setattr(evidence, "MOST_ROWS", 2)
    monkeypatch.setattr(evidence, "MOST_REASONS", 4)
    names = ["c1", "c2", *(f"d{number}" for number in range(6))]
    for name in names[2:]:
        make.cluster(name, labels={CLUSTERSET_LABEL: "web", "env": "prod"})
        make.said(name, "ManagedClusterConditionAvailable", "True")
    make.settle()
    place()
    for number, name in enumerate(names):
        make.label(name, env=f"dev-{number}")  # as many reasons as clusters
    make.settle()
    run = entries()[0]
    assert (run.run.left, run.run.chosen) == (8, 0)
    assert max(move.row.count for move in run.moves) == 3
    assert sorted(name for move in run.moves for name in move.clusters) == names
    assert len({(move.row.reason, move.row.cause.get("what")) for move in run.moves}) == 3


def test_a_cluster_has_its_own_history_over_all_placements_in_pages() -> None:
    place("p1")
    place("p2")
    make.label("c1", env="dev")
    make.settle()
    page = history.of_cluster("c1", most=3)
    assert {entry.run.name for entry in page.entries[:2]} == {"p1", "p2"}
    assert [entry.moves[0].row.is_entered for entry in page.entries] == [False, False, True]
    assert page.older is not None
    rest = history.of_cluster("c1", before=page.older)
    assert (len(rest.entries), rest.older) == (1, None)
    assert len(history.of_cluster("c2").entries) == 2
    assert history.of_cluster("c").entries == ()
    assert history.of_cluster("c1", namespaces=["other"]).entries == ()


def test_the_history_of_a_placement_comes_in_pages() -> None:
    place()
    for env in ("dev", "prod", "dev"):
        make.label("c1", env=env)
        make.settle()
    page = history.of_placement(TEAM, "p1", most=3)
    assert len(page.entries) == 3
    last = history.of_placement(TEAM, "p1", most=3, before=page.older)
    assert ([entry.run.entered for entry in last.entries], last.older) == ([2], None)


def test_history_goes_after_its_time_and_beyond_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    place()
    for env in ("dev", "prod", "dev"):
        make.label("c1", env=env)
        make.settle()
    tasks.expire_decision_history()
    assert DecisionRun.objects.count() == 4
    monkeypatch.setattr(tasks, "MOST_RUNS", 3)
    tasks.expire_decision_history()
    assert [entry.run.entered for entry in entries()] == [0, 1, 0]
    with time_machine.travel(timezone.now() + settings.OCMCONSOLE_PLACEMENT_HISTORY + timedelta(minutes=1)):
        tasks.expire_decision_history()
    assert (DecisionRun.objects.count(), DecisionMove.objects.count()) == (0, 0)
