"""Placement, PlacementDecision and AddOnPlacementScore are served as upstream's definitions say (1.7 to 1.9)."""

from __future__ import annotations

from typing import Any

import pytest

from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema.compiled_schema import Schema
from placements.kinds import ADD_ON_PLACEMENT_SCORE, PLACEMENT, PLACEMENT_DECISION
from tests import factories as make
from tests.actors import grant, person, rule
from tests.api import entry
from tests.api.contract import KindContract
from tests.api.entry import TABLE
from tests.fuzz import world
from tests.fuzz.world import NAMESPACE, Site

GROUP = world.OCM
PREFIX = f"/apis/{GROUP}"
LABEL = (
    'metadata.labels: Invalid value: "-": name part must consist of alphanumeric characters, '
    "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
    "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
NOW = "2026-01-02T03:04:05Z"
SCHEMA = PLACEMENT.storage.schema


def headers(site: Site) -> list[str]:
    return [column["name"] for column in entry.root().get(site.path, accept=TABLE).doc["columnDefinitions"]]


class TestPlacement(KindContract):
    site = world.PLACEMENTS
    bad: Doc = {"spec": {"sortBy": "Luck"}}
    complaint = 'spec.sortBy: Unsupported value: "Luck": supported values: "ClusterName", "Score"'
    put_needs_version = True

    @pytest.mark.contract("P28")
    def test_columns_are_those_of_upstream(self) -> None:
        assert headers(self.site) == ["Name", "Succeeded", "Reason", "SelectedClusters"]
        self.present()
        make.settle()
        [row] = entry.root().get(self.site.path, accept=TABLE).doc["rows"]
        assert row["cells"] == ["sample", "False", "NoManagedClusterSetBindings", None]

    @pytest.mark.contract("W16")
    def test_each_endpoint_writes_its_own_part(self) -> None:
        self.present()
        said = {"status": {"numberOfSelectedClusters": 9}, "spec": {"numberOfClusters": 7}}
        answer = self.root.patch(f"{self.url}/status", said)
        assert (answer.doc["status"]["numberOfSelectedClusters"], answer.doc["spec"]["numberOfClusters"]) == (9, 3)
        answer = self.root.patch(self.url, said | {"status": {"numberOfSelectedClusters": 8}})
        assert (answer.doc["status"]["numberOfSelectedClusters"], answer.doc["spec"]["numberOfClusters"]) == (9, 7)

    @pytest.mark.contract("W5", "W116")
    def test_what_go_clients_send_along_with_a_new_placement_is_taken(self) -> None:
        doc = self.site.document("sample", creationTimestamp=None)
        doc["spec"] = {"prioritizerPolicy": {}, "spreadPolicy": {}, "decisionStrategy": {"groupStrategy": {}}}
        doc["status"] = {"numberOfSelectedClusters": 0, "decisionGroups": None, "conditions": None}
        answer = self.root.post(self.site.path, doc)
        assert answer.code == 201
        assert "status" not in answer.doc
        assert answer.doc["spec"] == {
            "prioritizerPolicy": {"mode": "Additive"},
            "spreadPolicy": {},
            "decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "100%"}},
            "sortBy": "ClusterName",
            "scoreRateLimit": "1m",
        }

    @pytest.mark.contract("K38")
    def test_a_name_that_no_label_can_hold_is_refused(self) -> None:
        answer = self.root.post(self.site.path, self.site.document("p" * 64))
        assert answer.said == (422, "Invalid")
        assert "must be no more than 63 characters" in answer.message
        assert self.root.post(self.site.path, self.site.document("p" * 63)).code == 201


class TestPlacementDecision(KindContract):
    site = world.DECISIONS
    bad: Doc = {"metadata": {"name": "sample", "labels": {"-": "a"}}}
    complaint = LABEL
    put_needs_version = True

    @pytest.mark.contract("P24")
    def test_columns_are_those_of_upstream(self) -> None:
        assert headers(self.site) == ["Name", "Age"]

    @pytest.mark.contract("P35")
    def test_consumers_list_decisions_by_the_label_of_the_placement(self) -> None:
        self.present("one", labels={f"{GROUP}/placement": "p1"})
        self.present("two", labels={f"{GROUP}/placement": "p2"})
        listed = self.root.get(f"{self.site.path}?labelSelector={GROUP}/placement%3Dp1").doc["items"]
        assert [each["metadata"]["name"] for each in listed] == ["one"]

    def test_a_status_names_clusters_with_a_reason(self) -> None:
        self.present()
        refused = self.root.patch(f"{self.url}/status", {"status": {"decisions": [{"clusterName": "c1"}]}})
        assert refused.said == (422, "Invalid")
        assert "status.decisions[0].reason: Required value" in refused.message
        assert self.root.patch(f"{self.url}/status", {"status": {}}).said == (422, "Invalid")
        decisions = [{"clusterName": "c1", "reason": "", "score": 7}]
        answer = self.root.patch(f"{self.url}/status", {"status": {"decisions": decisions}})
        assert answer.doc["status"]["decisions"] == decisions


class TestAddOnPlacementScore(KindContract):
    site = world.SCORES
    bad: Doc = {"metadata": {"name": "sample", "labels": {"-": "a"}}}
    complaint = LABEL
    put_needs_version = True

    def test_columns_are_those_of_upstream(self) -> None:
        assert headers(self.site) == ["Name", "Age"]

    @pytest.mark.contract("P18")
    @pytest.mark.parametrize(
        ("scores", "complaint"),
        [
            ([{"name": "a", "value": 101}], "status.scores[0].value: Invalid value: 101"),
            ([{"name": "a", "value": -101}], "status.scores[0].value: Invalid value: -101"),
            ([{"name": "a"}], "status.scores[0].value: Required value"),
            ([{"name": "a", "value": 1}, {"name": "a", "value": 2}], "status.scores[1]: Duplicate value"),
        ],
    )
    def test_scores_have_bounds_and_names_of_their_own(self, scores: list[Doc], complaint: str) -> None:
        self.present()
        refused = self.root.patch(f"{self.url}/status", {"status": {"scores": scores}})
        assert refused.said == (422, "Invalid")
        assert complaint in refused.message
        fine = {"status": {"scores": [{"name": "a", "value": -100}, {"name": "b", "value": 100}], "validUntil": NOW}}
        assert self.root.patch(f"{self.url}/status", fine).doc["status"] == fine["status"]


# ---------------------------------------------------------------- bounds of the schema


def admitted(schema: Schema, spec: Any) -> tuple[Any, list[str]]:
    stored = schema.default(schema.prune({"spec": spec})[0])
    return stored["spec"], [str(cause) for cause in schema.validate(stored)]


def test_a_placement_needs_a_spec() -> None:
    assert [str(cause) for cause in SCHEMA.validate({})] == ["spec: Required value"]


@pytest.mark.contract("K20", "K17")
@pytest.mark.parametrize(
    "spec",
    [
        {"numberOfClusters": 0},
        {"numberOfClusters": -1},
        {"tolerations": [{"key": "a", "operator": "Odd", "effect": "NoSelect", "tolerationSeconds": -1}]},
        {"prioritizerPolicy": {"mode": "Odd"}},
        {"spreadPolicy": {"spreadConstraints": [{"topologyKey": "zone", "topologyKeyType": "Claim"}]}},
        {"sortBy": "Score", "scoreRateLimit": "30s"},
        {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": 0}}},
        {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "5"}}},
    ],
)
def test_what_upstream_lets_pass_is_let_pass(spec: Doc) -> None:
    assert admitted(SCHEMA, spec)[1] == []


@pytest.mark.contract("A11")
@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"numberOfClusters": 2**31}, "spec.numberOfClusters"),
        ({"tolerations": [{"key": "a b"}]}, "spec.tolerations[0].key"),
        ({"tolerations": [{"key": "a" * 317}]}, "spec.tolerations[0].key: Too long"),
        ({"tolerations": [{"value": "a" * 1025}]}, "spec.tolerations[0].value: Too long"),
        ({"tolerations": [{"effect": "NoSchedule"}]}, "spec.tolerations[0].effect: Unsupported value"),
        ({"prioritizerPolicy": {"configurations": [{"weight": 1}]}}, "spec.prioritizerPolicy.configurations[0].scoreCoordinate: Required value"),
        ({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {}, "weight": 11}]}}, "spec.prioritizerPolicy.configurations[0].weight"),
        ({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {}, "weight": -11}]}}, "spec.prioritizerPolicy.configurations[0].weight"),
        ({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"type": "Luck"}}]}}, "spec.prioritizerPolicy.configurations[0].scoreCoordinate.type: Unsupported value"),
        ({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"type": "AddOn", "addOn": {"scoreName": "a"}}}]}}, "spec.prioritizerPolicy.configurations[0].scoreCoordinate.addOn.resourceName: Required value"),
        ({"spreadPolicy": {"spreadConstraints": [{"topologyKey": "a", "topologyKeyType": "Luck"}]}}, "spec.spreadPolicy.spreadConstraints[0].topologyKeyType: Unsupported value"),
        ({"spreadPolicy": {"spreadConstraints": [{"topologyKey": "a", "topologyKeyType": "Label", "maxSkew": 0}]}}, "spec.spreadPolicy.spreadConstraints[0].maxSkew"),
        ({"spreadPolicy": {"spreadConstraints": [{"topologyKey": "a", "topologyKeyType": "Label"}] * 9}}, "spec.spreadPolicy.spreadConstraints: Too many"),
        ({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "0%"}}}, "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup"),
        ({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "101%"}}}, "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup"),
        ({"decisionStrategy": {"groupStrategy": {"decisionGroups": [{"groupName": "a", "groupClusterSelector": {}}]}}}, "spec.decisionStrategy.groupStrategy.decisionGroups[0].groupName"),
        ({"decisionStrategy": {"groupStrategy": {"decisionGroups": [{"groupName": "ab"}]}}}, "spec.decisionStrategy.groupStrategy.decisionGroups[0].groupClusterSelector: Required value"),
        ({"predicates": [{"requiredClusterSelector": {"claimSelector": {"matchExpressions": [{"key": "a"}]}}}]}, "spec.predicates[0].requiredClusterSelector.claimSelector.matchExpressions[0].operator: Required value"),
        ({"scoreRateLimit": "soon"}, "spec.scoreRateLimit"),
    ],
)  # fmt: skip
def test_what_upstream_refuses_is_refused(spec: Doc, complaint: str) -> None:
    _, causes = admitted(SCHEMA, spec)
    assert len(causes) == 1
    assert causes[0].startswith(complaint)


@pytest.mark.contract("W20")
def test_defaults_are_those_of_upstream() -> None:
    spec = {
        "tolerations": [{"key": "a"}],
        "prioritizerPolicy": {"configurations": [{"scoreCoordinate": {}}]},
        "spreadPolicy": {"spreadConstraints": [{"topologyKey": "a", "topologyKeyType": "Label"}]},
    }
    assert admitted(SCHEMA, spec)[0] == {
        "tolerations": [{"key": "a", "operator": "Equal"}],
        "prioritizerPolicy": {
            "mode": "Additive",
            "configurations": [{"scoreCoordinate": {"type": "BuiltIn"}, "weight": 1}],
        },
        "spreadPolicy": {
            "spreadConstraints": [
                {
                    "topologyKey": "a",
                    "topologyKeyType": "Label",
                    "maxSkew": 1,
                    "whenUnsatisfiable": "ScheduleAnyway",
                }
            ]
        },
        "sortBy": "ClusterName",
        "scoreRateLimit": "1m",
    }


# ---------------------------------------------------------------- discovery, descriptions, rights


@pytest.mark.django_db
@pytest.mark.contract("W6", "W7")
def test_the_three_are_discovered_with_their_status() -> None:
    beta = {each["name"]: each for each in entry.root().get(f"{PREFIX}/v1beta1").doc["resources"]}
    alpha = {each["name"]: each for each in entry.root().get(f"{PREFIX}/v1alpha1").doc["resources"]}
    for listed, plural, kind in (
        (beta, "placements", "Placement"),
        (beta, "placementdecisions", "PlacementDecision"),
        (alpha, "addonplacementscores", "AddOnPlacementScore"),
    ):
        assert (listed[plural]["kind"], listed[plural]["singularName"]) == (kind, kind.lower())
        assert listed[plural]["namespaced"] is True
        assert "shortNames" not in listed[plural]
        assert sorted(listed[f"{plural}/status"]["verbs"]) == ["get", "patch", "update"]
    assert "placements" not in alpha


@pytest.mark.django_db
def test_every_field_is_described_for_kubectl_explain() -> None:
    schemas = entry.root().get(f"/openapi/v3{PREFIX}/v1beta1").doc["components"]["schemas"]
    shown = schemas["io.open-cluster-management.cluster.v1beta1.Placement"]["properties"]["spec"]
    assert shown["description"]
    assert undescribed(shown) == []


def undescribed(schema: Doc, at: str = "") -> list[str]:
    found = []
    for name, child in (schema.get("properties") or {}).items():
        found += [] if child.get("description") else [f"{at}.{name}"]
        found += undescribed(child, f"{at}.{name}") + undescribed(child.get("items") or {}, f"{at}.{name}[]")
    return found


@pytest.mark.django_db
@pytest.mark.contract("W22", "H14")
def test_nobody_may_anything_with_placements_unless_a_role_says_so() -> None:
    """Upstream ships no role for people, and aggregates nothing into admin, edit and view."""
    make.namespace(NAMESPACE)
    make.cluster("c1", accepted=True)
    make.settle()
    li = person("li")
    grant(li, rule("get list watch create update patch delete", "*", groups=""), namespace=NAMESPACE)
    agent = make.agent("c1")
    for actor in (li, agent):
        for kind, place in ((PLACEMENT, NAMESPACE), (PLACEMENT_DECISION, NAMESPACE), (ADD_ON_PLACEMENT_SCORE, "c1")):
            asked = verbs.attributes(kind, "list", Key(place, ""))
            assert not authorization.authorize(actor, asked).allowed
    grant(li, rule("create", "placements", groups=GROUP), namespace=NAMESPACE)
    made = make.create(PLACEMENT, make.document(PLACEMENT, "p1", spec={}), by=li, namespace=NAMESPACE)
    assert made["metadata"]["name"] == "p1"
