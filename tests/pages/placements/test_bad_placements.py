"""Placements that make no sense or cost too much: what API and playground say, and that nobody else has to wait."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from django.test import Client

from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem
from placements import reconcilers
from placements.controller import runs
from placements.kinds import PLACEMENT
from tests import factories as make
from tests.actors import signed_in
from tests.pages.placements.scene import TEAM, fleet, matching
from tests.pages.placements.test_playground import PAGE, address, chosen, decided, text

__all__ = ["fleet"]  # a fixture of every test

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
TOO_MUCH = f"{TEN}.map(a, {TEN}.map(b, {TEN}.map(c, {TEN}.map(d, {TEN}.map(e, 1))))).size() > 0"


def selecting(**part: Any) -> list[Doc]:
    return [{"requiredClusterSelector": part}]


BOGUS = selecting(labelSelector={"matchExpressions": [{"key": "env", "operator": "Bogus"}]})
BROKEN = selecting(celSelector={"celExpressions": ["managedCluster.("]})
MISCONFIGURED = [
    ({"predicates": BOGUS}, 'Predicate:"Bogus" is not a valid label selector operator'),
    ({"predicates": BROKEN}, "Predicate:compilation failed: "),
    ({"tolerations": [{"value": "x"}]}, "TaintToleration:If the key is empty, operator must be Exists."),
    ({"numberOfClusters": -1}, ":numberOfClusters must not be negative"),
]


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


def create(name: str, spec: Doc) -> None:
    make.create(PLACEMENT, make.document(PLACEMENT, name, spec=spec), namespace=TEAM)


def condition(name: str, type_: str) -> tuple[str, str, str]:
    doc = verbs.find(PLACEMENT, Key(TEAM, name))
    assert doc is not None
    return make.condition(doc, type_)


@pytest.mark.contract("P12", "P29", "D12", "D14", "K17")
@pytest.mark.parametrize(("spec", "says"), MISCONFIGURED)
def test_what_makes_no_sense_is_said_by_condition_and_playground(admin: Client, spec: Doc, says: str) -> None:
    answer = admin.get(address(spec))
    assert chosen(answer) == []
    assert answer.context["result"].plan.problem.startswith(says)
    create("bad", {})
    make.settle()
    good = decided("bad")
    make.edit(PLACEMENT, "bad", lambda doc: doc.update(spec=spec), namespace=TEAM)
    create("other", {})
    make.settle()
    status, reason, message = condition("bad", "PlacementMisconfigured")
    assert (status, reason) == ("True", "Misconfigured")
    assert message.startswith(says)
    assert decided("bad") == good == decided("other") != []  # D14, and the other one is not held up
    assert not WorkItem.objects.filter(reconciler="placement").exists()


@pytest.mark.contract("P7", "D12")
def test_an_expression_that_costs_too_much_matches_nobody_and_is_said_to(admin: Client) -> None:
    spec = {"predicates": selecting(celSelector={"celExpressions": [TOO_MUCH]})}
    answer = admin.get(address(spec))
    assert chosen(answer) == []
    assert "has no value" in text(answer)
    create("bad", spec)
    create("other", {})
    make.settle()
    assert condition("bad", "PlacementSatisfied")[:2] == ("False", "NoManagedClusterMatched")
    assert (decided("bad"), len(decided("other"))) == ([], 3)


@pytest.mark.contract("K38")
def test_a_name_that_no_label_can_hold_is_refused_by_the_api() -> None:
    with pytest.raises(errors.Invalid, match="63"):
        create("p" * 64, {})
    create("p" * 63, {})
    make.settle()
    assert len(decided("p" * 63)) == 3


@pytest.mark.contract("P6", "D12")
def test_a_thousand_predicates_are_worked_off_in_turns(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [*(matching(env=f"stage-{number}")[0] for number in range(999)), *matching(env="test")]
    create("bad", {"predicates": many})
    create("other", {})
    with monkeypatch.context() as patch:
        patch.setattr(runs, "SLICE", 0.0)
        assert reconcilers.reconcile_placement(Key(TEAM, "bad")) is not None  # its turn is over; it goes on later
        assert decided("bad") == []
        reconcilers.reconcile_placement(Key(TEAM, "other"))
        assert len(decided("other")) == 3
        make.settle()
    assert decided("bad") == ["web-3"]
    answer = admin.post(PAGE, {"namespace": TEAM, "as": "yaml", "yaml": yaml.safe_dump({"predicates": many})})
    assert answer.status_code == 400
    assert "the text is longer than 64 KiB" in text(answer)
    some = {"predicates": [*many[:200], *matching(env="test")]}
    assert chosen(admin.get(address(some))) == decided("bad")
