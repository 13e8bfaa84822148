"""Acts that take two people: the ways in, and the ways round, of which none leads anywhere."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.urls import reverse

from clusters.kinds import ACCEPT_KEY, MANAGED_CLUSTER
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.second_approval import decisions, gate
from ocmconsole.second_approval.gate import Waits
from ocmconsole.second_approval.models import ProposedAct
from ocmconsole.second_approval.rules import Rule, parse_rules
from registration.approvals import repairs, services
from registration.models import AcceptedKey, CertificateSigningRequest
from tests import factories as make
from tests.actors import person
from tests.entry_points import rights, scene
from tests.entry_points.scene import Waiting
from tests.entry_points.ways import REQUESTS, Api, Refused, signed
from tests.kept import kept

pytestmark = pytest.mark.django_db

NAME = "site-one"
HOW = "The administrator read the fingerprint out to me."
ELSEWHERE = person("elsewhere", "system:masters")
State = ProposedAct.State


@kept
def known() -> Waiting:
    """Let in before; now it asks with another key."""
    first = scene.ask(NAME)
    root, _ = User.objects.get_or_create(username="root-of-tests", defaults={"is_superuser": True})
    Api().accept(root, first)
    make.settle()
    return scene.ask_again(Waiting(NAME, f"{NAME}-00002"))


@pytest.fixture
def waiting(settings: Any) -> Waiting:
    settings.OCMCONSOLE_SECOND_APPROVAL = parse_rules(["key-override"])
    return known()


@pytest.fixture
def ana(waiting: Waiting) -> User:
    return entitled("ana", waiting)


@pytest.fixture
def ben(waiting: Waiting) -> User:
    return entitled("ben", waiting)


def entitled(name: str, waiting: Waiting) -> User:
    made = User.objects.create_user(name, password=f"password of {name}")
    rights.by_guardian(made, waiting)
    return made


def as_of(user: User) -> Any:
    return actor_for(User.objects.get(pk=user.pk), entry_point=EntryPoint.WEB, credential=f"session:{user.pk}")


def key() -> str:
    return str(CertificateSigningRequest.objects.get(name=f"{NAME}-00002").key_fingerprint)


def override(user: User) -> None:
    services.accept_cluster(as_of(user), NAME, override=services.Override(key(), HOW))


def propose(user: User) -> ProposedAct:
    with pytest.raises(Waits) as waits:
        override(user)
    return ProposedAct.objects.get(pk=waits.value.pk)


def hows() -> list[str]:
    return list(AcceptedKey.objects.filter(cluster=NAME).order_by("accepted_at").values_list("how", flat=True))


def acts() -> list[tuple[str, str]]:
    found = AuditEvent.objects.filter(resource="proposedacts.ocmconsole.io").order_by("pk")
    return [(entry.act.partition(":")[2], entry.user) for entry in found]


# ---------------------------------------------------------------- the ways in


@pytest.mark.contract("D9")
def test_the_second_of_two_people_who_override_a_key_lets_it_in(waiting: Waiting, ana: User, ben: User) -> None:
    found = propose(ana)
    assert hows() == ["accept"]
    assert scene.state_of(waiting) == "Pending"
    override(ben)
    assert hows() == ["accept", "override"]
    found.refresh_from_db()
    assert (found.state, found.closed_by) == (State.DONE, "ben")
    assert acts() == [("propose", "ana"), ("done", "ben")]


@pytest.mark.contract("D9")
def test_kubectl_meets_the_gate_and_passes_it_with_two_people(waiting: Waiting, ana: User, ben: User) -> None:
    Api().patch(ana, waiting, {"metadata": {"annotations": {ACCEPT_KEY: key()}}})
    for _ in range(2):  # one's own word twice is one word
        with pytest.raises(Refused, match=r"takes 2 people, and was not done: it waits as proposal \d+ until .* ana"):
            Api().decide(ana, waiting.request, "Approved")
    found = ProposedAct.objects.get()
    path = f"{REQUESTS}/{waiting.request}/approval"
    client = signed(ana)
    doc = client.get(f"{REQUESTS}/{waiting.request}").json()
    doc["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Kubectl", "message": "again"}]}
    status = client.put(path, json.dumps(doc), content_type="application/json").json()
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert (status["details"]["kind"], status["details"]["name"]) == ("proposedacts", str(found.pk))
    assert status["details"]["causes"][0]["message"].endswith(reverse("second-approval:detail", args=[found.pk]))
    Api().decide(ben, waiting.request, "Approved")
    make.settle()
    assert scene.state_of(waiting) == "Issued"
    assert acts() == [("propose", "ana"), ("done", "ben")]


@pytest.mark.contract("D9")
def test_what_was_proposed_on_one_way_is_approved_on_another(
    waiting: Waiting, ana: User, ben: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandError, match="behind it: ana"):
        command(monkeypatch, ana, "accept", NAME, "--accept-key", key(), "--reason", HOW, "--prove")
    found = ProposedAct.objects.get()
    digest = ["--digest", found.digest]
    with pytest.raises(CommandError, match="not the password"):
        command(monkeypatch, ben, "proposals", "approve", str(found.pk), *digest, password="a guess")
    with pytest.raises(CommandError, match="Nobody approves their own"):
        command(monkeypatch, ana, "proposals", "approve", str(found.pk), *digest)
    command(monkeypatch, ben, "proposals", "approve", str(found.pk), *digest)
    command(monkeypatch, ana, "proposals", "carry-out", str(found.pk), *digest)
    assert hows() == ["accept", "override"]
    assert AcceptedKey.objects.get(fingerprint=key()).reason == HOW


def command(monkeypatch: pytest.MonkeyPatch, user: User, *arguments: str, password: str | None = None) -> None:

    monkeypatch.setattr("sys.stdin", io.StringIO(f"{password or f'password of {user.username}'}\n"))
    call_command(*arguments, "--as", user.username, stdout=io.StringIO())


def test_one_who_only_says_a_name_at_the_command_line_is_nobody(
    waiting: Waiting, ana: User, ben: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in (ana, ben):
        with pytest.raises(CommandError, match="nobody is behind it yet"):
            command(monkeypatch, user, "accept", NAME, "--accept-key", key(), "--reason", HOW)
    found = ProposedAct.objects.get()
    decisions.approve(as_of(ana), found.pk, found.digest)
    decisions.approve(as_of(ben), found.pk, found.digest)
    command(monkeypatch, ana, "accept", NAME, "--accept-key", key(), "--reason", HOW)
    assert hows() == ["accept", "override"]


@pytest.mark.contract("D11")
def test_break_glass_is_for_the_host_alone_and_in_the_audit(
    waiting: Waiting, ana: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gate.breaking_glass("from a page"), pytest.raises(Waits):
        override(ana)
    command(monkeypatch, ana, "accept", NAME, "--accept-key", key(), "--reason", HOW, "--break-glass", "site is down")
    assert hows() == ["accept", "override"]
    entry = AuditEvent.objects.get(act="second-approval:break-glass")
    assert (entry.user, entry.reason, entry.entry_point) == ("ana", "site is down", "cli")
    found = ProposedAct.objects.get()  # nobody does it once more
    assert (found.state, found.closed_reason) == (State.DONE, "without a second person: site is down")


def test_a_hub_that_asks_for_no_second_person_goes_on_as_before(waiting: Waiting, ana: User, settings: Any) -> None:
    settings.OCMCONSOLE_SECOND_APPROVAL = {}
    override(ana)
    assert hows() == ["accept", "override"]
    assert not ProposedAct.objects.exists()


# ---------------------------------------------------------------- the ways round


def test_nobody_approves_their_own_nor_as_somebody_else(waiting: Waiting, ana: User, ben: User) -> None:
    found = propose(ana)
    with pytest.raises(errors.Forbidden, match="Nobody approves their own"):
        decisions.approve(as_of(ana), found.pk, found.digest)
    as_ben = replace(as_of(ben), impersonator="ana", renew=None)
    with pytest.raises(errors.Forbidden, match="Nobody approves their own"):
        decisions.approve(as_ben, found.pk, found.digest)
    with pytest.raises(Waits):
        services.accept_cluster(as_ben, NAME, override=services.Override(key(), HOW))
    assert hows() == ["accept"]
    assert AuditEvent.objects.filter(act="second-approval:approve", outcome="denied", user="ana").exists()


def test_what_changed_after_it_was_proposed_is_asked_again(waiting: Waiting, ana: User, ben: User) -> None:
    found = propose(ana)
    scene.ask_again(Waiting(NAME, f"{NAME}-00003"), by=ELSEWHERE)  # somebody else asks too
    with pytest.raises(errors.Conflict, match="has changed since"):
        decisions.approve(as_of(ben), found.pk, found.digest)
    found.refresh_from_db()
    assert found.state == State.CHANGED
    again = propose(ben)
    assert again.pk != found.pk
    assert not again.approvals.exists()
    assert hows() == ["accept"]


def test_who_approves_by_doing_it_approves_what_was_proposed_and_nothing_newer(
    waiting: Waiting, ana: User, ben: User
) -> None:
    first = propose(ana)
    scene.ask_again(Waiting(NAME, f"{NAME}-00003"), by=ELSEWHERE)
    second = propose(ben)
    assert (second.proposed_by, ProposedAct.objects.get(pk=first.pk).state) == ("ben", State.CHANGED)
    with gate.having_seen(first.digest), pytest.raises(errors.Conflict, match="not what you have seen"):
        override(ana)
    override(ana)
    assert hows() == ["accept", "override"]


def test_another_digest_is_refused(waiting: Waiting, ana: User, ben: User) -> None:
    found = propose(ana)
    with pytest.raises(errors.Conflict, match="not what you have seen"):
        decisions.approve(as_of(ben), found.pk, "0" * 64)
    assert not found.approvals.exists()


def test_one_that_has_expired_is_refused_and_still_readable(waiting: Waiting, ana: User, ben: User) -> None:
    found = propose(ana)
    ProposedAct.objects.filter(pk=found.pk).update(expires=clock.now() - timedelta(seconds=1))
    with pytest.raises(errors.Forbidden, match="does not wait any more: expired"):
        decisions.approve(as_of(ben), found.pk, found.digest)
    with pytest.raises(errors.Conflict, match="expired"):
        decisions.decline(as_of(ben), found.pk, "no")
    assert decisions.waiting_for(as_of(ben)) == []
    assert [each.pk for each in decisions.closed_for(as_of(ben))] == [found.pk]
    again = propose(ben)
    found.refresh_from_db()
    assert (found.state, again.account) == (State.EXPIRED, ben)


@pytest.mark.parametrize("end", ["right", "account", "deleted"])
def test_whose_right_or_account_ended_stands_behind_nothing(
    waiting: Waiting, ana: User, ben: User, settings: Any, end: str
) -> None:
    settings.OCMCONSOLE_SECOND_APPROVAL = {"key-override": Rule(3)}
    found, cyd = propose(ana), entitled("cyd", waiting)
    decisions.approve(as_of(ben), found.pk, found.digest)
    if end == "right":
        from guardian.shortcuts import remove_perm

        from clusters.models import ManagedCluster

        remove_perm("clusters.accept_managedcluster", ben, ManagedCluster.objects.get(name=NAME))
    elif end == "account":
        User.objects.filter(pk=ben.pk).update(is_active=False)
    else:
        ben.delete()
        entitled("ben", waiting)  # another person of that name
    assert decisions.people_behind(found)[0] == ["ana"]
    with pytest.raises(Waits, match="behind it: ana, cyd"):
        override(cyd)
    override(entitled("dan", waiting))
    assert hows() == ["accept", "override"]


def test_one_whose_right_ended_is_refused_inside_of_the_commit(waiting: Waiting, ana: User, ben: User) -> None:
    found = propose(ana)
    before = as_of(ben)
    with verbs.changing_rights():
        User.objects.filter(pk=ben.pk).update(is_active=False)
    with pytest.raises(errors.Unauthorized):
        decisions.approve(before, found.pk, found.digest)
    with pytest.raises(errors.ApiError):
        services.accept_cluster(before, NAME, override=services.Override(key(), HOW))
    assert hows() == ["accept"]
    assert not found.approvals.exists()


def test_a_team_is_who_is_in_its_group_now(waiting: Waiting, ana: User, ben: User, settings: Any) -> None:
    settings.OCMCONSOLE_SECOND_APPROVAL = {"key-override": Rule(2, "security")}
    team = Group.objects.create(name="security")
    found = propose(ana)
    with pytest.raises(errors.Forbidden, match='not in the group "security"'):
        decisions.approve(as_of(ben), found.pk, found.digest)
    with pytest.raises(Waits, match='of the group "security"'):
        override(ben)
    ben.groups.add(team)
    override(ben)
    assert hows() == ["accept", "override"]


def test_a_declined_one_is_not_done_and_says_why(waiting: Waiting, ana: User, ben: User) -> None:
    found = propose(ana)
    decisions.decline(as_of(ben), found.pk, "not our cluster")
    found.refresh_from_db()
    assert (found.state, found.closed_by, found.closed_reason) == (State.DECLINED, "ben", "not our cluster")
    with pytest.raises(errors.Forbidden, match="declined"):
        decisions.approve(as_of(ben), found.pk, found.digest)
    assert propose(ana).pk != found.pk


def test_a_stranger_neither_sees_nor_approves(waiting: Waiting, ana: User) -> None:
    found = propose(ana)
    mallory = as_of(User.objects.create_user("mallory"))
    assert decisions.waiting_for(mallory) == []
    with pytest.raises(errors.NotFound):
        decisions.approve(mallory, found.pk, found.digest)


def test_an_approval_outlives_a_server_that_is_killed_before_the_act(waiting: Waiting, ana: User, ben: User) -> None:
    """Approving and doing are two transactions: between them the approval stands, and anybody entitled goes on."""
    found = propose(ana)
    decisions.approve(as_of(ben), found.pk, found.digest)
    assert hows() == ["accept"]
    assert decisions.is_complete(found)
    assert [each.pk for each in decisions.needs(as_of(ana))] == [found.pk]
    decisions.carry_out(as_of(ana), found.pk, found.digest)
    assert hows() == ["accept", "override"]


def test_what_was_approved_and_then_changed_is_not_carried_out(waiting: Waiting, ana: User, ben: User) -> None:
    found = propose(ana)
    decisions.approve(as_of(ben), found.pk, found.digest)
    scene.ask_again(Waiting(NAME, f"{NAME}-00003"), by=ELSEWHERE)
    with pytest.raises(errors.Conflict, match="changed"):
        decisions.carry_out(as_of(ben), found.pk, found.digest)
    assert hows() == ["accept"]


def test_a_policy_and_the_hub_itself_are_no_second_person(waiting: Waiting, ana: User, ben: User) -> None:
    propose(ana)
    actor = as_of(ben).through(EntryPoint.STANDING)
    with pytest.raises(Waits):
        services.accept_cluster(actor, NAME, override=services.Override(key(), HOW))
    assert verbs.get(make.ADMIN, MANAGED_CLUSTER, Key("", NAME))
    assert hows() == ["accept"]


@pytest.mark.contract("K7")
def test_one_of_two_who_ask_for_a_new_name_takes_two_people_too(waiting: Waiting) -> None:
    new = scene.ask("site-two")
    scene.ask_again(Waiting("site-two", "site-two-00002"), by=ELSEWHERE)
    ana, ben = entitled("ana", new), entitled("ben", new)
    with pytest.raises(Refused, match="takes 2 people"):
        Api().decide(ana, new.request, "Approved")
    Api().decide(ben, new.request, "Approved")
    assert scene.state_of(new) == "Approved"


@pytest.mark.contract("D29")
def test_a_repair_manifest_is_made_by_one_when_another_has_approved_it(waiting: Waiting, settings: Any) -> None:
    settings.OCMCONSOLE_SECOND_APPROVAL = parse_rules(["repair"])
    ana, ben = entitled("ana", waiting), entitled("ben", waiting)
    with pytest.raises(Waits) as waits:
        repairs.mint_manifest(as_of(ana), NAME)
    assert not repairs.standing(NAME)
    found = ProposedAct.objects.get(pk=waits.value.pk)
    decisions.approve(as_of(ben), found.pk, found.digest)
    with pytest.raises(errors.Conflict, match="by hand"):
        decisions.carry_out(as_of(ben), found.pk, found.digest)
    assert repairs.mint_manifest(as_of(ana), NAME).token.created_by == "ana"
    with pytest.raises(Waits):  # what was approved is one manifest
        repairs.mint_manifest(as_of(ana), NAME)


@pytest.mark.parametrize(
    "words", ["everything", "key-override=1", "key-override=two", "key-override=2@", "=2", "all@security=3"]
)
def test_a_setting_that_makes_no_sense_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match=r"is not an act|is none of"):
        parse_rules([words])
