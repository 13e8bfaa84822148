"""What an agent, or somebody who has taken its key, tries so that one more key gets in under a known name (D9)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from clusters.kinds import ACCEPT_KEY, MANAGED_CLUSTER
from ocmconsole.core.kinds import CLUSTER_ROLE
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from registration.approvals import services
from registration.evidence import assessment
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import AcceptedKey, IssuedCertificate
from registration.pki import agent_names
from tests import factories as make
from tests import requests
from tests.actors import ROOT

if TYPE_CHECKING:
    from tests.factories import Doc

pytestmark = [pytest.mark.usefixtures("fresh_hub"), pytest.mark.contract("D9")]
KEY = ec.generate_private_key(ec.SECP256R1())


def known(name: str) -> IssuedCertificate:
    """A cluster that was let in with KEY."""
    make.cluster(name)
    requests.ask(f"{name}-1", agent_pem(name), cluster=name)
    services.accept_cluster(ROOT, name)
    make.settle()
    return IssuedCertificate.objects.get(cluster=name)


def agent_pem(name: str) -> bytes:
    group = agent_names.group_of(name)
    return requests.pem(f"{group}:agent", [group], key=KEY)


def approve(doc: Doc) -> None:
    doc.setdefault("status", {})["conditions"] = [{"type": "Approved", "status": "True", "reason": "ok", "message": ""}]


@pytest.mark.parametrize("prefix", [agent_names.USER_PREFIX, agent_names.PLAIN_PREFIX])
def test_the_certificate_of_one_cluster_vouches_for_no_key_of_another(prefix: str) -> None:
    known("a")
    known("b")
    group = agent_names.group_of("a")
    both = requests.pem(f"{group}:agent", [group, f"{prefix}b"])
    requests.ask("both", both, cluster="a", by=requests.agent("a"))
    make.settle()
    with pytest.raises(errors.Forbidden, match='the cluster "b" is known under other keys'):
        make.edit(CSR, "both", approve, subresource="approval")
    assert not AcceptedKey.objects.filter(request="both").exists()


def test_the_certificate_of_a_person_vouches_for_no_key_of_a_cluster() -> None:
    known("a")
    zoe = replace(requests.BOOTSTRAP, user="zoe", credential="cert:of-zoe")
    requests.ask("mine", requests.pem("zoe", [agent_names.group_of("a")]), cluster="a", by=zoe)
    with pytest.raises(errors.Forbidden, match="is known under other keys"):
        make.edit(CSR, "mine", approve, subresource="approval")


@pytest.mark.contract("W21")
def test_what_a_revoked_certificate_has_asked_for_is_no_renewal() -> None:
    issued = known("a")
    renewal = replace(requests.agent("a"), credential=f"cert:{issued.fingerprint}")
    role = "open-cluster-management:managedcluster:a"
    rules = verbs.get(ROOT, CLUSTER_ROLE, Key("", role))["rules"]
    make.edit(
        CLUSTER_ROLE, role, lambda doc: doc.update(rules=[each for each in rules if "renew" not in each["verbs"]])
    )
    requests.ask("next", requests.agent_pem("a"), cluster="a", by=renewal)
    make.settle()
    services.revoke_certificate(ROOT, issued.fingerprint, reason="stolen")
    make.edit(CLUSTER_ROLE, role, lambda doc: doc.update(rules=rules))
    make.settle()
    assert requests.state("next") == "Pending"
    assert assessment.evidence_of("a").verdict is assessment.Verdict.BLOCKED
    with pytest.raises(errors.Forbidden, match="is known under other keys"):
        services.accept_cluster(ROOT, "a")


@pytest.mark.contract("W21")
def test_the_word_for_a_key_ends_with_the_certificate_that_it_brought(settings: Any) -> None:
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "ManagedClusterAutoApproval": True}
    settings.OCMCONSOLE_AUTO_APPROVED_USERS = frozenset({requests.BOOTSTRAP.user})
    issued = known("a")
    word = {ACCEPT_KEY: issued.key_fingerprint}
    make.edit(MANAGED_CLUSTER, "a", lambda doc: doc["metadata"].setdefault("annotations", {}).update(word))
    services.revoke_certificate(ROOT, issued.fingerprint, reason="stolen")
    assert ACCEPT_KEY not in (make.stored("a").doc["metadata"].get("annotations") or {})
    requests.ask("again", agent_pem("a"), cluster="a")
    make.settle()
    assert requests.state("again") == "Pending"
    assert assessment.evidence_of("a").verdict is assessment.Verdict.BLOCKED
    with pytest.raises(errors.Forbidden, match="is known under other keys"):
        services.accept_cluster(ROOT, "a")


@pytest.mark.contract("W21")
def test_a_policy_gives_a_revoked_key_nothing_no_matter_who_speaks_for_it(settings: Any) -> None:
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "ManagedClusterAutoApproval": True}
    settings.OCMCONSOLE_AUTO_APPROVED_USERS = frozenset({requests.BOOTSTRAP.user})
    issued = known("a")
    services.revoke_certificate(ROOT, issued.fingerprint, reason="stolen")
    word = {ACCEPT_KEY: issued.key_fingerprint}
    make.edit(MANAGED_CLUSTER, "a", lambda doc: doc["metadata"].setdefault("annotations", {}).update(word))
    requests.ask("again", agent_pem("a"), cluster="a")
    make.settle()
    assert requests.state("again") == "Pending"
