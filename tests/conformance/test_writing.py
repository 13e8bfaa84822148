"""create, apply, label, annotate, edit, patch, replace, diff: each works, and stores what it says."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.conformance.cluster import MANAGED, MANY, managed, settle
from tests.conformance.commands import Doc, Kubectl
from tests.conformance.conftest import Present

DRY = "--dry-run=server"


def _lease_seconds(admin: Kubectl, name: str) -> int:
    return int(admin("get", "mcl", name, "-o", "jsonpath={.spec.leaseDurationSeconds}"))


# -------------------------------------------------------------------------------------------------- create and apply


@pytest.mark.contract("W122")
def test_create_makes_a_cluster_once(admin: Kubectl, name: str) -> None:
    assert admin("create", "-f", "-", stdin=managed(name)) == f"{MANAGED}/{name} created\n"
    assert admin.refuses("create", "-f", "-", stdin=managed(name)) == (
        f'Error from server (AlreadyExists): error when creating "STDIN": {MANY} "{name}" already exists'
    )


@pytest.mark.contract("W122")
def test_apply_creates_then_leaves_alone_then_configures(admin: Kubectl, name: str) -> None:
    assert admin("apply", "-f", "-", stdin=managed(name)) == f"{MANAGED}/{name} created\n"
    assert admin("apply", "-f", "-", stdin=managed(name)) == f"{MANAGED}/{name} unchanged\n"
    changed = managed(name, leaseDurationSeconds=30, labels={"env": "dev"})
    assert admin("apply", "-f", "-", stdin=changed) == f"{MANAGED}/{name} configured\n"
    assert _lease_seconds(admin, name) == 30
    admin("apply", "-f", "-", stdin=managed(name))
    assert _lease_seconds(admin, name) == 60  # a field that left the file takes its default again
    assert "env" not in admin.read("mcl", name)["metadata"]["labels"]


@pytest.mark.contract("W122")
def test_apply_of_a_built_in_kind_works_like_that_of_a_custom_one(admin: Kubectl, name: str) -> None:
    doc: Doc = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert admin("apply", "-f", "-", stdin=doc) == f"namespace/{name} created\n"
    assert admin("apply", "-f", "-", stdin=doc) == f"namespace/{name} unchanged\n"
    doc["metadata"]["labels"] = {"team": "blue"}
    assert admin("apply", "-f", "-", stdin=doc) == f"namespace/{name} configured\n"


@pytest.mark.contract("W153")
def test_apply_replaces_the_rules_of_a_role(admin: Kubectl, name: str) -> None:
    def role(*verbs: str) -> Doc:
        rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": list(verbs)}]
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        }

    admin("apply", "-f", "-", stdin=role("get", "list"))
    admin("apply", "-f", "-", stdin=role("watch"))
    assert [rule["verbs"] for rule in admin.read("clusterrole", name)["rules"]] == [["watch"]]


@pytest.mark.contract("W182")
def test_list_in_a_file_creates_every_item(admin: Kubectl, name: str) -> None:
    items = [managed(f"{name}-a"), managed(f"{name}-b")]
    made = admin("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})
    assert made.splitlines() == [f"{MANAGED}/{name}-a created", f"{MANAGED}/{name}-b created"]


@pytest.mark.contract("W162", "W17")
def test_generated_names_differ(admin: Kubectl, name: str) -> None:
    doc = managed(name)
    doc["metadata"] = {"generateName": f"{name}-"}
    first, second = (admin("create", "-f", "-", "-o", "name", stdin=doc).strip() for _ in range(2))
    assert first != second
    assert len(first) == len(f"{MANAGED}/{name}-") + 5


@pytest.mark.contract("W142")
def test_dry_run_on_the_server_stores_nothing(admin: Kubectl, present: Present, name: str) -> None:
    assert admin("create", DRY, "-f", "-", stdin=managed(name)) == f"{MANAGED}/{name} created (server dry run)\n"
    assert "NotFound" in admin.refuses("get", "mcl", name)
    there = present()
    admin("label", "mcl", there, "env=prod", DRY)
    assert "(server dry run)" in admin("delete", "mcl", there, DRY)
    assert "env" not in admin.read("mcl", there)["metadata"]["labels"]
    assert "deletionTimestamp" not in admin.read("mcl", there)["metadata"]


@pytest.mark.contract("W142")
def test_dry_run_refuses_what_a_real_run_would_refuse(admin: Kubectl, present: Present) -> None:
    assert "AlreadyExists" in admin.refuses("create", DRY, "-f", "-", stdin=managed(present()))


@pytest.mark.contract("W142")
def test_diff_says_by_its_exit_code_whether_apply_would_change_anything(admin: Kubectl, name: str) -> None:
    admin("apply", "-f", "-", stdin=managed(name))
    settle(admin, name)
    changed = admin.run("diff", "-f", "-", stdin=managed(name, leaseDurationSeconds=33), code=1).stdout.splitlines()
    assert "-  leaseDurationSeconds: 60" in changed
    assert "+  leaseDurationSeconds: 33" in changed
    assert "+  annotations: {}" not in changed
    assert _lease_seconds(admin, name) == 60
    assert admin("diff", "-f", "-", stdin=managed(name)) == ""


# ------------------------------------------------------------------------------------------------- change what is there


@pytest.mark.contract("W133")
def test_label_and_annotate_add_replace_and_remove(admin: Kubectl, present: Present) -> None:
    name = present()
    for command, said, where in (("label", "labeled", "labels"), ("annotate", "annotated", "annotations")):
        assert admin(command, "mcl", name, "tier=one") == f"{MANAGED}/{name} {said}\n"
        assert "--overwrite is false" in admin.refuses(command, "mcl", name, "tier=two")
        admin(command, "mcl", name, "tier=two", "--overwrite")
        assert admin.read("mcl", name)["metadata"][where]["tier"] == "two"
        admin(command, "mcl", name, "tier-")
        assert "tier" not in admin.read("mcl", name)["metadata"].get(where, {})


@pytest.mark.contract("W133")
def test_bad_label_is_refused_by_name(admin: Kubectl, present: Present) -> None:
    patch = '{"metadata":{"labels":{"a b":"c"}}}'
    refusal = admin.refuses("patch", "mcl", name := present(), "--type=merge", "-p", patch)
    assert refusal.startswith(
        f'The ManagedCluster "{name}" is invalid: metadata.labels: Invalid value: "a b": name part must'
    )


@pytest.mark.contract("W133")
def test_edit_stores_what_the_editor_leaves(admin: Kubectl, present: Present, monkeypatch: pytest.MonkeyPatch) -> None:
    name = present()
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/leaseDurationSeconds:.*/leaseDurationSeconds:\\ 41/")
    assert admin("edit", "mcl", name) == f"{MANAGED}/{name} edited\n"
    assert _lease_seconds(admin, name) == 41
    monkeypatch.setenv("KUBE_EDITOR", "true")
    assert "no changes made" in "".join(admin.run("edit", "mcl", name, code=0).stderr.splitlines())


@pytest.mark.contract("W133")
def test_merge_patch_and_json_patch_change_a_field(admin: Kubectl, present: Present) -> None:
    name = present()
    said = admin("patch", "mcl", name, "--type=merge", "-p", '{"spec":{"leaseDurationSeconds":7}}')
    assert said == f"{MANAGED}/{name} patched\n"
    assert _lease_seconds(admin, name) == 7
    operation = {"op": "replace", "path": "/spec/leaseDurationSeconds", "value": 9}
    admin("patch", "mcl", name, "--type=json", "-p", json.dumps([operation]))
    assert _lease_seconds(admin, name) == 9


@pytest.mark.contract("W16", "W115")
@pytest.mark.parametrize("patch", ['{"spec":{"hubAcceptsClient":false}}', '{"metadata":{"annotations":{}}}', "{}"])
def test_patch_that_changes_nothing_says_so(admin: Kubectl, present: Present, patch: str) -> None:
    name = present()
    settle(admin, name)
    assert admin("patch", "mcl", name, "--type=merge", "-p", patch) == f"{MANAGED}/{name} patched (no change)\n"


@pytest.mark.contract("W134")
def test_strategic_merge_patch_is_for_built_in_kinds_only(admin: Kubectl, present: Present) -> None:
    refusal = admin.refuses("patch", "mcl", present(), "-p", "{}")
    assert refusal.endswith(
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )
    admin("patch", "namespace", "default", "-p", '{"metadata":{"labels":{"patched":"yes"}}}')


@pytest.mark.contract("W135")
def test_json_patch_whose_test_fails_changes_nothing(admin: Kubectl, present: Present) -> None:
    name = present()
    operations = [
        {"op": "test", "path": "/spec/leaseDurationSeconds", "value": 1},
        {"op": "replace", "path": "/spec/leaseDurationSeconds", "value": 2},
    ]
    refusal = admin.refuses("patch", "mcl", name, "--type=json", "-p", json.dumps(operations))
    expected = "The request is invalid: the server rejected our request due to an error in our request"
    assert refusal == ("The request is invalid" if admin.is_old else expected)
    assert _lease_seconds(admin, name) == 60


@pytest.mark.contract("W133")
def test_replace_puts_a_document_in_place_of_another(admin: Kubectl, present: Present) -> None:
    name = present(labels={"env": "prod"})
    settle(admin, name)
    assert admin("replace", "-f", "-", stdin=managed(name, leaseDurationSeconds=31)) == f"{MANAGED}/{name} replaced\n"
    stored = admin.read("mcl", name)
    assert stored["spec"]["leaseDurationSeconds"] == 31
    assert "env" not in stored["metadata"]["labels"]


@pytest.mark.contract("W14", "W133")
def test_replace_of_an_older_version_is_a_conflict(admin: Kubectl, present: Present) -> None:
    name = present()
    stale = managed(name)
    stale["metadata"]["resourceVersion"] = "1"
    assert admin.refuses("replace", "-f", "-", stdin=stale) == (
        f'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on {MANY} "{name}": '
        "the object has been modified; please apply your changes to the latest version and try again"
    )


@pytest.mark.contract("W133")
def test_replace_of_what_is_not_there_is_not_found(admin: Kubectl, name: str) -> None:
    refusal = admin.refuses("replace", "-f", "-", stdin=managed(name))
    assert refusal == f'Error from server (NotFound): error when replacing "STDIN": {MANY} "{name}" not found'


@pytest.mark.contract("W14")
def test_generation_counts_changes_of_what_is_wanted_only(admin: Kubectl, present: Present) -> None:
    name = present()
    settle(admin, name)
    before = admin.read("mcl", name)["metadata"]
    admin("label", "mcl", name, "env=prod")
    admin(
        "patch",
        "mcl",
        name,
        "--type=merge",
        "-p",
        '{"metadata":{"uid":null,"generation":99},"spec":{"leaseDurationSeconds":9}}',
    )
    after = admin.read("mcl", name)["metadata"]
    assert after["uid"] == before["uid"]
    assert after["generation"] - before["generation"] == 1


@pytest.mark.contract("W171")
def test_yaml_of_a_person_is_as_good_as_json(admin: Kubectl, name: str) -> None:
    text = yaml.safe_dump(managed(name, leaseDurationSeconds=12))
    admin("create", "-f", "-", stdin=f"# a comment\n---\n{text}")
    assert _lease_seconds(admin, name) == 12
