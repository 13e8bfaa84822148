"""Answers to requests for access: of two who answer one counts, and what could not be given is not granted."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from ocmconsole.corekinds import access, kinds, rights
from ocmconsole.corekinds.models import AccessRequest
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.permissions import MAY_CHANGE, grant
from tests.actors import ROOT, person, rule
from tests.actors import grant as bind

pytestmark = pytest.mark.django_db
RBAC = "rbac.authorization.k8s.io"


def asked(verb: str = "list") -> AccessRequest:
    User.objects.get_or_create(username="li")
    return access.ask(person("li"), rights.question(verb, "secrets"), "for the audit")


def clerk() -> Actor:
    """May create roles and bindings and change permissions, and delete nothing."""
    found = person("clerk")
    grant(ROOT, MAY_CHANGE, to=User.objects.create_user("clerk"))
    bind(found, rule("create escalate bind", "clusterroles clusterrolebindings", groups=RBAC))
    return found


@pytest.mark.contract("D2", "D11")
def test_what_another_has_just_dismissed_is_not_given() -> None:
    row = asked()
    access.dismiss_request(ROOT, AccessRequest.objects.get(), "not now")
    with pytest.raises(errors.Conflict, match="somebody else"):
        access.grant_request(ROOT, row)  # read before the other answered
    assert verbs.find(kinds.CLUSTER_ROLE, Key("", f"access-request-{row.pk}")) is None
    assert AccessRequest.objects.get().answer == AccessRequest.Answer.DISMISSED


@pytest.mark.contract("D2", "D11")
@pytest.mark.parametrize("asks_anew", [False, True])
def test_what_could_not_be_given_waits_on_and_leaves_nothing(*, asks_anew: bool) -> None:
    row = asked()
    name = f"access-request-{row.pk}"
    taken = {"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": name}, "subjects": []}
    verbs.create(ROOT, kinds.CLUSTER_ROLE_BINDING, taken)
    with pytest.raises(errors.AlreadyExists):
        access.grant_request(clerk(), row)
    assert verbs.find(kinds.CLUSTER_ROLE, Key("", name)) is None
    assert AuditEvent.objects.get(verb="delete", resource=kinds.CLUSTER_ROLE.resource).user == access.CONTROLLER.user
    assert not AuditEvent.objects.filter(act="accessrequest:grant").exists()
    assert AccessRequest.objects.get().answer == ""
    if asks_anew:
        AccessRequest.objects.update(answer=AccessRequest.Answer.GRANTED)
        again = asked()
        access._release(row)
        assert AccessRequest.objects.get().pk == again.pk
