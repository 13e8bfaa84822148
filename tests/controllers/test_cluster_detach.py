"""A deleted cluster whose agent is dead: what holds it can be given up (K29)."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from clusters import services
from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON, WORK_GROUP
from clusters.addons.addon_wire import ADDON_GROUP
from clusters.kinds import GROUP, MANAGED_CLUSTER
from clusters.models import ManagedClusterAddOn, ManifestWork
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from tests import factories as make
from tests.actors import grant, person, rule
from tests.kept import kept

pytestmark = [pytest.mark.django_db, pytest.mark.contract("K29")]

HOLD = ["example.com/hold"]
C1 = Key("", "c1")
READ = rule("get", "managedclusters", groups=GROUP)
PATCH_ADDONS = rule("patch", "managedclusteraddons", groups=ADDON_GROUP)
PATCH_WORKS = rule("patch", "manifestworks", groups=WORK_GROUP)


@pytest.fixture(autouse=True)
@kept
def stuck() -> None:
    """Deleted, and held by an add-on; its works have not even been asked to go."""
    make.cluster("c1", accepted=True)
    make.cluster("other", accepted=True)
    make.settle()
    for cluster in ("c1", "other"):
        make.addon(cluster, "held", finalizers=HOLD)
        make.work(cluster, "held", finalizers=HOLD)
    make.work("c1", "free")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, C1)
    make.settle()


def test_what_holds_it_is_given_up_and_the_removal_ends() -> None:
    assert services.detach_cluster(make.ADMIN, "c1", reason="it burned down") == [
        "managedclusteraddons/held",
        "manifestworks/held",
    ]
    make.settle()
    assert verbs.find(MANAGED_CLUSTER, C1) is None
    for model in (ManagedClusterAddOn, ManifestWork):
        assert list(model.objects.values_list("namespace", flat=True)) == ["other"]
    note = AuditEvent.objects.get(act="managedcluster:detach")
    assert (note.user, note.name, note.reason) == (make.ADMIN.user, "c1", "it burned down")


def test_a_cluster_that_is_not_being_deleted_is_not_detached() -> None:
    with pytest.raises(errors.Conflict, match="it is not being deleted: delete it first"):
        services.detach_cluster(make.ADMIN, "other", reason="x")
    with pytest.raises(errors.NotFound):
        services.detach_cluster(make.ADMIN, "nobody", reason="x")
    assert ManagedClusterAddOn.objects.filter(namespace="other", deleted_at=None).exists()


@pytest.mark.parametrize("rules", [[], [READ], [READ, PATCH_ADDONS], [READ, PATCH_WORKS]])
def test_who_may_not_patch_all_of_it_changes_nothing(rules: list[dict[str, Any]]) -> None:
    raj = person("raj")
    grant(raj, *rules)
    with pytest.raises(errors.Forbidden):
        services.detach_cluster(raj, "c1", reason="x")
    held = verbs.find(MANAGED_CLUSTER_ADDON, Key("c1", "held"))
    assert held is not None
    assert held["metadata"]["finalizers"] == HOLD


def test_who_may_patch_all_of_it_may_detach() -> None:
    raj = person("raj")
    grant(raj, READ, PATCH_ADDONS, PATCH_WORKS)
    services.detach_cluster(raj, "c1", reason="x")
    make.settle()
    assert verbs.find(MANAGED_CLUSTER, C1) is None


def test_the_command_says_what_was_abandoned() -> None:
    User.objects.create_superuser("admin")
    out = StringIO()
    call_command("detach", "c1", reason="gone", stdout=out)
    assert out.getvalue() == "c1 detached; managedclusteraddons/held abandoned; manifestworks/held abandoned\n"
    with pytest.raises(CommandError, match="is not being deleted"):
        call_command("detach", "other", reason="gone")
