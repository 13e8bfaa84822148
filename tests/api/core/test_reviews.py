"""Reviews: questions asked as objects."""

from __future__ import annotations

from typing import Any

import pytest

from ocmconsole.core import defaults, kinds
from ocmconsole.kubeapi import errors, verbs, virtual_resources
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.publish import discovery
from tests.actors import ROOT, grant, namespace, person, refused_at_worst, rule

pytestmark = pytest.mark.django_db
AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"


def ask(
    actor: Actor, group: str, plural: str, spec: Any = None, *, inside: str = "", name: str = "", sub: str = ""
) -> Any:
    endpoint = virtual_resources.find_endpoint(group, "v1", plural, sub)
    assert endpoint is not None
    return endpoint.answer(actor, inside, name, {} if spec is None else {"spec": spec})


@pytest.mark.contract("W22")
def test_may_i_is_answered_with_the_reason() -> None:
    ana = person("ana")
    name = grant(ana, rule("get", "secrets"))
    spec = {"resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "a"}}
    answer = ask(ana, AUTHORIZATION, "selfsubjectaccessreviews", spec)
    assert answer["kind"] == "SelfSubjectAccessReview"
    assert answer["apiVersion"] == "authorization.k8s.io/v1"
    assert answer["status"] == {
        "allowed": True,
        "reason": f'RBAC: allowed by ClusterRoleBinding "{name}" of ClusterRole "{name}" to User "ana"',
    }
    assert ask(person("li"), AUTHORIZATION, "selfsubjectaccessreviews", spec)["status"] == {"allowed": False}
    assert ask(ROOT, AUTHORIZATION, "selfsubjectaccessreviews", spec)["status"]["allowed"] is True


def test_an_access_review_takes_groups_as_given() -> None:
    spec = {"groups": ["system:masters"], "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    assert ask(person("li"), AUTHORIZATION, "subjectaccessreviews", spec)["status"]["allowed"] is True
    spec["groups"] = ["devs"]
    assert ask(person("li"), AUTHORIZATION, "subjectaccessreviews", spec)["status"] == {"allowed": False}


@pytest.mark.parametrize(
    ("plural", "spec", "text"),
    [
        (
            "selfsubjectaccessreviews",
            {},
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            "selfsubjectaccessreviews",
            {"resourceAttributes": {}, "nonResourceAttributes": {}},
            "spec.nonResourceAttributes: Invalid value: {}: cannot be specified in combination with resourceAttributes",
        ),
        (
            "subjectaccessreviews",
            {"resourceAttributes": {}},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
    ],
)
def test_a_question_without_a_subject_matter_is_refused(plural: str, spec: dict[str, Any], text: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        ask(ROOT, AUTHORIZATION, plural, spec)
    assert refused.value.message.endswith(f' "" is invalid: {text}')


def test_a_local_review_asks_about_its_own_namespace() -> None:
    spec = {"user": "ana", "resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "a"}}
    assert ask(ROOT, AUTHORIZATION, "localsubjectaccessreviews", spec, inside="a")["metadata"] == {"namespace": "a"}
    with pytest.raises(errors.BadRequest, match=r"spec.resourceAttributes.namespace must match namespace: b"):
        ask(ROOT, AUTHORIZATION, "localsubjectaccessreviews", spec, inside="b")


@pytest.mark.contract("W22")
def test_what_may_i_lists_the_rules_of_the_hub_and_of_the_namespace() -> None:
    ana = person("ana")
    namespace("a"), namespace("b")
    defaults.ensure_defaults(ROOT)
    grant(ana, rule("get", "secrets"))
    grant(ana, rule("list", "secrets", names="x"), namespace="a")
    grant(ana, rule("watch", "secrets"), namespace="b")
    status = ask(ana, AUTHORIZATION, "selfsubjectrulesreviews", {"namespace": "a"})["status"]
    assert status["incomplete"] is False
    assert rule("get", "secrets") in status["resourceRules"]
    assert rule("list", "secrets", names="x") in status["resourceRules"]
    assert rule("watch", "secrets") not in status["resourceRules"]
    assert any("/version" in found["nonResourceURLs"] for found in status["nonResourceRules"])
    with pytest.raises(errors.BadRequest, match="no namespace on request"):
        ask(ana, AUTHORIZATION, "selfsubjectrulesreviews", {})


def test_who_am_i() -> None:
    actor = Actor(user="ana", groups=("devs",), extra={"a": ("b",)})
    answer = ask(actor, AUTHENTICATION, "selfsubjectreviews")
    assert answer["status"] == {"userInfo": {"username": "ana", "groups": ["devs"], "extra": {"a": ["b"]}}}
    assert "spec" not in answer


@pytest.mark.contract("W26", "W21")
def test_a_token_is_issued_reviewed_and_ends_with_its_account() -> None:
    namespace("a")
    verbs.create(ROOT, kinds.SERVICE_ACCOUNT, {"metadata": {"name": "bot"}}, namespace="a")
    answer = ask(ROOT, "", "serviceaccounts", {"expirationSeconds": 3600}, inside="a", name="bot", sub="token")
    assert answer["kind"] == "TokenRequest"
    assert answer["spec"] == {
        "audiences": ["https://kubernetes.default.svc"],
        "expirationSeconds": 3600,
        "boundObjectRef": None,
    }
    token = answer["status"]["token"]
    assert token not in str(list(AuditEvent.objects.values()))
    assert AuditEvent.objects.filter(act="serviceaccount:token", name="bot").exists()
    reviewed = ask(ROOT, AUTHENTICATION, "tokenreviews", {"token": token})["status"]
    assert reviewed["authenticated"] is True
    assert reviewed["audiences"] == ["https://kubernetes.default.svc"]
    assert reviewed["user"]["username"] == "system:serviceaccount:a:bot"
    assert reviewed["user"]["uid"] == answer["metadata"]["uid"]
    assert reviewed["user"]["groups"] == ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]
    verbs.delete(ROOT, kinds.SERVICE_ACCOUNT, Key("a", "bot"))
    verbs.create(ROOT, kinds.SERVICE_ACCOUNT, {"metadata": {"name": "bot"}}, namespace="a")
    assert ask(ROOT, AUTHENTICATION, "tokenreviews", {"token": token})["status"] == {
        "user": {},
        "error": "invalid bearer token",
    }


def test_a_token_for_others_is_not_for_the_hub() -> None:
    namespace("a")
    verbs.create(ROOT, kinds.SERVICE_ACCOUNT, {"metadata": {"name": "bot"}}, namespace="a")
    answer = ask(ROOT, "", "serviceaccounts", {"audiences": ["vault"]}, inside="a", name="bot", sub="token")
    token = answer["status"]["token"]
    assert ask(ROOT, AUTHENTICATION, "tokenreviews", {"token": token})["status"]["error"]
    reviewed = ask(ROOT, AUTHENTICATION, "tokenreviews", {"token": token, "audiences": ["x", "vault"]})["status"]
    assert reviewed["audiences"] == ["vault"]


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        (
            {"expirationSeconds": 5},
            errors.Invalid,
            "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
        ),
        ({"expirationSeconds": 1 << 40}, errors.Invalid, "may not specify a duration larger than"),
        (
            {"boundObjectRef": {"kind": "Pod", "name": "x"}},
            errors.BadRequest,
            "cannot bind token to object of type Pod",
        ),
        ({"boundObjectRef": {"kind": "Secret", "name": "x"}}, errors.NotFound, 'secrets "x" not found'),
    ],
)
def test_a_token_request_says_what_is_wrong(spec: dict[str, Any], error: type[errors.ApiError], text: str) -> None:
    namespace("a")
    verbs.create(ROOT, kinds.SERVICE_ACCOUNT, {"metadata": {"name": "bot"}}, namespace="a")
    with pytest.raises(error, match=text):
        ask(ROOT, "", "serviceaccounts", spec, inside="a", name="bot", sub="token")


@pytest.mark.contract("W26")
def test_a_token_of_a_missing_account_is_not_found() -> None:
    with pytest.raises(errors.NotFound, match='serviceaccounts "nope" not found'):
        ask(ROOT, "", "serviceaccounts", {}, inside="a", name="nope", sub="token")


def test_an_empty_token_is_a_bad_request() -> None:
    with pytest.raises(errors.BadRequest):
        ask(ROOT, AUTHENTICATION, "tokenreviews", {"token": ""})


def test_discovery_lists_what_is_served() -> None:
    listed = {entry["name"]: entry for entry in (discovery.api_resource_list("", "v1") or {})["resources"]}
    assert listed["services"]["verbs"] == ["get", "list", "watch"]
    assert listed["serviceaccounts/token"] == {
        "name": "serviceaccounts/token",
        "singularName": "",
        "namespaced": True,
        "group": "authentication.k8s.io",
        "version": "v1",
        "kind": "TokenRequest",
        "verbs": ["create"],
    }
    assert "deletecollection" not in listed["namespaces"]["verbs"]
    assert listed["namespaces/finalize"]["verbs"] == ["update"]
    for group, plurals in {
        AUTHORIZATION: [
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        ],
        AUTHENTICATION: ["selfsubjectreviews", "tokenreviews"],
    }.items():
        entries = (discovery.api_resource_list(group, "v1") or {})["resources"]
        assert [entry["name"] for entry in entries] == plurals
        assert all(entry["verbs"] == ["create"] for entry in entries)


@pytest.mark.parametrize(
    "odd", [7, "x", [7], {"resourceAttributes": 7}, {"user": 7}, {"groups": "x"}, {"token": 7}, None]
)
@pytest.mark.parametrize(
    ("group", "plural"),
    [
        (AUTHORIZATION, "selfsubjectaccessreviews"),
        (AUTHORIZATION, "subjectaccessreviews"),
        (AUTHORIZATION, "localsubjectaccessreviews"),
        (AUTHORIZATION, "selfsubjectrulesreviews"),
        (AUTHENTICATION, "selfsubjectreviews"),
        (AUTHENTICATION, "tokenreviews"),
    ],
)
def test_odd_questions_are_refused_and_nothing_worse(group: str, plural: str, odd: object) -> None:
    with refused_at_worst():
        ask(ROOT, group, plural, odd)
