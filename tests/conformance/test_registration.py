"""A cluster comes in by hand: kubectl, openssl and nothing else."""

from __future__ import annotations

import json

import pytest

from tests.conformance.cluster import LEASE, MANAGED, MANY, Cluster
from tests.conformance.commands import eventually

ACCEPTED = "HubAcceptedManagedCluster"


@pytest.mark.contract("H4", "H14", "W105", "W120", "W23")
def test_cluster_registers_with_openssl_and_kubectl(cluster: Cluster) -> None:
    name, request = cluster.name, cluster.request_name
    client_configs = [{"url": f"https://{name}.example.com:6443"}]

    assert cluster.announce(managedClusterClientConfigs=client_configs) == f"{MANAGED}/{name} created\n"
    assert cluster.ask_for_certificate() == f"certificatesigningrequest.certificates.k8s.io/{request} created\n"
    assert cluster.approve() == f"certificatesigningrequest.certificates.k8s.io/{request} approved\n"
    assert cluster.accept() == f"{MANAGED}/{name} patched\n"
    cluster.admin("wait", f"mcl/{name}", f"--for=condition={ACCEPTED}", "--timeout=120s")

    (row,) = eventually(lambda: cluster.agent.rows("managedcluster", name))
    assert row[:3] == [name, "true", f"https://{name}.example.com:6443"]
    issued = cluster.openssl(
        "x509", "-in", str(cluster.collect_certificate()), "-noout", "-subject", "-ext", "extendedKeyUsage"
    )
    assert cluster.user in issued
    assert "TLS Web Client Authentication" in issued


@pytest.mark.contract("H6")
def test_hub_makes_nothing_for_a_cluster_that_nobody_accepted(cluster: Cluster) -> None:
    cluster.announce()
    cluster.ask_for_certificate()
    cluster.approve()
    cluster.collect_certificate()
    assert f'namespaces "{cluster.name}" not found' in cluster.admin.refuses("get", "namespace", cluster.name)
    assert cluster.condition(ACCEPTED) == ""
    assert 'cannot get resource "managedclusters" in API group' in cluster.agent.refuses("get", "mcl", cluster.name)


@pytest.mark.contract("A4", "W132")
def test_bootstrap_identity_cannot_accept_its_own_cluster(cluster: Cluster) -> None:
    assert cluster.bootstrap("auth", "can-i", "create", "managedclusters").strip() == "yes"
    with pytest.raises(AssertionError, match="cannot update the HubAcceptsClient field"):
        cluster.announce(hubAcceptsClient=True)
    cluster.announce()
    patch = '{"spec":{"hubAcceptsClient":true}}'
    refusal = cluster.bootstrap.refuses("patch", "mcl", cluster.name, "--type=merge", "-p", patch)
    assert refusal.startswith(
        f'Error from server (Forbidden): {MANY} "{cluster.name}" is forbidden: User "system:bootstrap:'
    )
    assert refusal.endswith(
        'cannot patch resource "managedclusters" in API group "cluster.open-cluster-management.io" at the cluster scope'
    )


@pytest.mark.contract("H14", "W121", "W132")
def test_agent_sees_its_own_cluster_and_no_other(cluster: Cluster) -> None:
    agent = cluster.join().agent
    eventually(lambda: agent.rows("mcl", "--field-selector", f"metadata.name={cluster.name}"))
    scope = 'resource "managedclusters" in API group "cluster.open-cluster-management.io" at the cluster scope'
    who = f'User "{cluster.user}"'
    refusal = f'Error from server (Forbidden): {MANY} "somebody-else" is forbidden: {who} cannot get {scope}'
    assert agent.refuses("get", "managedcluster", "somebody-else") == refusal
    assert (
        agent.refuses("get", "mcl") == f"Error from server (Forbidden): {MANY} is forbidden: {who} cannot list {scope}"
    )
    refusal = f'Error from server (Forbidden): {MANY} "{cluster.name}" is forbidden: {who} cannot delete {scope}'
    assert agent.refuses("delete", "mcl", cluster.name) == refusal


@pytest.mark.contract("H14", "W104")
def test_agent_renews_the_lease_of_its_own_namespace_only(cluster: Cluster) -> None:
    agent = cluster.join().agent
    renewed = cluster.renew_lease()
    assert agent.read("lease", LEASE)["spec"]["renewTime"] == renewed["spec"]["renewTime"]
    elsewhere = 'cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "default"'
    assert agent.refuses("get", "lease", LEASE, "-n", "default").endswith(elsewhere)
    mine = f'cannot create resource "leases" in API group "coordination.k8s.io" in the namespace "{cluster.name}"'
    other = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "other"}}
    assert agent.refuses("create", "-f", "-", stdin=other).endswith(mine)


@pytest.mark.contract("H7", "H8")
def test_cluster_that_is_turned_away_again_keeps_only_sight_of_itself(cluster: Cluster) -> None:
    agent = cluster.join().agent
    cluster.renew_lease()
    cluster.accept("false")
    cluster.admin("wait", f"mcl/{cluster.name}", f"--for=condition={ACCEPTED}=False", "--timeout=120s")
    eventually(lambda: "Forbidden" in _complaint(cluster))
    assert agent("get", "mcl", cluster.name, "-o", "name") == f"{MANAGED}/{cluster.name}\n"
    cluster.accept()
    eventually(lambda: not _complaint(cluster))
    cluster.renew_lease()


def _complaint(cluster: Cluster) -> str:
    return cluster.agent.attempt("get", "lease", LEASE).stderr


@pytest.mark.contract("W154", "W23")
def test_requester_of_a_certificate_is_who_asked_whatever_the_request_says(cluster: Cluster) -> None:
    cluster.announce()
    request = cluster.request(cluster.certificate_request())
    request["spec"] |= {"username": "system:admin", "groups": ["system:masters"]}
    cluster.bootstrap("create", "-f", "-", stdin=request)
    stored = cluster.admin.read("csr", cluster.request_name)["spec"]
    assert stored["username"].startswith("system:bootstrap:")
    assert "system:masters" not in stored["groups"]


@pytest.mark.contract("W105", "W154")
def test_denied_request_gets_no_certificate_and_stays_denied(cluster: Cluster) -> None:
    cluster.announce()
    cluster.ask_for_certificate()
    said = cluster.admin("certificate", "deny", cluster.request_name)
    assert said == f"certificatesigningrequest.certificates.k8s.io/{cluster.request_name} denied\n"
    assert cluster.admin.rows("csr", cluster.request_name)[0][-1] == "Denied"
    both = cluster.admin.read("csr", cluster.request_name)
    both["status"]["conditions"].append({"type": "Approved", "status": "True", "reason": "Both"})
    approval = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{cluster.request_name}/approval"
    refusal = cluster.admin.refuses("replace", "--raw", approval, "-f", "-", stdin=both)
    assert "Approved and Denied conditions are mutually exclusive" in refusal
    assert "certificate" not in cluster.admin.read("csr", cluster.request_name)["status"]


@pytest.mark.contract("W130", "W23")
def test_table_of_requests_says_who_asked_for_what_and_how_it_went(cluster: Cluster) -> None:
    cluster.announce()
    cluster.ask_for_certificate()
    heading, row = cluster.admin("get", "csr", cluster.request_name).splitlines()
    assert heading.split() == ["NAME", "AGE", "SIGNERNAME", "REQUESTOR", "REQUESTEDDURATION", "CONDITION"]
    name, _age, signer, requestor, duration, condition = row.split()
    assert (name, signer, duration) == (cluster.request_name, "kubernetes.io/kube-apiserver-client", "<none>")
    assert requestor.startswith("system:bootstrap:")
    assert condition == "Pending"
    cluster.approve()
    eventually(lambda: cluster.admin.rows("csr", cluster.request_name)[0][-1] == "Approved,Issued")


@pytest.mark.contract("W130", "W152")
def test_requests_are_found_by_label_and_by_signer(cluster: Cluster) -> None:
    cluster.announce()
    cluster.ask_for_certificate()
    mine = f"open-cluster-management.io/cluster-name = {cluster.name}"
    found = cluster.admin("get", "csr", "-l", mine, "-o", "name")
    assert found == f"certificatesigningrequest.certificates.k8s.io/{cluster.request_name}\n"
    signer = "spec.signerName=example.com/nobody"
    assert json.loads(cluster.admin("get", "csr", "-l", mine, "--field-selector", signer, "-o", "json"))["items"] == []
