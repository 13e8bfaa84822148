"""Step-up: whatever weighs most needs a proof from the last five minutes, through every page, and is done after it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.conf import settings as django_settings
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.urls import path as route
from django.urls import resolve
from django.utils import timezone

from clusters.models import ManagedCluster
from ocmconsole import urls as console
from ocmconsole.core.models import AccessRequest, BootstrapToken, ClusterRole, TokenPermission
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.models import DemoFleet, NotificationChannel, NotificationQuietHours, NotificationRule, Session
from ocmconsole.notifications.encrypted_columns import read
from ocmconsole.second_approval import decisions
from ocmconsole.second_approval.gate import Waits
from ocmconsole.second_approval.models import ProposedAct
from ocmconsole.second_approval.rules import Rule
from ocmconsole.signin import lifetime, single_sign_on, stepup
from placements.models import EvictionBrake
from registration import hub_setup
from registration.approvals import services
from registration.models import ApprovalPolicy, HubAddress, IssuedCertificate
from tests import factories as make
from tests import requests
from tests.actors import grow_old, signed_in
from tests.pages.joining import hub

pytestmark = pytest.mark.django_db

PASSWORD = "a long enough password"
AGAIN = "/login/again/"
CERTIFICATE = "c" * 64
ODD = "b" * 64  # of a cluster that is gone

# Routes of a hub with a provider.
urlpatterns = [*console.urlpatterns, route("login/sso/", single_sign_on.leave, name="sso")]


@pytest.fixture
def boss(tmp_path: Path, settings: Any) -> Client:
    """May do everything, and signed in six minutes ago."""
    cache.clear()
    hub(tmp_path, settings)
    settings.OCMCONSOLE_SECOND_APPROVAL = {}  # what a sample sets ends with its test
    client = signed_in("boss", is_superuser=True, is_staff=True, password=PASSWORD)
    User.objects.create_user("li", password=PASSWORD)
    grow_old(client)
    return client


@dataclass
class Sample:
    """A form: where it goes, what is in it, what exists before (``prepare`` may add to both), and how it is seen done."""

    path: str
    done: Callable[[], bool]
    data: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[Client], dict[str, Any] | None] = lambda _: None


def _disabled_policy() -> ApprovalPolicy:
    now = timezone.now()
    return ApprovalPolicy.objects.create(
        name="off",
        enabled=False,
        reason="r",
        created=now,
        expires=now + timedelta(days=1),
        created_by="boss",
        acts_as="boss",
    )


def _joined(*_: Any) -> None:
    """A cluster that has joined, with a certificate."""
    make.cluster("eu-1", accepted=True)
    now = timezone.now()
    make.certificate("eu-1", CERTIFICATE, begins=now, ends=now + timedelta(days=9))
    make.certificate("gone-1", ODD, begins=now, ends=now + timedelta(days=9))
    make.settle()


def _joined_with_a_key(_: Client) -> None:
    make.cluster("eu-1")
    requests.ask("eu-1-a", requests.agent_pem("eu-1"), cluster="eu-1")
    services.accept_cluster(make.ADMIN, "eu-1")
    make.settle()


def _braked(_: Client) -> dict[str, Any]:
    """A brake on evictions that stands."""
    now = timezone.now()
    until = now + timedelta(minutes=15)
    row = EvictionBrake.objects.create(since=now, begun=now, until=until, silent=2, late=0, members=3)
    return {"brake": str(row.pk)}


def _revoked(fingerprint: str = CERTIFICATE) -> bool:
    return IssuedCertificate.objects.get(pk=fingerprint).revoked_at is not None


def _leaving() -> bool:
    return not ManagedCluster.objects.filter(name="eu-1", deleted_at=None).exists()


def _selected(act: str, **more: Any) -> Callable[[Client], dict[str, Any]]:
    def prepare(client: Client) -> dict[str, Any]:
        _joined()
        chosen = client.post("/clusters/_select/", {"act": act, "cluster": ["eu-1"]})["Location"]
        return {"path": chosen, "typed": "1", **more}

    return prepare


def _policy(**more: Any) -> dict[str, Any]:
    ends = (timezone.now() + timedelta(days=7)).date().isoformat()
    return {
        "name": "web",
        "pattern": "eu-*",
        "max_accepts": "5",
        "ends": ends,
        "reason": "shops",
        "act": "keep",
        **more,
    }


def _kept(client: Client) -> None:
    with_proof = signed_in("boss")
    assert with_proof.post("/policies/-/new/", _policy())["Location"] == "/policies/web/"


def _channel(client: Client) -> None:
    given = {"name": "ops", "kind": "webhook", "address": "https://receiver.example/"}
    assert signed_in("boss").post("/notifications/-/add/", given).status_code == 200


def _rule(client: Client) -> dict[str, Any]:
    _channel(client)
    return {"path": f"/notifications/ops/rule/{NotificationRule.objects.get().pk}/remove/"}


def _edited(client: Client) -> dict[str, Any]:
    _kept(client)
    return _policy(pattern="us-*")


def _leaves(client: Client) -> None:
    """A removal has begun, and an add-on holds it."""
    _joined(client)
    make.addon("eu-1", finalizers=["example.com/x"])
    signed_in("boss").post("/clusters/eu-1/remove/", {"typed": "eu-1"})


def _contested(client: Client) -> dict[str, Any]:
    """Two askers under one name, each with a key of its own."""
    make.cluster("eu-1")
    for name, asker in (
        ("eu-1-a", requests.BOOTSTRAP),
        ("eu-1-b", replace(requests.BOOTSTRAP, user="system:bootstrap:other1")),
    ):
        requests.ask(name, requests.agent_pem("eu-1"), cluster="eu-1", by=asker)
    make.settle()
    page = client.get("/approvals/eu-1/").content.decode()
    seen = {
        each: html.unescape(re.findall(rf'name="{each}" value="([^"]*)"', page)[0])
        for each in ("cluster_rv", "csr_rvs")
    }
    key = re.findall(r'name="accept_key" value="([^"]*)"', page)[0]
    return {**seen, "accept_key": key, "typed": "eu-1", "reason": "by telephone"}


def _edited_text(client: Client, path: str) -> dict[str, Any]:
    """The fields of a form with the document of the cluster, to which a label is added."""
    page = client.get(path).content.decode()
    text = html.unescape(re.findall(r"<textarea[^>]*>\s?(.*?)</textarea>", page, re.DOTALL)[0])
    doc = yaml.safe_load(text)
    doc["metadata"].setdefault("labels", {})["tier"] = "web"
    seen = re.findall(r'name="seen" value="([0-9a-f]{64})"', page)
    return {"path": path, "document": yaml.safe_dump(doc), **({"seen": seen[0]} if seen else {})}


def _changed_document(client: Client) -> dict[str, Any]:
    uid = make.cluster("eu-1")["metadata"]["uid"]
    make.settle()
    return _edited_text(client, f"/admin/clusters/managedcluster/{uid}/change/")


def _applied_document(client: Client) -> dict[str, Any]:
    make.cluster("eu-1")
    make.settle()
    return {**_edited_text(client, "/clusters/eu-1/yaml/edit/"), "apply": ""}


def _asked(client: Client) -> dict[str, Any]:
    make.cluster("eu-1")
    signed_in("li").post(
        "/access/explain/ask/",
        {
            "verb": "accept",
            "resource": "managedclusters.cluster.open-cluster-management.io",
            "name": "eu-1",
            "reason": "x",
        },
    )
    return {"path": f"/access/requests/{AccessRequest.objects.get().pk}/"}


def _li() -> User:
    return User.objects.get(username="li")


def _inactive(client: Client) -> None:
    User.objects.filter(username="li").update(is_active=False)


def _minted(client: Client) -> dict[str, Any]:
    boss = actor_for(User.objects.get(username="boss"))
    return {"token": tokens.issue_bootstrap_token(boss, ttl=timedelta(hours=1))}


def _demo(client: Client) -> None:
    DemoFleet.objects.create(pk=1, state=DemoFleet.State.COMPLETE, created=timezone.now())


def _proposed(client: Client, *approving: str) -> dict[str, Any]:
    """An override that somebody else has proposed, and others have approved."""
    django_settings.OCMCONSOLE_SECOND_APPROVAL = {"key-override": Rule()}
    seen = _contested(client)
    ann, *others = (User.objects.create_superuser(name) for name in ("ann", *approving))
    with pytest.raises(Waits) as waits:
        services.accept_cluster(actor_for(ann), "eu-1", override=services.Override(seen["accept_key"], "by telephone"))
    found = ProposedAct.objects.get(pk=waits.value.pk)
    for other in others:
        decisions.approve(actor_for(other), found.pk, found.digest)
    act = "carry-out" if others else "approve"
    return {"path": f"/second-approval/{found.pk}/{act}/", "digest": found.digest}


def _asking(client: Client) -> None:
    """One who asks, at a hub in which to accept may be another's override approved."""
    django_settings.OCMCONSOLE_SECOND_APPROVAL = {"key-override": Rule()}
    make.cluster("eu-1")
    requests.ask("eu-1-a", requests.agent_pem("eu-1"), cluster="eu-1", by=requests.BOOTSTRAP)
    make.settle()


def _seen_request(client: Client) -> dict[str, Any]:
    _asking(client)
    page = client.get("/approvals/eu-1/").content.decode()
    seen = {
        each: html.unescape(re.findall(rf'name="{each}" value="([^"]*)"', page)[0])
        for each in ("cluster_rv", "csr_rvs")
    }
    return {"path": "/approvals/eu-1/accept/", **seen}


def _selected_request(client: Client) -> dict[str, Any]:
    _asking(client)
    return {"path": client.post("/approvals/-/select/", {"act": "accept", "select": "eu-1"})["Location"], "typed": "1"}


GIVEN = {"preset": "minter", "holder": "li", "scope": "all", "set": "", "names": "", "namespace": ""}
NEW = {"username": "new", "password1": "a long first password", "password2": "a long first password"}
SAMPLES = {
    "registration:override": Sample(
        "/approvals/eu-1/override/", lambda: make.stored("eu-1").hub_accepts_client, prepare=_contested
    ),
    "registration:accept": Sample("", lambda: make.stored("eu-1").hub_accepts_client, prepare=_seen_request),
    "registration:bulk accept": Sample(
        "", lambda: make.stored("eu-1").hub_accepts_client, prepare=_selected_request
    ),
    "second-approval:approve": Sample("", lambda: make.stored("eu-1").hub_accepts_client, prepare=_proposed),
    "second-approval:carry-out": Sample(
        "", lambda: make.stored("eu-1").hub_accepts_client, prepare=lambda client: _proposed(client, "ben")
    ),
    "registration:repair": Sample("/clusters/eu-1/repair/", BootstrapToken.objects.exists, prepare=_joined_with_a_key),
    "registration:mint": Sample("/tokens/mint/", BootstrapToken.objects.exists, {"lifetime": "1h", "uses": "", "cluster": ""}),
    "registration:mint for many": Sample(
        "/tokens/mint/", BootstrapToken.objects.exists, {"lifetime": "1h", "uses": "10000", "cluster": ""}
    ),
    "registration:add-token unbound": Sample(
        "/clusters/add/token/?name=eu-1", BootstrapToken.objects.exists,
        {"lifetime": "1h", "uses": "10000", "once": "2b1f0c1e-7a35-4c43-9d1c-6a4f4b0a3a12"},
    ),
    "registration:add-address": Sample(
        "/clusters/add/address/?name=eu-1&server=https%3A%2F%2Fhub.corp%3A6443", HubAddress.objects.exists
    ),
    "registration:add-run": Sample(
        "/clusters/add/run/", HubAddress.objects.exists,
        {"name": "eu-1", "server": "https://hub.corp:6443", "name_it": ""}, _minted,
    ),
    "registration:remove-address": Sample(
        "/clusters/add/address/remove/", lambda: not HubAddress.objects.exists(), {"url": "https://hub.corp:6443"},
        lambda _: hub_setup.add_address(actor_for(User.objects.get(username="boss")), "https://hub.corp:6443"),
    ),
    "demo-remove": Sample(
        "/demo/remove/", lambda: AuditEvent.objects.filter(act="demofleet:delete").exists(), prepare=_demo
    ),
    "registration:add-token": Sample(
        "/clusters/add/token/?name=eu-1", ApprovalPolicy.objects.exists,
        {"lifetime": "1h", "uses": "1", "bind": "on", "accept": "on", "once": "2b1f0c1e-7a35-4c43-9d1c-6a4f4b0a3a11"},
    ),
    "registration:new-policy": Sample("/policies/-/new/", ApprovalPolicy.objects.exists, prepare=lambda _: _policy()),
    "registration:edit-policy": Sample(
        "/policies/web/edit/", ApprovalPolicy.objects.filter(pattern="us-*").exists,
        prepare=_edited,
    ),
    "registration:switch-policy": Sample(
        "/policies/web/switch/", ApprovalPolicy.objects.filter(enabled=False).exists, {"to": "off"}, _kept
    ),
    "registration:delete-policy": Sample(
        "/policies/web/delete/", lambda: not ApprovalPolicy.objects.exists(), prepare=_kept
    ),
    "notifications:add": Sample(
        "/notifications/-/add/", NotificationChannel.objects.exists,
        {"name": "ops", "kind": "webhook", "address": "https://receiver.example/"},
    ),
    "notifications:address": Sample(
        "/notifications/ops/address/", lambda: "other" in read(NotificationChannel.objects.get(), "address"),
        {"address": "https://other.example/"}, _channel,
    ),
    "notifications:secret": Sample(
        "/notifications/ops/secret/", NotificationChannel.objects.exclude(former_secret="").exists, prepare=_channel
    ),
    "notifications:switch": Sample(
        "/notifications/ops/switch/", NotificationChannel.objects.filter(enabled=False).exists, {"to": "off"}, _channel
    ),
    "notifications:quiet": Sample(
        "/notifications/ops/quiet/", NotificationQuietHours.objects.exists,
        {"days": "0", "begins": "22:00", "ends": "07:00", "zone": "UTC", "breaks": "3"}, _channel,
    ),
    "notifications:remove-rule": Sample(
        "", lambda: not NotificationRule.objects.exists(), prepare=_rule,
    ),
    "notifications:delete": Sample(
        "/notifications/ops/delete/", lambda: not NotificationChannel.objects.exists(), prepare=_channel
    ),
    "access:give": Sample("/access/give/", lambda: _li().has_perm(TokenPermission.ADD), GIVEN),
    "access:answer": Sample("", AccessRequest.objects.exclude(answer="").exists, {"act": "grant"}, _asked),
    "access:join": Sample(
        "/access/account/groups/", User.objects.filter(username="li", groups__name="ops").exists, {"user": "li"},
        lambda _: {"groups": [Group.objects.create(name="ops").pk]},
    ),
    "access:add-person": Sample("/access/add/person/", User.objects.filter(username="new").exists, NEW),
    "access:activate": Sample(
        "/access/account/active/", lambda: _li().is_active, {"user": "li", "active": "yes"}, _inactive
    ),
    "clusters:remove": Sample("/clusters/eu-1/remove/", _leaving, {"typed": "eu-1"}, _joined),
    "clusters:abandon": Sample(
        "/clusters/eu-1/remove/force/", AuditEvent.objects.filter(act__contains="detach").exists,
        {"typed": "eu-1", "reason": "dead"},
        _leaves,
    ),
    "clusters:bulk remove": Sample("", _leaving, prepare=_selected("remove")),
    "clusters:bulk revoke": Sample("", _revoked, prepare=_selected("revoke")),
    "clusters:bulk disconnect": Sample("", _revoked, prepare=_selected("disconnect", revoke="on")),
    "registration:disconnect": Sample("/clusters/eu-1/disconnect/", _revoked, {"revoke": "on"}, _joined),
    "registration:revoke": Sample(
        f"/certificates/{CERTIFICATE}/revoke/", _revoked, {"reason": "lost", "typed": "eu-1"}, _joined
    ),
    "registration:revoke-many": Sample(
        "/certificates/-/revoke/", lambda: _revoked(ODD), {"confirmed": "", "select": ODD, "reason": "gone"}, _joined
    ),
    "placements:held": Sample(
        "/placements/held/", EvictionBrake.objects.filter(ended_by="boss").exists, {"act": "release"}, _braked
    ),
    "admin:auth_* add": Sample(
        "/admin/auth/user/add/", User.objects.filter(username="new").exists, {**NEW, "usable_password": "true"}
    ),
    "admin:auth_* change": Sample(
        "", lambda: _li().is_superuser, {"username": "li", "is_active": "on", "is_superuser": "on"},
        lambda _: {"path": f"/admin/auth/user/{_li().pk}/change/", "date_joined_0": "2026-01-01", "date_joined_1": "10:00:00"},
    ),
    "admin:auth_* password": Sample(
        "", lambda: not _li().check_password(PASSWORD), {"password1": "another long password", "password2": "another long password", "usable_password": "true"},
        lambda _: {"path": f"/admin/auth/user/{_li().pk}/password/"},
    ),
    "admin:*_add": Sample(
        "/admin/corekinds/clusterrole/add/", ClusterRole.objects.filter(name="all").exists,
        {"document": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: all}\nrules: []\n"},
    ),
    "admin:*_permissions": Sample(
        "", lambda: _li().has_perm("clusters.accept_managedcluster", ManagedCluster.objects.get(name="eu-1")),
        {"permission": "accept_managedcluster", "user": "li", "act": "grant"},
        lambda _: {"path": f"/admin/clusters/managedcluster/{make.cluster('eu-1')['metadata']['uid']}/permissions/"},
    ),
    "admin:*_change": Sample(
        "", lambda: "tier" in make.stored("eu-1").labels, prepare=_changed_document,
    ),
    "clusters:edit": Sample(
        "/clusters/eu-1/yaml/edit/", lambda: "tier" in make.stored("eu-1").labels, prepare=_applied_document,
    ),
    "admin:*_delete": Sample(
        "", _leaving, {"post": "yes"},
        lambda _: {"path": f"/admin/clusters/managedcluster/{make.cluster('eu-1')['metadata']['uid']}/delete/"},
    ),
    "admin:*_changelist": Sample(
        "/admin/clusters/managedcluster/", lambda: not make.stored("eu-1").hub_accepts_client,
        {"action": "disconnect", "confirmed": "yes"},
        lambda _: {"_selected_action": [make.cluster("eu-1", accepted=True)["metadata"]["uid"]]},
    ),
    "admin:*_changelist policies": Sample(
        "/admin/registration/approvalpolicy/", ApprovalPolicy.objects.filter(enabled=True).exists,
        {"action": "enable", "confirmed": "yes"}, lambda _: {"_selected_action": [_disabled_policy().pk]},
    ),
}  # fmt: skip


def rows() -> dict[str, Any]:
    """What the database holds besides sessions."""
    tables = sorted(set(connection.introspection.table_names()) - {Session._meta.db_table})
    found: dict[str, Any] = {}
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - names of our own tables
            found[table] = sorted(map(repr, cursor.fetchall()))
    return found


def send(client: Client, sample: Sample) -> tuple[Any, str, dict[str, Any]]:
    prepared = sample.prepare(client) or {}
    path = prepared.pop("path", sample.path)
    before = rows()
    answer = client.post(path, {**sample.data, **prepared})
    assert rows() == before, "something was changed before the proof"
    return answer, path, before


def test_every_act_of_the_list_has_a_sample() -> None:
    assert {name.partition(" ")[0] for name in SAMPLES} == set(stepup.ACTS)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_weighs_most_waits_for_a_proof_and_is_done_after_it(boss: Client, name: str) -> None:
    sample = SAMPLES[name]
    answer, path, _ = send(boss, sample)
    match = resolve(path.partition("?")[0])
    assert any(fnmatchcase(match.view_name, act) for act in [name.partition(" ")[0]])
    assert (answer.status_code, answer["Location"][: len(AGAIN)]) == (302, AGAIN)
    assert not sample.done()
    page = boss.get(answer["Location"])
    assert b"Confirm that it is you" in page.content
    proof = {"next": page.context["redirect_field_value"], "password": "a guess"}
    boss.post(AGAIN, proof)
    assert not sample.done()
    done = boss.post(AGAIN, {**proof, "password": PASSWORD})
    assert done.status_code in {200, 302}, done.content
    make.settle()
    assert sample.done()


@pytest.mark.parametrize("name", ["registration:mint", "clusters:remove", "admin:auth_* add"])
def test_who_has_just_signed_in_is_not_asked_twice(boss: Client, name: str) -> None:
    sample = SAMPLES[name]
    more = sample.prepare(boss) or {}
    signed_in("boss").post(sample.path, {**sample.data, **more})
    assert sample.done()


def test_terms_spare_the_proof(boss: Client) -> None:
    for terms in ({"uses": "3", "cluster": ""}, {"uses": "", "cluster": "eu-1"}):
        assert boss.post("/tokens/mint/", {"lifetime": "1h", **terms}).status_code == 200
    assert BootstrapToken.objects.count() == 2
    _joined()
    boss.post("/clusters/eu-1/disconnect/")
    assert not make.stored("eu-1").hub_accepts_client


def code(secret: str) -> str:
    _, counter, *_ = yield_hotp_counters_from_time()
    return str(format_hotp_value(hotp_value(secret, counter)))


def test_a_code_of_an_app_is_a_proof_too(boss: Client) -> None:
    fresh = signed_in("boss")
    secret = fresh.get("/account/app/activate/").context["form"].secret
    assert fresh.post("/account/app/activate/", {"code": code(secret)}).status_code == 302
    assert Authenticator.objects.filter(user__username="boss", type="totp").exists()
    cache.clear()  # the code was used once
    answer, _, _ = send(boss, SAMPLES["registration:mint"])
    place = f"/login/again/code/?{answer['Location'].partition('?')[2]}"
    value = boss.get(place).context["redirect_field_value"]
    assert b"BootstrapToken" not in boss.post(place, {"code": "000000", "next": value}).content
    assert not BootstrapToken.objects.exists()
    assert boss.post(place, {"code": code(secret), "next": value}).status_code == 200
    assert BootstrapToken.objects.exists()


def test_whose_password_is_elsewhere_signs_in_there_and_says_once_more_that_it_is_meant(
    boss: Client, settings: Any
) -> None:
    settings.OCMCONSOLE_OIDC_ISSUER, settings.ROOT_URLCONF = "https://login.example.com", __name__
    User.objects.filter(username="boss").update(password="!unusable")
    user = User.objects.get(username="boss")
    boss.force_login(user)
    grow_old(boss)
    sent = {"lifetime": "1h", "uses": "", "cluster": "", "name": "for all"}
    answer = boss.post("/tokens/mint/", sent)
    wanted = "/login/again/go-on/?next=%2Ftokens%2Fmint%2F"
    assert answer["Location"].startswith("/login/sso/?next=%2Flogin%2Fagain%2Fgo-on%2F%3Fnext%3D")
    assert answer["Location"].endswith("process=redirect")
    assert boss.post(wanted).status_code == 302  # not before the proof
    assert not BootstrapToken.objects.exists()
    boss.post("/tokens/mint/", sent)
    session = boss.session
    session[lifetime.BEGAN] += 6 * 60
    session.save()
    page = boss.get(wanted)
    assert b"/tokens/mint/" in page.content
    assert not BootstrapToken.objects.exists()
    assert boss.post("/login/again/go-on/", {"next": "/tokens/mint/"}).status_code == 200
    assert BootstrapToken.objects.get().name == "for all"


def test_a_form_that_was_given_up_is_not_done_by_a_proof_for_something_else(boss: Client) -> None:
    send(boss, SAMPLES["access:add-person"])
    boss.post(AGAIN, {"password": PASSWORD, "next": "/clusters/"})
    assert not User.objects.filter(username="new").exists()
    grow_old(boss)
    boss.post("/access/add/person/", NEW)
    boss.get("/account/app/activate/")  # asks for a proof of its own
    boss.post(AGAIN, {"password": PASSWORD, "next": "/access/add/person/"})
    assert not User.objects.filter(username="new").exists()


def test_what_waits_can_be_read_by_nobody_who_has_the_database_alone(boss: Client) -> None:
    boss.post("/access/add/person/", NEW)
    kept = json.dumps([row.get_decoded() for row in Session.objects.all()])
    assert "account_reauthentication_state" in kept
    assert "first password" not in kept
