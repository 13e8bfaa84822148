"""Who somebody is: certificates, tokens, nobody, and whom one may pass for (W21, W30, W148)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import jwt
import pytest
import yaml

from tests.conformance.wire.api import Api, Doc, eventually, refused, worked
from tests.conformance.wire.conftest import Account
from tests.conformance.wire.documents import CLUSTERS, SERVICE_ACCOUNT
from tests.conformance.wire.identities import bootstrap_token, certified, let_join, rule, token_of
from tests.server import Server

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ALL = "system:authenticated"


def whoami(api: Api) -> Doc:
    answer: Doc = api.create(WHOAMI, {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"})
    user: Doc = answer["status"]["userInfo"]
    return user


@pytest.mark.contract("W119", "W21")
def test_nobody_is_anonymous_and_may_nothing(anonymous: Api) -> None:
    text = 'managedclusters.cluster.open-cluster-management.io is forbidden: User "system:anonymous" cannot list resource "managedclusters" in API group "cluster.open-cluster-management.io" at the cluster scope'
    refused(anonymous.get(CLUSTERS), 403, "Forbidden", text)


@pytest.mark.contract("W119", "W21")
@pytest.mark.parametrize(
    "token", ["nonsense", "aaaaaa.bbbbbbbbbbbbbbbb", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "x" * 5000]
)
def test_bad_token_is_worse_than_none(bearer: Callable[[str], Api], token: str) -> None:
    for path in (CLUSTERS, "/version", "/api"):
        refused(bearer(token).get(path), 401, "Unauthorized", "Unauthorized")


@pytest.mark.contract("W21", "W120")
def test_certificate_says_user_and_groups(
    admin: Api, name: str, tmp_path: Path, holder_of: Callable[[Path], Api]
) -> None:
    """Somebody in two groups; beside it on the same port, a token still works."""
    pair = certified(admin, tmp_path, name, f"user-{name}", ["group-a", "group-b"])
    user = whoami(holder_of(pair))
    assert user["username"] == f"user-{name}"
    assert {"group-a", "group-b", ALL} <= {*user["groups"]}


@pytest.mark.contract("W120", "W21", "W30")
def test_token_needs_no_certificate(limited: Account, ns: str, name: str) -> None:
    user = whoami(limited())
    assert user["username"] == f"system:serviceaccount:{ns}:{name}"
    assert {*user["groups"]} == {"system:serviceaccounts", f"system:serviceaccounts:{ns}", ALL}
    assert user["uid"]


@pytest.mark.contract("W106", "W26")
def test_token_says_who_and_how_long(admin: Api, ns: str, name: str) -> None:
    admin.create(SERVICE_ACCOUNT.path(ns), {"metadata": {"name": name}})
    path = f"{SERVICE_ACCOUNT.path(ns, name)}/token"
    told = admin.create(path, {"spec": {"expirationSeconds": 3600}})
    assert told["kind"] == "TokenRequest"
    assert told["spec"]["expirationSeconds"] == 3600
    assert told["spec"]["audiences"]
    assert told["status"]["expirationTimestamp"].endswith("Z")
    header, payload, signature = told["status"]["token"].split(".")
    assert header
    assert signature
    claims = base64.urlsafe_b64decode(payload + "==").decode()
    assert f"system:serviceaccount:{ns}:{name}" in claims


@pytest.mark.contract("W156", "W26")
@pytest.mark.parametrize("seconds", [5, 599, 0, -1])
def test_token_is_not_for_less_than_ten_minutes(admin: Api, ns: str, seconds: int) -> None:
    answer = admin.post(f"{SERVICE_ACCOUNT.path(ns, 'default')}/token", {"spec": {"expirationSeconds": seconds}})
    refused(
        answer,
        422,
        "Invalid",
        f"spec.expirationSeconds: Invalid value: {seconds}: may not specify a duration less than 10 minutes",
    )


@pytest.mark.contract("W156")
def test_token_of_nobody_is_not_found(admin: Api, ns: str, name: str) -> None:
    answer = admin.post(f"{SERVICE_ACCOUNT.path(ns, name)}/token", {"spec": {}})
    refused(answer, 404, "NotFound", f'serviceaccounts "{name}" not found')


@pytest.mark.contract("W156", "W21")
def test_token_dies_with_its_account(admin: Api, ns: str, name: str, limited: Account) -> None:
    holder = limited()
    assert whoami(holder)
    worked(admin.delete(SERVICE_ACCOUNT.path(ns, name)))
    eventually(lambda: holder.get("/version").status_code == 401)
    admin.create(SERVICE_ACCOUNT.path(ns), {"metadata": {"name": name}})
    refused(holder.get("/version"), 401, "Unauthorized")


@pytest.mark.contract("W156")
def test_token_dies_with_what_it_is_bound_to(admin: Api, ns: str, name: str, bearer: Callable[[str], Api]) -> None:
    admin.create(SERVICE_ACCOUNT.path(ns), {"metadata": {"name": name}})
    secret = admin.create(f"/api/v1/namespaces/{ns}/secrets", {"metadata": {"name": name}})
    bound = {"kind": "Secret", "apiVersion": "v1", "name": name, "uid": secret["metadata"]["uid"]}
    holder = bearer(token_of(admin, ns, name, boundObjectRef=bound))
    assert whoami(holder)
    worked(admin.delete(f"/api/v1/namespaces/{ns}/secrets/{name}"))
    eventually(lambda: holder.get("/version").status_code == 401)
    missing = admin.post(
        f"{SERVICE_ACCOUNT.path(ns, name)}/token", {"spec": {"boundObjectRef": {**bound, "name": "nobody"}}}
    )
    refused(missing, 404, "NotFound")


# ----------------------------------------------------------------------------------------------------- bootstrap tokens


@pytest.mark.contract("W21", "W166")
def test_bootstrap_token_says_who(admin: Api, bearer: Callable[[str], Api]) -> None:
    token = bootstrap_token(admin)
    user = whoami(bearer(token))
    assert user["username"] == f"system:bootstrap:{token[:6]}"
    assert {*user["groups"]} == {"system:bootstrappers", "system:bootstrappers:managedcluster", ALL}


@pytest.mark.contract("W166")
@pytest.mark.parametrize(
    "fields",
    [
        {"expiration": "2001-01-01T00:00:00Z"},
        {"token_secret": "aaaaaaaaaaaaaaaa"},
        {"usage_bootstrap_authentication": "false"},
        {"usage_bootstrap_authentication": ""},
        {"token_id": "zzzzzz"},
    ],
    ids=str,
)
def test_bootstrap_token_that_is_not_good_is_refused(
    admin: Api, bearer: Callable[[str], Api], fields: dict[str, str]
) -> None:
    token = bootstrap_token(admin, **fields)
    refused(bearer(token).get("/version"), 401, "Unauthorized")


@pytest.mark.contract("W166")
def test_bootstrap_token_holds_until_it_expires(admin: Api, bearer: Callable[[str], Api]) -> None:
    holder = bearer(bootstrap_token(admin, expiration="2999-01-01T00:00:00Z"))
    assert whoami(holder)
    worked(admin.delete(admin.made[-1]))
    eventually(lambda: holder.get("/version").status_code == 401)


@pytest.mark.contract("W125", "W26")
def test_joining_cluster_reads_what_to_trust(admin: Api, bearer: Callable[[str], Api]) -> None:
    token = bootstrap_token(admin)
    let_join(admin, token)
    holder = bearer(token)
    answer = holder.get("/api/v1/namespaces/kube-public/configmaps/cluster-info")
    if answer.status_code == 404:  # the other way that clusteradm knows
        answer = holder.get("/api/v1/namespaces/kube-public/configmaps/kube-root-ca.crt")
        assert "BEGIN CERTIFICATE" in worked(answer)["data"]["ca.crt"]
        return
    config = yaml.safe_load(worked(answer)["data"]["kubeconfig"])
    (only,) = config["clusters"]
    assert only["cluster"]["server"].startswith("https://")
    assert b"BEGIN CERTIFICATE" in base64.b64decode(only["cluster"]["certificate-authority-data"])


# ------------------------------------------------------------------------------------------------------------ passing for


@pytest.mark.contract("W148")
def test_admin_may_pass_for_others(admin: Api) -> None:
    user = whoami(admin.with_headers(Impersonate_User="joe"))
    assert (user["username"], user["groups"]) == ("joe", [ALL])
    user = whoami(admin.with_headers(Impersonate_User="joe", Impersonate_Group="devs"))
    assert {*user["groups"]} == {"devs", ALL}
    user = whoami(admin.with_headers(Impersonate_User="system:serviceaccount:a:b"))
    assert {*user["groups"]} == {"system:serviceaccounts", "system:serviceaccounts:a", ALL}


@pytest.mark.contract("W148")
def test_one_who_impersonates_may_do_no_more_than_the_impersonated(admin: Api) -> None:
    refused(
        admin.with_headers(Impersonate_User="joe").get(CLUSTERS), 403, "Forbidden", 'User "joe" cannot list resource'
    )


@pytest.mark.contract("W148")
def test_passing_for_others_is_a_right(limited: Account, ns: str, name: str) -> None:
    """Since Kubernetes 1.36 the refusal names the narrower right as well, in other words."""
    holder = limited()
    said = refused(holder.with_headers(Impersonate_User="bob").get("/version"), 403, "Forbidden", "cannot impersonate")
    assert f'User "system:serviceaccount:{ns}:{name}"' in said["message"]


@pytest.mark.contract("W148", "W22")
def test_right_to_pass_for_others_may_name_them(limited: Account) -> None:
    holder = limited(rule("impersonate", "users", names=["bob"]))
    eventually(lambda: holder.with_headers(Impersonate_User="bob").get("/version").status_code == 200)
    assert whoami(holder.with_headers(Impersonate_User="bob"))["username"] == "bob"
    refused(holder.with_headers(Impersonate_User="ana").get("/version"), 403, "Forbidden", 'users "ana" is forbidden')
    refused(
        holder.with_headers(Impersonate_User="bob", Impersonate_Group="devs").get("/version"),
        403,
        "Forbidden",
        'groups "devs" is forbidden',
    )


@pytest.mark.contract("W148")
def test_group_without_a_user_is_refused(admin: Api) -> None:
    answer = admin.with_headers(Impersonate_Group="devs").get("/version")
    assert answer.status_code in {400, 403, 500}
    assert "without impersonating a user" in answer.json()["message"]


# ---------------------------------------------------------------------------------------------------------- token reviews


@pytest.mark.contract("W126", "W21")
def test_tokens_are_reviewed(admin: Api, ns: str) -> None:
    token = token_of(admin, ns, "default")
    said = admin.create(REVIEWS, {"spec": {"token": token}})["status"]
    assert said["authenticated"] is True
    assert said["user"]["username"] == f"system:serviceaccount:{ns}:default"
    bad = admin.create(REVIEWS, {"spec": {"token": "nonsense"}})["status"]
    assert not bad.get("authenticated")
    assert bad["error"]
    assert admin.post(REVIEWS, {"spec": {"token": ""}}).status_code in {400, 422}


# -------------------------------------------------------------------------------------------------- tokens of accounts


@pytest.mark.contract("W26", "W156")
def test_token_is_of_the_account_of_the_path(admin: Api, ns: str, name: str) -> None:
    """The body may name it once more, and nobody else."""
    uid = admin.create(SERVICE_ACCOUNT.path(ns), {"metadata": {"name": name}})["metadata"]["uid"]
    path = f"{SERVICE_ACCOUNT.path(ns, name)}/token"
    for metadata in ({"name": name}, {"namespace": ns}, {"uid": uid}, {"name": name, "namespace": ns, "uid": uid}):
        assert admin.create(path, {"metadata": metadata, "spec": {}})["status"]["token"]
    text = f'TokenRequest.authentication.k8s.io "{name}" is invalid: metadata.name: Invalid value: "other": must match the service account name if specified'
    refused(admin.post(path, {"metadata": {"name": "other"}, "spec": {}}), 422, "Invalid", text)
    text = "the namespace of the provided object does not match the namespace sent on the request"
    refused(admin.post(path, {"metadata": {"namespace": "other"}, "spec": {}}), 400, "BadRequest", text)
    text = "the UID in the token request (abc) does not match the UID of the service account"
    refused(admin.post(path, {"metadata": {"uid": "abc"}, "spec": {}}), 409, "Conflict", text)


@pytest.mark.contract("W26")
def test_issuer_of_tokens_can_be_discovered(
    server: Server, admin: Api, anonymous: Api, limited: Account, ns: str, name: str
) -> None:
    """OpenID discovery: with its two documents anybody who trusts the server checks its tokens alone."""
    found = admin.get("/.well-known/openid-configuration")
    assert found.headers["Content-Type"] == "application/json"
    assert found.headers["Cache-Control"] == "public, max-age=3600"
    provider = worked(found)
    assert provider["jwks_uri"].startswith("https://")
    assert provider["jwks_uri"].endswith("/openid/v1/jwks")
    assert (provider["response_types_supported"], provider["subject_types_supported"]) == (["id_token"], ["public"])
    keys = admin.get("/openid/v1/jwks", accept="*/*")
    assert keys.headers["Content-Type"] == "application/jwk-set+json"
    token = token_of(admin, ns, "default")
    known = jwt.PyJWKSet.from_dict(worked(keys))
    key = known[jwt.get_unverified_header(token)["kid"]]
    claims = jwt.decode(
        token,
        key.key,
        algorithms=provider["id_token_signing_alg_values_supported"],
        issuer=provider["issuer"],
        options={"verify_aud": False},
    )
    assert claims["sub"] == f"system:serviceaccount:{ns}:default"
    assert {"d", "k", "p", "q"}.isdisjoint(worked(keys)["keys"][0])
    assert {"/.well-known/openid-configuration", "/openid/v1/jwks"} <= {*admin.read("/")["paths"]}
    account = limited()
    for path in ("/.well-known/openid-configuration", "/openid/v1/jwks"):
        assert account.get(path).status_code == 200
        refused(anonymous.get(path), 403, "Forbidden", f'User "system:anonymous" cannot get path "{path}"')
        assert admin.post(path, {}).status_code == 405
