"""No certificate for one name is ever issued to the holder of another, however near the name is.

Pure parts first: what a subject says. Then the whole way, create, approve without a person, sign, read the certificate,
with the identity of an agent and with the bootstrap credential of a listed user.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, example, given, settings

from ocmconsole.core import defaults
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.actor import Actor
from registration import hub_setup
from registration.keys import client_certificates
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import certificate_pem
from registration.models import AcceptedKey, CertificateSigningRequest, KeyLine
from registration.pki import agent_names, ca
from tests import factories as make
from tests import requests
from tests.near import GROUP, MINE, OTHER, PLAIN, PREFIX, Asked, asked, written

# A name of an agent is longer than X.509's 64 characters whenever its cluster's is.
pytestmark = pytest.mark.filterwarnings("ignore:Attribute's length must be:UserWarning")

# ---------------------------------------------------------------- what a subject says


@pytest.mark.contract("H35", "K12")
@settings(max_examples=300, deadline=None)
@given(wanted=asked)
def test_a_subject_that_fits_says_one_name_and_nothing_else(wanted: Asked) -> None:
    try:
        request = ca.parse_request(written(wanted))
    except ValueError:
        return  # not taken at all
    if agent_names.identity_problems(request, cluster=MINE, signer=agent_names.SIGNER, usages=list(wanted.usages)):
        return
    assert agent_names.clusters_named(request) == (MINE,)
    assert agent_names.agent_name(request.common_name) == agent_names.AgentName(
        MINE, request.common_name.removeprefix(f"{GROUP}:")
    )
    assert set(request.organizations) - {agent_names.MANAGED_CLUSTERS} == {GROUP}
    assert not wanted.dns
    assert {oid for oid, _ in wanted.parts} == {NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME}


@pytest.mark.contract("D9", "H35")
@settings(max_examples=200, deadline=None)
@given(wanted=asked)
def test_the_memory_asks_about_every_name_that_a_certificate_would_speak_for(wanted: Asked) -> None:
    """Whatever groups the certificate gives, no cluster is among them that was not looked up."""
    try:
        request = ca.parse_request(written(wanted))
    except ValueError:
        return
    named = agent_names.clusters_named(request)
    for cluster in (MINE, OTHER):
        powerful = {agent_names.group_of(cluster), f"open-cluster-management:{cluster}"}
        if powerful & set(request.organizations) or request.common_name == f"{agent_names.group_of(cluster)}:agent":
            assert cluster in named


# ---------------------------------------------------------------- the whole way


@pytest.fixture
def first_start(db: None, tmp_path: Path, settings: Any) -> None:
    """Two clusters are in; the policy trusts bearers of one token."""
    settings.OCMCONSOLE_HOME = tmp_path
    settings.OCMCONSOLE_AUTO_APPROVED_USERS = [requests.BOOTSTRAP.user]
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "ManagedClusterAutoApproval": True}
    ca.ensure_authority(tmp_path, ["localhost"])
    defaults.ensure_defaults(Actor.controller("test"))
    hub_setup._ensure_registration_objects()
    for name in (MINE, OTHER):
        make.cluster(name, accepted=True)
    make.settle()


def _issued(wanted: Asked, by: Actor) -> Actor | None:
    """Whom the certificate speaks for that the hub gives without a person; None when it gives none."""
    spec = {
        "signerName": agent_names.SIGNER,
        "usages": list(wanted.usages),
        "request": base64.b64encode(written(wanted)).decode(),
    }
    labels = {agent_names.CLUSTER_LABEL: wanted.label}
    doc = {"metadata": {"generateName": "near-", "labels": labels}, "spec": spec}
    try:
        name = make.create(CSR, doc, by=by)["metadata"]["name"]
    except errors.ApiError as error:
        if error.code not in {403, 422}:
            raise
        return None
    make.settle()
    row = CertificateSigningRequest.objects.get(name=name)
    if row.state != "Issued":
        assert row.state in {"Pending", "Denied"}
        return None
    return _speaks_for(certificate_pem(row.doc))


def _speaks_for(pem: bytes) -> Actor:
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    return client_certificates.actor_of_certificate(der)


def _clusters_of(actor: Actor) -> set[str]:
    """As RBAC sees it: by group, by group of the plain prefix, by name."""
    groups = {group for group in actor.groups if "open-cluster-management:" in group} - {agent_names.MANAGED_CLUSTERS}
    found = {group.rpartition("open-cluster-management:")[2] for group in groups}
    return found | {actor.user.removeprefix(PREFIX).partition(":")[0]}


@pytest.mark.contract("H35", "H36", "W24", "K12")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=asked)
@example(wanted=Asked(PLAIN))
@example(
    wanted=Asked(((NameOID.ORGANIZATION_NAME, agent_names.group_of(OTHER)), (NameOID.COMMON_NAME, f"{GROUP}:agent")))
)
@example(wanted=Asked((*PLAIN, (NameOID.ORGANIZATION_NAME, agent_names.group_of(OTHER)))))
@example(wanted=Asked((*PLAIN, (NameOID.COMMON_NAME, f"{agent_names.group_of(OTHER)}:agent"))))
@example(wanted=Asked(((NameOID.COMMON_NAME, f"{agent_names.group_of(OTHER)}:agent"), *PLAIN)))
@example(wanted=Asked(PLAIN, together=True))
@example(wanted=Asked(PLAIN, form=_ASN1Type.BMPString))
@example(wanted=Asked(((NameOID.ORGANIZATION_NAME, GROUP), (NameOID.COMMON_NAME, f"{GROUP}:agent\x00"))))
def test_the_agent_of_a_cluster_gets_no_certificate_but_its_own(first_start: None, wanted: Asked) -> None:
    agent = requests.agent(MINE)
    given_to = _issued(wanted, agent)
    if given_to is not None:
        assert given_to.user == agent.user
        assert set(given_to.groups) <= {GROUP, agent_names.MANAGED_CLUSTERS}


@pytest.mark.contract("H35", "H36", "W24")
def test_its_own_it_does_get(first_start: None) -> None:
    """Else the property above would hold for a hub that issues nothing."""
    given_to = _issued(Asked(PLAIN), requests.agent(MINE))
    assert given_to is not None
    assert (given_to.user, given_to.groups) == (f"{GROUP}:agent", (GROUP,))


def _forget_keys() -> None:
    """A line is begun with a key and kept as long: both go."""
    AcceptedKey.objects.all().delete()
    KeyLine.objects.all().delete()


@pytest.mark.contract("H35", "H37", "D9", "K12")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=asked)
@example(wanted=Asked(PLAIN))
@example(
    wanted=Asked(((NameOID.ORGANIZATION_NAME, agent_names.group_of(OTHER)), (NameOID.COMMON_NAME, f"{GROUP}:agent")))
)
def test_a_listed_user_gets_a_certificate_for_the_labelled_name_only_and_never_for_a_known_one(
    first_start: None, wanted: Asked
) -> None:
    _forget_keys()
    AcceptedKey.objects.create(
        cluster=OTHER, fingerprint="SHA256:other", key="x", how="accept", accepted_at="2026-01-01T00:00:00Z"
    )
    given_to = _issued(wanted, replace(requests.BOOTSTRAP, credential="bootstrap:abcdef"))
    if given_to is not None:
        assert wanted.label == MINE
        assert _clusters_of(given_to) == {MINE}
        assert set(given_to.groups) <= {GROUP, agent_names.MANAGED_CLUSTERS}


@pytest.mark.contract("D9", "W24", "W23")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=asked)
def test_what_a_person_approves_is_signed_exactly_or_not_at_all(first_start: None, wanted: Asked) -> None:
    """And never for a name that is known under another key, in whatever part of the subject it hides."""
    from registration.reconcilers import add_decision

    _forget_keys()
    AcceptedKey.objects.create(
        cluster=OTHER, fingerprint="SHA256:other", key="x", how="accept", accepted_at="2026-01-01T00:00:00Z"
    )
    doc = requests.document("x", written(wanted), cluster=wanted.label, usages=list(wanted.usages))
    doc["metadata"] = {"generateName": "near-", "labels": doc["metadata"]["labels"]}
    try:
        name = make.create(CSR, doc)["metadata"]["name"]
        make.edit(CSR, name, lambda doc: add_decision(doc, "Approved", "Test", ""), subresource="approval")
    except errors.ApiError as error:
        if error.code not in {403, 422}:
            raise
        return
    make.settle()
    row = CertificateSigningRequest.objects.get(name=name)
    if row.state != "Issued":
        assert row.state == "Failed"
        return
    request = ca.parse_request(written(wanted))
    speaks = _speaks_for(certificate_pem(row.doc))
    assert (speaks.user, speaks.groups) == (request.common_name, request.organizations)
    assert not {agent_names.group_of(OTHER), f"open-cluster-management:{OTHER}"} & set(speaks.groups)
    assert not speaks.user.startswith(f"{agent_names.group_of(OTHER)}:") or agent_names.agent_name(speaks.user) is None
