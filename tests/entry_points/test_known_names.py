"""D9: a name that is known keeps its keys, whatever way somebody knocks at with another one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.kinds import ACCEPT_KEY, MANAGED_CLUSTER
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from registration.evidence import assessment
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import AcceptedKey, CertificateSigningRequest
from tests import factories as make
from tests.entry_points import rights, scene
from tests.entry_points.scene import Waiting
from tests.entry_points.ways import COMPLETE_WAYS, AdminForm, Api, Browser, Command, Page, Refused, Way
from tests.kept import kept

pytestmark = pytest.mark.django_db

HOW = AcceptedKey.How
BLOCKED = "Accept is blocked while the identity is contradictory"
REASON = "The administrator read the fingerprint out to me."


@kept
def known(name: str) -> Waiting:
    """Let in before; now it asks with another key."""
    first = scene.ask(name)
    Api().accept(person_with_all_rights(), first)
    make.settle()
    return scene.ask_again(Waiting(name, f"{name}-00002"))


def person_with_all_rights() -> Any:
    from django.contrib.auth import get_user_model

    found, _ = get_user_model().objects.get_or_create(username="root-of-tests", defaults={"is_superuser": True})
    return found


def key_of(waiting: Waiting) -> str:
    return str(CertificateSigningRequest.objects.get(name=waiting.request).key_fingerprint)


def keys(name: str) -> list[tuple[str, str]]:
    return list(AcceptedKey.objects.filter(cluster=name).order_by("accepted_at").values_list("fingerprint", "how"))


def annotate(user: Any, waiting: Waiting, key: str) -> None:
    Api().patch(user, waiting, {"metadata": {"annotations": {ACCEPT_KEY: key}}})


@pytest.fixture
def waiting(ana: Any) -> Waiting:
    waiting = known("site-one")
    rights.by_guardian(ana, waiting)
    return waiting


# ---------------------------------------------------------------- refused


@pytest.mark.contract("D9", "D13", "K7", "W23")
@pytest.mark.parametrize(
    "way", [way for name, way in COMPLETE_WAYS.items() if name != "page"], ids=["admin", "command"]
)
def test_a_new_key_is_refused_with_its_fingerprint_and_nothing_changes(ana: Any, waiting: Waiting, way: Way) -> None:
    before = scene.everything_but_audit()
    with pytest.raises(Refused) as refusal:
        way.accept(ana, waiting)
    assert f"annotate the ManagedCluster with {ACCEPT_KEY}: {key_of(waiting)}" in str(refusal.value)
    assert scene.everything_but_audit() == before
    denial = AuditEvent.objects.get(user="ana", outcome=AuditEvent.Outcome.DENIED)
    assert (denial.resource, denial.name) == (
        "certificatesigningrequests/approval.certificates.k8s.io",
        waiting.request,
    )


@pytest.mark.contract("D9", "D15", "W23")
def test_kubectl_certificate_approve_and_clusteradm_are_refused_so(ana: Any, waiting: Waiting) -> None:
    before = scene.rows_of(waiting, scene.records())
    with pytest.raises(Refused, match=f"{ACCEPT_KEY}: {key_of(waiting)}"):
        Api().decide(ana, waiting.request, "Approved")
    assert scene.rows_of(waiting, scene.records()) == before


@pytest.mark.contract("D9", "W23")
def test_one_who_may_approve_for_the_signer_is_held_to_it_too(ana: Any, waiting: Waiting) -> None:
    with pytest.raises(Refused, match="was never accepted for it"):
        Api().decide(person_with_all_rights(), waiting.request, "Approved")
    assert scene.state_of(waiting) == "Pending"


@pytest.mark.contract("D9")
def test_the_page_blocks_it_and_says_why(ana: Any, waiting: Waiting) -> None:
    shown = Browser(ana).open(f"/approvals/{waiting.name}/").text
    assert BLOCKED in shown
    assert "“site-one” is known, and not under this key" in shown
    assert assessment.KeyHistory.UNKNOWN in shown
    with pytest.raises(Refused):
        Page().accept(ana, waiting)


@pytest.mark.contract("D9")
def test_memory_outlives_request_and_cluster(ana: Any, waiting: Waiting) -> None:
    (first, _), *_ = keys("site-one")
    for name in ("site-one-00001", "site-one-00002"):
        verbs.delete(make.ADMIN, CSR, Key("", name))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "site-one"))
    for _ in range(3):
        make.settle()
    again = scene.ask("site-one")
    assert keys("site-one") == [(first, HOW.ACCEPT)]
    with pytest.raises(Refused, match=ACCEPT_KEY):
        Api().decide(person_with_all_rights(), again.request, "Approved")


# ---------------------------------------------------------------- let in on a person's word


@pytest.mark.contract("D9")
def test_the_annotation_lets_exactly_that_key_in(ana: Any, waiting: Waiting) -> None:
    annotate(ana, waiting, "SHA256:" + "0" * 64)
    with pytest.raises(Refused, match=ACCEPT_KEY):
        Api().decide(ana, waiting.request, "Approved")
    annotate(ana, waiting, key_of(waiting))
    Api().decide(ana, waiting.request, "Approved")
    make.settle()
    assert scene.state_of(waiting) == "Issued"
    assert [how for _, how in keys("site-one")] == [HOW.ACCEPT, HOW.OVERRIDE]


@pytest.mark.contract("D9")
@pytest.mark.parametrize("way", ["page", "command", "admin-form"])
def test_every_way_has_a_way_to_give_that_word(ana: Any, waiting: Waiting, way: str) -> None:
    key = key_of(waiting)
    if way == "page":
        browser = Browser(ana)
        form = browser.open(f"/approvals/{waiting.name}/").form(f"/approvals/{waiting.name}/override/")
        browser.send(form, accept_key=key, typed=waiting.name, reason=REASON)
    elif way == "command":
        Command()._call("accept", waiting.name, "--accept-key", key, "--reason", REASON, "--as", "ana")
    else:
        AdminForm().edit(
            ana, waiting, lambda doc: doc["metadata"].setdefault("annotations", {}).update({ACCEPT_KEY: key})
        )
        Command().accept(ana, waiting)
    make.settle()
    assert scene.state_of(waiting) == "Issued"
    kept = AcceptedKey.objects.get(cluster="site-one", fingerprint=key)
    assert (kept.how, kept.accepted_by, kept.request) == (HOW.OVERRIDE, "ana", waiting.request)
    assert kept.reason == ("" if way == "admin-form" else REASON)
    assert make.stored("site-one").doc["metadata"]["annotations"][ACCEPT_KEY] == key


@pytest.mark.contract("D9", "D11")
def test_the_audit_keeps_the_word(ana: Any, waiting: Waiting) -> None:
    Command()._call("accept", waiting.name, "--accept-key", key_of(waiting), "--reason", REASON, "--as", "ana")
    told = AuditEvent.objects.get(user="ana", act="managedcluster:accept-key")
    assert (told.name, told.reason) == ("site-one", f"{key_of(waiting)}: {REASON}")


@pytest.mark.contract("D9")
@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("typed", "site-on", "This is not the name of the cluster."),
        ("typed", "", "Type the name of the cluster."),
        ("reason", "  ", "Say how you know"),
        ("accept_key", "", "Choose the key"),
        ("accept_key", "MD5:00", "Enter a valid value"),
        ("reason", "a\0b", "Null characters are not allowed"),
    ],
)
def test_a_word_that_is_not_given_whole_does_nothing(
    ana: Any, waiting: Waiting, field: str, value: str, told: str
) -> None:
    browser = Browser(ana)
    form = browser.open(f"/approvals/{waiting.name}/").form(f"/approvals/{waiting.name}/override/")
    given = {"accept_key": key_of(waiting), "typed": waiting.name, "reason": REASON} | {field: value}
    before = scene.everything_but_audit()
    with pytest.raises(Refused, match=told):
        browser.send(form, **given)
    assert scene.everything_but_audit() == before


@pytest.mark.contract("D9")
@pytest.mark.parametrize(
    "arguments",
    [
        ("site-one", "--accept-key", "SHA256:" + "0" * 64),
        ("site-one", "--reason", "Because."),
        ("site-one", "site-two", "--accept-key", "SHA256:" + "0" * 64, "--reason", "Because."),
    ],
)
def test_the_command_wants_one_name_and_a_reason(ana: Any, waiting: Waiting, arguments: tuple[str, ...]) -> None:
    with pytest.raises(Refused, match="goes with one NAME and a --reason"):
        Command()._call("accept", *arguments, "--as", "ana")


@pytest.mark.contract("D9")
def test_a_word_for_a_key_that_does_not_wait_does_nothing(ana: Any, waiting: Waiting) -> None:
    before = scene.everything_but_audit()
    with pytest.raises(Refused, match="No fitting request for site-one waits with the key"):
        Command()._call("accept", "site-one", "--accept-key", "SHA256:" + "0" * 64, "--reason", REASON, "--as", "ana")
    assert scene.everything_but_audit() == before


@pytest.mark.contract("D9", "D2")
def test_the_word_needs_the_permission(ana: Any) -> None:
    waiting = known("site-one")
    rights.but_accept(ana, waiting)
    with pytest.raises(Refused, match=r"clusters\.accept_managedcluster"):
        Command()._call("accept", "site-one", "--accept-key", key_of(waiting), "--reason", REASON, "--as", "ana")
    with pytest.raises(Refused, match=f"cannot change the annotation {ACCEPT_KEY}"):
        annotate(ana, waiting, key_of(waiting))
    assert [how for _, how in keys("site-one")] == [HOW.ACCEPT]


# ---------------------------------------------------------------- parity, and who needs no word


@pytest.mark.contract("D9")
def test_a_setting_restores_what_upstream_does(ana: Any, waiting: Waiting, settings: Any) -> None:
    settings.OCMCONSOLE_ALLOW_REKEY = True
    assert assessment.evidence_of("site-one").verdict is assessment.Verdict.CHECK
    Page().accept(ana, waiting)
    make.settle()
    assert scene.state_of(waiting) == "Issued"
    assert len(keys("site-one")) == 2  # remembered all the same


@pytest.mark.contract("D9", "S5")
def test_the_first_key_of_a_name_needs_no_word_and_is_remembered(ana: Any) -> None:
    waiting = scene.ask("site-one")
    rights.by_guardian(ana, waiting)
    Page().accept(ana, waiting)
    kept = AcceptedKey.objects.get(cluster="site-one")
    assert (kept.fingerprint, kept.how, kept.accepted_by) == (key_of(waiting), HOW.ACCEPT, "ana")
    assert kept.key == "ECDSA P-256"


@pytest.mark.contract("D9")
def test_a_request_that_names_the_cluster_in_its_group_only_is_held_to_it(ana: Any, waiting: Waiting) -> None:
    """Nothing fits (H35), and a person with the right on the signer could still approve it."""
    from tests import requests

    for number, organizations in enumerate(
        (["system:open-cluster-management:site-one"], ["open-cluster-management:site-one"])
    ):
        requests.ask(f"sideways-{number}", requests.pem("somebody", organizations), cluster="", by=make.ADMIN)
        with pytest.raises(Refused, match=f"{ACCEPT_KEY}: SHA256:"):
            Api().decide(person_with_all_rights(), f"sideways-{number}", "Approved")


# ---------------------------------------------------------------- who is right


@pytest.mark.contract("K7", "D9")
def test_of_several_askers_a_person_chooses_one_by_its_key(ana: Any) -> None:
    waiting = scene.ask("site-one")
    rights.by_guardian(ana, waiting)
    other = scene.ask_again(Waiting("site-one", "site-one-00002"), by=Actor("mallory", groups=make.ADMIN.groups))
    with pytest.raises(Refused, match="Several requesters ask for site-one"):
        Command().accept(ana, waiting)
    Command()._call("accept", "site-one", "--accept-key", key_of(waiting), "--reason", REASON, "--as", "ana")
    make.settle()
    assert (scene.state_of(waiting), scene.state_of(other)) == ("Issued", "Pending")


@pytest.mark.contract("K7", "K11")
def test_one_credential_from_two_addresses_is_two_askers(ana: Any) -> None:
    from dataclasses import replace

    waiting = scene.ask("site-one")
    rights.by_guardian(ana, waiting)
    scene.ask_again(Waiting("site-one", "site-one-00002"), by=replace(make.ADMIN, address="203.0.113.9"))
    assert assessment.evidence_of("site-one").verdict is assessment.Verdict.BLOCKED
    before = scene.everything_but_audit()
    for way in COMPLETE_WAYS.values():
        with pytest.raises(Refused):
            way.accept(ana, waiting)
    assert scene.everything_but_audit() == before


@pytest.mark.contract("K7", "H35")
def test_a_request_that_does_not_fit_blocks_every_way_until_it_is_declined(ana: Any) -> None:
    waiting = scene.ask("site-one")
    rights.by_mastery(ana, waiting)
    scene.ask_again(Waiting("site-one", "site-one-00002"), speaks_for="site-two")
    for way in COMPLETE_WAYS.values():
        with pytest.raises(Refused):
            way.accept(ana, waiting)
    assert scene.state_of(waiting) == "Pending"
    Command().decline(ana, waiting, "One of them lies.")
    states = CertificateSigningRequest.objects.order_by("name").values_list("state", flat=True)
    assert list(states) == ["Denied", "Denied"]


@pytest.mark.contract("D9")
def test_a_refusal_is_a_status_that_clients_read(ana: Any, waiting: Waiting) -> None:
    from tests.entry_points.ways import REQUESTS, signed

    client = signed(ana)
    doc = client.get(f"{REQUESTS}/{waiting.request}").json()
    doc["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "x"}]}
    refused = client.put(f"{REQUESTS}/{waiting.request}/approval", json.dumps(doc), content_type="application/json")
    assert (refused.status_code, refused.json()["reason"]) == (403, "Forbidden")
