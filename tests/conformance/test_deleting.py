"""delete, with everything that may stand in its way."""

from __future__ import annotations

import pytest

from tests.conformance.cluster import MANAGED, MANY, Cluster, hold, let_go, wait_until_only_held
from tests.conformance.commands import Kubectl, eventually
from tests.conformance.conftest import Present


@pytest.mark.contract("W136")
def test_delete_returns_when_the_cluster_is_gone(admin: Kubectl, present: Present) -> None:
    name = present()
    assert admin("delete", "managedcluster", name, "--wait") == f'{MANAGED} "{name}" deleted\n'
    assert admin.refuses("get", "mcl", name) == f'Error from server (NotFound): {MANY} "{name}" not found'


@pytest.mark.contract("W136", "W18")
def test_delete_waits_for_the_last_finalizer(admin: Kubectl, present: Present) -> None:
    name = present()
    hold(admin, name)
    with admin.running("delete", "mcl", name) as deleting:
        wait_until_only_held(admin, name)
        assert admin("get", "mcl", name, "-o", "jsonpath={.metadata.deletionTimestamp}")
        assert deleting.poll() is None
        let_go(admin, name)
        assert deleting.wait(timeout=120) == 0


@pytest.mark.contract("W18")
def test_nothing_new_may_hold_a_cluster_that_is_being_deleted(admin: Kubectl, present: Present) -> None:
    name = present()
    hold(admin, name)
    admin("delete", "mcl", name, "--wait=false")
    more = '{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}'
    refusal = admin.refuses("patch", "mcl", name, "--type=merge", "-p", more)
    assert (
        'no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/more"}'
        in refusal
    )
    let_go(admin, name)


@pytest.mark.contract("W136")
def test_delete_of_what_is_not_there_is_not_found_unless_that_is_fine(admin: Kubectl) -> None:
    assert admin.refuses("delete", "mcl", "missing") == f'Error from server (NotFound): {MANY} "missing" not found'
    assert admin("delete", "mcl", "missing", "--ignore-not-found") == ""


@pytest.mark.contract("W136")
def test_delete_by_label_takes_the_matching_ones_only(admin: Kubectl, present: Present, name: str) -> None:
    doomed = {present(labels={"doomed": name}) for _ in range(2)}
    spared = present(labels={"doomed": "no"})
    assert set(admin("delete", "mcl", "-l", f"doomed={name}").splitlines()) == {
        f'{MANAGED} "{each}" deleted' for each in doomed
    }
    assert admin("get", "mcl", spared, "-o", "name") == f"{MANAGED}/{spared}\n"


@pytest.mark.contract("W180")
@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_returns_whatever_is_to_become_of_dependents(admin: Kubectl, present: Present, cascade: str) -> None:
    name = present()
    admin("delete", "mcl", name, f"--cascade={cascade}", "--timeout=120s")
    assert admin("get", "mcl", name, "--ignore-not-found") == ""


@pytest.mark.contract("W159")
def test_namespace_goes_with_what_is_in_it(admin: Kubectl, name: str) -> None:
    admin("create", "namespace", name)
    admin("create", "configmap", "inside", "-n", name)
    assert admin("delete", "namespace", name, "--timeout=120s") == f'namespace "{name}" deleted\n'
    assert admin("get", "configmaps", "-n", name, "-o", "name") == ""


@pytest.mark.contract("H10", "H11")
def test_deleted_cluster_leaves_its_namespace_and_takes_its_rights(cluster: Cluster) -> None:
    agent = cluster.join().agent
    cluster.renew_lease()
    cluster.admin("delete", "managedcluster", cluster.name, "--timeout=120s")
    assert cluster.admin("get", "namespace", cluster.name, "-o", "name") == f"namespace/{cluster.name}\n"
    role = f"open-cluster-management:managedcluster:{cluster.name}"
    assert "not found" in cluster.admin.refuses("get", "clusterrole", role)
    eventually(lambda: "Forbidden" in agent.attempt("get", "lease", "managed-cluster-lease").stderr)
