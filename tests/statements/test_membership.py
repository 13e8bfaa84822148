"""Who may put a cluster into a set and where a set may be bound (S19, S20, S44, S45, S108, S119 to S123, S132 to S135)."""

from __future__ import annotations

import re

import pytest

from tests.conformance.cluster import managed, settle
from tests.conformance.commands import Doc, eventually
from tests.statements import blocks
from tests.statements.clusteradm import SET_LABEL, Stopped
from tests.statements.conftest import Desk

OLDEST_LABEL = "open-cluster-management.io/clusterset"
JOIN = "managedclustersets/join"


def set_of(desk: Desk, cluster: str) -> str:
    labels: dict[str, str] = desk.kubectl.read("managedcluster", cluster)["metadata"]["labels"]
    return labels[SET_LABEL]


@pytest.fixture
def target(desk: Desk, name: str) -> str:
    """A cluster of the default set, and a set of the same name that it may be put into."""
    desk.kubectl("create", "-f", "-", stdin=managed(name))
    desk.clusteradm(f"create clusterset {name}")
    # The hub's own writes are over, so that what was read stays current.
    settle(desk.kubectl, name)
    return name


def moved(desk: Desk, name: str) -> Doc:
    doc = desk.kubectl.read("managedcluster", name)
    doc["metadata"]["labels"][SET_LABEL] = name
    return doc


def refused(user: str, cluster_set: str) -> str:
    return f'user "{user}" cannot add/remove a ManagedCluster to/from ManagedClusterSet "{cluster_set}"'


# ----------------------------------------------------------------------------------------------------------------- join


@pytest.mark.contract("S19")
def test_the_oldest_label_puts_a_cluster_into_a_set(desk: Desk, target: str) -> None:
    done = desk.kubectl.run("label", "managedcluster", target, f"{OLDEST_LABEL}={target}", code=0)
    assert set_of(desk, target) == target
    assert f"label {OLDEST_LABEL} is deprecated: its value was copied to {SET_LABEL}" in done.stderr


@pytest.mark.contract("S44")
def test_the_label_puts_a_cluster_into_a_set(desk: Desk, target: str) -> None:
    desk.kubectl("label", "--overwrite", "managedcluster", target, f"{SET_LABEL}={target}")
    path = 'jsonpath={.status.conditions[?(@.type=="ClusterSetEmpty")].message}'
    eventually(lambda: desk.kubectl("get", "mclset", target, "-o", path) == "1 ManagedClusters selected")


@pytest.mark.contract("S20", "S45")
@pytest.mark.parametrize("label", [OLDEST_LABEL, SET_LABEL])
def test_either_label_needs_create_on_managedclusterset_join(desk: Desk, target: str, label: str) -> None:
    user = desk.allow(f"{target}-raj", ("get,patch", "managedclusters"))
    act = ("label", "--overwrite", "managedcluster", target, f"{label}={target}", f"--as={user}")
    assert refused(user, "default") in desk.kubectl.refuses(*act)
    desk.kubectl("apply", "-f", str(blocks.path("clusterrole-join-oldest")))
    desk.grant("documented-join", user)
    desk.kubectl(*act)
    assert set_of(desk, target) == target


@pytest.mark.contract("S119", "S132", "S161", "S174")
def test_putting_a_cluster_into_a_set_needs_update_on_the_cluster_and_join_on_both_sets(
    desk: Desk, target: str
) -> None:
    user = f"{target}-raj"
    act = ("replace", "-f", "-", f"--as={user}")
    assert 'cannot update resource "managedclusters"' in desk.kubectl.refuses(*act, stdin=moved(desk, target))
    desk.allow(user, ("update", "managedclusters"))
    assert refused(user, "default") in desk.kubectl.refuses(*act, stdin=moved(desk, target))
    desk.kubectl(
        "create", "clusterrole", f"join-{user}", "--verb=create", f"--resource={JOIN}", "--resource-name=default"
    )
    desk.grant(f"join-{user}", user)
    assert refused(user, target) in desk.kubectl.refuses(*act, stdin=moved(desk, target))


@pytest.mark.contract("S133", "S175")
def test_the_documents_role_lets_its_holder_put_clusters_into_sets(desk: Desk, target: str) -> None:
    desk.kubectl("apply", "-f", str(blocks.path("clusterrole-join")))
    read = desk.kubectl.read("clusterrole", "clusterrole1")
    assert blocks.missing(read, blocks.block("clusterrole-join")) == []
    user = desk.grant("clusterrole1", f"{target}-raj")
    desk.kubectl("replace", "-f", "-", f"--as={user}", stdin=moved(desk, target))
    assert set_of(desk, target) == target


@pytest.mark.contract("S138", "S180")
def test_clusteradm_moves_a_cluster_from_the_default_set(desk: Desk, target: str) -> None:
    said = desk.clusteradm(f"clusterset set {target} --clusters {target}")
    assert said == f"Cluster {target} is set, from ClusterSet default to Clusterset {target}"
    assert set_of(desk, target) == target


# ----------------------------------------------------------------------------------------------------------------- bind


@pytest.fixture
def workspace(desk: Desk, name: str) -> str:
    desk.kubectl("create", "namespace", f"{name}-work")
    return f"{name}-work"


@pytest.mark.contract("S123", "S134", "S165", "S176")
def test_binding_needs_the_right_to_bind_and_a_webhook_says_so(desk: Desk, target: str, workspace: str) -> None:
    user = desk.allow(f"{target}-raj", ("get", "managedclustersets"), ("create", "managedclustersetbindings"))
    line = f"clusterset bind {target} --namespace {workspace}"
    webhook = (
        'admission webhook "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io" denied'
    )
    denied = f'user "{user}" is not allowed to bind cluster set "{target}"'
    with pytest.raises(Stopped, match=f"{re.escape(webhook)}.*{re.escape(denied)}"):
        desk.clusteradm(line, user=user)


@pytest.mark.contract("S135", "S177")
def test_the_documents_role_lets_its_holder_bind_sets(desk: Desk, target: str, workspace: str) -> None:
    desk.kubectl("apply", "-f", str(blocks.path("clusterrole-bind")))
    read = desk.kubectl.read("clusterrole", "clusterrole2")
    assert blocks.missing(read, blocks.block("clusterrole-bind")) == []
    user = desk.allow(f"{target}-raj", ("get", "managedclustersets"), ("create", "managedclustersetbindings"))
    desk.grant("clusterrole2", user)
    said = desk.clusteradm(f"clusterset bind {target} --namespace {workspace}", user=user)
    assert said == f"Clusterset {target} is bound to Namespace {workspace}"


@pytest.mark.contract("S108", "S150")
def test_the_admin_of_a_workspace_sees_the_sets_that_are_bound_there_and_nothing_else(
    desk: Desk, target: str, workspace: str
) -> None:
    desk.clusteradm(f"clusterset bind {target} --namespace {workspace}")
    user = desk.allow_in(workspace, f"{target}-li", ("get,list,create,delete", "managedclustersetbindings"))
    shown = desk.kubectl("get", "managedclustersetbindings", "-n", workspace, "-o", "name", f"--as={user}")
    assert shown.endswith(f"/{target}\n")
    assert "Forbidden" in desk.kubectl.refuses("get", "managedclustersetbindings", "-A", f"--as={user}")
    assert "Forbidden" in desk.kubectl.refuses("get", "managedclusterset", target, f"--as={user}")
    assert "Forbidden" in desk.kubectl.refuses("get", "managedcluster", target, f"--as={user}")
    other = blocks.text("managedclustersetbinding").replace("namespace: default", f"namespace: {workspace}")
    assert "is not allowed to bind cluster set" in desk.kubectl.refuses(
        "create", "-f", "-", f"--as={user}", stdin=other
    )


@pytest.mark.contract("S121", "S163")
def test_a_set_is_not_bound_in_the_namespace_of_a_cluster(desk: Desk, target: str) -> None:
    desk.kubectl("patch", "managedcluster", target, "--type=merge", "-p", '{"spec":{"hubAcceptsClient":true}}')
    eventually(lambda: desk.kubectl.attempt("get", "namespace", target).returncode == 0)
    with pytest.raises(Stopped, match="is the cluster namespace of a registered cluster"):
        desk.clusteradm(f"clusterset bind {target} --namespace {target}")
