"""A bootstrap token that was minted for one cluster lets no other ask with it."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from clusters.kinds import GROUP, MANAGED_CLUSTER
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access import authentication
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.models import AuditEvent
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.pki import agent_names
from tests.actors import grant, person, rule

pytestmark = pytest.mark.django_db(transaction=True)


def bearer(cluster: str = "") -> Actor:
    token = tokens.issue_bootstrap_token(person("ana").through(EntryPoint.CLI), ttl=timedelta(hours=1), cluster=cluster)
    actor = authentication.actor_of_token(token)
    grant(
        actor,
        rule("create", "managedclusters managedclustersets/join", groups=GROUP),
        rule("create", "certificatesigningrequests", groups="certificates.k8s.io"),
    )
    return actor


def cluster(name: str) -> dict[str, Any]:
    return {"apiVersion": MANAGED_CLUSTER.storage.api_version, "kind": "ManagedCluster", "metadata": {"name": name}}


def request(cluster: str, *, label: str = "") -> dict[str, Any]:
    group = agent_names.group_of(cluster)
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
        x509.NameAttribute(NameOID.COMMON_NAME, f"{group}:agent"),
    ]
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    pem = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": agent_names.SIGNER,
        "usages": ["client auth", "digital signature"],
    }
    metadata = {"generateName": f"{cluster}-", "labels": {agent_names.CLUSTER_LABEL: label or cluster}}
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": metadata,
        "spec": spec,
    }


def test_it_asks_for_its_own_cluster() -> None:
    actor = bearer("c1")
    assert verbs.create(actor, MANAGED_CLUSTER, cluster("c1")).created
    assert verbs.create(actor, CSR, request("c1")).created


@pytest.mark.contract("K4")
def test_another_cluster_is_refused_and_the_refusal_recorded() -> None:
    actor = bearer("c1")
    with pytest.raises(errors.Forbidden, match='the bootstrap token is for the cluster "c1" only'):
        verbs.create(actor, MANAGED_CLUSTER, cluster("c2"))
    denial = AuditEvent.objects.get(outcome=AuditEvent.Outcome.DENIED)
    assert (denial.user, denial.name, denial.credential) == (actor.user, "c2", actor.credential)


@pytest.mark.contract("K4")
@pytest.mark.parametrize(("speaks_for", "label"), [("c2", "c2"), ("c2", "c1"), ("c1", "c2")])
def test_a_certificate_of_another_cluster_is_refused_whatever_its_label_says(speaks_for: str, label: str) -> None:
    actor = bearer("c1")
    with pytest.raises(errors.Forbidden, match='the agent of the cluster "c1" only'):
        verbs.create(actor, CSR, request(speaks_for, label=label))


@pytest.mark.contract("K4")
def test_a_token_for_any_cluster_asks_for_any() -> None:
    actor = bearer()
    for name in ("c1", "c2"):
        assert verbs.create(actor, MANAGED_CLUSTER, cluster(name)).created
        assert verbs.create(actor, CSR, request(name)).created
