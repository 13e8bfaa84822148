"""A cluster joins by Python alone: token, request, approval, certificate, lease."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.conformance.commands import eventually
from tests.conformance.python.clients import CLUSTERS, MERGE, STRATEGIC, Api, client, cluster, refused, with_pair
from tests.hub import Hub

SIGNER = "kubernetes.io/kube-apiserver-client"
OCM = "system:open-cluster-management"
LEASE = "managed-cluster-lease"


def _request(name: str, folder: Path) -> Api:
    key = ec.generate_private_key(ec.SECP256R1())
    plain = serialization.NoEncryption()
    (folder / "agent.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    groups = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in (f"{OCM}:{name}", f"{OCM}:managed-clusters")
    ]
    subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, f"{OCM}:{name}:agent1")])
    pem = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    labels = {"open-cluster-management.io/cluster-name": name}
    return client.V1CertificateSigningRequest(
        metadata=client.V1ObjectMeta(generate_name=f"{name}-", labels=labels),
        spec=client.V1CertificateSigningRequestSpec(
            request=base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode(),
            signer_name=SIGNER,
            usages=["digital signature", "key encipherment", "client auth"],
        ),
    )


def _decision(type_: str) -> Api:
    return client.V1CertificateSigningRequestCondition(
        type=type_, status="True", reason="Python", message="A person said so.", last_update_time=datetime.now(UTC)
    )


@pytest.fixture
def requests(admin_client: Api) -> Api:
    return client.CertificatesV1Api(admin_client)


@pytest.fixture
def agent(hub: Hub, custom: Api, requests: Api, bootstrap: Api, name: str, tmp_path: Path) -> Iterator[Api]:
    """All of it, up to a certificate that the hub lets in."""
    client.CustomObjectsApi(bootstrap).create_cluster_custom_object(*CLUSTERS, cluster(name))
    asked = client.CertificatesV1Api(bootstrap).create_certificate_signing_request(_request(name, tmp_path))
    assert asked.spec.username.startswith("system:")
    asked = requests.read_certificate_signing_request_approval(asked.metadata.name)
    asked.status = client.V1CertificateSigningRequestStatus(conditions=[_decision("Approved")])
    approved = requests.replace_certificate_signing_request_approval(asked.metadata.name, asked)
    assert [each.type for each in approved.status.conditions] == ["Approved"]
    custom.patch_cluster_custom_object(*CLUSTERS, name, {"spec": {"hubAcceptsClient": True}}, _content_type=MERGE)
    issued = eventually(
        lambda: (
            client.CertificatesV1Api(bootstrap).read_certificate_signing_request(asked.metadata.name).status.certificate
        )
    )
    path = tmp_path / "agent.crt"
    path.write_bytes(base64.b64decode(issued) if isinstance(issued, str) else issued)
    leases = client.CoordinationV1Api(requests.api_client)
    eventually(lambda: leases.list_namespaced_lease(name).items)
    with with_pair(hub, path, tmp_path / "agent.key") as api:
        yield api


@pytest.mark.contract("W154", "W157")
def test_an_agent_renews_its_lease_to_the_microsecond(agent: Api, name: str) -> None:
    leases = client.CoordinationV1Api(agent)

    def renew() -> datetime | None:
        lease = leases.read_namespaced_lease(LEASE, name)
        lease.spec.renew_time = now = datetime.now(UTC)
        try:
            leases.replace_namespaced_lease(LEASE, name, lease)
        except client.ApiException as conflict:
            assert conflict.status == 409, conflict.body  # noqa: PT017 - the hub writes to a new lease as well
            return None
        return now

    written = eventually(renew)
    read = leases.read_namespaced_lease(LEASE, name).spec.renew_time
    assert read == written
    assert read.utcoffset() == timedelta(0)


@pytest.mark.contract("W154")
def test_an_agent_is_who_its_certificate_says_and_keeps_to_its_cluster(agent: Api, name: str) -> None:
    who = client.AuthenticationV1Api(agent).create_self_subject_review({}).status.user_info
    assert who.username == f"{OCM}:{name}:agent1"
    assert f"{OCM}:{name}" in who.groups
    own = client.CustomObjectsApi(agent)
    said = own.patch_cluster_custom_object_status(
        *CLUSTERS, name, {"status": {"version": {"kubernetes": "v1.30.0"}}}, _content_type=MERGE
    )
    assert said["status"]["version"]["kubernetes"] == "v1.30.0"
    with refused(403, "Forbidden"):
        client.CoordinationV1Api(agent).read_namespaced_lease(LEASE, "another")
    with refused(403, "Forbidden"):
        own.patch_cluster_custom_object(*CLUSTERS, name, {"spec": {"hubAcceptsClient": False}}, _content_type=MERGE)


@pytest.mark.contract("W154")
def test_a_request_can_be_denied_by_patch_and_never_approved_after(
    requests: Api, bootstrap: Api, name: str, tmp_path: Path
) -> None:
    made = client.CertificatesV1Api(bootstrap).create_certificate_signing_request(_request(name, tmp_path))
    body = {"status": {"conditions": [{"type": "Denied", "status": "True", "reason": "Python", "message": "No."}]}}
    denied = requests.patch_certificate_signing_request_approval(made.metadata.name, body, _content_type=STRATEGIC)
    assert [each.type for each in denied.status.conditions] == ["Denied"]
    denied.status.conditions.append(_decision("Approved"))
    with refused(422, "Invalid"):
        requests.replace_certificate_signing_request_approval(made.metadata.name, denied)
    read = requests.list_certificate_signing_request(field_selector=f"metadata.name={made.metadata.name}").items[0]
    assert not read.status.certificate
    assert [each.spec.signer_name for each in [read]] == [SIGNER]


@pytest.mark.contract("W154")
def test_who_brings_a_bootstrap_token_may_not_approve(bootstrap: Api, name: str, tmp_path: Path) -> None:
    api = client.CertificatesV1Api(bootstrap)
    made = api.create_certificate_signing_request(_request(name, tmp_path))
    made.status = client.V1CertificateSigningRequestStatus(conditions=[_decision("Approved")])
    with refused(403, "Forbidden"):
        api.replace_certificate_signing_request_approval(made.metadata.name, made)
