"""The walk of the pages about ManagedClusterSet, on a hub that has one cluster (S105 to S131, S142, S147 to S173, S184).

Each step is a fixture that types the pages' commands and keeps what `clusteradm get clustersets` prints then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.conformance.commands import eventually
from tests.conftest import StartHub
from tests.fleet import Fleet
from tests.statements import blocks
from tests.statements.clusteradm import Stopped
from tests.statements.conftest import Desk

NEW = dedent("""\
    <ManagedClusterSet>
    └── <default>
    │   ├── <BoundNamespace>
    │   ├── <Status> No ManagedCluster selected
    └── <example-clusterset>
    │   ├── <BoundNamespace>
    │   ├── <Status> No ManagedCluster selected
    └── <global>
        └── <BoundNamespace>
        └── <Status> 1 ManagedClusters selected""")
MEMBER = dedent("""\
    <ManagedClusterSet>
    └── <default>
    │   ├── <BoundNamespace>
    │   ├── <Status> No ManagedCluster selected
    └── <example-clusterset>
    │   ├── <BoundNamespace>
    │   ├── <Status> 1 ManagedClusters selected
    └── <global>
        └── <BoundNamespace>
        └── <Status> 1 ManagedClusters selected""")
BOUND = dedent("""\
    <ManagedClusterSet>
    └── <default>
    │   ├── <BoundNamespace>
    │   ├── <Status> No ManagedCluster selected
    └── <example-clusterset>
    │   ├── <BoundNamespace> default
    │   ├── <Status> 1 ManagedClusters selected
    └── <global>
        └── <BoundNamespace>
        └── <Status> 1 ManagedClusters selected""")
CLUSTER_SCOPED = "--namespaced=false"
NAMESPACED = "--namespaced=true"


@pytest.fixture(scope="module")
def walk(start_hub: StartHub, kubectls: dict[str, Path]) -> Iterator[Desk]:
    """One cluster, which is in a set that the hub does not have: `default` is empty in the documents."""
    with start_hub() as hub, Fleet(hub) as fleet:
        desk = Desk(hub, kubectls["recent"], fleet)
        labels = {"vendor": "OpenShift", "cluster.open-cluster-management.io/clusterset": "elsewhere"}
        fleet.join("managed1", labels=labels)
        yield desk


def printed(desk: Desk, wanted: str) -> str:
    """What is printed once counts have followed, or after some seconds."""
    deadline = time.monotonic() + 120
    while (shown := desk.clusteradm("get clustersets")) != wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    return shown


@pytest.fixture(scope="module")
def new(walk: Desk) -> str:
    assert walk.clusteradm("create clusterset example-clusterset") == "Clusterset example-clusterset is created"
    return printed(walk, NEW)


@pytest.fixture(scope="module")
def member(walk: Desk, new: str) -> str:
    said = walk.clusteradm("clusterset set example-clusterset --clusters managed1")
    assert said == "Cluster managed1 is set, from ClusterSet elsewhere to Clusterset example-clusterset"
    return printed(walk, MEMBER)


@pytest.fixture(scope="module")
def bound(walk: Desk, member: str) -> str:
    said = walk.clusteradm("clusterset bind example-clusterset --namespace default")
    assert said == "Clusterset example-clusterset is bound to Namespace default"
    return printed(walk, BOUND)


@pytest.fixture(scope="module")
def labelled(walk: Desk, bound: str) -> str:
    return walk.kubectl("apply", "-f", str(blocks.path("managedclusterset-labels")))


def served(desk: Desk, scope: str) -> set[str]:
    listed = desk.kubectl("api-resources", "--api-group=cluster.open-cluster-management.io", scope, "--no-headers")
    return {line.split()[0] for line in listed.splitlines()}


# ----------------------------------------------------------------------------------------------------------- the commands


@pytest.mark.contract("S114", "S115", "S116", "S156", "S157", "S158")
def test_a_created_set_is_listed_and_empty(new: str) -> None:
    assert new == NEW


@pytest.mark.contract("S116", "S158")
def test_a_set_without_clusters_says_so(walk: Desk, new: str) -> None:
    walk.clusteradm("create clusterset empty")
    path = 'jsonpath={.status.conditions[?(@.type=="ClusterSetEmpty")].reason}'
    eventually(lambda: walk.kubectl("get", "managedclusterset", "empty", "-o", path) == "NoClusterMatched")
    walk.kubectl("delete", "managedclusterset", "empty")


@pytest.mark.contract("S117", "S118", "S159", "S160")
def test_a_set_counts_the_cluster_that_was_put_into_it(member: str) -> None:
    assert member == MEMBER


@pytest.mark.contract("S120", "S162")
def test_a_set_with_a_cluster_can_be_bound_to_a_namespace_that_exists_only(walk: Desk, member: str) -> None:
    with pytest.raises(Stopped, match='namespaces "nowhere" not found'):
        walk.clusteradm("clusterset bind example-clusterset --namespace nowhere")


@pytest.mark.contract("S124", "S125", "S166", "S167")
def test_a_bound_set_shows_its_namespace(bound: str) -> None:
    assert bound == BOUND


@pytest.mark.contract("S113", "S126", "S155", "S168")
def test_in_the_end_a_set_of_one_cluster_is_bound_to_a_workspace(walk: Desk, bound: str) -> None:
    mine = "cluster.open-cluster-management.io/clusterset=example-clusterset"
    assert walk.kubectl("get", "managedclusters", "-l", mine, "-o", "name").endswith("/managed1\n")
    ready = ("managedclustersetbinding/example-clusterset", "-n", "default", "--for=condition=Bound")
    walk.kubectl("wait", *ready, "--timeout=120s")


# ------------------------------------------------------------------------------------------------------------- the blocks


@pytest.mark.contract("S127", "S128", "S169", "S170")
def test_the_documents_set_is_read_as_they_show_it(walk: Desk, member: str) -> None:
    read = walk.kubectl.read("managedclusterset", "example-clusterset")
    assert blocks.missing(read, blocks.block("managedclusterset-exclusive")) == []
    for spelling in ("managedclustersets", "mclset", "mclsets"):
        assert walk.kubectl("get", spelling, "example-clusterset", "-o", "name").endswith("/example-clusterset\n")
    assert "selectorType: ExclusiveClusterSetLabel" in walk.kubectl(
        "get", "managedclusterset", "example-clusterset", "-o", "yaml"
    )


@pytest.mark.contract("S128", "S170")
def test_the_documents_set_may_be_applied_with_the_status_that_it_shows(walk: Desk, member: str) -> None:
    walk.kubectl("apply", "-f", str(blocks.path("managedclusterset-exclusive")))
    read = walk.kubectl.read("managedclusterset", "example-clusterset")
    assert blocks.missing(read, blocks.block("managedclusterset-exclusive")) == []


@pytest.mark.contract("S129", "S171", "S106", "S148")
def test_the_documents_set_of_a_vendor_selects_by_what_its_members_have_in_common(walk: Desk, labelled: str) -> None:
    assert labelled == "managedclusterset.cluster.open-cluster-management.io/example-openshift-clusterset created\n"
    wanted = blocks.block("managedclusterset-labels")
    eventually(lambda: not blocks.missing(walk.kubectl.read("mclset", "example-openshift-clusterset"), wanted))


@pytest.mark.contract("S142", "S184")
def test_the_global_set_is_read_as_the_documents_show_it(walk: Desk, member: str) -> None:
    read = walk.kubectl.read("managedclusterset", "global")
    assert blocks.missing(read, blocks.block("managedclusterset-global")) == []
    assert read["spec"]["clusterSelector"]["labelSelector"] == {}


@pytest.mark.contract("S130", "S131", "S172", "S173", "S122", "S164")
def test_the_documents_binding_is_read_as_they_show_it(walk: Desk, bound: str) -> None:
    wanted = blocks.block("managedclustersetbinding")
    read = ("managedclustersetbinding", "example-clusterset", "-n", "default")
    eventually(lambda: not blocks.missing(walk.kubectl.read(*read), wanted))
    assert "reason: ClusterSetBound" in walk.kubectl("get", *read, "-oyaml")


@pytest.mark.contract("S131", "S173")
def test_the_documents_binding_may_be_applied_with_the_status_that_it_shows(walk: Desk, bound: str) -> None:
    walk.kubectl("create", "namespace", "workspace")
    block = blocks.text("managedclustersetbinding").replace("namespace: default", "namespace: workspace")
    walk.kubectl("apply", "-f", "-", stdin=block)
    ready = ("managedclustersetbinding/example-clusterset", "-n", "workspace", "--for=condition=Bound")
    walk.kubectl("wait", *ready, "--timeout=120s")
    walk.kubectl("delete", "managedclustersetbinding", "example-clusterset", "-n", "workspace")


# ------------------------------------------------------------------------------------------------------- the definitions


@pytest.mark.contract("S16", "S41", "S105", "S147")
def test_a_set_is_an_object_of_the_hub_that_groups_clusters(walk: Desk, member: str) -> None:
    assert "managedclustersets" in served(walk, CLUSTER_SCOPED)
    assert walk.kubectl.rows("managedclusterset", "example-clusterset")[0][1] == "False"  # not empty


@pytest.mark.contract("S107", "S149")
def test_a_binding_brings_a_set_into_a_namespace(walk: Desk, bound: str) -> None:
    assert "managedclustersetbindings" in served(walk, NAMESPACED)
    found = walk.kubectl(
        "get", "managedclustersetbindings", "-n", "default", "-o", "jsonpath={.items[*].spec.clusterSet}"
    )
    assert found == "example-clusterset"


@pytest.mark.contract("S17", "S42")
@pytest.mark.parametrize("names", ["dev staging prod", "north-america europe apac"])
def test_sets_may_follow_stages_or_regions(walk: Desk, bound: str, names: str) -> None:
    for name in names.split():
        assert walk.clusteradm(f"create clusterset {name}") == f"Clusterset {name} is created"
    walk.kubectl("delete", "managedclustersets", *names.split())


@pytest.mark.contract("S109", "S110", "S111", "S151", "S152", "S153")
def test_sets_and_namespaces_are_bound_many_to_many(walk: Desk, bound: str) -> None:
    for namespace in ("one", "two"):
        walk.kubectl("create", "namespace", namespace)
        for name in ("example-clusterset", "global"):
            walk.clusteradm(f"clusterset bind {name} --namespace {namespace}")
    eventually(lambda: "<BoundNamespace> default,one,two" in walk.clusteradm("get clustersets"))
    bindings = walk.kubectl("get", "managedclustersetbindings", "-n", "one", "-o", "jsonpath={.items[*].metadata.name}")
    assert bindings == "example-clusterset global"
    for namespace in ("one", "two"):
        walk.kubectl("wait", "mclsetbinding", "--all", "-n", namespace, "--for=condition=Bound", "--timeout=120s")
    assert (
        walk.clusteradm("clusterset unbind global --namespace one") == "Clusterset global is unbind from namespace one"
    )
