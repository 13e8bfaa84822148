"""The change log of a Placement's decisions, replayed: who is chosen before and after a run is there at every revision.

And what a run does where one of its writes is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL
from ocmconsole.kubeapi import admission, errors, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Change, WorkItem
from placements.kinds import PLACEMENT, PLACEMENT_DECISION
from placements.models import Placement, PlacementDecision
from tests import factories as make
from tests.controllers.placement_scene import TEAM, bound_set, members

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]
FLEET = [f"c{number}" for number in range(8)]
TIERS = ("one", "two", "three")


@pytest.fixture(autouse=True)
def web(db: None) -> None:
    bound_set()
    members(*FLEET, tier="one")
    make.settle()


def newest() -> int:
    return Change.objects.order_by("-revision").values_list("revision", flat=True).first() or 0


def standing(documents: dict[str, Doc]) -> list[str]:
    return sorted(
        each["clusterName"] for doc in documents.values() for each in (doc.get("status") or {}).get("decisions") or ()
    )


def replayed(since: int, documents: dict[str, Doc]) -> Iterator[list[str]]:
    """Clusters at each revision, as a client that watches PlacementDecisions sees them; ``documents`` follows."""
    changes = Change.objects.filter(resource=PLACEMENT_DECISION.resource, revision__gt=since).order_by("revision")
    for change in changes:
        documents.pop(change.name, None)
        if change.verb != Change.Verb.DELETED:
            documents[change.name] = json.loads(change.wire)
        yield standing(documents)


@pytest.mark.contract("K16", "P25", "W19")
@pytest.mark.parametrize("seed", range(3))
def test_no_cluster_that_stays_is_missing_at_any_revision(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - a seed, no secret
    make.create(PLACEMENT, make.document(PLACEMENT, "p1", spec={}), namespace=TEAM)
    make.settle()
    documents = {row.name: row.doc for row in PlacementDecision.objects.filter(namespace=TEAM)}
    for _ in range(12):
        before, head = set(standing(documents)), newest()
        _change_something(random)
        make.settle()
        seen = list(replayed(head, documents))
        after = set(standing(documents))
        assert after == {name for row in PlacementDecision.objects.all() for name in standing({"": row.doc})}
        for clusters in seen:
            assert before & after <= set(clusters)
            # In two decisions only between groups, which have no safe order without.
            assert len(clusters) - len(set(clusters)) <= len(FLEET)
        assert len(standing(documents)) == len(after), "at rest each cluster stands once"


def _change_something(random: Random) -> None:
    """The whole specification, or a label of one cluster: one run of the scheduler follows."""
    if random.random() < 0.4:
        name, tier = random.choice(FLEET), random.choice(TIERS)
        make.label(name, {"tier": tier, CLUSTERSET_LABEL: random.choice(["web", "web", "none"])})
        return
    groups = [
        {"groupName": f"g-{tier}", "groupClusterSelector": {"labelSelector": {"matchLabels": {"tier": tier}}}}
        for tier in random.sample(TIERS, random.randint(0, 3))
    ]
    size = random.choice([0, 1, 2, 3, "40%"])
    spec: Doc = {"decisionStrategy": {"groupStrategy": {"decisionGroups": groups, "clustersPerDecisionGroup": size}}}
    if random.random() < 0.5:
        spec["numberOfClusters"] = random.randint(0, len(FLEET))
    make.edit(PLACEMENT, "p1", lambda doc: doc.update(spec=spec), namespace=TEAM)


@pytest.mark.contract("K22", "K16", "P31")
@pytest.mark.parametrize("subresource", ["", "status"], ids=["created", "filled"])
def test_a_refused_decision_leaves_everything_as_it_was_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, subresource: str
) -> None:
    """Upstream forgets such an error until the next event."""
    make.create(PLACEMENT, make.document(PLACEMENT, "p1", spec={"numberOfClusters": 2}), namespace=TEAM)
    make.settle()
    is_full = [True]

    def no_third_decision(_actor: object, _old: Doc | None, new: Doc) -> None:
        if is_full[0] and new["metadata"]["name"].endswith("-3"):
            raise errors.Forbidden("the namespace is full")

    place = PLACEMENT_DECISION.resource, subresource
    monkeypatch.setitem(admission._validators, place, [*admission._validators[place], no_third_decision])
    spec = {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": 3}}}
    make.edit(PLACEMENT, "p1", lambda doc: doc.update(spec=spec), namespace=TEAM)
    before = {row.name: row.doc for row in (*PlacementDecision.objects.all(), *Placement.objects.all())}
    make.settle()
    assert {row.name: row.doc for row in (*PlacementDecision.objects.all(), *Placement.objects.all())} == before
    [work] = WorkItem.objects.filter(reconciler="placement")
    assert work.attempts == 1
    is_full[0] = False
    WorkItem.objects.update(due=timezone.now(), busy_until=None)
    make.settle()
    assert len(PlacementDecision.objects.filter(namespace=TEAM)) == 3
    assert not WorkItem.objects.filter(reconciler="placement").exists()


@pytest.mark.contract("P31", "K21")
def test_a_misconfigured_placement_is_not_tried_again_before_somebody_mends_it() -> None:
    make.create(PLACEMENT, make.document(PLACEMENT, "p1", spec={"numberOfClusters": 1}), namespace=TEAM)
    make.settle()
    wrong = [{"operator": "Equal", "value": "x"}]
    make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(tolerations=wrong), namespace=TEAM)
    make.settle()
    assert make.condition(Placement.objects.get().doc, "PlacementMisconfigured")[0] == "True"
    assert not WorkItem.objects.filter(reconciler="placement").exists()
    make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].pop("tolerations"), namespace=TEAM)
    make.settle()
    assert make.condition(Placement.objects.get().doc, "PlacementMisconfigured")[0] == "False"


@pytest.mark.contract("K37", "C13", "P30")
def test_conditions_come_in_the_commit_of_the_first_decision() -> None:
    """``clusteradm get placements`` breaks off at a Placement that has a decision and no conditions."""
    make.create(PLACEMENT, make.document(PLACEMENT, "p1", spec={"numberOfClusters": 1}), namespace=TEAM)
    head = newest()
    make.settle()
    ours = Change.objects.filter(revision__gt=head, namespace=TEAM, resource__startswith="placement").order_by(
        "revision"
    )
    found = [(each.revision - head, each.resource.partition(".")[0], each.verb) for each in ours]
    assert found == [
        (1, "placementdecisions", "ADDED"),
        (2, "placementdecisions", "MODIFIED"),
        (3, "placements", "MODIFIED"),
    ]
    stored = verbs.find(PLACEMENT, Key(TEAM, "p1"))
    assert stored is not None
    types = [each["type"] for each in stored["status"]["conditions"]]
    assert types == ["PlacementSatisfied", "PlacementMisconfigured"], "its table shows the first one"
