"""Which other acts take two people, each by the ways in that it has: policies, tokens, CAs, superusers."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command

from ocmconsole.accounts import people
from ocmconsole.core import kinds as core
from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.second_approval import decisions, gate
from ocmconsole.second_approval.gate import Waits
from ocmconsole.second_approval.models import ProposedAct
from ocmconsole.second_approval.rules import parse_rules
from registration import hub_setup
from registration.models import ApprovalPolicy
from registration.pki import ca
from registration.policies import policy_services
from registration.policies.policy_matching import PolicyInput
from tests import factories as make
from tests.entry_points.ways import signed
from tests.pages.joining import hub
from tests.security.test_second_approval import NAME, as_of, command

pytestmark = pytest.mark.django_db

State = ProposedAct.State


@pytest.fixture
def every(settings: Any) -> None:
    settings.OCMCONSOLE_SECOND_APPROVAL = parse_rules(["all@security"])
    team = Group.objects.create(name="security")
    for name in ("ana", "ben"):
        team.user_set.add(User.objects.create_superuser(name, password=f"password of {name}"))


def named(name: str) -> User:
    return User.objects.get(username=name)


def waits(act: Any) -> ProposedAct:
    with pytest.raises(Waits) as refused:
        act()
    return ProposedAct.objects.get(pk=refused.value.pk)


def agreed(found: ProposedAct, name: str = "ben") -> None:
    decisions.approve(as_of(named(name)), found.pk, found.digest)


@pytest.mark.contract("K9")
def test_a_policy_works_when_another_has_approved_it_and_as_who_proposed_it(every: None) -> None:
    rule = PolicyInput("web", clock.now() + timedelta(days=3), "new shops", pattern="shop-*")
    found = waits(lambda: policy_services.create_policy(as_of(named("ana")), rule))
    assert not ApprovalPolicy.objects.exists()
    agreed(found)
    assert [decisions.needs(as_of(named(name))) for name in ("ana", "ben")] == [[found], []]
    with pytest.raises(errors.Forbidden, match="by the one who proposed it"):
        decisions.carry_out(as_of(named("ben")), found.pk, found.digest)
    decisions.carry_out(as_of(named("ana")), found.pk, found.digest)
    assert ApprovalPolicy.objects.get().acts_as == "ana"
    wider = replace(rule, pattern="*", tokens=["abcdef"])
    assert waits(lambda: policy_services.change_policy(as_of(named("ana")), "web", wider)).subject == "web"
    policy_services.disable_policy(as_of(named("ana")), "web")  # what lets in less takes nobody else
    found = waits(lambda: policy_services.enable_policy(as_of(named("ana")), "web"))
    policy_services.enable_policy(as_of(named("ben")), "web")
    found.refresh_from_db()
    assert (found.state, ApprovalPolicy.objects.get().acts_as) == (State.DONE, "ben")


def test_a_superuser_is_made_by_two_and_so_is_who_approves(every: None) -> None:
    ana, ben = as_of(named("ana")), as_of(named("ben"))
    mallory = User.objects.create_user("mallory")
    mallory.is_superuser = True
    found = waits(lambda: people.save_user(ana, mallory))
    with pytest.raises(errors.Forbidden, match="Nobody approves their own"):
        agreed(found, "ana")
    assert not named("mallory").is_superuser
    people.save_user(ben, mallory)
    assert named("mallory").is_superuser
    li = User.objects.create_user("li")
    found = waits(lambda: people.save_user(ana, li, groups=[Group.objects.get(name="security")]))
    assert found.arguments == {"gets": ["joins security"]}
    other = Group.objects.create(name="others")
    people.save_user(ana, li, groups=[other])  # any other group takes one
    other.name = "security-2"
    people.save_group(ana, other)


def test_what_was_approved_is_who_it_was(every: None, settings: Any) -> None:
    """Between the approval and the act one person alone changes neither whose password it is, nor who is in a group."""
    ana, team = as_of(named("ana")), Group.objects.get(name="security")
    li, other = User.objects.create_user("li"), Group.objects.create(name="others")
    found = waits(lambda: people.save_user(ana, li, groups=[team]))
    agreed(found)
    li.set_password("known to ana alone")
    people.save_user(ana, li)
    assert decisions.has_changed(found)
    waits(lambda: people.save_user(ana, li, groups=[team]))
    settings.OCMCONSOLE_SECOND_APPROVAL = parse_rules(["superuser"])
    people.delete_account(ana, team)  # which is refused while the setting names it
    settings.OCMCONSOLE_SECOND_APPROVAL = parse_rules(["superuser", "key-override@security"])
    other.name = "security"
    agreed(waits(lambda: people.save_group(ana, other)))
    people.save_user(ana, li, groups=[Group.objects.get(pk=other.pk)])
    found = waits(lambda: people.save_group(ana, other))
    assert found.evidence == {"Its members now": ["li"]}


def test_nobody_takes_over_the_account_of_one_who_approves(every: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ana, ben = as_of(named("ana")), named("ben")
    ben.set_password("known to ana alone")
    waits(lambda: people.save_user(ana, ben))
    ben.refresh_from_db()
    ben.username = "benjamin"
    waits(lambda: people.save_user(ana, ben))
    with pytest.raises(CommandError, match="takes 2 people"):
        command(monkeypatch, named("ana"), "user_kubeconfig", "ben")
    with pytest.raises(CommandError, match="takes 2 people"):
        command(monkeypatch, named("ana"), "user_kubeconfig", "anybody", "--group", "system:masters")
    with pytest.raises(CommandError, match="takes 2 people"):
        call_command("createsuperuser", "--noinput", "--username", "eve", "--email", "")
    assert not User.objects.filter(username="eve").exists()
    monkeypatch.setattr("getpass.getpass", lambda *_, **__: "known to who has the shell")
    with pytest.raises(CommandError, match="takes 2 people"):
        call_command("changepassword", "ben", stdout=io.StringIO())
    assert named("ben").check_password("password of ben")
    call_command("changepassword", "ben", "--break-glass", "ben has lost it", stdout=io.StringIO())
    assert named("ben").check_password("known to who has the shell")
    assert AuditEvent.objects.get(act="second-approval:break-glass").reason == "ben has lost it"
    own = named("ana")
    own.set_password("a new one of my own")
    people.change_own_password(as_of(own), own)


def test_a_group_of_approvers_alone_is_no_protection_and_refused() -> None:
    with pytest.raises(ValueError, match="name superuser as well"):
        parse_rules(["key-override@security"])


def test_a_ca_is_rotated_by_two(every: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> None:
    hub(tmp_path, settings)
    before = ca.client_authority(tmp_path).key_fingerprint
    with pytest.raises(CommandError, match="behind it: ana"):
        command(monkeypatch, named("ana"), "ca", "rotate", "client", "--prove")
    assert ca.client_authority(tmp_path).key_fingerprint == before
    found = ProposedAct.objects.get()
    assert found.arguments == {"step": "rotate"}
    with pytest.raises(CommandError, match="takes 2 people"):  # another step is another act
        command(monkeypatch, named("ana"), "ca", "rotate", "serving", "--prove")
    agreed(found)
    command(monkeypatch, named("ana"), "ca", "rotate", "client")
    assert ca.client_authority(tmp_path).key_fingerprint != before
    with pytest.raises(CommandError, match="takes 2 people"):
        command(monkeypatch, named("ana"), "ca", "rotate", "client", "--back", "--prove")
    command(monkeypatch, named("ana"), "ca", "rotate", "client", "--back", "--break-glass", "agents fall off")
    assert ca.client_authority(tmp_path).key_fingerprint == before


@pytest.mark.contract("K4", "W26", "W21")
def test_a_token_for_any_number_of_clusters_takes_two_whatever_it_is(
    every: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any
) -> None:
    hub(tmp_path, settings)
    hub_setup.ensure_hub()
    settings.OCMCONSOLE_SECOND_APPROVAL = parse_rules(["unlimited-token"])
    ana, ben, hour = named("ana"), named("ben"), timedelta(hours=1)
    tokens.issue_bootstrap_token(as_of(ana), ttl=hour, max_uses=20)  # of these any number of people take one
    tokens.issue_bootstrap_token(as_of(ana), ttl=hour, cluster=NAME)
    with pytest.raises(CommandError, match="behind it: ana"):
        command(monkeypatch, ana, "bootstrap_token", "create", "--uses", "any", "--prove")
    assert BootstrapToken.objects.count() == 2
    assert tokens.issue_bootstrap_token(as_of(ben), ttl=hour)
    bootstrap = {
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef",
            "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
        },
    }
    account = "agent-registration-bootstrap"
    of_account = {
        "metadata": {"name": "lasting", "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token",
    }
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    place = "/api/v1/namespaces/open-cluster-management"
    for path, doc in (
        ("/api/v1/namespaces/kube-system/secrets", bootstrap),
        (f"{place}/secrets", of_account),
        (f"{place}/serviceaccounts/{account}/token", request),
    ):
        sent = json.dumps({"apiVersion": "v1", "kind": "Secret", **doc})
        first = signed(ana).post(path, sent, content_type="application/json")
        assert (first.status_code, "takes 2 people" in first.json()["message"]) == (403, True), path
        assert signed(ben).post(path, sent, content_type="application/json").status_code == 201
    make.create(core.SERVICE_ACCOUNT, make.document(core.SERVICE_ACCOUNT, "robot"), namespace="default")
    harmless = signed(ana).post(
        "/api/v1/namespaces/default/serviceaccounts/robot/token", json.dumps(request), content_type="application/json"
    )
    assert harmless.status_code == 201
    assert "0123456789abcdef" not in json.dumps([gate.document_of(each) for each in ProposedAct.objects.all()])


@pytest.mark.contract("K4", "W166")
def test_a_token_is_worth_what_was_approved_and_lives_as_long(every: None, tmp_path: Path, settings: Any) -> None:
    hub(tmp_path, settings)
    settings.OCMCONSOLE_SECOND_APPROVAL = parse_rules(["unlimited-token"])
    ana, day = named("ana"), timedelta(days=1)
    client = signed(ana)

    def secret(**terms: str) -> Any:
        values = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
        doc = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "bootstrap-token-abcdef"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {**values, **terms},
        }
        sent = json.dumps(doc)
        return client.post("/api/v1/namespaces/kube-system/secrets", sent, content_type="application/json")

    ends = (clock.now() + day).isoformat()
    assert secret(expiration=ends).status_code == 403
    found = ProposedAct.objects.get()
    assert (found.arguments["ends"], found.arguments["signs in"]) == (ends, "true")
    agreed(found)
    assert secret().status_code == 403  # one that never ends
    assert secret(expiration=ends, **{"auth-extra-groups": "system:bootstrappers:any"}).status_code == 403
    assert secret(expiration="\0" * 5000).status_code == 403
    assert secret(expiration=ends).status_code == 201
    agreed(waits(lambda: tokens.issue_bootstrap_token(as_of(ana), ttl=day)))
    waits(lambda: tokens.issue_bootstrap_token(as_of(ana), ttl=day + timedelta(minutes=59)))
    assert tokens.issue_bootstrap_token(as_of(ana), ttl=day)
