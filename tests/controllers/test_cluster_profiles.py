"""ClusterProfiles: one for each member of a bound set in each namespace, and it says what its cluster says (I4 to I12)."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.kinds import CLUSTER_LABEL, CLUSTERSET_LABEL, LEASE, MANAGED_CLUSTER
from clusters.models import ManagedCluster
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ClusterProfile
from clustersets.profiles import profile_reconcilers
from clustersets.profiles.profile_kinds import CLUSTER_PROFILE
from ocmconsole.core.kinds import NAMESPACE
from ocmconsole.core.models import Event
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.control import controllers, workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import WorkItem
from tests import factories as make

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]
TEAM = "shop"
MANAGER_LABEL = "x-k8s.io/cluster-manager"
SET_LABEL = "multicluster.x-k8s.io/clusterset"
EVERYTHING: Doc = {"selectorType": "LabelSelector", "labelSelector": {}}
RECONCILERS = ("cluster_profiles", "namespace_profiles", "set_profiles", "profile")


@pytest.fixture(autouse=True)
def web(db: None) -> None:
    make.namespace(TEAM)
    make.clusterset("web")
    for name in ("c1", "c2"):
        make.cluster(name, labels={CLUSTERSET_LABEL: "web"})
    make.cluster("other", labels={CLUSTERSET_LABEL: "db"})
    make.settle()


def bind(name: str = "web", namespace: str = TEAM) -> None:
    make.binding(name, namespace=namespace)
    make.settle()


def unbind(name: str = "web", namespace: str = TEAM) -> None:
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET_BINDING, Key(namespace, name))
    make.settle()


def profiles(namespace: str = TEAM) -> list[str]:
    rows = ClusterProfile.objects.filter(namespace=namespace).order_by("name")
    return list(rows.values_list("name", flat=True))


def profile(name: str = "c1", namespace: str = TEAM) -> Doc:
    doc: Doc = ClusterProfile.objects.get(namespace=namespace, name=name).doc
    return doc


def report(name: str = "c1", **status: Any) -> None:
    make.edit(MANAGED_CLUSTER, name, lambda doc: doc.setdefault("status", {}).update(status), subresource="status")


def change(name: str, edit: Any, *, subresource: str = "") -> None:
    make.edit(CLUSTER_PROFILE, name, edit, namespace=TEAM, subresource=subresource)


def foreign(name: str, *, labels: Doc | None = None, manager: str = "fleet") -> None:
    doc = make.document(CLUSTER_PROFILE, name, spec={"clusterManager": {"name": manager}}, labels=labels or {})
    make.create(CLUSTER_PROFILE, doc, namespace=TEAM)


# ---------------------------------------------------------------- where there is one


@pytest.mark.contract("I4", "I5", "D25", "H42")
def test_each_member_of_a_bound_set_has_a_profile_that_names_it() -> None:
    assert profiles() == []
    bind()
    assert profiles() == ["c1", "c2"]
    doc = profile()
    labels = {MANAGER_LABEL: "open-cluster-management", CLUSTER_LABEL: "c1", SET_LABEL: "web"}
    assert doc["metadata"]["labels"] == labels
    assert doc["spec"] == {"displayName": "c1", "clusterManager": {"name": "open-cluster-management"}}


@pytest.mark.contract("I4", "I6")
def test_profiles_are_in_every_namespace_with_a_binding_and_go_with_it() -> None:
    make.namespace("kueue-system")
    bind()
    bind(namespace="kueue-system")
    assert (profiles(), profiles("kueue-system")) == (["c1", "c2"], ["c1", "c2"])
    unbind()
    assert (profiles(), profiles("kueue-system")) == ([], ["c1", "c2"])


@pytest.mark.contract("I4")
def test_a_cluster_in_several_bound_sets_has_one_profile_until_the_last_is_unbound() -> None:
    make.clusterset("all", selector=EVERYTHING)
    bind("all")
    bind()
    assert profiles() == ["c1", "c2", "other"]
    unbind("all")
    assert profiles() == ["c1", "c2"]
    unbind()
    assert profiles() == []


@pytest.mark.contract("I4", "T6")
def test_selectors_with_expressions_and_overlaps_decide_who_is_a_member() -> None:
    make.label("c1", env="prod")
    make.label("c2", env="test")
    some = {"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod"]}]}
    make.clusterset("prod", selector={"selectorType": "LabelSelector", "labelSelector": some})
    either = {"matchExpressions": [{"key": "env", "operator": "Exists"}]}
    make.clusterset("any-env", selector={"selectorType": "LabelSelector", "labelSelector": either})
    bind("prod")
    assert profiles() == ["c1"]
    bind("any-env")
    assert profiles() == ["c1", "c2"]
    unbind("any-env")
    assert profiles() == ["c1"]


@pytest.mark.contract("I4", "I8")
def test_a_binding_counts_once_it_is_bound_and_while_its_set_exists() -> None:
    bind("later")
    assert profiles() == []
    make.clusterset("later", selector=EVERYTHING)
    make.settle()
    assert profiles() == ["c1", "c2", "other"]
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET, Key("", "later"))
    make.settle()
    assert profiles() == []


@pytest.mark.contract("I4", "I8")
def test_clusters_that_come_leave_or_are_being_deleted_are_followed() -> None:
    bind()
    make.cluster("c3", labels={CLUSTERSET_LABEL: "web"}, finalizers=["example.com/hold"])
    make.settle()
    assert profiles() == ["c1", "c2", "c3"]
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c3"))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c2"))
    make.settle()
    assert ManagedCluster.objects.filter(name="c3").exists()
    assert profiles() == ["c1"]


@pytest.mark.contract("I8", "I12")
def test_a_label_that_moves_a_cluster_between_sets_counts_at_once() -> None:
    make.namespace("db")
    make.clusterset("db")
    bind()
    bind("db", namespace="db")
    make.label("c1", {CLUSTERSET_LABEL: "db"})
    workqueue.drain(only=["cluster_profiles"])  # without any work of the sets' own
    assert (profiles(), profiles("db")) == (["c2"], ["c1", "other"])
    assert profile(namespace="db")["metadata"]["labels"][SET_LABEL] == "db"


@pytest.mark.contract("I8")
def test_a_selector_that_changes_is_followed() -> None:
    make.clusterset("some", selector=EVERYTHING)
    bind("some")
    selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "prod"}}}
    make.label("c2", env="prod")
    make.edit(MANAGED_CLUSTER_SET, "some", lambda doc: doc["spec"].update(clusterSelector=selector))
    make.settle()
    assert profiles() == ["c2"]


@pytest.mark.contract("I6")
def test_what_others_manage_is_left_alone_and_reported_on_the_binding() -> None:
    foreign("c1")
    foreign("unrelated")
    bind()
    assert profiles() == ["c1", "c2", "unrelated"]
    assert profile()["spec"] == {"clusterManager": {"name": "fleet"}}
    assert "labels" not in profile()["metadata"]
    assert "status" not in profile()
    [event] = [
        each.doc for each in Event.objects.filter(namespace=TEAM) if each.doc["reason"] == "ClusterProfileExists"
    ]
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("ManagedClusterSetBinding", "web")
    assert event["message"] == "ClusterProfile c1 belongs to another cluster manager and is left as it is"
    assert make.writes_of(profile_reconcilers.reconcile_namespace_profiles, Key(TEAM, "")) == []
    verbs.delete(make.ADMIN, CLUSTER_PROFILE, Key(TEAM, "c1"))
    make.settle()
    assert profile()["spec"]["clusterManager"]["name"] == "open-cluster-management"
    unbind()
    assert profiles() == ["unrelated"]


@pytest.mark.contract("I6", "I8")
def test_what_carries_the_managers_label_and_is_not_wanted_is_deleted() -> None:
    foreign("stray", labels={MANAGER_LABEL: "open-cluster-management"}, manager="open-cluster-management")
    make.settle()
    assert profiles() == []


@pytest.mark.contract("I8")
def test_a_profile_that_somebody_deletes_comes_back() -> None:
    bind()
    verbs.delete(make.ADMIN, CLUSTER_PROFILE, Key(TEAM, "c1"))
    make.settle()
    assert profiles() == ["c1", "c2"]


@pytest.mark.contract("I7")
def test_nothing_is_done_in_a_namespace_that_is_gone_or_terminating() -> None:
    make.namespace("leaving", finalizers=["example.com/hold"])
    bind(namespace="leaving")
    report(version={"kubernetes": "v1.33.0"})
    verbs.delete(make.ADMIN, NAMESPACE, Key("", "leaving"))
    keys = [Key("leaving", ""), Key("gone", "")]
    assert [make.writes_of(profile_reconcilers.reconcile_namespace_profiles, key) for key in keys] == [[], []]
    assert make.writes_of(profile_reconcilers.reconcile_cluster_profiles, Key("", "c1")) == []
    make.settle()
    assert profiles("leaving") == []  # removed with the namespace's other objects


# ---------------------------------------------------------------- what it says


@pytest.mark.contract("I9", "I10", "I11")
def test_a_profile_says_what_its_cluster_says() -> None:
    bind()
    assert "status" not in profile()
    make.said("c1", "ManagedClusterConditionAvailable", "True", reason="ManagedClusterAvailable", message="fine")
    claims = [{"name": "region", "value": "eu"}, {"name": "id.k8s.io", "value": "7"}]
    report(version={"kubernetes": "v1.33.1"}, clusterClaims=[*claims, {"name": "says-nothing"}])
    make.settle()
    status = profile()["status"]
    assert (status["version"], status["properties"]) == ({"kubernetes": "v1.33.1"}, claims)
    assert make.condition(profile(), "ControlPlaneHealthy") == ("True", "ManagedClusterAvailable", "fine")
    assert [each["type"] for each in status["conditions"]] == ["ControlPlaneHealthy"]
    make.said("c1", "ManagedClusterJoined", "True", reason="ManagedClusterJoined")
    make.said("c1", "ManagedClusterConditionAvailable", "Unknown", reason="ManagedClusterLeaseUpdateStopped")
    report(clusterClaims=claims[1:])
    make.settle()
    assert make.condition(profile(), "ControlPlaneHealthy")[:2] == ("Unknown", "ManagedClusterLeaseUpdateStopped")
    assert make.condition(profile(), "Joined")[:2] == ("True", "ManagedClusterJoined")
    assert profile()["status"]["properties"] == claims[1:]


@pytest.mark.contract("I9", "I10", "I11")
def test_a_new_profile_says_it_from_the_beginning() -> None:
    make.available("c1")
    report(version={"kubernetes": "v1.33.1"}, clusterClaims=[{"name": "region", "value": "eu"}])
    bind()
    status = profile()["status"]
    assert status.keys() == {"version", "properties", "conditions"}
    assert [each["type"] for each in status["conditions"]] == ["ControlPlaneHealthy", "Joined"]


@pytest.mark.contract("I12")
def test_the_set_label_is_followed_in_the_transaction_of_the_status_and_the_others_are_kept() -> None:
    make.clusterset("all", selector=EVERYTHING)
    bind("all")
    change("c1", lambda doc: doc["metadata"]["labels"].update(mine="yes"))
    change("c1", lambda doc: doc["spec"].update(displayName="Shop one"))
    make.settle()
    make.label("c1", {CLUSTERSET_LABEL: "db"})
    report(version={"kubernetes": "v1.33.1"})
    workqueue.drain(only=["cluster_profiles"])
    doc = profile()
    assert doc["metadata"]["labels"] == {
        MANAGER_LABEL: "open-cluster-management", CLUSTER_LABEL: "c1", SET_LABEL: "db", "mine": "yes",
    }  # fmt: skip
    assert doc["status"]["version"] == {"kubernetes": "v1.33.1"}
    assert doc["spec"]["displayName"] == "Shop one"


@pytest.mark.contract("I12")
def test_a_cluster_without_a_set_has_an_empty_set_label(settings: Any) -> None:
    settings.OCMCONSOLE_FEATURE_GATES = settings.OCMCONSOLE_FEATURE_GATES | {"DefaultClusterSet": False}
    make.cluster("loose")
    make.clusterset("all", selector=EVERYTHING)
    bind("all")
    assert profile("loose")["metadata"]["labels"][SET_LABEL] == ""


@pytest.mark.contract("I5", "I10", "I12")
def test_what_somebody_changes_of_our_part_is_put_right() -> None:
    report(clusterClaims=[{"name": "region", "value": "eu"}])
    bind()
    change("c1", lambda doc: doc["metadata"].pop("labels"))
    change("c1", lambda doc: doc["status"].update(properties=[{"name": "region", "value": "us"}]), subresource="status")
    make.settle()
    assert profile()["metadata"]["labels"][MANAGER_LABEL] == "open-cluster-management"
    assert profile()["status"]["properties"] == [{"name": "region", "value": "eu"}]


@pytest.mark.contract("I3")
def test_what_others_write_into_a_status_survives_and_causes_no_work() -> None:
    bind()
    added = {
        "accessProviders": [{"name": "token", "cluster": {"server": "https://c1:6443"}}],
        "credentialProviders": [{"name": "old"}],
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "R",
                "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }
        ],
    }
    change("c1", lambda doc: doc.update(status=added), subresource="status")
    assert not WorkItem.objects.filter(reconciler__in=RECONCILERS).exists()
    report(version={"kubernetes": "v1.33.1"})
    make.settle()
    assert profile()["status"] == added | {"version": {"kubernetes": "v1.33.1"}}


# ---------------------------------------------------------------- ways to reach the cluster


def addresses(name: str, *configs: Doc) -> None:
    make.edit(MANAGED_CLUSTER, name, lambda doc: doc["spec"].update(managedClusterClientConfigs=list(configs)))
    make.settle()


PLACE = {"url": "https://c1.example.com:6443", "caBundle": "Y2E="}


@pytest.mark.contract("I3", "D25")
def test_without_the_setting_no_way_to_reach_a_cluster_is_written() -> None:
    addresses("c1", PLACE)
    bind()
    assert "status" not in profile()


@pytest.mark.contract("I3", "D25")
def test_by_setting_a_profile_has_server_and_authority_of_its_cluster_beside_what_others_wrote(settings: Any) -> None:
    settings.OCMCONSOLE_ACCESS_PROVIDER = "ocm"
    bind()
    assert "status" not in profile()
    other = {"name": "token", "cluster": {"server": "https://proxy"}}
    change("c1", lambda doc: doc.update(status={"accessProviders": [other]}), subresource="status")
    addresses("c1", PLACE, {"url": "https://second"})
    place = {"server": "https://c1.example.com:6443", "certificate-authority-data": "Y2E="}
    assert profile()["status"]["accessProviders"] == [other, {"name": "ocm", "cluster": place}]
    extension = [{"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": "c1"}}]

    def extend(doc: Doc) -> None:
        doc["status"]["accessProviders"][1]["cluster"]["extensions"] = extension

    change("c1", extend, subresource="status")
    addresses("c1", {"url": "https://new:6443"})
    moved = {"server": "https://new:6443", "certificate-authority-data": "Y2E=", "extensions": extension}
    moved.pop("certificate-authority-data")
    assert profile()["status"]["accessProviders"] == [other, {"name": "ocm", "cluster": moved}]
    addresses("c1")
    assert profile()["status"]["accessProviders"] == [other]


# ---------------------------------------------------------------- the gate, and what it costs


@pytest.mark.contract("D25", "H42")
def test_while_the_gate_is_off_nothing_is_written_and_a_start_with_it_catches_up(settings: Any) -> None:
    gates = settings.OCMCONSOLE_FEATURE_GATES
    bind()
    settings.OCMCONSOLE_FEATURE_GATES = gates | {"ClusterProfile": False}
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c2"))
    make.cluster("c3", labels={CLUSTERSET_LABEL: "web"})
    report(version={"kubernetes": "v1.33.1"})
    profile_reconcilers.queue_all()
    make.settle()
    assert (profiles(), "status" in profile()) == (["c1", "c2"], False)
    settings.OCMCONSOLE_FEATURE_GATES = gates
    profile_reconcilers.queue_all()
    make.settle()
    assert (profiles(), profile()["status"]["version"]) == (["c1", "c3"], {"kubernetes": "v1.33.1"})


@pytest.mark.contract("I8")
def test_a_heartbeat_and_what_profiles_do_not_repeat_cause_no_work() -> None:
    make.accept("c1")
    bind()
    make.available("c1")
    make.settle()
    make.renew("c1")
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(leaseDurationSeconds=70))
    report(capacity={"cpu": "4"})
    assert not WorkItem.objects.filter(reconciler__in=RECONCILERS).exists()
    assert not [name for name, keys in controllers._watchers[LEASE.resource] if name in RECONCILERS]


@pytest.mark.contract("I8")
def test_where_nothing_is_bound_a_change_of_a_cluster_is_no_work() -> None:
    make.label("c1", env="prod")
    report(version={"kubernetes": "v1.33.1"})
    assert not WorkItem.objects.filter(reconciler__in=RECONCILERS).exists()


@pytest.mark.contract("I8", "I10", "I13")
def test_a_claim_rewrites_the_profiles_of_its_cluster_once_and_no_other() -> None:
    make.namespace("kueue-system")
    bind()
    bind(namespace="kueue-system")
    report(clusterClaims=[{"name": "region", "value": "eu"}])
    wrote = make.writes_of(make.settle)
    assert wrote == ["MODIFIED clusterprofiles.multicluster.x-k8s.io c1"] * 2
    assert make.writes_of(profile_reconcilers.reconcile_namespace_profiles, Key(TEAM, "")) == []


@pytest.mark.contract("I4", "I8")
def test_a_namespace_is_gone_through_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_reconcilers, "AT_ONCE", 2)
    for number in range(3, 8):
        make.cluster(f"c{number}", labels={CLUSTERSET_LABEL: "web"})
    foreign("a-foreign-one")
    make.settle()
    make.binding("web", namespace=TEAM)
    workqueue.drain(only=["binding"])
    workqueue.drain(1, only=["namespace_profiles"])
    assert profiles() == ["a-foreign-one", "c1", "c2"]
    make.settle()
    assert profiles() == ["a-foreign-one", *(f"c{number}" for number in range(1, 8))]
    verbs.delete(make.ADMIN, MANAGED_CLUSTER_SET_BINDING, Key(TEAM, "web"))
    workqueue.drain(1, only=["namespace_profiles"])
    assert profiles() == ["a-foreign-one", *(f"c{number}" for number in range(2, 8))]
    make.settle()
    assert profiles() == ["a-foreign-one"]
