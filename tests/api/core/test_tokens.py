"""Bootstrap tokens: minted, used, bound, expired, revoked; and those of Secrets."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from ocmconsole.accounts import permissions
from ocmconsole.core import kinds
from ocmconsole.core.models import BootstrapToken, TokenPermission
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access import authentication
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.models import AuditEvent
from tests.actors import ROOT, grant, namespace, person, rule

pytestmark = pytest.mark.django_db
ANA = person("ana").through(EntryPoint.CLI)


def mint(**wishes: Any) -> tuple[str, str]:
    token = tokens.issue_bootstrap_token(ANA, ttl=timedelta(hours=1), **wishes)
    return token, token.split(".")[0]


@pytest.mark.contract("W21")
def test_a_minted_token_is_a_bootstrapper_of_managed_clusters() -> None:
    token, token_id = mint(name="edge", cluster="c1")
    actor = authentication.actor_of_token(token)
    assert actor.user == f"system:bootstrap:{token_id}"
    assert actor.groups == ("system:bootstrappers", "system:bootstrappers:managedcluster", "system:authenticated")
    assert actor.credential == f"bootstrap:{token_id}"
    assert tokens.cluster_of(actor) == "c1"
    assert tokens.cluster_of(ANA) == ""


def test_only_a_hash_is_kept_and_the_audit_knows_who_minted() -> None:
    token, token_id = mint(name="edge")
    secret = token.split(".")[1]
    assert secret not in str(BootstrapToken.objects.values())
    event = AuditEvent.objects.get(act="bootstraptoken:create")
    assert (event.user, event.entry_point, event.name) == ("ana", "cli", token_id)
    assert secret not in str(event.diff)


def test_when_a_token_was_used_last_is_known_to_the_minute() -> None:
    token, token_id = mint()
    authentication.actor_of_token(token)
    first = BootstrapToken.objects.get(pk=token_id).last_used
    assert first is not None
    authentication.actor_of_token(token)
    assert BootstrapToken.objects.get(pk=token_id).last_used == first
    BootstrapToken.objects.update(last_used=first - timedelta(minutes=2))
    authentication.actor_of_token(token)
    again = BootstrapToken.objects.get(pk=token_id).last_used
    assert again is not None
    assert again >= first


@pytest.mark.contract("W21")
def test_a_revoked_an_expired_and_a_misspelt_token_open_nothing() -> None:
    token, token_id = mint()
    with pytest.raises(errors.Unauthorized):
        authentication.actor_of_token(f"{token_id}.{'0' * 16}")
    tokens.revoke_bootstrap_token(ANA, token_id)
    with pytest.raises(errors.Unauthorized):
        authentication.actor_of_token(token)
    assert AuditEvent.objects.filter(act="bootstraptoken:revoke", name=token_id).count() == 1
    tokens.revoke_bootstrap_token(ANA, token_id)
    assert AuditEvent.objects.filter(act="bootstraptoken:revoke", name=token_id).count() == 1
    other, other_id = mint()
    BootstrapToken.objects.filter(pk=other_id).update(expires=timezone.now())
    with pytest.raises(errors.Unauthorized):
        authentication.actor_of_token(other)


def test_a_token_that_is_not_there_cannot_be_revoked() -> None:
    with pytest.raises(errors.NotFound):
        tokens.revoke_bootstrap_token(ANA, "nonono")


@pytest.mark.parametrize(
    ("name", "ttl", "cluster"),
    [
        ("a\nb", timedelta(hours=1), ""),
        ("a" * 121, timedelta(hours=1), ""),
        ("", timedelta(), ""),
        ("", timedelta(days=366), ""),
        ("", timedelta(hours=1), "Not a name"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(name: str, ttl: timedelta, cluster: str) -> None:
    with pytest.raises(errors.Invalid):
        tokens.issue_bootstrap_token(ANA, name=name, ttl=ttl, cluster=cluster)
    assert not BootstrapToken.objects.exists()


def bootstrap_secret(**more: str) -> None:
    values = {
        "token-id": "ocmhub",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:managedcluster",
        **more,
    }
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    doc = {"metadata": {"name": "bootstrap-token-ocmhub"}, "type": "bootstrap.kubernetes.io/token", "data": data}
    namespace("kube-system")
    verbs.create(ANA.__class__.controller("test"), kinds.SECRET, doc, namespace="kube-system")


@pytest.mark.contract("W21")
def test_a_secret_of_kubernetes_is_honoured() -> None:
    bootstrap_secret()
    actor = authentication.actor_of_token("ocmhub.0123456789abcdef")
    assert actor.user == "system:bootstrap:ocmhub"
    assert actor.groups == ("system:bootstrappers", "system:bootstrappers:managedcluster", "system:authenticated")


@pytest.mark.contract("W21")
@pytest.mark.parametrize(
    "more",
    [
        {"token-secret": "fedcba9876543210"},
        {"usage-bootstrap-authentication": "false"},
        {"expiration": "2020-01-01T00:00:00Z"},
        {"auth-extra-groups": "system:masters"},
    ],
)
def test_a_secret_that_does_not_fit_opens_nothing(more: dict[str, str]) -> None:
    bootstrap_secret(**more)
    with pytest.raises(errors.Unauthorized):
        authentication.actor_of_token("ocmhub.0123456789abcdef")


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "a.b.c", "abcdef.short", "x" * 20_000, "ab\0cde.0123456789abcdef", "\ud800.a.b", "eyJ.eyJ.sig"],
)
def test_odd_tokens_are_unauthorized_and_nothing_worse(token: str) -> None:
    with pytest.raises(errors.Unauthorized):
        authentication.actor_of_token(token)


@pytest.mark.contract("D2")
def test_who_may_mint_is_said_by_a_django_permission_or_by_rbac() -> None:
    for name in ("ana", "li"):
        User.objects.create_user(name)
    permissions.grant_permission(ROOT, TokenPermission.ADD, to=User.objects.get(username="ana"))
    grant(person("raj"), rule("create", "bootstraptokens", groups="ocmconsole.io"))
    assert {name: tokens.may_mint(person(name)).allowed for name in ("ana", "raj", "li")} == {
        "ana": True,
        "raj": True,
        "li": False,
    }
    with pytest.raises(errors.Forbidden, match=r"cannot create resource \"bootstraptokens\".*add_bootstraptoken"):
        tokens.require_mint(person("li"))
    assert AuditEvent.objects.get(user="li").act == "bootstraptokens:create"
