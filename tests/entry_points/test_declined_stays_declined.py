"""D10: what a person has declined stays so, for the key and for the credential, until a person lifts it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusters.models import ClusterFacts
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from registration import queries, reconcilers
from registration.approvals import services
from registration.evidence import assessment
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import conditions_of
from registration.models import Decline
from tests import factories as make
from tests import requests
from tests.entry_points import rights, scene
from tests.entry_points.scene import Waiting
from tests.entry_points.ways import Api, Browser, Command, Page, Refused
from tests.kept import kept

pytestmark = pytest.mark.django_db

REASON = "Wrong token: this is a laptop of the lab."
TOKEN = replace(requests.BOOTSTRAP, credential="bootstrap:abcdef", address="203.0.113.7")
OTHER = replace(
    requests.BOOTSTRAP, user="system:bootstrap:zzzzzz", credential="bootstrap:zzzzzz", address="203.0.113.8"
)


@pytest.fixture(autouse=True)
def _roles() -> None:
    """Bearers of bootstrap tokens may ask."""
    from django.conf import settings

    make.first_start((settings.OCMCONSOLE_HOME / "ca.crt").read_bytes(), settings.OCMCONSOLE_API_URL)


def ask(request: str, *, by: Actor = TOKEN, pem: bytes = b"") -> Waiting:
    requests.ask(request, pem or requests.agent_pem("site-one"), cluster="site-one", by=by)
    make.settle()
    return Waiting("site-one", request)


@pytest.fixture
def declined(ana: Any) -> Waiting:
    return declined_by(ana)


@kept
def declined_by(ana: Any) -> Waiting:
    make.cluster("site-one", by=TOKEN)
    waiting = ask("first")
    rights.by_guardian(ana, waiting)
    Page().decline(ana, waiting, REASON)
    return waiting


def denial(request: str) -> tuple[str, str]:
    doc = requests.row(request).doc
    return next((each["type"], each["message"]) for each in conditions_of(doc))


def lift(user: Any, way: str) -> None:
    if way == "page":
        browser = Browser(user)
        browser.send(browser.open("/approvals/site-one/").form("/approvals/site-one/lift/"))
    else:
        Command()._call("decline", "site-one", "--lift", "--as", user.username)


@pytest.mark.contract("D10")
def test_what_is_remembered_of_a_decline(ana: Any, declined: Waiting) -> None:
    kept = Decline.objects.get()
    assert (kept.cluster, kept.fingerprint) == ("site-one", requests.row("first").key_fingerprint)
    assert (kept.requester, kept.credential) == (TOKEN.user, "bootstrap:abcdef")
    assert (kept.declined_by, kept.reason, kept.request) == ("ana", REASON, "first")
    assert denial("first") == ("Denied", REASON)


@pytest.mark.contract("D10", "W23")
def test_kubectl_certificate_deny_declines_too(ana: Any) -> None:
    make.cluster("site-one", by=TOKEN)
    waiting = ask("first")
    rights.by_guardian(ana, waiting)
    Api().decide(ana, "first", "Denied")
    kept = Decline.objects.get()
    assert (kept.cluster, kept.declined_by, kept.reason) == (
        "site-one",
        "ana",
        "This CSR was decided by kubectl certificate.",
    )
    assert queries.waiting_names(make.ADMIN) == []


@pytest.mark.contract("D10")
def test_the_same_credential_that_asks_again_is_denied_at_once_with_the_same_reason(
    ana: Any, declined: Waiting
) -> None:
    ask("second")
    assert denial("second") == ("Denied", REASON)
    assert Decline.objects.count() == 1  # the hub repeats, it does not decide
    assert queries.waiting_names(make.ADMIN) == []


@pytest.mark.contract("D10")
def test_the_same_key_is_denied_no_matter_who_shows_it(ana: Any) -> None:
    make.cluster("site-one", by=TOKEN)
    pem = requests.agent_pem("site-one")
    waiting = ask("first", pem=pem)
    rights.by_guardian(ana, waiting)
    Command().decline(ana, waiting, REASON)
    ask("second", by=OTHER, pem=pem)
    assert denial("second") == ("Denied", REASON)


@pytest.mark.contract("D10")
def test_another_key_of_another_credential_waits_for_a_person(ana: Any, declined: Waiting) -> None:
    other = ask("second", by=OTHER)
    assert scene.state_of(other) == "Pending"
    assert queries.waiting_names(make.ADMIN) == ["site-one"]
    Page().accept(ana, other)
    assert scene.is_accepted(other)


@pytest.mark.contract("D10")
def test_the_same_credential_may_ask_for_another_name(ana: Any, declined: Waiting) -> None:
    make.cluster("site-two", by=TOKEN)
    requests.ask("elsewhere", requests.agent_pem("site-two"), cluster="site-two", by=TOKEN)
    make.settle()
    assert requests.state("elsewhere") == "Pending"


@pytest.mark.contract("D10")
def test_a_new_token_of_the_same_account_is_the_same_credential(ana: Any) -> None:
    account = Actor("system:serviceaccount:x:y", groups=make.ADMIN.groups, credential="jwt:one")
    make.cluster("site-one", by=account)
    waiting = ask("first", by=account)
    rights.by_guardian(ana, waiting)
    Command().decline(ana, waiting, REASON)
    ask("second", by=replace(account, credential="jwt:two"))
    assert denial("second") == ("Denied", REASON)


@pytest.mark.contract("D10")
def test_one_that_waited_already_is_not_touched(ana: Any) -> None:
    make.cluster("site-one", by=TOKEN)
    first, second = ask("first"), ask("second", by=replace(TOKEN, address="203.0.113.99"))
    rights.by_guardian(ana, first)
    Api().decide(ana, "first", "Denied")
    make.settle()
    assert scene.state_of(second) == "Pending"
    Page().accept(ana, second)
    make.settle()
    assert scene.state_of(second) == "Issued"


@pytest.mark.contract("D10", "W23")
def test_nobody_approves_before_the_lift_and_the_refusal_says_so(ana: Any, declined: Waiting) -> None:
    requests.ask("second", requests.agent_pem("site-one"), cluster="site-one", by=TOKEN)  # the hub has not looked yet
    with pytest.raises(
        Refused,
        match=r"declined for the cluster .site-one. by ana .*must lift that first: manage.py decline site-one --lift",
    ):
        Api().decide(ana, "second", "Approved")
    with pytest.raises(errors.Forbidden, match="must lift that first"):
        verbs.edit(
            Actor.controller("test"),
            CSR,
            Key("", "second"),
            lambda doc: reconcilers.add_decision(doc, "Approved", "Test", ""),
            subresource="approval",
        )
    for act in (Command().accept, Page().accept):
        with pytest.raises(Refused):
            act(ana, Waiting("site-one", "second"))
    assert not make.stored("site-one").hub_accepts_client


@pytest.mark.contract("D10")
def test_a_declined_name_without_a_request_is_not_accepted_either(ana: Any, declined: Waiting) -> None:
    with pytest.raises(Refused, match=r"site-one was declined by ana: Wrong token.*Lift that first"):
        Command().accept(ana, declined)
    assert assessment.evidence_of("site-one").verdict is assessment.Verdict.BLOCKED


@pytest.mark.contract("D10", "D11")
@pytest.mark.parametrize("way", ["page", "command"])
def test_after_the_lift_the_next_request_waits_and_can_be_accepted(ana: Any, declined: Waiting, way: str) -> None:
    lift(ana, way)
    kept = Decline.objects.get()
    assert kept.lifted_by == "ana"
    assert kept.lifted_at is not None
    assert ClusterFacts.objects.get(cluster="site-one").decision == ""
    told = AuditEvent.objects.get(act="managedcluster:lift-decline")
    assert (told.user, told.name, told.entry_point) == ("ana", "site-one", {"page": "web", "command": "cli"}[way])
    assert denial("first") == ("Denied", REASON)  # a decision stays
    again = ask("second")
    assert scene.state_of(again) == "Pending"
    Page().accept(ana, again)
    make.settle()
    assert scene.state_of(again) == "Issued"


@pytest.mark.contract("D10", "D2")
def test_lifting_needs_the_permission(ana: Any, declined: Waiting) -> None:
    from django.contrib.auth import get_user_model

    li = get_user_model().objects.create_user("li")
    rights.but_accept(li, declined)
    before = scene.everything_but_audit()
    with pytest.raises(Refused, match=r"clusters\.accept_managedcluster"):
        lift(li, "command")
    with pytest.raises(Refused):
        lift(li, "page")
    assert scene.everything_but_audit() == before


@pytest.mark.contract("D10")
def test_what_is_not_declined_cannot_be_lifted(ana: Any) -> None:
    waiting = scene.ask("site-one")
    rights.by_guardian(ana, waiting)
    with pytest.raises(Refused, match="Nothing about site-one is declined"):
        lift(ana, "command")


@pytest.mark.contract("D10")
def test_a_name_that_has_not_asked_for_a_certificate_is_declined_by_who_made_it(ana: Any) -> None:
    make.cluster("site-one", by=TOKEN)
    services.decline_cluster(make.ADMIN, "site-one", reason=REASON)
    ask("first")
    assert denial("first") == ("Denied", REASON)
    assert Decline.objects.get().fingerprint == ""


@pytest.mark.contract("D10")
def test_the_page_shows_who_declined_and_why(ana: Any, declined: Waiting) -> None:
    shown = Browser(ana).open("/approvals/site-one/").text
    assert "Declined by ana" in shown
    assert REASON in shown
    requests.ask("second", requests.agent_pem("site-one"), cluster="site-one", by=TOKEN)
    shown = Browser(ana).open("/approvals/site-one/").text
    assert "This credential was declined by ana" in shown
    assert assessment.evidence_of("site-one").fitting == []
