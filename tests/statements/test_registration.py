"""A cluster registers: who begins, with what, and what both sides have to do (S1 to S5, S15, S52 to S70)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from tests.conformance.cluster import managed
from tests.conformance.commands import Kubectl, eventually
from tests.fleet import CLUSTERS, REQUESTS, Agent
from tests.statements import blocks
from tests.statements.conftest import Desk
from tests.statements.provider import Provider

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
PREFIX = "system:open-cluster-management:"


@pytest.fixture(scope="module")
def bootstrap_kubeconfig(desk: Desk) -> Path:
    path = desk.hub.home / "statements.kubeconfig"
    desk.hub.manage("bootstrap_token", "create", "--name", "statements", "--uses", "1000", "--kubeconfig", str(path))
    return path


@pytest.fixture
def bootstrap(desk: Desk, bootstrap_kubeconfig: Path) -> Kubectl:
    return desk.kubectl.as_(bootstrap_kubeconfig)


def may_read_itself(agent: Agent) -> bool:
    code = agent.client.get(f"{CLUSTERS}/{agent.name}").status_code
    assert code in {httpx.codes.OK, httpx.codes.FORBIDDEN}
    return code == httpx.codes.OK


@pytest.mark.contract("S1", "S27", "S52")
def test_a_pending_and_a_registered_cluster_are_objects_of_the_hub_without_a_namespace(desk: Desk, name: str) -> None:
    agent = desk.fleet.ask(name)
    assert desk.kubectl.rows("managedclusters", name)[0][:2] == [name, "false"]
    desk.fleet.accept(agent)
    assert desk.kubectl.rows("managedclusters", name)[0][:2] == [name, "true"]
    served = desk.kubectl("api-resources", "--api-group=cluster.open-cluster-management.io", "--namespaced=false")
    assert "managedclusters" in [line.split()[0] for line in served.splitlines()]


@pytest.mark.contract("S3", "S28", "S55")
def test_an_agent_begins_by_creating_its_cluster_with_the_bootstrap_kubeconfig(bootstrap: Kubectl, name: str) -> None:
    said = bootstrap("create", "-f", "-", stdin=managed(name))
    assert said == f"managedcluster.cluster.open-cluster-management.io/{name} created\n"


@pytest.mark.contract("S61")
def test_an_agent_starts_with_a_cluster_that_nobody_accepted_and_a_request_that_waits(desk: Desk, name: str) -> None:
    agent = desk.fleet.ask(name)
    assert desk.kubectl.read("managedcluster", name)["spec"]["hubAcceptsClient"] is False
    assert desk.kubectl.rows("csr", agent.request)[0][-1].split()[-1] == "Pending"


@pytest.mark.contract("S5", "S30")
def test_one_who_has_a_credential_may_ask_and_only_an_admin_may_approve(
    desk: Desk, bootstrap: Kubectl, name: str
) -> None:
    agent = desk.fleet.ask(name)
    assert "cannot patch" in bootstrap.refuses(
        "patch", "managedcluster", name, "--type=merge", "-p", '{"spec":{"hubAcceptsClient":true}}'
    )
    assert "cannot update" in bootstrap.refuses("certificate", "approve", agent.request)
    accepted = bootstrap.refuses("create", "-f", "-", stdin=managed(f"{name}x", hubAcceptsClient=True))
    assert "cannot update the HubAcceptsClient field" in accepted
    approve(desk, agent)
    accept(desk, agent)


def approve(desk: Desk, agent: Agent) -> None:
    desk.kubectl("certificate", "approve", agent.request)


def accept(desk: Desk, agent: Agent) -> None:
    desk.kubectl("patch", "managedcluster", agent.name, "--type=merge", "-p", '{"spec":{"hubAcceptsClient":true}}')


def is_in(desk: Desk, agent: Agent) -> bool:
    certified = desk.kubectl("get", "csr", agent.request, "-o", "jsonpath={.status.certificate}")
    return bool(certified) and may_read_itself(agent)


@pytest.mark.contract("S2", "S27", "S68")
@pytest.mark.parametrize(("one", "other"), [(approve, accept), (accept, approve)])
def test_both_sides_have_to_want_it_in_either_order(
    desk: Desk, name: str, one: Callable[[Desk, Agent], None], other: Callable[[Desk, Agent], None]
) -> None:
    agent = desk.fleet.ask(name)
    one(desk, agent)
    assert not is_in(desk, agent)
    other(desk, agent)
    eventually(lambda: is_in(desk, agent))


@pytest.mark.contract("S15", "S40", "S70")
def test_registration_is_an_agent_that_asks_and_a_controller_of_the_hub_that_gives_rights(
    desk: Desk, name: str
) -> None:
    agent = desk.fleet.ask(name)
    mine = f"open-cluster-management.io/cluster-name={name}"
    assert desk.kubectl("get", "clusterroles,clusterrolebindings", "-l", mine, "-o", "name") == ""
    desk.fleet.accept(agent)
    eventually(
        lambda: len(desk.kubectl("get", "clusterroles,clusterrolebindings", "-l", mine, "-o", "name").split()) == 2
    )
    eventually(lambda: len(desk.kubectl("get", "rolebindings", "-n", name, "-o", "name").split()) == 2)
    said = agent.client.post(WHO_AM_I, json=REVIEW).json()["status"]["userInfo"]
    assert said["username"].startswith(f"{PREFIX}{name}:")


# ------------------------------------------------------------------------------------------------ bootstrap credentials


@pytest.mark.contract("S56")
def test_the_bootstrap_secret_of_the_documents_carries_a_kubeconfig_that_lets_an_agent_begin(
    desk: Desk, bootstrap_kubeconfig: Path, name: str, tmp_path: Path
) -> None:
    encoded = base64.b64encode(bootstrap_kubeconfig.read_bytes()).decode()
    desk.kubectl("create", "namespace", "open-cluster-management-agent")
    block = blocks.text("secret-bootstrap").replace("<base64-encoded kubeconfig>", encoded)
    desk.kubectl("apply", "-f", "-", stdin=block)
    stored = desk.kubectl.read("secret", "bootstrap-hub-kubeconfig", "-n", "open-cluster-management-agent")
    assert stored["type"] == "Opaque"
    mounted = tmp_path / "kubeconfig"
    mounted.write_bytes(base64.b64decode(stored["data"]["kubeconfig"]))
    desk.kubectl.as_(mounted)("create", "-f", "-", stdin=managed(name))


@pytest.mark.contract("S57", "S58")
def test_the_documented_bootstrap_rights_are_enough_to_ask(desk: Desk, name: str) -> None:
    desk.kubectl("apply", "-f", str(blocks.path("clusterrole-bootstrap")))
    user = desk.grant("documented-bootstrap", f"{name}-agent")
    # The default set is joined with the cluster's creation, which the documents name elsewhere (S45, S119).
    desk.allow(user, ("create", "managedclustersets/join"))
    me = f"--as={user}"
    desk.kubectl("create", me, "-f", "-", stdin=managed(name))
    for verb in ("get", "list", "create", "update"):
        assert desk.kubectl("auth", "can-i", verb, "managedclusters", me) == "yes\n"
    for verb in ("get", "list", "watch", "create", "update"):
        assert desk.kubectl("auth", "can-i", verb, "certificatesigningrequests", me) == "yes\n"
    assert desk.kubectl("get", "managedclusters", name, me, "-o", "name").endswith(f"/{name}\n")
    asked = Agent(desk.fleet, name, f"{name}-x7k2p", name)
    request = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": asked.request, "labels": {"open-cluster-management.io/cluster-name": name}},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "key encipherment", "client auth"],
            "request": base64.b64encode(asked.signing_request()).decode(),
        },
    }
    desk.kubectl("create", me, "-f", "-", stdin=request)
    desk.fleet.accept(asked)
    eventually(lambda: may_read_itself(asked))


@pytest.mark.contract("S59")
def test_bootstrap_credentials_last_an_hour(desk: Desk) -> None:
    token = desk.clusteradm("get token").partition("token=")[2].split()[0]
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["exp"] - claims["iat"] == 3600


# ------------------------------------------------------------------------------------------------------ both together


@pytest.mark.contract("S60", "S64")
def test_clusteradm_gets_a_token_joins_and_accepts(desk: Desk, name: str) -> None:
    token = desk.clusteradm("get token").partition("token=")[2].split()[0]
    join = f"join --hub-token {token} --hub-apiserver {desk.hub.api_url} --cluster-name {name}"
    assert f"    clusteradm accept --clusters {name}" in desk.clusteradm(join).splitlines()
    desk.fleet.tokens["clusteradm"] = token
    agent = desk.fleet.ask(name, token="clusteradm")
    assert desk.clusteradm(f"accept --clusters {name}").splitlines() == [
        f"Starting approve csrs for the cluster {name}",
        f"CSR {agent.request} approved",
        f"set hubAcceptsClient to true for managed cluster {name}",
        "",
        f" Your managed cluster {name} has joined the Hub successfully.",
    ]
    agent.report()
    agent.beat()
    eventually(
        lambda: (
            desk.kubectl.rows("managedcluster", name)[0][1:4] == ["true", f"https://api.{name}.example:6443", "True"]
        )
    )
    assert f"CSR {agent.request} already approved" in desk.clusteradm(f"accept --clusters {name}")


@pytest.mark.contract("S63")
def test_a_certificate_alone_does_not_register_a_cluster(desk: Desk, name: str) -> None:
    agent = desk.fleet.ask(name)
    approve(desk, agent)
    assert not may_read_itself(agent)
    assert "status" not in desk.kubectl.read("managedcluster", name)
    accept(desk, agent)
    desk.kubectl("wait", f"managedcluster/{name}", "--for=condition=HubAcceptedManagedCluster", "--timeout=120s")
    eventually(lambda: may_read_itself(agent))


@pytest.mark.contract("S69")
def test_clusters_do_not_trust_each_other_and_the_hub_bounds_rights_and_lifetime(desk: Desk, name: str) -> None:
    desk.fleet.ask(f"{name}-other")
    agent = desk.fleet.ask(name, lifetime=3600)
    desk.fleet.accept(agent)
    eventually(lambda: may_read_itself(agent))
    assert agent.client.get(f"{CLUSTERS}/{name}-other").status_code == httpx.codes.FORBIDDEN
    assert agent.client.get(CLUSTERS).status_code == httpx.codes.FORBIDDEN
    shown = desk.kubectl.read("csr", agent.request)
    assert shown["spec"]["expirationSeconds"] == 3600
    pem = base64.b64decode(shown["status"]["certificate"])
    assert lifetime_of(pem) <= 3600 + 300  # back-dated by five minutes


def lifetime_of(pem: bytes) -> float:
    certificate = x509.load_pem_x509_certificate(pem)
    return (certificate.not_valid_after_utc - certificate.not_valid_before_utc).total_seconds()


@pytest.mark.contract("S62")
def test_any_provider_may_sign_what_an_admin_approved(bare: Desk, provider: Provider, name: str) -> None:
    agent = bare.fleet.ask(name)
    approve(bare, agent)
    accept(bare, agent)
    request = bare.kubectl.read("csr", agent.request)
    assert "certificate" not in request["status"]
    signed = provider.sign(base64.b64decode(request["spec"]["request"]))
    request["status"]["certificate"] = base64.b64encode(signed).decode()
    bare.kubectl("replace", "--raw", f"{REQUESTS}/{agent.request}/status", "-f", "-", stdin=request)
    eventually(lambda: may_read_itself(agent))
