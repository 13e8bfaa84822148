"""Django permissions on one cluster set are rights of the API on that set (D2, D16)."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from guardian.shortcuts import assign_perm

from clusters.kinds import GROUP
from clustersets.models import ManagedClusterSet
from tests import factories as make
from tests.api import entry

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D2", "D16")]

SETS = f"/apis/{GROUP}/v1beta2/managedclustersets"


@pytest.mark.parametrize(
    ("permission", "reads", "edits", "deletes"),
    [
        ("view_managedclusterset", 200, 403, 403),
        ("join_managedclusterset", 200, 403, 403),
        ("change_managedclusterset", 200, 200, 403),
        ("delete_managedclusterset", 200, 403, 200),
    ],
)
def test_a_permission_on_one_set_opens_that_set_and_no_other(
    permission: str, reads: int, edits: int, deletes: int
) -> None:
    raj = get_user_model().objects.create_user("raj")
    for name in ("web", "other"):
        make.clusterset(name)
    assign_perm(f"clustersets.{permission}", raj, ManagedClusterSet.objects.get(name="web"))
    by_raj, label = entry.person("raj"), {"metadata": {"labels": {"a": "b"}}}
    assert by_raj.get(f"{SETS}/web").code == reads
    assert by_raj.patch(f"{SETS}/web", label).code == edits
    assert by_raj.delete(f"{SETS}/web").code == deletes
    assert by_raj.get(f"{SETS}/other").code == 403
    assert by_raj.get(SETS).code == 403
