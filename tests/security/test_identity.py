"""Ways to an identity that was not given: near names, other clusters' names, names that are known already."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterFacts
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from registration.admission import request_admission
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.pki import agent_names
from tests import factories as make
from tests.actors import ROOT
from tests.security.callers import CLUSTERS, REQUESTS, agent_of, bearer, request_for, signing_request

pytestmark = pytest.mark.usefixtures("fresh_hub")
GROUP = "system:open-cluster-management:c1"
FLEET = agent_names.MANAGED_CLUSTERS


def asks(name: str, common_name: str, organizations: list[str], cluster: str = "c1") -> str:
    """The cluster that a request with this subject speaks for."""
    doc = request_for(cluster, name)
    doc["spec"]["request"] = signing_request(common_name, organizations)
    return request_admission.cluster_of(doc)


@pytest.mark.contract("H35")
@pytest.mark.parametrize(
    ("common_name", "organizations"),
    [
        (f"{GROUP}:agent", [f"{GROUP}2"]),
        (f"{GROUP}:agent", [GROUP, "system:masters"]),
        (f"{GROUP}:agent", [GROUP, "system:open-cluster-management:c2"]),
        (f"{GROUP}:agent", [GROUP, GROUP]),
        (f"{GROUP}:agent", [FLEET]),
        (f"{GROUP}:agent", []),
        (f"{GROUP}:agent:admin", [GROUP]),
        (f"{GROUP}::agent", [GROUP]),
        (f"{GROUP}:", [GROUP]),
        (f"{GROUP}2:agent", [GROUP]),
        ("system:open-cluster-management:C1:agent", [GROUP]),
        ("system:open-cluster-management:\u04411:agent", ["system:open-cluster-management:\u04411"]),  # Cyrillic
        (f" {GROUP}:agent", [GROUP]),
        (f"{GROUP}:agent", [f"{GROUP} "]),
    ],
)
def test_a_near_name_speaks_for_nobody(common_name: str, organizations: list[str]) -> None:
    assert asks("near", common_name, organizations) == ""


@pytest.mark.contract("H35")
def test_the_exact_name_speaks_for_its_cluster() -> None:
    assert asks("exact", f"{GROUP}:agent", [GROUP, FLEET]) == "c1"


@pytest.mark.contract("H36", "K45")
def test_an_agent_renews_no_other_clusters_certificate() -> None:
    for name in ("c1", "c2"):
        make.cluster(name, accepted=True)
    make.settle()
    for number, doc in enumerate((request_for("c2", "foreign-0"), request_for("c2", "foreign-1", speaks_for="c1"))):
        assert agent_of("c1").post(REQUESTS, doc).code == 201
        make.settle()
        stored = verbs.find(CSR, Key("", f"foreign-{number}"))
        assert stored is not None
        assert not (stored.get("status") or {}).get("conditions")


@pytest.mark.contract("A4b")
def test_no_agent_accepts_itself_and_no_agent_leaves_its_set() -> None:
    make.cluster("c1", accepted=True), make.cluster("c2")
    make.settle()
    doc = agent_of("c1").get(f"{CLUSTERS}/c1").doc
    doc["metadata"]["labels"]["cluster.open-cluster-management.io/clusterset"] = "global"
    assert agent_of("c1").send("PUT", f"{CLUSTERS}/c1", doc).code == 403
    assert agent_of("c2").get(f"{CLUSTERS}/c2").code == 403
    assert agent_of("c1").get(f"{CLUSTERS}/c2").code == 403
    doc = make.stored("c2").doc | {"status": {}}
    doc["spec"]["hubAcceptsClient"] = True
    assert agent_of("c2").send("PUT", f"{CLUSTERS}/c2", doc).code == 403


@pytest.mark.contract("D18")
def test_the_name_whose_group_holds_every_agent_is_never_accepted() -> None:
    """Its role would be every agent's: an expelled one could renew with it."""
    with pytest.raises(errors.Invalid):
        make.cluster("managed-clusters", accepted=True)


def test_a_token_for_one_cluster_lets_no_other_request_to_join() -> None:
    boot = bearer(tokens.issue_bootstrap_token(ROOT, ttl=timedelta(hours=1), cluster="c1"))
    for name, code in (("c2", 403), ("c1", 201)):
        spec = {"hubAcceptsClient": False}
        assert boot.post(CLUSTERS, make.document(MANAGED_CLUSTER, name, spec=spec)).code == code
        assert boot.post(REQUESTS, request_for(name, f"{name}-1")).code == code
    assert boot.post(REQUESTS, request_for("c1", "c1-2", speaks_for="c2")).code == 403


@pytest.mark.contract("D9", "H37")
def test_no_policy_gives_a_known_name_to_a_new_key(settings: Any) -> None:
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "ManagedClusterAutoApproval": True}
    token = tokens.issue_bootstrap_token(ROOT, ttl=timedelta(hours=1))
    settings.OCMCONSOLE_AUTO_APPROVED_USERS = [f"system:bootstrap:{token.split('.')[0]}"]
    for number, code in ((0, True), (1, False)):
        assert bearer(token).post(REQUESTS, request_for("c1", f"c1-{number}")).code == 201
        make.settle()
        stored = verbs.find(CSR, Key("", f"c1-{number}"))
        assert stored is not None
        assert bool((stored.get("status") or {}).get("certificate")) is code
    assert ClusterFacts.objects.get(cluster="c1").certificate_fingerprint


def test_the_requester_is_who_sent_the_request_whatever_its_body_says() -> None:
    make.cluster("c1", accepted=True)
    make.settle()
    doc = request_for("c2", "liar")
    doc["spec"] |= {"username": "system:open-cluster-management:c2:agent1", "groups": ["system:masters"], "uid": "u"}
    doc["status"] = {
        "conditions": [{"type": "Approved", "status": "True"}],
        "certificate": base64.b64encode(b"x").decode(),
    }
    stored = agent_of("c1").post(REQUESTS, doc).doc
    assert stored["spec"]["username"] == "system:open-cluster-management:c1:agent1"
    assert "system:masters" not in stored["spec"]["groups"]
    assert not stored.get("status")
