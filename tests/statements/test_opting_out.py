"""How a cluster leaves again, by the hub's hand or by its own, and how certificates are renewed (S54, S89 to S97)."""

from __future__ import annotations

import base64

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.conformance.commands import eventually
from tests.fleet import CLUSTERS, REQUESTS, Agent
from tests.statements import blocks
from tests.statements.conftest import Desk
from tests.statements.test_acceptance import lease_of, may

REJECT = '{"spec":{"hubAcceptsClient":false}}'


def joined(desk: Desk, name: str) -> Agent:
    agent = desk.fleet.join(name)
    assert may(agent, lease_of(name))
    return agent


def rights(desk: Desk, name: str) -> list[str]:
    """Bindings in the cluster's namespace."""
    return desk.kubectl("get", "rolebindings", "-n", name, "-o", "name").split()


@pytest.mark.contract("S89", "S90", "S92")
def test_a_cluster_is_unregistered_by_no_longer_accepting_it(desk: Desk, name: str) -> None:
    agent = joined(desk, name)
    desk.kubectl("patch", "managedcluster", name, "--type=merge", "-p", REJECT)
    eventually(lambda: not may(agent, lease_of(name)))
    denied = "--for=condition=HubAcceptedManagedCluster=False"
    desk.kubectl("wait", f"managedcluster/{name}", denied, "--timeout=120s")
    assert rights(desk, name) == []
    assert may(agent, f"{CLUSTERS}/{name}")  # it may learn that it was sent away
    desk.kubectl("get", "namespace", name)


@pytest.mark.contract("S54", "S89", "S91", "S92")
def test_a_deleted_cluster_is_gone_and_its_agent_is_denied(desk: Desk, name: str) -> None:
    agent = joined(desk, name)
    said = desk.kubectl("delete", "managedcluster", name)
    assert said.startswith(f'managedcluster.cluster.open-cluster-management.io "{name}" deleted')
    assert "not found" in desk.kubectl.refuses("get", "managedcluster", name)
    assert rights(desk, name) == []
    assert "not found" in desk.kubectl.refuses("get", "clusterrole", f"open-cluster-management:managedcluster:{name}")
    eventually(lambda: not may(agent, lease_of(name)))  # the server may hear of another process's write a moment later
    assert not may(agent, f"{CLUSTERS}/{name}")
    assert agent.client.patch(f"{CLUSTERS}/{name}/status", json={}).status_code == httpx.codes.FORBIDDEN


# ---------------------------------------------------------------------------------------------------------- certificates


def ask_again(agent: Agent) -> tuple[Agent, str]:
    """A request for the same name with a new key, by the certificate that the agent has; and its name."""
    renewed = Agent(agent.fleet, agent.name, agent.request, agent.speaks_for)
    doc = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {
            "generateName": f"{agent.name}-",
            "labels": {"open-cluster-management.io/cluster-name": agent.name},
        },
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "key encipherment", "client auth"],
            "request": base64.b64encode(renewed.signing_request()).decode(),
        },
    }
    answer = agent.client.post(REQUESTS, json=doc)
    assert answer.status_code == httpx.codes.CREATED, answer.text
    return renewed, str(answer.json()["metadata"]["name"])


def certificate(desk: Desk, request: str) -> str:
    return desk.kubectl("get", "csr", request, "-o", "jsonpath={.status.certificate}")


@pytest.mark.contract("S96", "S97")
def test_certificates_are_rotated_without_a_person_to_a_new_key_of_the_same_random_name(desk: Desk, name: str) -> None:
    agent = joined(desk, name)
    renewed, request = ask_again(agent)
    issued = eventually(lambda: certificate(desk, request))
    loaded = x509.load_pem_x509_certificate(base64.b64decode(issued))
    (common,) = loaded.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert common.value == f"system:open-cluster-management:{name}:{agent.request[-5:]}"
    assert loaded.public_key() == renewed.key.public_key()
    assert isinstance(agent.key, ec.EllipticCurvePrivateKey)
    assert loaded.public_key() != agent.key.public_key()


@pytest.mark.contract("S93")
def test_without_the_renew_rule_the_next_rotation_is_rejected_and_all_else_goes_on(desk: Desk, name: str) -> None:
    agent = joined(desk, name)
    role = desk.kubectl.read("clusterrole", f"open-cluster-management:managedcluster:{name}")
    (renew,) = blocks.block("rule-renew")
    assert renew in role["rules"]
    role["rules"].remove(renew)
    desk.kubectl("replace", "-f", "-", stdin=role)
    _, request = ask_again(agent)
    look_again(desk, name)
    agent.beat()
    assert desk.kubectl.read("clusterrole", role["metadata"]["name"])["rules"] == role["rules"]
    assert desk.kubectl.rows("csr", request)[0][-1].split()[-1] == "Pending"
    assert certificate(desk, request) == ""


def look_again(desk: Desk, name: str) -> None:
    """The hub has compared all that belongs to the cluster once more: what was deleted is back."""
    binding = ("rolebinding", f"open-cluster-management:managedcluster:{name}:registration", "-n", name)
    desk.kubectl("delete", *binding)
    eventually(lambda: desk.kubectl.attempt("get", *binding).returncode == 0)
