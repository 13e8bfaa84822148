"""Answers to requests for access: of two who answer one counts, and what could not be given is not granted."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from ocmconsole.access import services
from ocmconsole.accounts.permissions import PeoplePermission, grant_permission
from ocmconsole.core import kinds
from ocmconsole.core.models import AccessRequest
from ocmconsole.core.rbac import known_rights
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, Change, Revision
from tests.actors import ROOT, person, rule
from tests.actors import grant as bind

pytestmark = pytest.mark.django_db
RBAC = "rbac.authorization.k8s.io"


def asked(verb: str = "list") -> AccessRequest:
    User.objects.get_or_create(username="li")
    return services.request_access(person("li"), known_rights.question(verb, "secrets"), "for the audit")


def clerk() -> Actor:
    """May create roles and bindings and change permissions, and delete nothing."""
    found = person("clerk")
    grant_permission(ROOT, PeoplePermission.CHANGE_PERMISSION, to=User.objects.create_user("clerk"))
    bind(found, rule("create escalate bind", "clusterroles clusterrolebindings", groups=RBAC))
    return found


@pytest.mark.contract("D2", "D11")
def test_what_another_has_just_dismissed_is_not_given() -> None:
    row = asked()
    services.dismiss_request(ROOT, AccessRequest.objects.get(), "not now")
    with pytest.raises(errors.Conflict, match="somebody else"):
        services.grant_request(ROOT, row)  # read before the other answered
    assert verbs.find(kinds.CLUSTER_ROLE, Key("", f"access-request-{row.pk}")) is None
    assert AccessRequest.objects.get().answer == AccessRequest.Answer.DISMISSED


@pytest.mark.contract("D2", "D11")
def test_what_could_not_be_given_waits_on_and_leaves_nothing() -> None:
    row = asked()
    name = f"access-request-{row.pk}"
    taken = {"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": name}, "subjects": []}
    verbs.create(ROOT, kinds.CLUSTER_ROLE_BINDING, taken)
    giver = clerk()
    before = Change.objects.count()
    with pytest.raises(errors.AlreadyExists):
        services.grant_request(giver, row)
    assert verbs.find(kinds.CLUSTER_ROLE, Key("", name)) is None
    assert Change.objects.count() == before
    assert not AuditEvent.objects.filter(act="accessrequest:grant").exists()
    assert AccessRequest.objects.get().answer == ""


@pytest.mark.contract("D2", "D11")
def test_role_binding_and_answer_are_one_transaction() -> None:
    row = asked()
    giver = clerk()
    revision = Revision.objects.get().value
    services.grant_request(giver, row)
    assert Revision.objects.get().value == revision + 2
    made = AuditEvent.objects.filter(user="clerk", revision__gt=revision).order_by("pk")
    assert [each.act for each in made] == ["clusterrole:create", "clusterrolebinding:create"]
    assert len(set(made.values_list("request_id", flat=True))) == 1
    assert AuditEvent.objects.get(act="accessrequest:grant").user == "clerk"
    assert AccessRequest.objects.get().answer == AccessRequest.Answer.GRANTED


@pytest.mark.contract("W22", "W155")
def test_nobody_gives_with_a_new_role_what_they_do_not_hold() -> None:
    """The binding is judged by the role that comes in the same transaction."""
    row = asked()
    giver = person("clerk")
    grant_permission(ROOT, PeoplePermission.CHANGE_PERMISSION, to=User.objects.create_user("clerk"))
    bind(giver, rule("create", "clusterroles clusterrolebindings", groups=RBAC))
    with pytest.raises(errors.Forbidden, match="not currently held"):
        services.grant_request(giver, row)
    bind(giver, rule("list", "secrets"))
    services.grant_request(giver, row)
    assert verbs.find(kinds.CLUSTER_ROLE_BINDING, Key("", f"access-request-{row.pk}")) is not None
