"""Whose a proposed act is: the name of who impersonates, how many one caller leaves, and a setting that was lifted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from ocmconsole.kubeapi import clock, errors
from ocmconsole.second_approval import decisions, gate
from ocmconsole.second_approval.gate import Waits
from ocmconsole.second_approval.models import ProposedAct
from registration.approvals import services
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
