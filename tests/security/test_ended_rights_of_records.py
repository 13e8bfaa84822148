"""Rows of the hub's own that a person writes: nothing is written with rights that ended before the commit.

Each act is called with an actor that was examined as an admin's; then the account loses that, as it may while a
request is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.core.serializers import serialize
from django.test import Client

from ocmconsole.access import services
from ocmconsole.accounts import people
from ocmconsole.core import kinds
from ocmconsole.core.models import AccessRequest, BootstrapToken, ServiceAccount
from ocmconsole.core.rbac import known_rights
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access import session
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.models import DemoFleet
from ocmconsole.signin import factors
from registration import hub_setup, queries
from registration.approvals import snooze, stale_decision
from registration.models import ApprovalPolicy, HubAddress, Snooze
from registration.pki import ca
from registration.policies import policy_services
from registration.policies.policy_matching import PolicyInput
from tests import factories as make
from tests.actors import ROOT
from tests.security.test_ended_rights import once_read

pytestmark = pytest.mark.django_db(transaction=True)

ADDED = "https://hub.corp:6443"
TABLES: tuple[Any, ...] = (AccessRequest, ApprovalPolicy, Authenticator, BootstrapToken, DemoFleet, HubAddress, Snooze)


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss", password="a long enough password")


@pytest.fixture
def rows(boss: User, settings: Any) -> None:
    ca.ensure_authority(settings.OCMCONSOLE_HOME, hub_setup.serving_names())
    make.namespace("team")
    make.cluster("c1")
    verbs.create(ROOT, kinds.SERVICE_ACCOUNT, {"metadata": {"name": "bot"}}, namespace="team")
    policy_services.create_policy(ROOT, rule("kept"))
    policy_services.create_policy(ROOT, rule("stopped"))
    policy_services.disable_policy(ROOT, "stopped")
    tokens.issue_bootstrap_token(ROOT, ttl=timedelta(hours=1), name="kept")
    hub_setup.add_address(ROOT, ADDED)
    li = User.objects.create_user("li")
    services.request_access(
        session.actor_for(li), known_rights.question("get", "secrets", name="", namespace="team"), "for a look"
    )
    Authenticator.objects.create(user=li, type=Authenticator.Type.TOTP, data={})
    snooze.put_off(session.actor_for(User.objects.get(username="boss")), "c1", seen(), None)


def rule(name: str) -> PolicyInput:
    return PolicyInput(name=name, expires=datetime.now(UTC) + timedelta(days=9), reason="r", pattern=f"{name}-*")


def seen() -> stale_decision.SeenVersions:
    return stale_decision.present_versions(make.stored("c1"), queries.waiting_requests("c1"))


ACTS: dict[str, Callable[[Any], object]] = {
    "create policy": lambda actor: policy_services.create_policy(actor, rule("new")),
    "change policy": lambda actor: policy_services.change_policy(actor, "kept", rule("kept")),
    "enable policy": lambda actor: policy_services.enable_policy(actor, "stopped"),
    "disable policy": lambda actor: policy_services.disable_policy(actor, "kept"),
    "delete policy": lambda actor: policy_services.delete_policy(actor, "kept"),
    "mint": lambda actor: tokens.issue_bootstrap_token(actor, ttl=timedelta(hours=1)),
    "revoke token": lambda actor: tokens.revoke_as(actor, BootstrapToken.objects.get()),
    "token of an account": lambda actor: tokens.issue_account_token(
        actor, ServiceAccount.objects.get(name="bot"), timedelta(hours=1)
    ),
    "add address": lambda actor: hub_setup.add_address(actor, "https://other.corp:6443"),
    "remove address": lambda actor: hub_setup.remove_address(actor, ADDED),
    "dismiss": lambda actor: services.dismiss_request(actor, AccessRequest.objects.get(), "no"),
    "forget factors": lambda actor: factors.remove_factors(actor, User.objects.get(username="li")),
    "put off": lambda actor: snooze.put_off(actor, "c1", seen(), datetime.now(UTC) + timedelta(hours=1)),
}


def demoted(user: User) -> None:
    user = User.objects.get(pk=user.pk)
    user.is_superuser = False
    people.save_user(ROOT, user)


def deactivated(user: User) -> None:
    user = User.objects.get(pk=user.pk)
    user.is_active = False
    people.save_user(ROOT, user)


def stored() -> list[str]:
    return [serialize("json", table.objects.order_by("pk")) for table in TABLES]


def allowed() -> int:
    return AuditEvent.objects.filter(outcome="allowed", user="boss").count()


@pytest.mark.contract("K9", "D11")
@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("end", [demoted, deactivated])
def test_an_act_that_was_found_permitted_writes_nothing_when_the_right_has_ended(
    boss: User, act: str, end: Callable[[User], None]
) -> None:
    actor = session.actor_for(boss)
    end(boss)
    before = stored(), allowed()
    refusals = (errors.Unauthorized,) if end is deactivated else (errors.Forbidden, errors.NotFound)
    with pytest.raises(refusals):
        ACTS[act](actor)
    assert (stored(), allowed()) == before


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("act", ACTS)
def test_the_same_act_is_done_when_only_others_rights_have_changed_meanwhile(boss: User, act: str) -> None:
    actor = session.actor_for(boss)
    demoted(User.objects.create_superuser("somebody"))
    before = stored(), allowed()
    ACTS[act](actor)
    assert (stored(), allowed()) != before


@pytest.mark.usefixtures("rows")
def test_what_was_put_off_is_brought_back_by_nobody_whose_account_has_ended(boss: User) -> None:
    actor = session.actor_for(boss)
    deactivated(boss)
    with pytest.raises(errors.Unauthorized):
        snooze.bring_back(actor, "c1")
    assert Snooze.objects.exists()


@pytest.mark.parametrize("path", ["/demo/make/", "/demo/remove/"])
def test_a_demonstration_is_begun_and_removed_by_nobody_who_is_no_admin_any_more(boss: User, path: str) -> None:
    if path == "/demo/remove/":
        DemoFleet.objects.create(pk=1, state=DemoFleet.State.COMPLETE, created=datetime.now(UTC))
    client = Client()
    client.force_login(boss)
    with once_read("auth_group", lambda: demoted(boss)) as called:  # the account itself was read before
        answer = client.post(path)
    assert called
    assert answer.status_code in {302, 403}
    assert not DemoFleet.objects.exclude(state=DemoFleet.State.COMPLETE).exists()
    assert not AuditEvent.objects.filter(act__startswith="demofleet:").exists()
