"""People who approve at the same moment: all are counted, and the act is done once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.second_approval import decisions, gate
from ocmconsole.second_approval.models import ProposedAct
from ocmconsole.second_approval.rules import Rule
from registration.approvals import services
from registration.models import AcceptedKey, CertificateSigningRequest
from tests import factories as make
from tests.actors import person
from tests.entry_points import scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("K7")]

NAME = "site-one"


def propose(people: int, settings: Any) -> tuple[ProposedAct, list[User], services.Override]:
    settings.OCMCONSOLE_SECOND_APPROVAL = {"key-override": Rule(people)}
    waiting = scene.ask(NAME)
    scene.ask_again(scene.Waiting(NAME, f"{NAME}-00002"), by=person("elsewhere", "system:masters"))
    ana, *others = (User.objects.create_superuser(name) for name in ("ana", "ben", "cyd"))
    key = CertificateSigningRequest.objects.get(name=waiting.request).key_fingerprint
    override = services.Override(key, "by telephone")
    with pytest.raises(gate.Waits) as waits:
        services.accept_cluster(actor_for(ana), NAME, override=override)
    return ProposedAct.objects.get(pk=waits.value.pk), others, override


def at_once(*acts: Callable[[], object]) -> list[errors.ApiError | None]:
    """What each raised; all begin together."""
    ready, ended = threading.Barrier(len(acts)), dict[int, "errors.ApiError | None"]()

    def run(number: int, act: Callable[[], object]) -> None:
        ready.wait()
        try:
            act()
            ended[number] = None
        except errors.ApiError as error:
            ended[number] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(acts)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return [ended[number] for number in range(len(acts))]


def test_two_who_do_the_same_at_once_do_it_once(settings: Any) -> None:
    found, (ben, cyd), override = propose(2, settings)
    at_once(*(lambda who=who: services.accept_cluster(actor_for(who), NAME, override=override) for who in (ben, cyd)))
    found.refresh_from_db()
    assert found.state == ProposedAct.State.DONE
    assert AcceptedKey.objects.filter(cluster=NAME).count() == 1
    assert AuditEvent.objects.filter(act="second-approval:done").count() == 1
    make.settle()


def test_two_of_three_who_approve_at_once_are_both_counted(settings: Any) -> None:
    found, (ben, cyd), _ = propose(3, settings)
    ended = at_once(*(lambda who=who: decisions.approve(actor_for(who), found.pk, found.digest) for who in (ben, cyd)))
    assert ended == [None, None]
    assert sorted(decisions.people_behind(found)[0]) == ["ana", "ben", "cyd"]
    decisions.carry_out(actor_for(cyd), found.pk, found.digest)
    assert AcceptedKey.objects.filter(cluster=NAME).count() == 1


def test_one_who_approves_twice_at_once_is_one(settings: Any) -> None:
    found, (ben, _), _ = propose(3, settings)
    ended = at_once(*(lambda: decisions.approve(actor_for(ben), found.pk, found.digest) for _ in range(2)))
    assert [each for each in ended if each is not None and "You have approved it" in each.message] != []
    assert found.approvals.count() == 1
