"""RbacAuthorizationV1Api and AuthorizationV1Api: rights given, asked for, and felt."""

from __future__ import annotations

import pytest

from tests.conformance.commands import eventually
from tests.conformance.python.clients import Api, client, refused

RULE = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}


@pytest.fixture
def rbac(admin_client: Api) -> Api:
    return client.RbacAuthorizationV1Api(admin_client)


def _bind(rbac: Api, namespace: str) -> None:
    rbac.create_namespaced_role(namespace, client.V1Role(metadata=client.V1ObjectMeta(name="maps"), rules=[RULE]))
    rbac.create_namespaced_role_binding(
        namespace,
        client.V1RoleBinding(
            metadata=client.V1ObjectMeta(name="maps"),
            role_ref=client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="maps"),
            subjects=[client.RbacV1Subject(kind="ServiceAccount", name="reader", namespace=namespace)],
        ),
    )


@pytest.mark.contract("W157", "W148")
def test_a_role_gives_what_it_names_and_no_more(rbac: Api, reader: Api, namespace: str) -> None:
    api = client.CoreV1Api(reader)
    with refused(403, "Forbidden") as status:
        api.list_namespaced_config_map(namespace)
    assert status["message"].startswith(
        f'configmaps is forbidden: User "system:serviceaccount:{namespace}:reader" cannot list'
    )
    _bind(rbac, namespace)
    # The hub puts it there after the answer to the client that made the namespace.
    eventually(
        lambda: [each.metadata.name for each in api.list_namespaced_config_map(namespace).items] == ["kube-root-ca.crt"]
    )
    with refused(403, "Forbidden"):
        api.create_namespaced_config_map(namespace, {"metadata": {"name": "m"}})
    rbac.delete_namespaced_role_binding("maps", namespace)
    with refused(403, "Forbidden"):
        api.list_namespaced_config_map(namespace)


@pytest.mark.contract("W157", "W148")
def test_reviews_say_who_may_what(rbac: Api, admin_client: Api, reader: Api, namespace: str) -> None:
    _bind(rbac, namespace)
    user = f"system:serviceaccount:{namespace}:reader"
    asked = {"namespace": namespace, "resource": "configmaps"}
    api, own = client.AuthorizationV1Api(admin_client), client.AuthorizationV1Api(reader)
    for verb, may in (("get", True), ("delete", False)):
        attributes = {"resourceAttributes": asked | {"verb": verb}}
        assert api.create_subject_access_review({"spec": attributes | {"user": user}}).status.allowed is may
        local = {"metadata": {"namespace": namespace}, "spec": attributes | {"user": user}}
        assert api.create_namespaced_local_subject_access_review(namespace, local).status.allowed is may
        assert own.create_self_subject_access_review({"spec": attributes}).status.allowed is may
    rules = own.create_self_subject_rules_review({"spec": {"namespace": namespace}}).status.resource_rules
    assert ["configmaps"] in [rule.resources for rule in rules if sorted(rule.verbs) == ["get", "list"]]


@pytest.mark.contract("W155")
def test_nobody_gives_more_than_they_hold(rbac: Api, reader: Api, namespace: str) -> None:
    _bind(rbac, namespace)
    writer = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["*"]}
    role = rbac.read_namespaced_role("maps", namespace)
    role.rules = [
        *role.rules,
        client.V1PolicyRule(api_groups=writer["apiGroups"], resources=["roles"], verbs=["create"]),
    ]
    rbac.replace_namespaced_role("maps", namespace, role)
    own = client.RbacAuthorizationV1Api(reader)
    assert own.create_namespaced_role(namespace, {"metadata": {"name": "same"}, "rules": [RULE]}).rules[0].verbs == [
        "get",
        "list",
    ]
    with refused(403, "Forbidden"):
        own.create_namespaced_role(namespace, {"metadata": {"name": "more"}, "rules": [{**RULE, "verbs": ["delete"]}]})


@pytest.mark.contract("W155")
def test_a_binding_never_changes_its_role(rbac: Api, reader: Api, namespace: str) -> None:
    _bind(rbac, namespace)
    binding = rbac.read_namespaced_role_binding("maps", namespace)
    binding.role_ref.name = "other"
    with refused(422, "Invalid"):
        rbac.replace_namespaced_role_binding("maps", namespace, binding)
