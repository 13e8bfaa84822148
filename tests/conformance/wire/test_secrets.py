"""Secrets of known types, and those that hold the token of a service account."""

from __future__ import annotations

import pytest

from tests.conformance.wire.api import Api, eventually, refused, worked
from tests.conformance.wire.documents import SECRET, SERVICE_ACCOUNT


@pytest.mark.contract("W20")
@pytest.mark.parametrize(
    ("kind", "data", "fields"),
    [
        ("kubernetes.io/dockercfg", {}, ["data[.dockercfg]"]),
        ("kubernetes.io/dockercfg", {".dockercfg": "no json"}, ["data[.dockercfg]"]),
        ("kubernetes.io/dockerconfigjson", {".dockercfg": "{}"}, ["data[.dockerconfigjson]"]),
        ("kubernetes.io/basic-auth", {"other": "a"}, ["data[username]", "data[password]"]),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": ""}, ["data[ssh-privatekey]"]),
        ("kubernetes.io/tls", {}, ["data[tls.crt]", "data[tls.key]"]),
        ("kubernetes.io/tls", {"tls.key": ""}, ["data[tls.crt]"]),
        ("kubernetes.io/service-account-token", {}, ["metadata.annotations[kubernetes.io/service-account.name]"]),
    ],
    ids=str,
)
def test_secret_has_what_its_type_needs(
    admin: Api, ns: str, name: str, kind: str, data: dict[str, str], fields: list[str]
) -> None:
    doc = {"metadata": {"name": name}, "type": kind, "stringData": data}
    said = refused(admin.post(SECRET.path(ns), doc), 422, "Invalid", f'Secret "{name}" is invalid')
    assert {cause["field"] for cause in said["details"]["causes"]} == {*fields}
    assert "no json" not in said["message"]


@pytest.mark.contract("W20")
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": "{}"}),
        ("kubernetes.io/basic-auth", {"password": "a"}),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": "a"}),
        ("kubernetes.io/tls", {"tls.crt": "", "tls.key": ""}),
        ("example.com/mine", {}),
    ],
    ids=str,
)
def test_secret_of_a_type_is_kept_complete(admin: Api, ns: str, name: str, kind: str, data: dict[str, str]) -> None:
    doc = {"metadata": {"name": name}, "type": kind, "stringData": data}
    assert admin.create(SECRET.path(ns), doc)["type"] == kind
    answer = admin.patch(SECRET.path(ns, name), "merge", {"data": None})
    if data:
        refused(answer, 422, "Invalid", "Required value")
    else:
        worked(answer)


@pytest.mark.contract("W21")
def test_token_secret_goes_with_its_account(admin: Api, ns: str, name: str) -> None:
    admin.create(SERVICE_ACCOUNT.path(ns), {"metadata": {"name": name}})
    annotations = {"kubernetes.io/service-account.name": name}
    doc = {"metadata": {"name": name, "annotations": annotations}, "type": "kubernetes.io/service-account-token"}
    admin.create(SECRET.path(ns), doc)
    admin.create(SECRET.path(ns), {"metadata": {"name": f"{name}-other", "annotations": annotations}})
    worked(admin.delete(SERVICE_ACCOUNT.path(ns, name)))
    eventually(lambda: admin.get(SECRET.path(ns, name)).status_code == 404)
    worked(admin.get(SECRET.path(ns, f"{name}-other")))
