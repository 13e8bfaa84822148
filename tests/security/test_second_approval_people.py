"""Whose a proposed act is: the name of who impersonates, how many one caller leaves, and a setting that was lifted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from ocmconsole import tasks
from ocmconsole.accounts import people
from ocmconsole.console import checkup, live_updates
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.watch import follower
from ocmconsole.second_approval import decisions, gate
from ocmconsole.second_approval.gate import Waits
from ocmconsole.second_approval.models import ProposedAct
from ocmconsole.second_approval.rules import parse_rules
from registration.approvals import services
from tests.actors import signed_in
from tests.entry_points.scene import Waiting
from tests.security.test_second_approval import HOW, NAME, ana, as_of, ben, hows, key, override, propose, waiting

__all__ = ["ana", "ben", "waiting"]  # fixtures
pytestmark = pytest.mark.django_db


def test_who_impersonates_somebody_is_named_and_not_whom(waiting: Waiting, ana: User, ben: User) -> None:
    as_ben = replace(as_of(ben), impersonator="ana")
    with pytest.raises(Waits, match="behind it: ana"):
        services.accept_cluster(as_ben, NAME, override=services.Override(key(), HOW))
    found = ProposedAct.objects.get()
    assert (found.proposed_by, found.account) == ("ana", ana)
    decisions.decline(as_ben, found.pk, "taken back")
    found.refresh_from_db()
    assert found.closed_by == "ana"


def test_one_caller_leaves_no_more_than_others_can_read(waiting: Waiting, ana: User, ben: User) -> None:
    now = clock.now()
    common = {"act": "key-override", "arguments": {"key": "k"}, "evidence": {}, "proposed_by": "ana"}
    ends = {"proposed_at": now, "expires": now + timedelta(hours=1)}
    rows = [
        ProposedAct(**common, **ends, subject=f"site-{n}", arguments_digest=str(n)) for n in range(gate.MOST_WAITING)
    ]
    ProposedAct.objects.bulk_create(rows)
    with pytest.raises(errors.Forbidden, match="was not proposed: 50 proposals of"):
        override(ana)
    assert ProposedAct.objects.count() == gate.MOST_WAITING
    found = propose(ben)
    with pytest.raises(errors.Forbidden, match="Nobody approves their own"):
        decisions.approve(as_of(ben), found.pk, found.digest)
    override(ana)  # what another has proposed
    assert hows() == ["accept", "override"]


def test_a_proposal_is_of_an_account_and_not_of_its_name(waiting: Waiting, ana: User, ben: User) -> None:
    found = propose(ana)
    decisions.approve(as_of(ben), found.pk, found.digest)
    for user in (ana, ben):
        User.objects.filter(pk=user.pk).update(username=f"{user.username}-married")
    for name in ("ana", "ben"):
        with pytest.raises(errors.NotFound):
            decisions.find(as_of(User.objects.create_user(name)), found.pk)
        assert decisions.find(as_of(User.objects.get(username=f"{name}-married")), found.pk) == found


def test_a_proposal_is_not_carried_out_once_the_setting_is_lifted(
    waiting: Waiting, ana: User, ben: User, settings: Any
) -> None:
    found = propose(ana)
    decisions.approve(as_of(ben), found.pk, found.digest)
    settings.OCMCONSOLE_SECOND_APPROVAL = {}
    with pytest.raises(errors.Conflict, match="takes no second person any more"):
        decisions.carry_out(as_of(ben), found.pk, found.digest)
    assert hows() == ["accept"]


def test_a_group_that_approves_is_not_deleted_and_an_empty_one_is_a_problem(settings: Any) -> None:
    settings.OCMCONSOLE_SECOND_APPROVAL = parse_rules(["all@security"])
    root = as_of(User.objects.create_superuser("root"))
    team = Group.objects.create(name="security")
    for each in ("ana", "ben"):
        User.objects.create_superuser(each).groups.add(team)
    assert checkup.hub_problems()["second approvals"] == []
    with pytest.raises(errors.Forbidden, match="take it out of that setting on the host first"):
        people.delete_account(root, team)
    assert signed_in("root").post(f"/admin/auth/group/{team.pk}/delete/", {"post": "yes"}).status_code in {302, 403}
    assert Group.objects.filter(name="security").exists()
    team.user_set.clear()  # taking people out takes one person
    problems = checkup.hub_problems()["second approvals"]
    assert len(problems) == 6
    assert 'needs 1 active superusers in the group "security" at least, and there are none' in problems[1]
    User.objects.exclude(username="root").update(is_superuser=False)
    assert any(
        "ca takes 2 people and cannot be approved: it needs 2 active superusers" in each
        for each in checkup.hub_problems()["second approvals"]
    )
    assert "cannot be approved" in signed_in("root").get("/hub/").content.decode()
    settings.OCMCONSOLE_SECOND_APPROVAL = {}
    assert "second approvals" in checkup.unused_checks()
    people.delete_account(root, team)


@pytest.mark.contract("D11")
def test_closed_proposals_are_forgotten_after_ninety_days_and_the_audit_keeps_them(
    waiting: Waiting, ana: User, ben: User
) -> None:
    found = propose(ana)
    decisions.decline(as_of(ana), found.pk, "taken back")
    still, forgotten = propose(ana), clock.now() - decisions.KEPT - timedelta(minutes=1)
    expired = ProposedAct.objects.get(pk=still.pk)
    expired.pk, expired.arguments_digest = None, "another"
    expired.expires = forgotten
    expired.save()
    tasks.forget_proposals()
    assert ProposedAct.objects.count() == 2  # without the one that nobody met since it expired
    ProposedAct.objects.filter(pk=found.pk).update(closed_at=forgotten)
    tasks.forget_proposals()
    assert [each.pk for each in ProposedAct.objects.all()] == [still.pk]
    kept = AuditEvent.objects.filter(resource="proposedacts.ocmconsole.io", name=str(found.pk))
    assert [entry.act for entry in kept.order_by("pk")] == ["second-approval:propose", "second-approval:decline"]


def test_who_may_approve_hears_of_it_on_an_open_page(waiting: Waiting, ana: User, ben: User) -> None:
    found = propose(ana)
    User.objects.create_user("mallory")
    notice = follower.Notice(0, "ana", f"{gate.PLURAL}.{gate.GROUP}", "", str(found.pk))
    for name, heard in (("ben", {"proposedacts"}), ("mallory", set())):
        actor = as_of(User.objects.get(username=name))
        assert live_updates.NoticeVisibility.of(actor).of_interest([notice]) == heard
