"""What kubectl tells people about their rights, and about the ones that they lack."""

from __future__ import annotations

import pytest

from tests.conformance.cluster import MANY
from tests.conformance.commands import Doc, Kubectl, eventually

SCOPE = 'resource "managedclusters" in API group "cluster.open-cluster-management.io" at the cluster scope'
newer = pytest.mark.kubectls("recent", "machine")


def _grant(admin: Kubectl, user: str, *what: str) -> None:
    admin("create", "clusterrole", user, *what)
    admin("create", "clusterrolebinding", user, f"--clusterrole={user}", f"--user={user}")


@pytest.mark.contract("W126", "W148")
def test_can_i_answers_in_a_word_and_by_its_exit_code(admin: Kubectl, name: str) -> None:
    assert admin.run("auth", "can-i", "delete", "managedclusters", code=0).stdout == "yes\n"
    denied = admin.run("auth", "can-i", "delete", "managedclusters", f"--as={name}", code=1)
    assert denied.stdout.split()[0] == "no"
    assert admin("auth", "can-i", "get", "/version", f"--as={name}") == "yes\n"
    assert admin.run("auth", "can-i", "get", "/metrics", f"--as={name}", code=1).stdout.startswith("no")


@pytest.mark.contract("W126", "W148")
def test_can_i_agrees_with_what_then_happens(admin: Kubectl, name: str) -> None:
    _grant(admin, name, "--verb=get,list", "--resource=managedclusters.cluster.open-cluster-management.io")
    assert admin("auth", "can-i", "list", "mcl", f"--as={name}").strip() == "yes"
    admin("get", "mcl", f"--as={name}")
    admin.run("auth", "can-i", "delete", "mcl", f"--as={name}", code=1)
    assert admin.refuses("delete", "mcl", "any", f"--as={name}") == (
        f'Error from server (Forbidden): {MANY} "any" is forbidden: User "{name}" cannot delete {SCOPE}'
    )
    admin("delete", "clusterrolebinding", name)
    eventually(lambda: "yes" not in admin.run("auth", "can-i", "list", "mcl", f"--as={name}", code=1).stdout)


@pytest.mark.contract("W148")
def test_list_of_rights_shows_the_rules_that_apply(admin: Kubectl, name: str) -> None:
    _grant(admin, name, "--verb=get,list", "--resource=managedclusters.cluster.open-cluster-management.io")
    rights = admin("auth", "can-i", "--list", f"--as={name}").splitlines()
    (mine,) = (line for line in rights if line.startswith(MANY))
    assert mine.endswith("[get list]")
    assert any(line.startswith("selfsubjectaccessreviews.authorization.k8s.io") for line in rights)


@newer
@pytest.mark.contract("W148", "W120")
def test_whoami_shows_name_and_groups(admin: Kubectl, bootstrap: Kubectl) -> None:
    shown = dict(line.split(maxsplit=1) for line in admin("auth", "whoami").splitlines())
    assert shown["Username"] == "admin"
    assert shown["Groups"] == "[system:masters system:authenticated]"
    assert "system:bootstrappers:managedcluster" in bootstrap("auth", "whoami")


@newer
@pytest.mark.contract("W148")
def test_whoami_of_an_assumed_name_is_that_name(admin: Kubectl) -> None:
    shown = admin(
        "auth",
        "whoami",
        "--as=joe",
        "--as-group=devs",
        "-o",
        "jsonpath={.status.userInfo.username} {.status.userInfo.groups}",
    )
    assert shown == 'joe ["devs","system:authenticated"]'


@pytest.mark.contract("W148")
def test_nobody_takes_another_name_without_the_right_to(bootstrap: Kubectl) -> None:
    refusal = bootstrap.refuses("get", "mcl", "--as=bob")
    assert 'users "bob" is forbidden: User "system:bootstrap:' in refusal
    assert refusal.endswith('cannot impersonate resource "users" in API group "" at the cluster scope')


@pytest.mark.contract("W132", "W19")
def test_refusal_names_user_verb_and_place(admin: Kubectl, name: str) -> None:
    me = f"--as={name}"
    who = f'User "{name}" cannot'
    assert admin.refuses("get", "mcl", me) == f"Error from server (Forbidden): {MANY} is forbidden: {who} list {SCOPE}"
    assert (
        admin.refuses("get", "mcl", "c", me)
        == f'Error from server (Forbidden): {MANY} "c" is forbidden: {who} get {SCOPE}'
    )
    assert admin.refuses("get", "secrets", "-n", "default", me) == (
        f'Error from server (Forbidden): secrets is forbidden: {who} list resource "secrets" in API group "" in the namespace "default"'
    )


@pytest.mark.contract("W155", "W22")
def test_nobody_grants_more_than_they_have(admin: Kubectl, name: str) -> None:
    _grant(admin, name, "--verb=create,get", "--resource=clusterroles")
    role: Doc = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{name}-more"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    refusal = admin.refuses("create", "-f", "-", f"--as={name}", stdin=role)
    assert "is attempting to grant RBAC permissions not currently held:" in refusal
    assert refusal.endswith('{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}')


@newer
@pytest.mark.contract("W106")
def test_token_of_a_service_account_lets_it_in(admin: Kubectl, name: str) -> None:
    admin("create", "serviceaccount", name, "-n", "default")
    token = admin("create", "token", name, "-n", "default", "--duration=1h").strip()
    shown = admin("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", f"--token={token}", "--kubeconfig=/dev/null",
                  f"--server={admin.hub.api_url}", f"--certificate-authority={admin.hub.ca}")  # fmt: skip
    assert shown == f"system:serviceaccount:default:{name}"


@pytest.mark.contract("W119")
def test_bad_token_is_refused(admin: Kubectl) -> None:
    refusal = admin.refuses("get", "mcl", "--token=nonsense", "--kubeconfig=/dev/null", f"--server={admin.hub.api_url}",
                            f"--certificate-authority={admin.hub.ca}")  # fmt: skip
    assert refusal.endswith("You must be logged in to the server (Unauthorized)")
