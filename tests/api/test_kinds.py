"""Every kind behaves as the contract of kinds says; what a request costs in queries is a number here."""

from __future__ import annotations

import uuid
from copy import deepcopy

import pytest

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.http import paging
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.watch import change_log
from ocmconsole.kubeapi.writes import store
from ocmconsole.kubeapi.writes.store import Write
from tests import factories as make
from tests.api import entry
from tests.api.contract import LABELLED, KindContract
from tests.api.entry import MERGE, STRATEGIC, Doc
from tests.fuzz import world
from tests.fuzz.world import Site

LABEL = (
    'metadata.labels: Invalid value: "-": name part must consist of alphanumeric characters, '
    "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
    "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
KEY = (
    'data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '
    "'-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
    "regex used for validation is '[-._a-zA-Z0-9]+')"
)


class TestManagedCluster(KindContract):
    # Without taints: anyone who writes one again must send its time along (A1).
    site = Site(world.OCM, "v1", "managedclusters", lambda _: {"spec": {"leaseDurationSeconds": 60}})
    bad: Doc = {"spec": {"taints": [{"key": "a", "effect": "Foo"}]}}
    complaint = (
        'spec.taints[0].effect: Unsupported value: "Foo": '
        'supported values: "NoSelect", "PreferNoSelect", "NoSelectIfNew"'
    )
    put_needs_version = True

    @pytest.mark.contract("W116")
    def test_an_empty_status_is_not_stored(self) -> None:
        doc = self.site.document("sample") | {"status": {"conditions": None, "version": {}}}
        assert self.root.post(self.site.path, doc).code == 201
        assert "status" not in self.stored()

    @pytest.mark.contract("W14", "W16")
    def test_each_endpoint_writes_its_own_part(self) -> None:
        self.present()
        said = {"status": {"version": {"kubernetes": "v1.31.0"}}, "spec": {"leaseDurationSeconds": 17}}
        said |= {"metadata": {"labels": {"seen": "yes"}}}
        answer = self.root.patch(f"{self.url}/status", said)
        assert answer.code == 200
        assert answer.doc["status"] == {"version": {"kubernetes": "v1.31.0"}}
        assert answer.doc["spec"]["leaseDurationSeconds"] == 60
        assert "seen" not in answer.doc["metadata"]["labels"]
        assert answer.doc["metadata"]["generation"] == 1
        answer = self.root.patch(self.url, said | {"status": {"version": {"kubernetes": "v9"}}})
        assert answer.doc["status"] == {"version": {"kubernetes": "v1.31.0"}}
        assert answer.doc["spec"]["leaseDurationSeconds"] == 17
        assert answer.doc["metadata"]["generation"] == 2

    @pytest.mark.parametrize(
        ("verb", "expected"),
        # One of each is the count of changes of rights (Actor.as_of), another the register of issued certificates (D26).
        # A write of a cluster that waits asks whether a policy wants to hear of it. One that moves something asks
        # whether there are placements, which may choose otherwise, and bindings, whose namespaces have a profile of it.
        # A new cluster asks for the roles that all clusters share and whether a token brought it that has a wish.
        # A deletion looks for the role and the three bindings of the cluster's agents, which go in its transaction (H10).
        [("get", 4), ("list", 4), ("create", 16), ("update", 13), ("patch", 13), ("delete", 15)],
    )
    def test_a_request_takes_as_many_queries_as_written_here(self, verb: str, expected: int) -> None:
        self.present()
        make.settle()
        doc = self.stored()  # the rules of RBAC are in memory now
        doc["metadata"]["labels"]["seen"] = "yes"
        requests = {
            "get": ("GET", self.url, None, ""),
            "list": ("GET", self.site.path, None, ""),
            "create": ("POST", self.site.path, self.site.document("other"), entry.JSON),
            "update": ("PUT", self.url, doc, entry.JSON),
            "patch": ("PATCH", self.url, LABELLED, MERGE),
            "delete": ("DELETE", self.url, None, ""),
        }
        assert entry.queries(self.root, *requests[verb]) == expected

    def test_a_longer_list_takes_no_more_queries(self) -> None:
        self.present()
        before = entry.queries(self.root, "GET", self.site.path)
        for number in range(5):
            self.present(f"more-{number}")
        assert entry.queries(self.root, "GET", self.site.path) == before


class TestManagedClusterSet(KindContract):
    site = world.SETS
    bad: Doc = {"spec": {"clusterSelector": {"selectorType": "Nope"}}}
    complaint = (
        'spec.clusterSelector.selectorType: Unsupported value: "Nope": '
        'supported values: "ExclusiveClusterSetLabel", "LabelSelector"'
    )
    put_needs_version = True


class TestManagedClusterSetBinding(KindContract):
    site = world.SET_BINDINGS
    bad: Doc = {"spec": {}}
    complaint = "spec.clusterSet: Required value"
    put_needs_version = True

    @pytest.mark.contract("A8")
    def test_generated_names_have_the_prefix_and_five_safe_characters(self) -> None:
        """No generated name is that of a set."""
        doc = {**self.site.document("made"), "metadata": {"generateName": "made-"}}
        answer = self.root.post(self.site.path, doc)
        assert answer.said == (400, "BadRequest")
        assert answer.message.endswith("must have the same name as the target ManagedClusterSet")


class TestClusterClaim(KindContract):
    site = world.CLAIMS
    bad: Doc = {"spec": {"value": "x" * 1025}}
    complaint = "spec.value: Too long: may not be more than 1024 bytes"
    put_needs_version = True

    @pytest.mark.contract("S22", "S25", "S47", "S50")
    def test_the_claim_of_the_documents_is_cluster_scoped_and_has_no_status(self) -> None:
        doc = {
            "apiVersion": "cluster.open-cluster-management.io/v1alpha1",
            "kind": "ClusterClaim",
            "metadata": {"name": "platform.open-cluster-management.io"},
            "spec": {"value": "aws"},
        }
        assert self.root.post(self.site.path, doc).doc["spec"] == {"value": "aws"}
        url = self.place_of("platform.open-cluster-management.io")
        assert self.root.get(f"{url}/status").code == 404
        assert self.root.patch(url, {"spec": {"value": ""}}).said == (422, "Invalid")
        listed = self.root.get(f"/apis/{self.site.api_version}").doc["resources"]
        [found] = [each for each in listed if each["kind"] == "ClusterClaim"]
        assert (found["name"], found["singularName"], found["namespaced"]) == ("clusterclaims", "clusterclaim", False)
        table = self.root.get(self.site.path, accept=entry.TABLE).doc
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]


class TestCertificateSigningRequest(KindContract):
    site = world.REQUESTS
    bad: Doc = {"spec": {"signerName": "example.com/a", "usages": ["client auth"]}}
    complaint = "spec.request: Required value"

    @pytest.mark.contract("W179")
    def test_a_strategic_patch_replaces_conditions(self) -> None:
        self.present()
        now = world.MOMENT
        one = {"type": "Approved", "status": "True", "reason": "a", "message": "", "lastUpdateTime": now}
        approved = self.root.patch(f"{self.url}/approval", {"status": {"conditions": [one]}}, STRATEGIC)
        assert [each["type"] for each in approved.doc["status"]["conditions"]] == ["Approved"]
        other = {"status": {"conditions": [{**one, "type": "Example"}]}}
        refused = self.root.patch(f"{self.url}/approval", other, STRATEGIC)
        assert refused.said == (422, "Invalid")
        assert [each["type"] for each in self.stored()["status"]["conditions"]] == ["Approved"]


class TestLease(KindContract):
    site = world.LEASES
    bad: Doc = {"metadata": {"name": "sample", "labels": {"-": "a"}}}
    complaint = LABEL
    put_creates = True
    put_needs_version = True


class TestNamespace(KindContract):
    site = world.NAMESPACES
    bad: Doc = {"metadata": {"name": "sample", "labels": {"-": "a"}}}
    complaint = LABEL
    lingers = True
    has_deletecollection = False

    @pytest.mark.contract("W179")
    def test_a_strategic_patch_merges_finalizers(self) -> None:
        self.present(finalizers=["example.com/one"])
        body = {"metadata": {"finalizers": ["example.com/two"]}}
        answer = self.root.patch(self.url, body, STRATEGIC)
        assert sorted(answer.doc["metadata"]["finalizers"]) == ["example.com/one", "example.com/two"]
        body = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one"]}}
        answer = self.root.patch(self.url, body, STRATEGIC)
        assert answer.doc["metadata"]["finalizers"] == ["example.com/two"]


class TestEvent(KindContract):
    site = world.EVENTS
    bad: Doc = {"involvedObject": {"kind": "ConfigMap", "namespace": "elsewhere", "name": "a"}}
    complaint = 'involvedObject.namespace: Invalid value: "elsewhere": does not match event.namespace'
    put_creates = True


class TestEventOfTheNewerGroup(KindContract):
    site = world.NEW_EVENTS
    bad: Doc = {"eventTime": None}
    complaint = "eventTime: Required value"
    put_creates = True


class TestSecret(KindContract):
    site = world.SECRETS
    bad: Doc = {"data": {"a/b": "YQ=="}}
    complaint = KEY


class TestConfigMap(KindContract):
    site = world.CONFIG_MAPS
    bad: Doc = {"data": {"a/b": "c"}}
    complaint = KEY


class TestServiceAccount(KindContract):
    site = world.ACCOUNTS
    bad: Doc = {"metadata": {"name": "sample", "labels": {"-": "a"}}}
    complaint = LABEL


class TestRole(KindContract):
    site = world.ROLES
    bad: Doc = {"rules": [{"verbs": [], "apiGroups": [""], "resources": ["pods"]}]}
    complaint = "rules[0].verbs: Required value: verbs must contain at least one value"
    put_creates = True


class TestClusterRole(TestRole):
    site = world.CLUSTER_ROLES


class TestRoleBinding(KindContract):
    site = world.ROLE_BINDINGS
    bad: Doc = {"roleRef": {"apiGroup": world.RBAC, "kind": "Sheep", "name": "a"}}
    complaint = 'roleRef.kind: Unsupported value: "Sheep": supported values: "Role", "ClusterRole"'
    put_creates = True


class TestClusterRoleBinding(KindContract):
    site = world.CLUSTER_ROLE_BINDINGS
    bad: Doc = {"roleRef": {"apiGroup": world.RBAC, "kind": "Role", "name": "a"}}
    complaint = 'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'
    put_creates = True


@pytest.mark.django_db
class TestPages:
    """A long list is read in pieces (W150)."""

    @pytest.mark.slow
    @pytest.mark.contract("W150", "W9")
    def test_pages_show_each_object_once_although_others_are_written_meanwhile(self) -> None:
        names = [f"c{number:04}" for number in range(1200)]
        _store_many(names)
        root, seen, revisions, token = entry.root(), list[str](), set[str](), ""
        for page in range(3):
            listed = root.get(f"{world.CLUSTERS.path}?limit=500&continue={token}").doc
            seen += [item["metadata"]["name"] for item in listed["items"]]
            revisions.add(listed["metadata"]["resourceVersion"])
            token = listed["metadata"].get("continue", "")
            assert root.patch(f"{world.CLUSTERS.path}/c{page * 500:04}", LABELLED).code == 200
            make.cluster(f"a{page}")
        assert token == ""
        assert seen == names
        assert len(revisions) == 1

    @pytest.mark.contract("W150")
    def test_a_bad_continue_is_refused(self) -> None:
        answer = entry.root().get(f"{world.CLUSTERS.path}?limit=1&continue=bad")
        assert answer.said == (400, "BadRequest")
        assert answer.message.startswith("invalid continue token")

    @pytest.mark.contract("D21", "W150")
    def test_a_continue_from_beyond_the_head_is_expired_and_brings_a_fresh_one(self) -> None:
        make.cluster("a")
        lost = paging.continue_token(Key("", "a"), change_log.newest_revision() + 1)
        answer = entry.root().get(f"{world.CLUSTERS.path}?limit=1&continue={lost}")
        assert answer.said == (410, "Expired")
        fresh = answer.doc["metadata"]["continue"]
        assert entry.root().get(f"{world.CLUSTERS.path}?limit=1&continue={fresh}").code == 200


def _store_many(names: list[str]) -> None:
    """In one commit; asked for one by one they would take most of the time of this suite."""
    pattern = make.cluster("pattern")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "pattern"))
    writes = []
    for name in names:
        doc = deepcopy(pattern)
        doc["metadata"] |= {"name": name, "uid": str(uuid.uuid4())}
        writes.append(
            Write(MANAGED_CLUSTER, Key("", name), None, None, doc, make.ADMIN, "create", "managedcluster:create", "")
        )
    store.commit(writes)
