"""The rules of ManagedClusterSetBinding (ocm.md 2.3)."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from guardian.shortcuts import assign_perm

from clusters.kinds import GROUP
from clustersets.kinds import MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSet
from ocmconsole.kubeapi import admission, errors, verbs
from ocmconsole.kubeapi.actor import AUTHENTICATED, Actor
from ocmconsole.kubeapi.kinds import Key
from tests import factories as make
from tests.actors import grant, person, rule

pytestmark = pytest.mark.django_db

WEBHOOK = f'admission webhook "managedclustersetbindingvalidators.admission.{GROUP}" denied the request: '
CREATE = rule("create patch delete", "managedclustersetbindings", groups=GROUP)


@pytest.fixture(autouse=True)
def ns() -> str:
    make.namespace("ns")
    return "ns"


@pytest.mark.contract("A8")
def test_a_binding_has_the_name_of_its_set_for_ever() -> None:
    text = f"{WEBHOOK}The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet"
    wrong = make.document(MANAGED_CLUSTER_SET_BINDING, "x", spec={"clusterSet": "web"})
    with pytest.raises(errors.BadRequest) as refused:
        make.create(MANAGED_CLUSTER_SET_BINDING, wrong, namespace="ns")
    assert refused.value.message == text
    make.binding("web", namespace="ns")
    with pytest.raises(errors.BadRequest) as refused:
        make.edit(MANAGED_CLUSTER_SET_BINDING, "web", lambda doc: doc["spec"].update(clusterSet="db"), namespace="ns")
    assert refused.value.message == text


@pytest.mark.contract("A9", "K2", "S134")
def test_binding_needs_its_own_right() -> None:
    raj = person("raj")
    grant(raj, CREATE)
    with pytest.raises(errors.Forbidden) as refused:
        make.binding("web", namespace="ns", by=raj)
    assert refused.value.message == (
        f'{WEBHOOK}managedclustersets/bind.{GROUP} "web" is forbidden: user "raj" is not allowed to bind cluster set "web"'
    )


@pytest.mark.contract("A9", "D2", "S135")
@pytest.mark.parametrize("resource", ["managedclustersets/bind", "managedclusterset/bind"])
def test_the_right_is_spelled_in_singular_or_plural_and_is_asked_at_create_only(resource: str) -> None:
    raj = person("raj")
    grant(raj, CREATE, rule("create", resource, groups=GROUP, names="web"))
    make.binding("web", namespace="ns", by=raj)
    li = person("li")
    grant(li, CREATE)
    make.edit(
        MANAGED_CLUSTER_SET_BINDING, "web", lambda doc: doc["metadata"].update(labels={"a": "b"}), namespace="ns", by=li
    )
    verbs.delete(li, MANAGED_CLUSTER_SET_BINDING, Key("ns", "web"))


@pytest.mark.contract("D2", "A9")
def test_the_right_may_be_a_permission_on_the_set() -> None:
    make.clusterset("web")
    user = User.objects.create_user("ana")
    ana = Actor(user="ana", groups=(AUTHENTICATED,))
    grant(ana, CREATE)
    assign_perm("bind_managedclusterset", user, ManagedClusterSet.objects.get(name="web"))
    make.binding("web", namespace="ns", by=ana)
    with pytest.raises(errors.Forbidden):
        make.binding("db", namespace="ns", by=ana)


@pytest.mark.contract("D4", "K5", "S121", "S163")
def test_a_cluster_namespace_is_not_bound() -> None:
    make.cluster("c1", accepted=True)
    make.settle()
    with pytest.raises(errors.Invalid, match="cluster namespace") as refused:
        make.binding("web", namespace="c1")
    assert refused.value.code == 422
    assert refused.value.message.startswith(WEBHOOK)


@pytest.mark.contract("D4", "K5")
def test_where_parity_is_wanted_it_is_only_warned_about(settings: Any) -> None:
    settings.OCMCONSOLE_ALLOW_CLUSTER_NAMESPACE_BINDING = True
    make.cluster("c1", accepted=True)
    make.settle()
    with admission.collecting() as warnings:
        make.binding("web", namespace="c1")
    assert "cluster namespace" in warnings[0]


@pytest.mark.contract("D4")
def test_a_cluster_that_merely_asks_blocks_no_namespace() -> None:
    make.cluster("ns")
    make.settle()
    make.binding("web", namespace="ns")
