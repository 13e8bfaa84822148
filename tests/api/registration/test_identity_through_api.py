"""The same promise through the API, with the certificate that the hub has given: nobody gets another's name."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from django.test import Client
from hypothesis import HealthCheck, example, given, settings

from clusters.kinds import ACCEPT_KEY, MANAGED_CLUSTER
from ocmconsole.core import defaults
from ocmconsole.kubeapi.access.actor import Actor
from registration import hub_setup
from registration.admission.decisions import AUTO_ACCEPTED
from registration.keys import client_certificates
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import certificate_pem
from registration.pki import agent_names, ca
from registration.reconcilers import add_decision
from tests import factories as make
from tests import requests
from tests.near import GROUP, MINE, OTHER, PLAIN, Asked, asked, written

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("ignore:Attribute's length must be:UserWarning")]

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MERGE = "application/merge-patch+json"
KEY = "SHA256:" + "a" * 64


@pytest.fixture
def agent(tmp_path: Path, settings: Any) -> Client:
    """Of an accepted cluster, with the certificate that its first request was given."""
    settings.OCMCONSOLE_HOME = tmp_path
    ca.ensure_authority(tmp_path, ["localhost"])
    defaults.ensure_defaults(Actor.controller("test"))
    hub_setup._ensure_registration_objects()
    for name in (MINE, OTHER):
        make.cluster(name, accepted=True)
        requests.ask(f"{name}-first", requests.agent_pem(name), cluster=name)
        make.edit(CSR, f"{name}-first", lambda doc: add_decision(doc, "Approved", "x", ""), subresource="approval")
    make.settle()
    leaf = x509.load_pem_x509_certificate(certificate_pem(requests.row(f"{MINE}-first").doc))
    environ: Any = {"ocmconsole.listener": "api", "ocmconsole.peer_certificate": leaf.public_bytes(Encoding.DER)}
    return Client(**environ)


@pytest.mark.contract("H35", "H36", "W24", "K12", "K45")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=asked)
@example(wanted=Asked(PLAIN))
@example(wanted=Asked(((NameOID.ORGANIZATION_NAME, agent_names.group_of(OTHER)), *PLAIN)))
def test_an_agent_gets_its_own_name_or_nothing(agent: Client, wanted: Asked) -> None:
    doc = requests.document("x", written(wanted), cluster=wanted.label, usages=list(wanted.usages))
    doc["metadata"] = {"generateName": "near-", "labels": doc["metadata"]["labels"]}
    answer = agent.post(REQUESTS, json.dumps(doc), content_type="application/json")
    if answer.status_code != 201:
        assert answer.status_code in {403, 422}, answer.content
        return
    make.settle()
    stored = agent.get(f"{REQUESTS}/{answer.json()['metadata']['name']}").json()
    if "certificate" not in stored["status"]:
        return
    pem = base64.b64decode(stored["status"]["certificate"])
    actor = client_certificates.actor_of_certificate(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER))
    assert actor.user == f"{GROUP}:agent"
    assert set(actor.groups) <= {GROUP, agent_names.MANAGED_CLUSTERS}


@pytest.mark.contract("D9", "H9", "H14", "A4b")
@pytest.mark.parametrize("annotation", [ACCEPT_KEY, AUTO_ACCEPTED])
@pytest.mark.parametrize("by", ["patch", "put"])
def test_an_agent_cannot_vouch_for_itself(agent: Client, annotation: str, by: str) -> None:
    path = f"{CLUSTERS}/{MINE}"
    if by == "patch":
        body = json.dumps({"metadata": {"annotations": {annotation: KEY}}})
        refused = agent.patch(path, body, content_type=MERGE)
    else:
        doc = agent.get(path).json()
        doc["metadata"]["annotations"] = {annotation: KEY}
        refused = agent.put(path, json.dumps(doc), content_type="application/json")
    if refused.status_code == 403 and "cannot patch" in refused.json()["message"]:
        return  # H14: an agent may not even patch
    assert refused.status_code == 403
    assert f"cannot change the annotation {annotation}" in refused.json()["message"]


@pytest.mark.contract("D9", "H14")
@pytest.mark.parametrize("value", [None, "SHA256:" + "b" * 64])
def test_nor_take_back_or_change_what_a_person_vouched_for(agent: Client, value: str | None) -> None:
    make.edit(
        MANAGED_CLUSTER, MINE, lambda doc: doc["metadata"].setdefault("annotations", {}).update({ACCEPT_KEY: KEY})
    )
    doc = agent.get(f"{CLUSTERS}/{MINE}").json()
    doc["metadata"]["annotations"] = {ACCEPT_KEY: value} if value else {}
    refused = agent.put(f"{CLUSTERS}/{MINE}", json.dumps(doc), content_type="application/json")
    assert refused.status_code == 403
    assert "cannot change the annotation" in refused.json()["message"]
    doc["metadata"]["annotations"] = {ACCEPT_KEY: KEY, "agent.open-cluster-management.io/x": "y"}
    assert agent.put(f"{CLUSTERS}/{MINE}", json.dumps(doc), content_type="application/json").status_code == 200


@pytest.mark.contract("D9", "H2")
def test_a_bootstrap_agent_cannot_create_its_cluster_with_it(agent: Client) -> None:
    from ocmconsole.kubeapi import errors

    for annotation in (ACCEPT_KEY, AUTO_ACCEPTED):
        with pytest.raises(errors.Forbidden, match="cannot change the annotation"):
            make.cluster("c3", by=requests.BOOTSTRAP, annotations={annotation: KEY})


@pytest.mark.contract("D9")
@pytest.mark.parametrize("value", ["", "SHA256:", "SHA256:" + "A" * 64, "MD5:" + "a" * 32, KEY + "\n", f" {KEY}"])
def test_what_is_no_fingerprint_is_invalid(agent: Client, value: str) -> None:
    from ocmconsole.kubeapi import errors

    with pytest.raises(errors.Invalid, match="64 hexadecimal digits"):
        make.cluster("c3", annotations={ACCEPT_KEY: value})
