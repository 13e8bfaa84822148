"""Server-side apply: who manages which field, and what happens when two want it (W141)."""

from __future__ import annotations

import pytest

from tests.conformance.cluster import MANAGED, MANY, managed, settle
from tests.conformance.commands import Doc, Kubectl

ADVICE = "Please review the fields above--they currently have other managers."


def apply(admin: Kubectl, doc: Doc, *flags: str, manager: str = "first") -> str:
    return admin("apply", "--server-side", f"--field-manager={manager}", "-f", "-", *flags, stdin=doc)


def conflict(admin: Kubectl, doc: Doc, manager: str = "second") -> list[str]:
    """The lines about the conflict, without kubectl's own advice."""
    refusal = admin.refuses("apply", "--server-side", f"--field-manager={manager}", "-f", "-", stdin=doc)
    return refusal.partition(ADVICE)[0].splitlines()


@pytest.mark.contract("W141")
def test_apply_creates_and_then_changes_only_what_differs(admin: Kubectl, name: str) -> None:
    for _ in range(2):
        assert apply(admin, managed(name)) == f"{MANAGED}/{name} serverside-applied\n"
    settle(admin, name)
    version = admin("get", "mcl", name, "-o", "jsonpath={.metadata.resourceVersion}")
    apply(admin, managed(name))
    assert admin("get", "mcl", name, "-o", "jsonpath={.metadata.resourceVersion}") == version


@pytest.mark.contract("W141")
def test_two_managers_that_want_different_values_conflict(admin: Kubectl, name: str) -> None:
    apply(admin, managed(name, leaseDurationSeconds=60))
    wanted = managed(name, leaseDurationSeconds=30)
    assert conflict(admin, wanted) == [
        'error: Apply failed with 1 conflict: conflict with "first": .spec.leaseDurationSeconds'
    ]
    assert admin.read("mcl", name)["spec"]["leaseDurationSeconds"] == 60


@pytest.mark.contract("W141")
def test_several_conflicts_with_one_manager_are_listed_below_each_other(admin: Kubectl, name: str) -> None:
    apply(admin, managed(name, leaseDurationSeconds=60))
    wanted = managed(name, hubAcceptsClient=True, leaseDurationSeconds=30)
    assert conflict(admin, wanted) == [
        'error: Apply failed with 2 conflicts: conflicts with "first":',
        "- .spec.hubAcceptsClient",
        "- .spec.leaseDurationSeconds",
    ]


@pytest.mark.contract("W141")
def test_force_takes_the_field_over_and_its_former_manager_conflicts(admin: Kubectl, name: str) -> None:
    apply(admin, managed(name, leaseDurationSeconds=60))
    apply(admin, managed(name, leaseDurationSeconds=30), "--force-conflicts", manager="second")
    assert admin.read("mcl", name)["spec"]["leaseDurationSeconds"] == 30
    (said,) = conflict(admin, managed(name, leaseDurationSeconds=60), manager="first")
    assert said == 'error: Apply failed with 1 conflict: conflict with "second": .spec.leaseDurationSeconds'


@pytest.mark.contract("W141")
def test_managers_that_agree_share_a_field_and_the_last_one_takes_it_away(admin: Kubectl, name: str) -> None:
    both = managed(name, labels={"shared": "yes"})
    apply(admin, both)
    apply(admin, both, manager="second")
    apply(admin, managed(name))
    assert admin.read("mcl", name)["metadata"]["labels"]["shared"] == "yes"
    apply(admin, managed(name), manager="second")
    assert "shared" not in admin.read("mcl", name)["metadata"]["labels"]


@pytest.mark.contract("W141")
def test_field_that_a_person_patched_belongs_to_that_command(admin: Kubectl, name: str) -> None:
    apply(admin, managed(name))
    admin("patch", "mcl", name, "--type=merge", "-p", '{"spec":{"leaseDurationSeconds":5}}')
    (said,) = conflict(admin, managed(name, leaseDurationSeconds=30))
    start, _, when = said.partition(" at ")
    assert (
        start
        == 'error: Apply failed with 1 conflict: conflict with "kubectl-patch" using cluster.open-cluster-management.io/v1'
    )
    assert when.endswith("Z: .spec.leaseDurationSeconds")


@pytest.mark.contract("W141")
def test_cluster_of_client_side_apply_goes_over_to_the_server(admin: Kubectl, name: str) -> None:
    admin("apply", "-f", "-", stdin=managed(name, leaseDurationSeconds=60))
    said = apply(admin, managed(name, leaseDurationSeconds=30), "--force-conflicts", manager="kubectl")
    assert said == f"{MANAGED}/{name} serverside-applied\n"
    assert admin.read("mcl", name)["spec"]["leaseDurationSeconds"] == 30


@pytest.mark.contract("W141")
def test_managed_fields_say_who_applied_what(admin: Kubectl, name: str) -> None:
    apply(admin, managed(name))
    show = [] if admin.is_old else ["--show-managed-fields"]
    entries = admin.read("mcl", name, *show)["metadata"]["managedFields"]
    (mine,) = (entry for entry in entries if entry["operation"] == "Apply")
    assert (mine["manager"], mine["fieldsType"]) == ("first", "FieldsV1")
    assert mine["fieldsV1"] == {"f:spec": {"f:hubAcceptsClient": {}}}


@pytest.mark.contract("W141", "W142")
def test_dry_run_of_apply_reports_conflicts_and_stores_nothing(admin: Kubectl, name: str) -> None:
    said = apply(admin, managed(name), "--dry-run=server")
    assert said == f"{MANAGED}/{name} serverside-applied (server dry run)\n"
    assert admin.refuses("get", "mcl", name) == f'Error from server (NotFound): {MANY} "{name}" not found'


@pytest.mark.contract("W141")
def test_built_in_kind_is_applied_on_the_server_too(admin: Kubectl, name: str) -> None:
    doc: Doc = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"a": "1"},
    }
    apply(admin, doc)
    assert conflict(admin, doc | {"data": {"a": "2"}}) == [
        'error: Apply failed with 1 conflict: conflict with "first": .data.a'
    ]
    apply(admin, {key: part for key, part in doc.items() if key != "data"})
    assert "data" not in admin.read("configmap", name, "-n", "default")
