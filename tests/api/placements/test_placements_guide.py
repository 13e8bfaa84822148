"""The examples of docs/guide/placements.md are taken as they stand there, and choose what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET_BINDING
from clustersets.profiles.profile_kinds import CLUSTER_PROFILE
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from placements.kinds import ADD_ON_PLACEMENT_SCORE
from tests import factories as make
from tests.api import entry
from tests.kept import kept

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "placements.md"
OCM = "cluster.open-cluster-management.io"
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
CLAIMS = {"platform.open-cluster-management.io": "aws", "kubeversion.open-cluster-management.io": "v1.31.0"}


def examples(kind: str) -> dict[str, Doc]:
    """Documents of the page by name."""
    found = (doc for text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) for doc in yaml.safe_load_all(text))
    return {doc["metadata"]["name"]: doc for doc in found if doc.get("kind") == kind}


def with_status(status: Doc) -> Callable[[Doc], None]:
    def change(doc: Doc) -> None:
        doc["status"] = status

    return change


@pytest.fixture(autouse=True)
@kept
def fleet() -> None:
    """c1 to c6: c1 and c2 are tests on aws, c3 has a GPU, c4 is silent, c5 and c6 are canaries with the most memory."""
    for name in ("ns1", "argocd"):
        make.namespace(name)
    make.clusterset("prod")
    labels: dict[str, Doc] = {
        "c1": {"purpose": "test", "version": "1.31.0"},
        "c2": {"purpose": "test", "version": "1.30.0"},
        "c3": {},
        "c4": {},
        "c5": {"prod-canary-west": ""},
        "c6": {"prod-canary-east": ""},
    }
    taints = {"c3": {"key": "gpu", "value": "true"}, "c4": {"key": f"{OCM}/unreachable"}}
    for number, (name, own) in enumerate(labels.items(), start=1):
        spec = {"taints": [{"effect": "NoSelect", **taints[name]}]} if name in taints else {}
        make.cluster(name, spec=spec, labels={CLUSTERSET_LABEL: "prod", **own})
        amounts = {"cpu": str(8 - number), "memory": f"{number}Gi"}
        claims = [{"name": key, "value": value} for key, value in CLAIMS.items()] if name in {"c1", "c2"} else []
        status = {
            "version": {"kubernetes": "v1.31.0"}, "allocatable": amounts, "capacity": amounts, "clusterClaims": claims,
            "conditions": [{
                "type": "ManagedClusterConditionAvailable", "status": "Unknown" if name == "c4" else "True",
                "reason": "R", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
            }],
        }  # fmt: skip
        make.edit(MANAGED_CLUSTER, name, with_status(status), subresource="status")
        make.namespace(name)
        for score, value in (("default", 10 * number), ("resource-usage-score", 5)):
            entry_ = {"name": "cpuratio" if score == "default" else "memNodeAvailable", "value": value}
            make.create(ADD_ON_PLACEMENT_SCORE, make.document(ADD_ON_PLACEMENT_SCORE, score), namespace=name)
            said = with_status({"scores": [entry_]})
            make.edit(ADD_ON_PLACEMENT_SCORE, score, said, namespace=name, subresource="status")
    make.settle()


def applied(doc: Doc) -> None:
    plural = f"{doc['kind'].lower()}s"
    answer = entry.root().post(f"/apis/{doc['apiVersion']}/namespaces/{doc['metadata']['namespace']}/{plural}", doc)
    assert answer.code == 201, answer.message
    make.settle()


def decisions(name: str, namespace: str = "ns1") -> list[Doc]:
    """Documents, in their order, as the command of the page lists them."""
    query = f"labelSelector={OCM}%2Fplacement%3D{name}"
    answer = entry.root().get(f"/apis/{OCM}/v1beta1/namespaces/{namespace}/placementdecisions?{query}")
    items: list[Doc] = answer.doc["items"]
    return items


def chosen(items: list[Doc]) -> list[str]:
    return [each["clusterName"] for item in items for each in item["status"]["decisions"]]


EXPECTED = {
    "labels-and-claims": ["c1", "c2"],
    "expressions": ["c1"],
    "tolerates-gpu": ["c1", "c2", "c3", "c5", "c6"],
    "waits-for-the-unreachable": ["c1", "c2", "c4", "c5", "c6"],
    "most-memory": ["c6"],
    "most-cpu-and-memory": ["c1"],
    "best-cpu-ratio": ["c5", "c6"],
    "groups": ["c5", "c6", "c1", "c2"],
}


def test_the_page_has_these_examples() -> None:
    assert examples("Placement").keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.contract("P4", "P6", "P7", "P9", "P11", "P14", "P22", "P24", "P35")
def test_an_example_chooses_what_the_page_says(name: str) -> None:
    applied(examples("ManagedClusterSetBinding")["prod"])
    applied(examples("Placement")[name])
    found = decisions(name)
    assert chosen(found) == EXPECTED[name]
    if name == "groups":
        labels = [item["metadata"]["labels"][f"{OCM}/decision-group-name"] for item in found]
        assert labels == ["prod-canary-west", "prod-canary-east", ""]


@pytest.mark.contract("P18")
def test_a_score_that_is_made_by_hand_as_the_page_says_counts() -> None:
    verbs.delete(make.ADMIN, ADD_ON_PLACEMENT_SCORE, Key("c1", "default"))
    applied(examples("ManagedClusterSetBinding")["prod"])
    applied(examples("AddOnPlacementScore")["default"])
    [body] = re.findall(
        r"^ +kubectl patch addonplacementscore default -n c1 .* -p '(.*)'$", PAGE.read_text(), re.MULTILINE
    )
    path = f"/apis/{OCM}/v1alpha1/namespaces/c1/addonplacementscores/default/status"
    assert entry.root().patch(path, orjson.loads(body)).code == 200
    applied(examples("Placement")["best-cpu-ratio"])
    assert chosen(decisions("best-cpu-ratio")) == ["c1", "c6"]


def generated(namespace: str, placement: str, known: set[str]) -> list[Doc]:
    """What Argo CD's cluster decision generator makes of its answer; an error of the test where it would fail."""
    settings = examples("ConfigMap")["ocm-placement-generator"]["data"]
    assert settings["apiVersion"] == f"{OCM}/v1beta1"
    assert settings["kind"] == "placementdecisions"
    items = decisions(placement, namespace)
    assert items, "no clusterDecisionResources found"
    found = []
    for item in items:
        for decision in item["status"][settings["statusListKey"]] if item.get("status") else ():
            assert all(isinstance(value, str) for value in decision.values())
            if decision[settings["matchKey"]] in known:
                found.append(decision)
    return found


@pytest.mark.contract("P24", "P35")
def test_argo_cds_generator_finds_what_it_reads_also_where_nothing_is_chosen() -> None:
    applied(examples("Placement")["tolerates-gpu"] | {"metadata": {"name": "guestbook", "namespace": "argocd"}})
    assert generated("argocd", "guestbook", {"c1", "c2"}) == []
    make.binding("prod", namespace="argocd")
    make.settle()
    assert generated("argocd", "guestbook", {"c1", "c2"}) == [
        {"clusterName": "c1", "reason": ""}, {"clusterName": "c2", "reason": ""},
    ]  # fmt: skip


@pytest.mark.contract("I4", "I5", "I6", "I8")
def test_argo_cds_profile_controller_holds_a_profile_with_its_finalizer_until_it_has_cleaned_up() -> None:
    make.binding("prod", namespace="argocd")
    make.settle()
    path = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/argocd/clusterprofiles"
    root = entry.root()
    listed = root.get(f"{path}?labelSelector=x-k8s.io%2Fcluster-manager%3Dopen-cluster-management").doc["items"]
    assert [each["metadata"]["name"] for each in listed] == [f"c{number}" for number in range(1, 7)]
    held = listed[0]
    held["metadata"]["finalizers"] = ["argoproj.io/cluster-profile-finalizer"]
    held = root.put(f"{path}/c1", held).doc
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET_BINDING, Key("argocd", "prod"))
    make.settle()
    [left] = root.get(path).doc["items"]
    assert left["metadata"]["deletionTimestamp"]
    make.binding("prod", namespace="argocd")
    make.settle()
    assert verbs.find(CLUSTER_PROFILE, Key("argocd", "c1"))["metadata"]["uid"] == held["metadata"]["uid"]  # type: ignore[index]
    left["metadata"].pop("finalizers")
    assert root.put(f"{path}/c1", left).code == 200
    make.settle()
    new = verbs.find(CLUSTER_PROFILE, Key("argocd", "c1"))
    assert new is not None
    assert new["metadata"]["uid"] != held["metadata"]["uid"]
    assert new["status"]["properties"] == [{"name": key, "value": value} for key, value in CLAIMS.items()]
