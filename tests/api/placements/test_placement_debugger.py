"""Upstream's debugger of placements (P36): its paths, fields, rights and errors; reasons; who is not named."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.conf import settings
from django.test import override_settings

from clusters.kinds import CLUSTERSET_LABEL, GROUP
from ocmconsole.kubeapi.models import Change
from placements.controller import scheduling
from placements.kinds import PLACEMENT
from placements.models import PlacementDecision
from tests import factories as make
from tests.actors import grant, person, rule
from tests.api import entry

pytestmark = [pytest.mark.django_db, pytest.mark.contract("P36")]

Doc = dict[str, Any]
TEAM = "shop"
PATH = "/debug/placements"
DEV = {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "dev"}}}}


@pytest.fixture(autouse=True)
def gate(db: None) -> Any:
    with override_settings(
        OCMCONSOLE_FEATURE_GATES={**settings.OCMCONSOLE_FEATURE_GATES, "PlacementDebugServer": True}
    ):
        yield


@pytest.fixture(autouse=True)
def fleet(gate: None) -> None:
    """c1 and c2 are in dev, c2 has a taint, c3 is in prod; all are in the set ``web``, which is bound in ``shop``."""
    make.namespace(TEAM)
    make.clusterset("web")
    make.binding("web", namespace=TEAM)
    taints = {"taints": [{"key": "gpu", "value": "true", "effect": "NoSelect"}]}
    for name, env, spec in (("c1", "dev", None), ("c2", "dev", taints), ("c3", "prod", None)):
        make.cluster(name, labels={CLUSTERSET_LABEL: "web", "env": env}, spec=spec)
        make.said(name, "ManagedClusterConditionAvailable", "True")
    make.settle()


def placement(name: str = "p1", **spec: Any) -> Doc:
    return make.document(PLACEMENT, name, spec={"predicates": [DEV], **spec}, namespace=TEAM)


def place(name: str = "p1", **spec: Any) -> None:
    make.create(PLACEMENT, placement(name, **spec), namespace=TEAM)
    make.settle()


def tried(doc: Doc, by: entry.Entry | None = None) -> Doc:
    answer = (by or entry.root()).post(f"{PATH}/", doc)
    assert answer.code == 200, answer.body
    return answer.doc


def test_a_stored_placement_is_explained_with_the_fields_of_upstream() -> None:
    place(numberOfClusters=1)
    doc = entry.root().get(f"{PATH}/{TEAM}/p1").doc
    assert doc["placement"]["metadata"] == {"name": "p1", "namespace": TEAM}
    assert doc["placement"]["spec"]["numberOfClusters"] == 1
    assert "status" not in doc["placement"]
    assert doc["filteredPipelineResults"] == [
        {"name": "Predicate", "filteredClusters": ["c1", "c2"]},
        {"name": "Predicate,TaintToleration", "filteredClusters": ["c1"]},
    ]
    assert doc["prioritizeResults"] == [
        {"name": "Balance", "weight": 1, "scores": {"c1": 100}},
        {"name": "Steady", "weight": 1, "scores": {"c1": 100}},
    ]
    assert doc["aggregatedScores"] == [{"clusterName": "c1", "score": 200}]


def test_each_cluster_that_is_not_chosen_has_its_stage_and_its_reason() -> None:
    place()
    doc = entry.root().get(f"{PATH}/{TEAM}/p1").doc
    assert doc["decisions"] == ["c1"]
    assert doc["reasons"] == [
        {"clusterName": "c2", "stage": "TaintToleration", "reason": "taint gpu=true:NoSelect is not tolerated"},
        {"clusterName": "c3", "stage": "Predicate", "reason": "label env is prod, needs env in (dev)"},
    ]
    assert [(each["type"], each["status"]) for each in doc["conditions"]] == [
        ("PlacementSatisfied", "True"),
        ("PlacementMisconfigured", "False"),
    ]


def test_a_placement_in_the_body_gets_what_the_scheduler_would_decide_and_nothing_is_written() -> None:
    wanted = placement(tolerations=[{"key": "gpu", "operator": "Exists"}])
    before = Change.objects.count()
    doc = tried(wanted)
    assert Change.objects.count() == before
    assert doc["decisions"] == ["c1", "c2"]
    assert doc["placement"]["spec"]["sortBy"] == "ClusterName"
    make.create(PLACEMENT, wanted, namespace=TEAM)
    make.settle()
    [row] = PlacementDecision.objects.filter(namespace=TEAM)
    assert [each["clusterName"] for each in row.doc["status"]["decisions"]] == doc["decisions"]


def test_a_body_under_a_stored_name_is_scored_with_the_decisions_of_that_placement() -> None:
    place(numberOfClusters=1)
    more: Doc = {"numberOfClusters": 2, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    assert tried(placement(**more))["aggregatedScores"] == [
        {"clusterName": "c1", "score": 200},
        {"clusterName": "c2", "score": 100},
    ]


@pytest.mark.contract("P15")
def test_scores_are_those_of_the_scheduler_where_all_clusters_are_chosen_too() -> None:
    for name in ("p1", "p2"):
        place(name)
    doc = entry.root().get(f"{PATH}/{TEAM}/p1").doc
    assert doc["prioritizeResults"] == [
        {"name": "Balance", "weight": 1, "scores": {"c1": -100}},
        {"name": "Steady", "weight": 1, "scores": {"c1": 100}},
    ]
    assert doc["aggregatedScores"] == [{"clusterName": "c1", "score": 0}]


def test_the_body_is_read_as_json_whatever_its_media_type_says_or_as_yaml() -> None:
    form = "application/x-www-form-urlencoded"
    raw = orjson.dumps(placement())
    assert entry.root().send("POST", f"{PATH}/", raw, form).doc["decisions"] == ["c1"]
    text = f"metadata: {{name: p1, namespace: {TEAM}}}\nspec: {{}}\n".encode()
    assert entry.root().send("POST", PATH, text, entry.YAML).doc["decisions"] == ["c1", "c3"]


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": ["1 +"]}}}]}, []),
        ({"tolerations": [{"operator": "Equal"}]}, ["Predicate"]),
        ({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "Spread"}}]}},
         ["Predicate", "Predicate,TaintToleration"]),
    ],
)  # fmt: skip
def test_what_comes_after_an_error_of_the_configuration_is_left_out(spec: Doc, shown: list[str]) -> None:
    doc = tried(placement(**spec))
    assert [each["name"] for each in doc.get("filteredPipelineResults", [])] == shown
    assert not {"prioritizeResults", "aggregatedScores"} & doc.keys()
    assert doc["conditions"][1]["status"] == "True"
    assert doc["decisions"] == []


def test_clusters_that_the_caller_may_not_see_are_counted_and_not_named() -> None:
    place()
    dora = person("dora")
    grant(dora, rule("get create", "placements", groups=GROUP), namespace=TEAM)
    grant(dora, rule("get", "managedclusters", groups=GROUP, names="c1"))
    for answer in (entry.person("dora").get(f"{PATH}/{TEAM}/p1"), entry.person("dora").post(PATH, placement())):
        assert answer.code == 200
        assert b'"c2"' not in answer.body
        assert b'"c3"' not in answer.body
        assert answer.doc["filteredPipelineResults"][0]["filteredClusters"] == ["c1"]
        assert answer.doc["hiddenClusters"] == {
            "left": {"Predicate": 1, "Predicate,TaintToleration": 0, "Decisions": 0},
            "fellOut": {"Predicate": 1, "TaintToleration": 1},
        }


def test_hidden_clusters_that_are_chosen_have_no_scores_and_are_counted() -> None:
    place("p2", tolerations=[{"operator": "Exists"}])
    dora = person("dora")
    grant(dora, rule("get", "placements", groups=GROUP), namespace=TEAM)
    grant(dora, rule("get", "managedclusters", groups=GROUP, names="c2"))
    answer = entry.person("dora").get(f"{PATH}/{TEAM}/p2")
    assert b'"c1"' not in answer.body
    assert answer.doc["aggregatedScores"] == [{"clusterName": "c2", "score": 200}]
    assert [each["scores"] for each in answer.doc["prioritizeResults"]] == [{"c2": 100}, {"c2": 100}]
    left = {"Predicate": 1, "Predicate,TaintToleration": 1, "Decisions": 1}
    assert answer.doc["hiddenClusters"]["left"] == left


def test_the_highest_score_comes_first() -> None:
    place("other", numberOfClusters=1)
    doc = tried(placement(tolerations=[{"operator": "Exists"}]))
    assert [(each["clusterName"], each["score"]) for each in doc["aggregatedScores"]] == [("c2", 100), ("c1", -100)]


def test_a_caller_needs_the_right_to_get_placements_or_to_create_them() -> None:
    place()
    grant(person("gina"), rule("get", "placements", groups=GROUP), namespace=TEAM)
    gina = entry.person("gina")
    assert gina.get(f"{PATH}/{TEAM}/p1").code == 200
    refused = gina.post(PATH, placement())
    assert refused.said == (403, "Forbidden")
    assert refused.message.startswith(f"user does not have permission to create placements in namespace {TEAM}: ")
    assert refused.doc["error"] == refused.message
    grant(person("carl"), rule("create", "placements", groups=GROUP), namespace=TEAM)
    assert entry.person("carl").post(PATH, placement()).code == 200
    assert entry.person("carl").get(f"{PATH}/{TEAM}/p1").code == 403
    assert entry.person("carl").get(f"{PATH}/{TEAM}/other").code == 403


@pytest.mark.parametrize(
    ("method", "path", "body", "said", "message"),
    [
        ("GET", f"/{TEAM}/none", None, (404, "NotFound"), "placement 'none' not found"),
        ("GET", "", None, (400, "BadRequest"), "invalid debug path: namespace and name required"),
        ("GET", f"/{TEAM}", None, (400, "BadRequest"), "invalid debug path: namespace and name required"),
        ("PUT", f"/{TEAM}/p1", {}, (405, "MethodNotAllowed"), "method PUT not allowed"),
        ("DELETE", f"/{TEAM}/p1", None, (405, "MethodNotAllowed"), "method DELETE not allowed"),
        ("POST", "", b"{", (400, "BadRequest"), "the object provided is unrecognized"),
        ("POST", "", b"[]", (400, "BadRequest"), ""),
        ("POST", "", b" " * (1024 * 1024 + 1), (400, "BadRequest"), "request body too large"),
        ("POST", "", {"kind": "Pod"}, (400, "BadRequest"), "kind must be Placement"),
        ("POST", "", {"metadata": 5}, (400, "BadRequest"), "a Placement cannot be read from this"),
        ("POST", "", {"metadata": {"name": ["p"], "namespace": TEAM}}, (400, "BadRequest"), ""),
        ("POST", "", {"metadata": {"namespace": TEAM}}, (422, "Invalid"), "metadata.name: Required value"),
        ("POST", "", {"metadata": {"name": "p1"}}, (422, "Invalid"), "metadata.namespace: Required value"),
    ],
)  # fmt: skip
def test_bad_requests_are_refused_with_a_status_that_has_upstreams_field_too(
    method: str, path: str, body: Any, said: tuple[int, str], message: str
) -> None:
    answer = entry.root().send(method, f"{PATH}{path}", body)
    assert answer.said == said, answer.body
    assert message in answer.message
    assert answer.doc["error"] == answer.message


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"numberOfClusters": "many"}, "spec.numberOfClusters"),
        ({"numberOfClusters": 2**31}, "spec.numberOfClusters"),
        ({"sortBy": "Luck"}, "spec.sortBy"),
        ({"predicates": [5]}, "spec.predicates[0]"),
        ({"predicates": {}}, "spec.predicates"),
    ],
)
def test_a_body_that_could_not_be_created_is_invalid(change: Doc, field: str) -> None:
    answer = entry.root().post(PATH, placement(**change))
    assert answer.said == (422, "Invalid")
    assert field in answer.message


def test_a_name_that_no_decision_can_carry_and_a_spec_of_another_type_are_invalid() -> None:
    assert entry.root().post(PATH, placement("p" * 64)).said == (422, "Invalid")
    assert entry.root().post(PATH, {**placement(), "spec": "all"}).said == (422, "Invalid")


def test_with_its_gate_off_the_path_is_not_served() -> None:
    off = {**settings.OCMCONSOLE_FEATURE_GATES, "PlacementDebugServer": False}
    with override_settings(OCMCONSOLE_FEATURE_GATES=off):
        assert entry.root().get(f"{PATH}/{TEAM}/p1").code == 404
        assert entry.root().post(PATH, placement()).code == 404
        assert entry.person("mallory").get(f"{PATH}/{TEAM}/p1").code == 403


def test_expressions_that_take_too_long_are_gone_on_with_by_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "PATIENCE", 0.0)
    slow = placement(predicates=[{"requiredClusterSelector": {"celSelector": {"celExpressions": ["'a' == 'a'"]}}}])
    answers = [entry.root().post(PATH, slow) for _ in range(4)]
    assert answers[0].said == (429, "TooManyRequests")
    assert answers[0].headers["Retry-After"] == "1"
    assert answers[-1].doc["decisions"] == ["c1", "c3"]


@pytest.mark.contract("D12")
def test_reasons_that_take_too_long_are_left_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,000 clusters and as many conditions they would fill the memory."""
    place(tolerations=[])
    monkeypatch.setattr(scheduling, "PATIENCE", -1.0)
    doc = entry.root().get(f"{PATH}/{TEAM}/p1").doc
    assert [(each["clusterName"], each["stage"], bool(each["reason"])) for each in doc["reasons"]] == [
        ("c2", "TaintToleration", True),
        ("c3", "Predicate", False),
    ]
