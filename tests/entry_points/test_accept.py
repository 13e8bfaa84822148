"""One act, many ways: the same rows, the same audit entry, the same permission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests import factories as make
from tests.entry_points import rights, scene
from tests.entry_points.scene import Waiting
from tests.entry_points.ways import COMPLETE_WAYS, WAYS, AdminForm, Api, Way

pytestmark = pytest.mark.django_db

Allow = Callable[..., None]
RIGHTS = [rights.by_guardian, rights.by_group, rights.by_rules, rights.by_mastery]
PERMISSION = "clusters.accept_managedcluster"


def leave_the_same(first: Waiting, second: Waiting) -> None:
    found = scene.records()
    left = scene.rows_of(first, found)
    assert len(left) > 5  # cluster, request, namespace, roles, lease, facts …
    assert left == scene.rows_of(second, found)
    assert scene.audit_of(first, found) == scene.audit_of(second, found)


@pytest.mark.parametrize("way", COMPLETE_WAYS.values(), ids=COMPLETE_WAYS)
@pytest.mark.parametrize("allow", RIGHTS)
@pytest.mark.contract("D2", "D15", "W22", "S5")
def test_a_way_leaves_what_kubectl_leaves(ana: Any, way: Way, allow: Allow) -> None:
    by_kubectl, by_way = scene.ask("site-one"), scene.ask("site-two")
    allow(ana, by_kubectl, by_way)
    Api().accept(ana, by_kubectl)
    make.settle()
    way.accept(ana, by_way)
    make.settle()
    for waiting in (by_kubectl, by_way):
        assert (scene.is_accepted(waiting), scene.state_of(waiting)) == (True, "Issued")
    leave_the_same(by_kubectl, by_way)


@pytest.mark.parametrize("allow", RIGHTS)
@pytest.mark.contract("D2", "W22")
def test_the_form_of_django_admin_leaves_what_kubectl_patch_leaves(ana: Any, allow: Allow) -> None:
    by_kubectl, by_form = scene.ask("site-one"), scene.ask("site-two")
    allow(ana, by_kubectl, by_form)
    Api().patch(ana, by_kubectl, {"spec": {"hubAcceptsClient": True}})
    AdminForm().accept(ana, by_form)
    make.settle()
    assert scene.is_accepted(by_form)
    leave_the_same(by_kubectl, by_form)


@pytest.mark.contract("D11")
def test_the_audit_names_person_way_and_act(ana: Any) -> None:
    from ocmconsole.kubeapi.models import AuditEvent

    for name, way in WAYS.items():
        waiting = scene.ask(f"cluster-of-{name}")
        rights.by_guardian(ana, waiting)
        way.accept(ana, waiting)
    found = AuditEvent.objects.filter(user="ana", act="managedcluster:accept").order_by("pk")
    assert list(found.values_list("name", "entry_point", "reason")) == [
        (
            f"cluster-of-{name}",
            {"page": "web", "command": "cli"}.get(name, name.partition("-")[0]),
            f"{PERMISSION} granted to ana",
        )
        for name in WAYS
    ]
