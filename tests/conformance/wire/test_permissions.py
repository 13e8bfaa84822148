"""What somebody may: roles and bindings, selectors, reviews, and handing out rights (W22, W126, W155)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.wire import identities
from tests.conformance.wire.api import PROTOBUF, Api, Doc, eventually, refused, worked
from tests.conformance.wire.conftest import Account, Made
from tests.conformance.wire.documents import (
    CLUSTER_GROUP,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTERS,
    CONFIG_MAP,
    MANAGED_CLUSTER,
    NAMESPACES,
    RBAC,
    ROLE_BINDING,
)
from tests.conformance.wire.identities import rule
from tests.conformance.wire.protobufs import envelope, message

REVIEWS = "/apis/authorization.k8s.io/v1"
SELF = f"{REVIEWS}/selfsubjectaccessreviews"
OTHERS = f"{REVIEWS}/subjectaccessreviews"
EMPTY_METADATA = message((1, ""), (2, ""), (3, ""), (4, ""), (5, ""), (6, ""), (7, 0), (8, b""))


def may(api: Api, method: str, path: str, code: int = 200, **query: Any) -> None:
    """A right takes effect a moment after it was given."""
    eventually(lambda: api.ask(method, path, query=query).status_code == code)


@pytest.mark.contract("W13", "W121")
def test_agent_may_list_and_watch_its_own_cluster(admin: Api, name: str, cluster: Doc, limited: Account) -> None:
    agent = limited(rule("get list watch", "managedclusters", group=CLUSTER_GROUP, names=[name]))
    mine: dict[str, Any] = {"fieldSelector": f"metadata.name={name}"}
    may(agent, "GET", CLUSTERS, **mine)
    assert agent.names(CLUSTERS, **mine) == [name]
    assert agent.read(f"{CLUSTERS}/{name}")["metadata"]["uid"] == cluster["metadata"]["uid"]
    with agent.watch(CLUSTERS, **mine) as watch:
        assert watch.next()["type"] == "ADDED"
    refused(agent.get(CLUSTERS), 403, "Forbidden")
    refused(agent.get(CLUSTERS, fieldSelector="metadata.name=other"), 403, "Forbidden")
    refused(agent.get(CLUSTERS, fieldSelector=f"metadata.name!={name}"), 403, "Forbidden")
    refused(agent.get(CLUSTERS, labelSelector=f"name={name}"), 403, "Forbidden")
    refused(agent.delete(CLUSTERS, **mine), 403, "Forbidden")
    with agent.watch(CLUSTERS) as watch:
        refused(watch.answer, 403, "Forbidden")


@pytest.mark.contract("W19", "W132")
@pytest.mark.parametrize(
    ("method", "path", "verb", "resource", "place"),
    [
        ("GET", CLUSTERS, "list", "managedclusters", "at the cluster scope"),
        ("GET", f"{CLUSTERS}/c4", "get", "managedclusters", "at the cluster scope"),
        ("GET", f"{CLUSTERS}/c4/status", "get", "managedclusters/status", "at the cluster scope"),
        ("POST", CLUSTERS, "create", "managedclusters", "at the cluster scope"),
        ("PUT", f"{CLUSTERS}/c4", "update", "managedclusters", "at the cluster scope"),
        ("PATCH", f"{CLUSTERS}/c4", "patch", "managedclusters", "at the cluster scope"),
        ("DELETE", f"{CLUSTERS}/c4", "delete", "managedclusters", "at the cluster scope"),
        ("DELETE", CLUSTERS, "deletecollection", "managedclusters", "at the cluster scope"),
        ("GET", f"{CLUSTERS}?watch=1", "watch", "managedclusters", "at the cluster scope"),
        ("GET", "/api/v1/namespaces/default/secrets", "list", "secrets", 'in the namespace "default"'),
        ("GET", "/api/v1/namespaces/default/secrets/c4", "get", "secrets", 'in the namespace "default"'),
        ("GET", "/api/v1/namespaces/default", "get", "namespaces", 'in the namespace "default"'),
        ("GET", "/apis/nosuch.example.com/v1/houses", "list", "houses", "at the cluster scope"),
    ],
)  # fmt: skip
def test_refusal_says_who_what_and_where(
    admin: Api, ns: str, method: str, path: str, verb: str, resource: str, place: str
) -> None:
    """Whether it exists or not; somebody without any right."""
    nobody = admin.with_headers(Impersonate_User="alice")
    group = "" if path.startswith("/api/") else path.split("/")[2]
    plain = resource.partition("/")[0]
    qualified = f"{plain}.{group}" if group else plain
    named = {"c4": ' "c4"', "default": ' "default"'}.get(path.removesuffix("/status").rpartition("/")[2], "")
    text = f'{qualified}{named} is forbidden: User "alice" cannot {verb} resource "{resource}" in API group "{group}" {place}'
    said = refused(nobody.ask(method, path, {} if method in {"POST", "PUT", "PATCH"} else None), 403, "Forbidden", text)
    assert said["details"]["kind"] == plain


@pytest.mark.contract("W19")
def test_path_that_is_no_resource_is_forbidden_by_its_name(admin: Api) -> None:
    nobody = admin.with_headers(Impersonate_User="alice")
    refused(nobody.get("/metrics"), 403, "Forbidden", 'forbidden: User "alice" cannot get path "/metrics"')
    worked(nobody.get("/version"))
    worked(nobody.get("/apis"))


@pytest.mark.contract("W22")
@pytest.mark.parametrize(
    ("rules", "allowed", "denied"),
    [
        ([rule("get", "configmaps")], [("get", "configmaps")], [("list", "configmaps"), ("get", "secrets"), ("get", "configmaps/status")]),
        ([rule("*", "configmaps")], [("get", "configmaps"), ("deletecollection", "configmaps")], [("get", "secrets")]),
        ([rule("get", "*")], [("get", "secrets"), ("get", "namespaces/status")], [("create", "secrets")]),
        ([rule("get", "namespaces/status")], [("get", "namespaces/status")], [("get", "namespaces"), ("get", "namespaces/finalize")]),
        ([rule("get", "*/status")], [("get", "namespaces/status")], [("get", "namespaces")]),
        ([rule("get", "configmaps", names=["a"])], [], [("get", "configmaps"), ("create", "configmaps")]),
        ([rule("GET", "configmaps")], [], [("get", "configmaps")]),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_rules_mean_what_they_say(
    admin: Api, limited: Account, rules: list[Doc], allowed: list[tuple[str, str]], denied: list[tuple[str, str]]
) -> None:
    holder = limited(*rules, rule("get", "secrets", names=["sentinel"]))
    eventually(lambda: _may(holder, "get", "secrets", "sentinel"))
    assert [pair for pair in allowed if not _may(holder, *pair)] == []
    assert [pair for pair in denied if _may(holder, *pair)] == []


def _may(api: Api, verb: str, resource: str, name: str = "") -> bool:
    plain, _, sub = resource.partition("/")
    attributes = {"verb": verb, "resource": plain, "subresource": sub, "name": name, "namespace": "default"}
    return bool(api.create(SELF, {"spec": {"resourceAttributes": attributes}})["status"]["allowed"])


@pytest.mark.contract("W22")
def test_rights_within_a_namespace_end_there(limited: Account, ns: str) -> None:
    holder = limited(rule("get list create", "configmaps"), within=ns)
    may(holder, "GET", CONFIG_MAP.path(ns))
    refused(holder.get(CONFIG_MAP.path("default")), 403, "Forbidden")
    refused(holder.get("/api/v1/configmaps"), 403, "Forbidden")


@pytest.mark.contract("W22")
def test_rights_are_taken_away_with_their_binding(admin: Api, ns: str, name: str, limited: Account) -> None:
    holder = limited(rule("list", "configmaps"))
    may(holder, "GET", CONFIG_MAP.path(ns))
    worked(admin.delete(f"{CLUSTER_ROLE_BINDINGS}/{ns}-{name}"))
    may(holder, "GET", CONFIG_MAP.path(ns), 403)


@pytest.mark.contract("W22")
def test_aggregated_role_is_the_sum_of_others(admin: Api, name: str) -> None:
    chosen = {"example.com/sum": name}
    aggregated = {
        "metadata": {"name": name},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": chosen}]},
        "rules": [],
    }
    admin.create(CLUSTER_ROLES, aggregated)
    one = rule("get", "configmaps")
    admin.create(CLUSTER_ROLES, {"metadata": {"name": f"{name}-a", "labels": chosen}, "rules": [one]})
    eventually(lambda: admin.read(f"{CLUSTER_ROLES}/{name}").get("rules") == [one])
    worked(admin.delete(f"{CLUSTER_ROLES}/{name}-a"))
    eventually(lambda: not admin.read(f"{CLUSTER_ROLES}/{name}").get("rules"))


@pytest.mark.contract("W22")
@pytest.mark.parametrize(
    "role",
    [
        "cluster-admin",
        "admin",
        "edit",
        "view",
        "system:basic-user",
        "system:discovery",
        "system:public-info-viewer",
        "system:service-account-issuer-discovery",
    ],
)
def test_roles_that_every_server_has(admin: Api, role: str) -> None:
    assert eventually(lambda: admin.read(f"{CLUSTER_ROLES}/{role}").get("rules"))


# ---------------------------------------------------------------------------------------------------- handing out rights


@pytest.mark.contract("W155", "W22")
def test_nobody_gives_more_than_they_hold(limited: Account, ns: str, name: str) -> None:
    writer = limited(rule("*", "clusterroles clusterrolebindings", group="rbac.authorization.k8s.io").copy() | {"verbs": ["create", "update", "patch", "get"]}, rule("get", "configmaps"))  # fmt: skip
    may(writer, "GET", f"{CLUSTER_ROLES}/view")
    text = 'is attempting to grant RBAC permissions not currently held:\n{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}'
    esc = {"metadata": {"name": f"{name}-esc"}, "rules": [rule("get delete", "secrets")]}
    refused(
        writer.post(CLUSTER_ROLES, esc),
        403,
        "Forbidden",
        f'clusterroles.rbac.authorization.k8s.io "{name}-esc" is forbidden: user "system:serviceaccount:{ns}:{name}"',
        text,
    )
    held = writer.create(CLUSTER_ROLES, {"metadata": {"name": f"{name}-esc"}, "rules": [rule("get", "configmaps")]})
    refused(writer.patch(f"{CLUSTER_ROLES}/{name}-esc", "merge", {"rules": esc["rules"]}), 403, "Forbidden", text)
    worked(writer.patch(f"{CLUSTER_ROLES}/{name}-esc", "merge", {"metadata": {"labels": {"a": "b"}}}))
    assert held["rules"]
    binding = {
        "metadata": {"name": f"{name}-esc"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    }
    refused(
        writer.post(CLUSTER_ROLE_BINDINGS, binding),
        403,
        "Forbidden",
        "is attempting to grant RBAC permissions not currently held",
    )


@pytest.mark.contract("W155", "W22")
@pytest.mark.parametrize(("verb", "path"), [("escalate", CLUSTER_ROLES), ("bind", CLUSTER_ROLE_BINDINGS)])
def test_right_to_hand_out_is_a_verb(limited: Account, name: str, verb: str, path: str) -> None:
    writer = limited(rule(f"create get {verb}", "clusterroles clusterrolebindings", group="rbac.authorization.k8s.io"))
    may(writer, "GET", f"{CLUSTER_ROLES}/view")
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    body = {"rules": [rule("get", "secrets")]} if verb == "escalate" else {"roleRef": reference}
    writer.create(path, {"metadata": {"name": f"{name}-x"}, **body})


@pytest.mark.contract("W155")
def test_binding_stays_with_its_role(admin: Api, ns: str, name: str, made: Made) -> None:
    made(ROLE_BINDING)
    answer = admin.patch(ROLE_BINDING.path(ns, name), "merge", {"roleRef": {"name": "edit"}})
    refused(answer, 422, "Invalid", "roleRef: Invalid value", "cannot change roleRef")


@pytest.mark.contract("W22", "W155")
@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([{"apiGroups": [""], "resources": ["a"], "verbs": []}], "rules[0].verbs: Required value: verbs must contain at least one value"),
        ([{"resources": ["a"], "verbs": ["get"]}], "rules[0].apiGroups: Required value"),
        ([{"apiGroups": [""], "verbs": ["get"]}], "rules[0].resources: Required value"),
        ([{"apiGroups": [""], "resources": ["a"], "verbs": ["get"], "nonResourceURLs": ["/a"]}], "rules cannot apply to both regular resources and non-resource URLs"),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_rules_have_a_form(admin: Api, name: str, rules: list[Doc], text: str) -> None:
    refused(admin.post(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules}), 422, "Invalid", text)


@pytest.mark.contract("W22")
def test_what_is_left_out_of_a_binding_is_filled_in(admin: Api, ns: str, name: str) -> None:
    path = f"/apis/{RBAC}/namespaces/{ns}/rolebindings"
    subjects = [{"kind": "User", "name": "ana"}, {"kind": "ServiceAccount", "name": "default", "namespace": ns}]
    made = admin.create(
        path, {"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": subjects}
    )
    assert made["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert [each.get("apiGroup", "") for each in made["subjects"]] == ["rbac.authorization.k8s.io", ""]


# ------------------------------------------------------------------------------------------------------------------ reviews


@pytest.mark.contract("W126")
@pytest.mark.parametrize(("verb", "expected"), [("get", True), ("delete", False)])
@pytest.mark.parametrize("form", ["json", "protobuf"])
def test_review_says_what_the_request_gets(limited: Account, ns: str, verb: str, expected: bool, form: str) -> None:
    holder = limited(rule("get list", "configmaps"))
    may(holder, "GET", CONFIG_MAP.path(ns))
    if form == "json":
        told = holder.create(
            SELF,
            {"spec": {"resourceAttributes": {"verb": verb, "resource": "configmaps", "namespace": ns, "name": "a"}}},
        )
    else:
        attributes = message((1, ns), (2, verb), (3, ""), (4, ""), (5, "configmaps"), (6, ""), (7, "a"))
        raw = message(
            (1, EMPTY_METADATA), (2, message((1, attributes))), (3, message((1, False), (2, ""), (3, ""), (4, False)))
        )
        body = envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", raw)
        told = worked(holder.ask("POST", SELF, body, kind=PROTOBUF), 201)
    assert told["status"]["allowed"] is expected
    real = holder.ask("GET" if verb == "get" else "DELETE", CONFIG_MAP.path(ns, "a"))
    assert (real.status_code != 403) is expected
    if expected:
        assert "RBAC: allowed by ClusterRoleBinding" in told["status"]["reason"]


@pytest.mark.contract("W126", "W148")
def test_sample_of_kubectl_is_understood(admin: Api) -> None:
    """`kubectl auth can-i get /healthz`, byte by byte as it was sent."""
    body = (
        b"k8s\0" + bytes.fromhex("0a32") + b"\x0a\x17authorization.k8s.io/v1" + b"\x12\x17SelfSubjectAccessReview"
        + bytes.fromhex("122f") + bytes.fromhex("0a10 0a00 1200 1a00 2200 2a00 3200 3800 4200")
        + bytes.fromhex("1211 120f 0a08") + b"/healthz" + b"\x12\x03get" + bytes.fromhex("1a08 0800 1200 1a00 2000 1a00 2200")
    )  # fmt: skip
    told = worked(admin.ask("POST", SELF, body, kind=PROTOBUF), 201)
    assert told["spec"]["nonResourceAttributes"] == {"path": "/healthz", "verb": "get"}
    assert told["status"]["allowed"] is True


@pytest.mark.contract("W126", "W22")
def test_admin_asks_about_others(admin: Api, ns: str) -> None:
    def asked(spec: Doc) -> bool:
        return bool(
            admin.create(OTHERS, {"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets"}, **spec}})[
                "status"
            ]["allowed"]
        )

    assert not asked({"user": "alice"})
    assert asked({"user": "alice", "groups": ["system:masters"]})
    refused(
        admin.post(OTHERS, {"spec": {"resourceAttributes": {"verb": "get"}}}),
        422,
        "Invalid",
        "at least one of user or group must be specified",
    )
    local = f"{REVIEWS}/namespaces/{ns}/localsubjectaccessreviews"
    attributes = {"namespace": ns, "verb": "get", "resource": "secrets"}
    assert (
        admin.create(
            local, {"metadata": {"namespace": ns}, "spec": {"user": "alice", "resourceAttributes": attributes}}
        )["status"]["allowed"]
        is False
    )


@pytest.mark.contract("W126")
def test_review_is_about_one_thing(admin: Api) -> None:
    both = {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get", "path": "/"}}
    text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    refused(admin.post(SELF, {"spec": {}}), 422, "Invalid", text)
    refused(admin.post(SELF, {"spec": both}), 422, "Invalid", "spec.nonResourceAttributes: Invalid value")


@pytest.mark.contract("W148")
def test_rules_are_listed(limited: Account, ns: str) -> None:
    holder = limited(rule("get", "configmaps"))
    may(holder, "GET", CONFIG_MAP.path(ns, "nobody"), 404)
    path = f"{REVIEWS}/selfsubjectrulesreviews"
    told = holder.create(path, {"spec": {"namespace": ns}})["status"]
    assert any(each["resources"] == ["configmaps"] and each["verbs"] == ["get"] for each in told["resourceRules"])
    assert any("/version" in each["nonResourceURLs"] for each in told["nonResourceRules"])
    assert told["incomplete"] is False
    refused(holder.post(path, {"spec": {}}), 400, "BadRequest", "no namespace on request")


@pytest.mark.contract("W22", "W148")
def test_virtual_subresources_are_reviewed(admin: Api) -> None:
    assert admin.allowed(
        "update", "managedclusters/accept", group=f"register.{CLUSTER_GROUP}".replace("cluster.", "", 1)
    )
    assert admin.allowed("create", "managedclustersets/join", group=CLUSTER_GROUP)


@pytest.mark.contract("W19")
def test_forbidden_text_is_safe_in_a_page(admin: Api) -> None:
    nobody = admin.with_headers(Impersonate_User="a<b>&c")
    message_ = refused(nobody.get(NAMESPACES), 403, "Forbidden")["message"]
    assert "<b>" not in message_


@pytest.mark.contract("W13", "W120")
def test_agent_with_a_certificate_sees_its_cluster(
    admin: Api, name: str, tmp_path: Path, holder_of: Callable[[Path], Api], made: Made
) -> None:
    """The identity of an agent that nobody accepted: its rights come from a binding to its group."""
    made(MANAGED_CLUSTER)
    group = f"wire:{name}"
    agent = holder_of(identities.certified(admin, tmp_path, f"{name}-csr", f"{group}:agent", [group]))
    refused(agent.get(f"{CLUSTERS}/{name}"), 403, "Forbidden", f'User "{group}:agent" cannot get resource')
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}
    identities.grant(
        admin, f"{name}-agent", [rule("get", "managedclusters", group=CLUSTER_GROUP, names=[name])], subject
    )
    may(agent, "GET", f"{CLUSTERS}/{name}")
