"""Certificate requests: what is approved without a person, what is signed, what is forgotten (ocm.md 3.9, W23 to W25)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocmconsole.corekinds import defaults
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from registration import ca, controllers, foundation, identity
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import certificate_pem
from registration.models import CertificateSigningRequest
from tests import factories as make
from tests import requests

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> Path:
    settings.OCMCONSOLE_HOME = tmp_path
    ca.ensure(tmp_path, ["localhost"])
    defaults.ensure(Actor.controller("test"))
    foundation._ensure_registration_objects()
    return tmp_path


def approve(name: str, *, by: Actor = make.ADMIN) -> None:
    verbs.edit(
        by,
        CSR,
        Key("", name),
        lambda doc: controllers.add_decision(doc, "Approved", "Test", ""),
        subresource="approval",
    )
    make.settle()


def certificate(name: str) -> ca.Certificate:
    return ca.parse_certificate(certificate_pem(requests.row(name).doc))


def joined(cluster: str = "c1") -> Actor:
    """An accepted cluster; its agent."""
    make.cluster(cluster, accepted=True)
    make.settle()
    return requests.agent(cluster)


# ---------------------------------------------------------------- approval


@pytest.mark.contract("H35", "G14")
def test_a_bootstrap_request_waits_for_a_person() -> None:
    make.cluster("c1", by=requests.BOOTSTRAP)
    requests.ask("c1-a", requests.agent_pem("c1"), cluster="c1")
    make.settle()
    assert requests.state("c1-a") == "Pending"


@pytest.mark.contract("H36", "H38", "G25")
def test_an_agent_renews_its_own_name_without_a_person() -> None:
    agent = joined()
    requests.ask("c1-b", requests.agent_pem("c1"), cluster="c1", by=agent)
    make.settle()
    assert requests.state("c1-b") == "Issued"
    condition = requests.row("c1-b").doc["status"]["conditions"][0]
    assert condition["reason"] == "AutoApprovedByHubCSRApprovingController"
    assert condition["message"] == "Auto approving Managed cluster agent certificate after SubjectAccessReview."


@pytest.mark.contract("H36")
def test_an_agent_cannot_renew_another_agents_name() -> None:
    agent = joined()
    requests.ask("c1-c", requests.agent_pem("c1", "other"), cluster="c1", by=agent)
    make.settle()
    assert requests.state("c1-c") == "Pending"


@pytest.mark.contract("H36")
def test_an_agent_cannot_renew_another_clusters_name() -> None:
    agent = joined("c1")
    joined("c2")
    requests.ask("c2-x", requests.agent_pem("c2"), cluster="c2", by=agent)
    make.settle()
    assert requests.state("c2-x") == "Pending"


@pytest.mark.contract("H7", "H36", "H8")
def test_a_disconnected_agent_renews_once_it_is_accepted_again() -> None:
    agent = joined()
    make.accept("c1", accepts=False)
    make.settle()
    requests.ask("c1-d", requests.agent_pem("c1"), cluster="c1", by=_may_ask(agent))
    make.settle()
    assert requests.state("c1-d") == "Pending"
    make.accept("c1")
    make.settle()
    assert requests.state("c1-d") == "Issued"


@pytest.mark.contract("K12")
@pytest.mark.parametrize(
    "spec",
    [
        {"usages": ["digital signature", "key encipherment", "server auth", "client auth"]},
        {"usages": ["digital signature"]},
    ],
    ids=["more usages", "no client auth"],
)
def test_a_renewal_with_other_usages_waits_for_a_person(spec: dict[str, Any]) -> None:
    agent = joined()
    requests.ask("c1-e", requests.agent_pem("c1"), cluster="c1", by=agent, **spec)
    make.settle()
    assert requests.state("c1-e") == "Pending"


@pytest.mark.contract("K12")
def test_a_renewal_with_alternative_names_waits_for_a_person() -> None:
    agent = joined()
    group = identity.group_of("c1")
    request = requests.pem(f"{group}:agent", [group, identity.MANAGED_CLUSTERS], dns=["hub.example.com"])
    requests.ask("c1-f", request, cluster="c1", by=agent)
    make.settle()
    assert requests.state("c1-f") == "Pending"


GROUP = identity.group_of("c1")
NEAR = [
    ("c1", f"{GROUP}:a:b", [GROUP]),
    ("c1", f"{GROUP}:", [GROUP]),
    ("c1", GROUP, [GROUP]),
    ("c1", f"{GROUP} :a", [GROUP]),
    ("c1", f"{GROUP.upper()}:a", [GROUP]),
    ("c1", f"{identity.USER_PREFIX}c11:a", [GROUP]),
    ("c1", f"{identity.USER_PREFIX}\u04411:a", [GROUP]),
    ("c1", f"{GROUP}:a", [identity.group_of("c11")]),
    ("c1", f"{GROUP}:a", [GROUP, identity.group_of("c2")]),
    ("c1", f"{GROUP}:a", [GROUP, GROUP]),
    ("c1", f"{GROUP}:a", [GROUP, "open-cluster-management:c2"]),
    ("c1", f"{GROUP}:a", []),
    ("c2", f"{GROUP}:a", [GROUP]),
]


@pytest.mark.contract("H35", "W24")
@pytest.mark.parametrize("case", NEAR, ids=[f"{cn}|{','.join(o)}|{label}" for label, cn, o in NEAR])
def test_a_near_name_is_never_approved_by_the_hub(case: tuple[str, str, list[str]]) -> None:
    label, common_name, organizations = case
    joined("c1")
    joined("c2")
    groups = (GROUP, identity.MANAGED_CLUSTERS, "system:authenticated")
    asker = Actor(user=common_name, groups=groups, credential="cert:of-somebody")
    requests.ask("near", requests.pem(common_name, organizations), cluster=label, by=_may_ask(asker))
    make.settle()
    assert requests.state("near") == "Pending"


def _may_ask(asker: Actor) -> Actor:
    """Near names may create requests here, so that only the identity decides."""
    return replace(asker, groups=(*asker.groups, "system:bootstrappers:managedcluster"))


@pytest.mark.contract("H35")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cluster=st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True), other=st.text(max_size=12))
def test_no_request_fits_two_clusters(cluster: str, other: str) -> None:
    fitting = ca.parse_request(requests.agent_pem(cluster))
    problems = identity.problems(fitting, cluster=other, signer=identity.SIGNER, usages=requests.USAGES)
    assert (problems == []) is (other == cluster)


@pytest.mark.contract("H37")
def test_listed_users_are_approved_only_with_the_gate(settings: Any) -> None:
    settings.OCMCONSOLE_AUTO_APPROVED_USERS = [requests.BOOTSTRAP.user]
    make.cluster("c1", by=requests.BOOTSTRAP)
    requests.ask("c1-g", requests.agent_pem("c1"), cluster="c1")
    make.settle()
    assert requests.state("c1-g") == "Pending"
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "ManagedClusterAutoApproval": True}
    requests.ask("c1-h", requests.agent_pem("c1"), cluster="c1")
    make.settle()
    assert requests.state("c1-h") == "Issued"


# ---------------------------------------------------------------- signing


@pytest.mark.contract("W24")
def test_the_certificate_copies_the_subject_and_is_back_dated() -> None:
    requests.ask("c1-i", requests.agent_pem("c1"), cluster="c1", expirationSeconds=86_400)
    approve("c1-i")
    made, now = certificate("c1-i"), datetime.now(UTC)
    assert made.common_name == f"{GROUP}:agent"
    assert made.organizations == (GROUP, identity.MANAGED_CLUSTERS)
    assert timedelta(minutes=4) < now - made.not_before < timedelta(minutes=6)
    assert timedelta(hours=23) < made.not_after - now <= timedelta(hours=24)


@pytest.mark.contract("G25")
def test_an_agents_certificate_never_lasts_less_than_half_an_hour() -> None:
    requests.ask("c1-j", requests.agent_pem("c1"), cluster="c1", expirationSeconds=600)
    approve("c1-j")
    assert certificate("c1-j").not_after - datetime.now(UTC) > timedelta(minutes=29)


@pytest.mark.contract("W24")
def test_a_request_cannot_outlive_the_hubs_longest_lifetime(settings: Any) -> None:
    settings.OCMCONSOLE_CERT_LIFETIME = timedelta(days=30)
    requests.ask("c1-k", requests.agent_pem("c1"), cluster="c1", expirationSeconds=2_000_000_000)
    approve("c1-k")
    assert certificate("c1-k").not_after <= datetime.now(UTC) + timedelta(days=30)


def test_with_an_external_signer_the_hub_only_approves(settings: Any) -> None:
    settings.OCMCONSOLE_CSR_SIGNER = "external"
    requests.ask("c1-l", requests.agent_pem("c1"), cluster="c1")
    approve("c1-l")
    assert requests.state("c1-l") == "Approved"


@pytest.mark.contract("W24")
def test_nobody_gets_a_certificate_with_a_persons_name() -> None:
    get_user_model().objects.create_user("ana")
    requests.ask("ana-1", requests.pem("ana", []), cluster="", by=make.ADMIN)
    approve("ana-1")
    assert requests.state("ana-1") == "Failed"


@pytest.mark.contract("W24")
def test_server_usages_are_not_signed() -> None:
    requests.ask("web", requests.pem("web", []), cluster="", by=make.ADMIN, usages=["server auth"])
    approve("web")
    assert requests.state("web") == "Failed"


@pytest.mark.contract("W24")
def test_system_masters_is_refused_at_the_door() -> None:
    with pytest.raises(errors.Forbidden, match="system:masters"):
        requests.ask("root", requests.pem("root", ["system:masters"]), cluster="", by=make.ADMIN)
    assert not CertificateSigningRequest.objects.exists()


def test_a_second_look_at_every_request_writes_nothing() -> None:
    agent = joined()
    requests.ask("c1-m", requests.agent_pem("c1"), cluster="c1")
    requests.ask("c1-n", requests.agent_pem("c1"), cluster="c1", by=agent)
    make.settle()
    for name in ("c1-m", "c1-n"):
        for look in (controllers.reconcile_request_approval, controllers.reconcile_request_signing):
            assert make.writes_of(look, Key("", name)) == []


# ---------------------------------------------------------------- collection


@pytest.mark.contract("W25")
def test_requests_are_forgotten_when_nobody_needs_them() -> None:
    now = timezone.now()
    for name in ("waits", "decided", "fresh"):
        requests.ask(name, requests.agent_pem(name), cluster=name)
    approve("decided")
    assert controllers.collect_requests(now) == 0
    assert controllers.collect_requests(now + timedelta(hours=1, minutes=1)) == 1
    assert not CertificateSigningRequest.objects.filter(name="decided").exists()
    assert controllers.collect_requests(now + timedelta(hours=24, minutes=1)) == 2
