"""Ways to more rights than one was given."""

from __future__ import annotations

from typing import Any

import pytest

from ocmconsole.kubeapi.access import session
from tests import factories as make
from tests.actors import grant, person, rule
from tests.security.callers import CLUSTERS, RBAC, holder

pytestmark = pytest.mark.usefixtures("fresh_hub")
MERGE = "application/merge-patch+json"
WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
EDITS_ROLES = rule("get update patch", "clusterroles", groups="rbac.authorization.k8s.io")


@pytest.mark.contract("W22")
def test_a_role_one_does_not_hold_cannot_be_labelled_into_an_aggregated_role() -> None:
    grant(person("mallory"), EDITS_ROLES)
    label = {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}}
    refused = holder("mallory").send("PATCH", f"{RBAC}/clusterroles/cluster-admin", label, kind=MERGE)
    assert refused.code == 403
    assert "attempting to grant RBAC permissions not currently held" in refused.message


@pytest.mark.contract("D2", "D9")
def test_the_right_to_accept_writes_the_acceptance_and_the_key_and_nothing_else() -> None:
    from django.contrib.auth.models import Permission, User

    ana = User.objects.create_user("ana")
    ana.user_permissions.add(Permission.objects.get(codename="accept_managedcluster"))
    make.cluster("c1")
    key = "registration.ocmconsole.io/accept-key"
    for code, change in (
        (200, {"metadata": {"annotations": {key: "SHA256:" + "0" * 64}}}),
        (403, {"metadata": {"annotations": {key: "SHA256:" + "1" * 64, "other": "x"}}}),
        (403, {"metadata": {"annotations": None, "labels": {"a": "b"}}}),
        (403, {"metadata": {"finalizers": []}, "spec": {"leaseDurationSeconds": 1}}),
        (403, {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}}),
        (200, {"metadata": {"annotations": None}, "spec": {"hubAcceptsClient": True}}),
    ):
        assert holder("ana").send("PATCH", f"{CLUSTERS}/c1", change, kind=MERGE).code == code


@pytest.mark.contract("W22")
def test_an_aggregation_rule_is_taken_away_only_by_who_could_have_set_it() -> None:
    grant(person("mallory"), EDITS_ROLES)
    body: dict[str, Any] = {"aggregationRule": None, "rules": []}
    refused = holder("mallory").send("PATCH", f"{RBAC}/clusterroles/admin", body, kind=MERGE)
    assert refused.code == 403
    assert "aggregationRule" in refused.message


@pytest.mark.parametrize("user", ["system:serviceaccount:kube-system:a:b", "system:serviceaccount:kube-system"])
def test_a_user_who_is_merely_called_like_a_service_account_gets_no_accounts_groups(user: str) -> None:
    grant(person("support"), rule("impersonate", "users"))
    info = holder("support").post(WHO_AM_I, {}, impersonate_user=user).doc["status"]["userInfo"]
    assert info["groups"] == ["system:authenticated"]


def test_a_service_account_cannot_be_impersonated_with_the_right_on_users_alone() -> None:
    grant(person("support"), rule("impersonate", "users"))
    assert (
        holder("support").post(WHO_AM_I, {}, impersonate_user="system:serviceaccount:kube-system:default").code == 403
    )


def test_an_impersonated_anonymous_stays_unauthenticated() -> None:
    grant(person("support"), rule("impersonate", "users"))
    as_nobody = {"impersonate_user": "system:anonymous"}
    grant(person("system:anonymous"), rule("create", "selfsubjectreviews", groups="authentication.k8s.io"))
    info = holder("support").post(WHO_AM_I, {}, **as_nobody).doc["status"]["userInfo"]
    assert info["groups"] == ["system:unauthenticated"]


def test_impersonating_a_group_needs_the_right_on_that_group() -> None:
    grant(person("support"), rule("impersonate", "users"))
    claims = {"impersonate_user": "x", "impersonate_group": "system:masters"}
    assert holder("support").post(WHO_AM_I, {}, **claims).code == 403
    assert holder("support").post(WHO_AM_I, {}, impersonate_group="system:masters").code == 400


@pytest.mark.parametrize("name", ["system:masters", "open-cluster-management:c1", "system:open-cluster-management:c1"])
def test_a_django_group_is_never_a_group_of_the_system_or_of_agents(name: str) -> None:
    """The group of a cluster's agents without ``system:`` is as powerful as that of their certificates."""
    from django.contrib.auth.models import Group, User

    ana = User.objects.create_user("ana")
    ana.groups.add(Group.objects.create(name=name), Group.objects.create(name="ops"))
    assert session.actor_for(ana).groups == ("ops", "system:authenticated")
