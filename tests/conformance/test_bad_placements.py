"""Placements that make no sense or cost too much, as kubectl sends them: what the hub says, and what goes on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.cluster import managed
from tests.conformance.commands import Doc, Kubectl, eventually

OCM = "cluster.open-cluster-management.io"
# No cluster here ever has an agent, so that each has the taint `unreachable`.
TOLERANT: Doc = {"tolerations": [{"operator": "Exists"}]}
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
TOO_MUCH = f"{TEN}.map(a, {TEN}.map(b, {TEN}.map(c, {TEN}.map(d, {TEN}.map(e, 1))))).size() > 0"

Said = tuple[str, str, str]  # status, reason and message of a condition


def selector(**part: Any) -> Doc:
    return {"requiredClusterSelector": part}


class Placed:
    """Placements of one namespace, to which a set of the same name with three clusters is bound."""

    def __init__(self, admin: Kubectl, name: str) -> None:
        self.kubectl = admin
        self.space = name
        self.clusters = [f"{name}-{letter}" for letter in "abc"]
        self._numbers = itertools.count(1)

    def arrange(self) -> None:
        clusterset = self.document("ManagedClusterSet", self.space, {}, version="v1beta2")
        del clusterset["metadata"]["namespace"]
        labels = {f"{OCM}/clusterset": self.space}
        self.kubectl("create", "namespace", self.space)
        self.kubectl("create", "-f", "-", stdin=clusterset)
        binding = {"clusterSet": self.space}
        self.apply_document(self.document("ManagedClusterSetBinding", self.space, binding, version="v1beta2"))
        for name in self.clusters:
            self.kubectl("create", "-f", "-", stdin=managed(name, labels=labels))

    def clean(self) -> None:
        self.kubectl("delete", "mcl", *self.clusters, "--wait=false")
        self.kubectl("delete", "namespace", self.space, "--wait=false")
        self.kubectl("delete", "managedclusterset", self.space, "--wait=false")

    def document(self, kind: str, name: str, spec: Doc, version: str = "v1beta1") -> Doc:
        metadata = {"name": name, "namespace": self.space}
        return {"apiVersion": f"{OCM}/{version}", "kind": kind, "metadata": metadata, "spec": spec}

    def apply_document(self, doc: Doc) -> None:
        self.kubectl("apply", "-f", "-", stdin=doc)

    def apply(self, name: str, **spec: Any) -> None:
        self.apply_document(self.document("Placement", name, TOLERANT | spec))

    def refused(self, name: str, **spec: Any) -> str:
        """The words of the hub: the program itself looks at nothing."""
        doc = self.document("Placement", name, TOLERANT | spec)
        return self.kubectl.refuses("apply", "--validate=false", "-f", "-", stdin=doc)

    def decisions(self, name: str) -> list[Doc]:
        label = f"{OCM}/placement={name}"
        found: list[Doc] = self.kubectl.read("placementdecisions", "-n", self.space, "-l", label)["items"]
        return found

    def chosen(self, name: str) -> list[str]:
        statuses = (doc.get("status") or {} for doc in self.decisions(name))
        return [each["clusterName"] for status in statuses for each in status.get("decisions", ())]

    def condition(self, name: str, type_: str) -> Said | None:
        """None before the first run."""
        status = self.kubectl.read("placement", name, "-n", self.space).get("status") or {}
        found = {each["type"]: each for each in status.get("conditions", ())}
        one = found.get(type_)
        return None if one is None else (one["status"], one["reason"], one["message"])

    def misconfigured(self, name: str, says: str) -> Said:
        """Once the condition begins so."""

        def asked() -> Said | None:
            found = self.condition(name, "PlacementMisconfigured")
            return found if found is not None and found[2].startswith(says) else None

        return eventually(asked)

    def decided(self, name: str) -> list[Doc]:
        """Once it has chosen all three."""
        eventually(lambda: self.chosen(name) == self.clusters)
        return self.decisions(name)

    def lets_others_go_on(self) -> None:
        """A Placement that is made now is decided."""
        name = f"other-{next(self._numbers)}"
        self.apply(name)
        self.decided(name)


@pytest.fixture
def placed(admin: Kubectl, name: str) -> Iterator[Placed]:
    made = Placed(admin, name)
    made.arrange()
    yield made
    made.clean()


BOGUS, LONG = ({"matchExpressions": [{"key": "env", "operator": name}]} for name in ("Bogus", "B" * 40_000))
MISCONFIGURED: list[tuple[Doc, str]] = [
    (
        {"predicates": [selector(labelSelector=BOGUS)]},
        'Predicate:"Bogus" is not a valid label selector operator',
    ),
    ({"predicates": [selector(labelSelector=LONG)]}, 'Predicate:"BBBB'),
    (
        {"predicates": [selector(celSelector={"celExpressions": ["managedCluster.("]})]},
        "Predicate:compilation failed: ",
    ),
    (
        {"tolerations": [{"operator": "Equal", "value": "x"}]},
        "TaintToleration:If the key is empty, operator must be Exists.",
    ),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
        "TaintToleration:If the operator is Exists, the value should be empty.",
    ),
    ({"numberOfClusters": -1}, ":numberOfClusters must not be negative"),
]


@pytest.mark.contract("P12", "P29", "D12", "D14", "K17", "K21")
def test_what_makes_no_sense_is_said_by_a_condition_and_nothing_changes_until_it_is_mended(placed: Placed) -> None:
    placed.apply("p1")
    good = placed.decided("p1")
    for spec, says in MISCONFIGURED:
        placed.apply("p1", **spec)
        assert placed.misconfigured("p1", says)[:2] == ("True", "Misconfigured")
        assert placed.decisions("p1") == good, says
        satisfied = ("True", "AllDecisionsScheduled", "All cluster decisions scheduled")
        assert placed.condition("p1", "PlacementSatisfied") == satisfied
    placed.lets_others_go_on()
    placed.apply("p1")
    placed.misconfigured("p1", "Placement configurations check pass")
    assert placed.decisions("p1") == good


@pytest.mark.contract("P24", "P29", "P30", "D12")
def test_what_never_made_sense_has_one_decision_without_clusters(placed: Placed) -> None:
    for number, (spec, says) in enumerate(MISCONFIGURED):
        placed.apply(f"p{number}", **spec)
        assert placed.misconfigured(f"p{number}", says)[:2] == ("True", "Misconfigured")
        assert [doc["metadata"]["name"] for doc in placed.decisions(f"p{number}")] == [f"p{number}-decision-1"]
        assert placed.chosen(f"p{number}") == []
    placed.lets_others_go_on()


def grouped(name: str) -> Doc:
    return {"groupStrategy": {"decisionGroups": [{"groupName": name, "groupClusterSelector": {}}]}}


INVALID: list[tuple[Doc, str]] = [
    (
        {"numberOfClusters": 2**31},
        (
            "spec.numberOfClusters: Invalid value: 2147483648: "
            "Checked value must be of type integer with format int32 in spec.numberOfClusters"
        ),
    ),
    (
        {"tolerations": [{"key": "a b", "operator": "Exists"}]},
        'spec.tolerations[0].key: Invalid value: "a b": spec.tolerations[0].key in body should match ',
    ),
    (
        {"tolerations": [{"key": "a", "effect": "Never"}]},
        (
            'spec.tolerations[0].effect: Unsupported value: "Never": supported values: '
            '"NoSelect", "PreferNoSelect", "NoSelectIfNew"'
        ),
    ),
    (
        {"prioritizerPolicy": {"configurations": [{"weight": 11, "scoreCoordinate": {"builtIn": "Steady"}}]}},
        (
            "spec.prioritizerPolicy.configurations[0].weight: Invalid value: 11: "
            "spec.prioritizerPolicy.configurations[0].weight in body should be less than or equal to 10"
        ),
    ),
    (
        {"decisionStrategy": grouped("g" * 64)},
        f'spec.decisionStrategy.groupStrategy.decisionGroups[0].groupName: Invalid value: "{"g" * 64}": ',
    ),
]


@pytest.mark.contract("K38", "W184")
def test_what_the_schema_forbids_and_a_name_that_no_label_holds_are_invalid_and_nothing_changes(placed: Placed) -> None:
    placed.apply("p1")
    good = placed.decided("p1")
    stored = placed.kubectl.read("placement", "p1", "-n", placed.space)
    for spec, says in INVALID:
        assert f'The Placement "p1" is invalid: {says}' in placed.refused("p1", **spec)
    long = "p" * 64
    limit = f'metadata.name: Invalid value: "{long}": must be no more than 63 characters'
    assert f'The Placement "{long}" is invalid: {limit}' in placed.refused(long)
    placed.lets_others_go_on()
    assert placed.kubectl.read("placement", "p1", "-n", placed.space) == stored
    assert placed.decisions("p1") == good


@pytest.mark.contract("P6", "P7", "D12")
def test_what_costs_much_holds_up_nobody(placed: Placed) -> None:
    """An expression whose value costs too much has none, and so matches nobody."""
    placed.apply("costly", predicates=[selector(celSelector={"celExpressions": [TOO_MUCH]})])
    labels = [*({"env": f"stage-{number}"} for number in range(999)), {f"{OCM}/clusterset": placed.space}]
    placed.apply("many", predicates=[selector(labelSelector={"matchLabels": each}) for each in labels])
    placed.lets_others_go_on()
    unmatched = ("False", "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate")
    eventually(lambda: placed.condition("costly", "PlacementSatisfied") == unmatched)
    valid = ("False", "Succeedconfigured", "Placement configurations check pass")
    assert placed.condition("costly", "PlacementMisconfigured") == valid
    assert placed.chosen("costly") == []
    placed.decided("many")
