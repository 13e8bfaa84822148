"""Certificate requests: what is approved without a person, what is signed, what is forgotten: H34 to H38, W23 to W25."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec
from django.contrib.auth import get_user_model
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from registration import queries, reconcilers
from registration.approvals import services
from registration.evidence import assessment
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import certificate_pem
from registration.models import AcceptedKey, CertificateSigningRequest
from registration.pki import agent_names, ca
from tests import factories as make
from tests import requests

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> Path:
    make.hub(tmp_path, settings)
    return tmp_path


def approve(name: str, *, by: Actor = make.ADMIN) -> None:
    verbs.edit(
        by,
        CSR,
        Key("", name),
        lambda doc: reconcilers.add_decision(doc, "Approved", "Test", ""),
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


@pytest.mark.contract("H36", "D9")
def test_a_renewal_adds_its_key_to_the_memory_of_the_name() -> None:
    agent = joined()
    requests.ask("c1-a", requests.agent_pem("c1"), cluster="c1")
    approve("c1-a")
    requests.ask("c1-b", requests.agent_pem("c1"), cluster="c1", by=agent)
    make.settle()
    kept = AcceptedKey.objects.order_by("pk").values_list("cluster", "how", "accepted_by", "request")
    assert list(kept) == [
        ("c1", "accept", "root", "c1-a"),
        ("c1", "renewal", "system:ocmconsole:registration", "c1-b"),
    ]


@pytest.mark.contract("H36", "D9")
@pytest.mark.parametrize("by", ["token", "impersonation"])
def test_a_renewal_without_the_certificate_waits_and_is_barred(by: str) -> None:
    agent = joined()
    requests.ask("c1-a", requests.agent_pem("c1"), cluster="c1")
    approve("c1-a")
    fake = replace(agent, credential="jwt:x") if by == "token" else replace(agent, impersonator="ana")
    requests.ask("c1-b", requests.agent_pem("c1"), cluster="c1", by=fake)
    make.settle()
    assert requests.state("c1-b") == "Pending"
    with pytest.raises(errors.Forbidden, match="was never accepted for it"):
        approve("c1-b")


@pytest.mark.contract("H36", "D5", "D9", "G14")
def test_a_renewal_that_waits_needs_no_word_of_a_person() -> None:
    """Its certificate vouches for the key; only the right to renew was missing."""
    agent = joined()
    requests.ask("c1-a", requests.agent_pem("c1"), cluster="c1")
    approve("c1-a")
    make.accept("c1", accepts=False)
    make.settle()
    requests.ask("c1-b", requests.agent_pem("c1"), cluster="c1", by=_may_ask(agent))
    make.settle()
    assert requests.state("c1-b") == "Pending"
    assert assessment.evidence_of("c1").waiting[0].history is assessment.KeyHistory.RENEWAL
    approve("c1-b")
    assert requests.state("c1-b") == "Issued"
    assert AcceptedKey.objects.get(request="c1-b").how == AcceptedKey.How.RENEWAL


@pytest.mark.contract("D9")
def test_a_hub_that_is_upgraded_remembers_the_keys_of_its_stored_requests() -> None:
    from importlib import import_module

    from django.apps import apps

    requests.ask("c1-a", requests.agent_pem("c1"), cluster="c1")
    approve("c1-a")
    requests.ask("c2-a", requests.agent_pem("c2"), cluster="c2")
    AcceptedKey.objects.all().delete()
    for _ in range(2):
        import_module("registration.migrations.0003_keys_of_stored_requests").remember(apps, None)
    kept = AcceptedKey.objects.get()
    assert (kept.cluster, kept.fingerprint) == ("c1", requests.row("c1-a").key_fingerprint)
    assert (kept.how, kept.request) == (AcceptedKey.How.UPGRADE, "c1-a")


@pytest.mark.contract("D9")
def test_two_who_approve_two_keys_at_once_do_not_both_succeed() -> None:
    """Each has looked before the other wrote; the memory is asked again under the lock."""
    for name, credential in (("c1-a", "bootstrap:a"), ("c1-b", "bootstrap:b")):
        requests.ask(
            name, requests.agent_pem("c1"), cluster="c1", by=replace(requests.BOOTSTRAP, credential=credential)
        )

    def add(doc: Any) -> None:
        reconcilers.add_decision(doc, "Approved", "Test", "")

    batch = verbs.Batch(make.ADMIN)
    for name in ("c1-a", "c1-b"):
        batch.edit(CSR, Key("", name), add, subresource="approval")
    with pytest.raises(errors.Forbidden, match="was never accepted for it"):
        batch.commit()
    assert [requests.state(name) for name in ("c1-a", "c1-b")] == ["Pending", "Pending"]
    assert not AcceptedKey.objects.exists()


@pytest.mark.contract("H34")
@pytest.mark.parametrize("what", ["signer", "label", "add-on"])
def test_what_is_no_agents_request_is_not_looked_at(what: str) -> None:
    agent = joined()
    doc = requests.document("c1-x", requests.agent_pem("c1"), cluster="c1")
    if what == "signer":
        doc["spec"]["signerName"] = "open-cluster-management.io/grpc"
    elif what == "label":
        doc["metadata"]["labels"] = {}
    else:
        doc["metadata"]["labels"][agent_names.ADDON_LABEL] = "work-manager"
    make.create(CSR, doc, by=agent)
    make.settle()
    assert requests.state("c1-x") == "Pending"


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
    group = agent_names.group_of("c1")
    request = requests.pem(f"{group}:agent", [group, agent_names.MANAGED_CLUSTERS], dns=["hub.example.com"])
    requests.ask("c1-f", request, cluster="c1", by=agent)
    make.settle()
    assert requests.state("c1-f") == "Pending"


GROUP = agent_names.group_of("c1")
NEAR = [
    ("c1", f"{GROUP}:a:b", [GROUP]),
    ("c1", f"{GROUP}:", [GROUP]),
    ("c1", GROUP, [GROUP]),
    ("c1", f"{GROUP} :a", [GROUP]),
    ("c1", f"{GROUP.upper()}:a", [GROUP]),
    ("c1", f"{agent_names.USER_PREFIX}c11:a", [GROUP]),
    ("c1", f"{agent_names.USER_PREFIX}\u04411:a", [GROUP]),
    ("c1", f"{GROUP}:a", [agent_names.group_of("c11")]),
    ("c1", f"{GROUP}:a", [GROUP, agent_names.group_of("c2")]),
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
    groups = (GROUP, agent_names.MANAGED_CLUSTERS, "system:authenticated")
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
    problems = agent_names.identity_problems(fitting, cluster=other, signer=agent_names.SIGNER, usages=requests.USAGES)
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
    assert made.organizations == (GROUP, agent_names.MANAGED_CLUSTERS)
    assert timedelta(minutes=4) < now - made.not_before < timedelta(minutes=6)
    assert timedelta(hours=23) < made.not_after - now <= timedelta(hours=24)


@pytest.mark.contract("G25")
def test_an_agents_certificate_never_lasts_less_than_half_an_hour() -> None:
    requests.ask("c1-j", requests.agent_pem("c1"), cluster="c1", expirationSeconds=600)
    approve("c1-j")
    assert certificate("c1-j").not_after - datetime.now(UTC) > timedelta(minutes=29)


@pytest.mark.contract("G25", "W24")
def test_a_setting_lets_an_agents_certificate_last_as_short_as_it_asks_for(settings: Any) -> None:
    settings.OCMCONSOLE_CERT_SHORTEST_LIFETIME = timedelta(minutes=10)
    requests.ask("c1-j", requests.agent_pem("c1"), cluster="c1", expirationSeconds=600)
    approve("c1-j")
    assert certificate("c1-j").not_after - datetime.now(UTC) <= timedelta(minutes=10)


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


@pytest.mark.contract("W24", "K12")
@pytest.mark.parametrize("kind", ["ECDSA secp256k1", "DSA 2048"])
def test_weak_keys_are_not_signed(kind: str) -> None:
    makers: dict[str, Callable[[], Any]] = {
        "ECDSA secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
        "DSA 2048": lambda: dsa.generate_private_key(2048),
    }
    requests.ask("c1-w", requests.pem(f"{GROUP}:agent", [GROUP], key=makers[kind]()), cluster="c1")
    approve("c1-w")
    assert requests.state("c1-w") == "Failed"
    failed = requests.row("c1-w").doc["status"]["conditions"][-1]
    assert failed["message"] == f"a key of type {kind} is not signed"


@pytest.mark.contract("W24")
def test_server_usages_are_not_signed() -> None:
    requests.ask("web", requests.pem("web", []), cluster="", by=make.ADMIN, usages=["server auth"])
    approve("web")
    assert requests.state("web") == "Failed"


@pytest.mark.contract("W24")
def test_system_masters_is_refused_when_it_is_created() -> None:
    with pytest.raises(errors.Forbidden, match="system:masters"):
        requests.ask("root", requests.pem("root", ["system:masters"]), cluster="", by=make.ADMIN)
    assert not CertificateSigningRequest.objects.exists()


def test_a_second_look_at_every_request_writes_nothing() -> None:
    agent = joined()
    requests.ask("c1-m", requests.agent_pem("c1"), cluster="c1")
    requests.ask("c1-n", requests.agent_pem("c1"), cluster="c1", by=agent)
    make.settle()
    for name in ("c1-m", "c1-n"):
        for look in (
            reconcilers.reconcile_request_refusal,
            reconcilers.reconcile_request_approval,
            reconcilers.reconcile_request_signing,
            reconcilers.reconcile_superseded_requests,
        ):
            assert make.writes_of(look, Key("", name)) == []


# ---------------------------------------------------------------- collection


@pytest.mark.contract("K36", "W25")
def test_a_decision_can_be_read_for_an_hour_even_when_its_certificate_ends_sooner(settings: Any) -> None:
    settings.OCMCONSOLE_CERT_LIFETIME = timedelta(minutes=30)
    requests.ask("short", requests.agent_pem("c1"), cluster="c1")
    approve("short")
    now = timezone.now()
    assert reconcilers.collect_requests(now + timedelta(minutes=45)) == 0
    assert reconcilers.collect_requests(now + timedelta(minutes=61)) == 1


FIRST = replace(requests.BOOTSTRAP, credential="bootstrap:abcdef", address="203.0.113.7")


@pytest.mark.contract("K11", "D13")
def test_of_what_one_asker_wants_for_one_name_the_newest_waits() -> None:
    for number in range(12):
        requests.ask(f"c1-{number:02}", requests.agent_pem("c1"), cluster="c1", by=FIRST)
    make.settle()
    assert list(CertificateSigningRequest.objects.values_list("name", flat=True)) == ["c1-11"]
    assert AuditEvent.objects.filter(act="certificatesigningrequest:supersede", name="c1").count() == 11
    created = AuditEvent.objects.filter(act="certificatesigningrequest:create", name__startswith="c1-")
    assert created.count() == 12  # their evidence stays
    assert CertificateSigningRequest.objects.filter(cluster="c1").count() == 1
    assert "The newest of 12 keys counts" in [fact.title for fact in assessment.evidence_of("c1").checked]


@pytest.mark.contract("K11", "K7", "D13")
@pytest.mark.parametrize(
    "other",
    [
        replace(FIRST, credential="bootstrap:zzzzzz", user="system:bootstrap:zzzzzz"),
        replace(FIRST, address="203.0.113.8"),
    ],
    ids=["credential", "address"],
)
def test_another_asker_supersedes_nothing(other: Actor) -> None:
    requests.ask("c1-a", requests.agent_pem("c1"), cluster="c1", by=FIRST)
    requests.ask("c1-b", requests.agent_pem("c1"), cluster="c1", by=other)
    make.settle()
    assert CertificateSigningRequest.objects.count() == 2


@pytest.mark.contract("K11", "G2")
def test_what_is_decided_gives_way_to_nothing_and_a_restarted_agent_may_have_another_name() -> None:
    """Until it has a certificate an agent makes up a name at each start (G2), so the name tells no askers apart."""
    requests.ask("c1-a", requests.agent_pem("c1"), cluster="c1", by=FIRST)
    approve("c1-a")
    requests.ask("c1-b", requests.agent_pem("c1", "second"), cluster="c1", by=FIRST)
    requests.ask("c1-c", requests.agent_pem("c1"), cluster="c1", by=FIRST)
    make.settle()
    assert set(CertificateSigningRequest.objects.values_list("name", flat=True)) == {"c1-a", "c1-c"}
    assert make.writes_of(reconcilers.reconcile_superseded_requests, Key("", "c1-c")) == []


@pytest.mark.contract("K11", "K7", "D13")
@pytest.mark.parametrize("through", ["console", "kubectl"])
def test_approving_one_closes_the_older_requests_of_the_same_credential_and_no_others(through: str) -> None:
    """Also from another address: what a pod asked on the node where it ran before."""
    elsewhere = replace(FIRST, address="203.0.113.99")
    stranger = replace(FIRST, credential="bootstrap:zzzzzz", user="system:bootstrap:zzzzzz")
    make.cluster("c1")
    requests.ask("c1-old", requests.agent_pem("c1", "a1"), cluster="c1", by=elsewhere)
    requests.ask("c1-other", requests.agent_pem("c1", "b1"), cluster="c1", by=stranger)
    requests.ask("c1-right", requests.agent_pem("c1", "a2"), cluster="c1", by=FIRST)
    make.settle()
    assert {requests.state(name) for name in ("c1-old", "c1-other", "c1-right")} == {"Pending"}
    if through == "console":
        key = requests.row("c1-right").key_fingerprint
        services.accept_cluster(make.ADMIN, "c1", override=services.Override(key, "I compared it"))
    else:
        make.accept("c1")
        approve("c1-right")
    make.settle()
    assert set(CertificateSigningRequest.objects.values_list("name", flat=True)) == {"c1-other", "c1-right"}
    note = AuditEvent.objects.get(act="certificatesigningrequest:supersede", name="c1")
    assert "c1-old with the key" in note.reason
    assert [asked.name for asked in assessment.evidence_of("c1").waiting] == ["c1-other"]


@pytest.mark.contract("K11", "D9")
def test_inbox_page_and_list_agree_on_what_gave_way_before_a_reconciler_has_looked() -> None:
    for number, agent_name in enumerate(("a1", "a2", "a3")):
        requests.ask(f"c1-{number}", requests.agent_pem("c1", agent_name), cluster="c1", by=FIRST)

    def seen() -> tuple[list[str], int, str]:
        found = assessment.evidence_of("c1")
        return [asked.name for asked in found.waiting], found.superseded, found.why

    before = seen()
    assert before == (["c1-2"], 2, "The newest of 3 keys counts")
    assert [row.name for row in queries.waiting_requests("c1")] == ["c1-2"]
    make.settle()
    assert seen() == before
    assert CertificateSigningRequest.objects.count() == 1


@pytest.mark.contract("K11", "G22")
def test_the_evidence_says_when_an_agent_can_ask_no_more() -> None:
    for number in range(10):
        requests.ask(f"c1-{number}", requests.agent_pem("c1", f"a{number}"), cluster="c1", by=FIRST)
    assert "There are 10 requests for this name" in [fact.title for fact in assessment.evidence_of("c1").checked]


@pytest.mark.contract("W25")
def test_requests_are_forgotten_when_nobody_needs_them() -> None:
    now = timezone.now()
    for name in ("waits", "decided", "fresh"):
        requests.ask(name, requests.agent_pem(name), cluster=name)
    approve("decided")
    assert reconcilers.collect_requests(now) == 0
    assert reconcilers.collect_requests(now + timedelta(hours=1, minutes=1)) == 1
    assert not CertificateSigningRequest.objects.filter(name="decided").exists()
    assert reconcilers.collect_requests(now + timedelta(hours=24, minutes=1)) == 2
