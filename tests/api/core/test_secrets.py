"""Secrets and config maps: what is folded, filled, frozen and refused."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from ocmconsole.core import kinds
from ocmconsole.core import reconcilers as corecontrollers
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.watch import change_log
from tests.actors import ROOT, namespace, refused_at_worst

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _here() -> None:
    namespace("here")


def secret(**parts: Any) -> dict[str, Any]:
    doc = {"metadata": {"name": "s", **parts.pop("metadata", {})}, **parts}
    made = verbs.create(ROOT, kinds.SECRET, doc, namespace="here").doc
    assert made is not None
    return made


def plain(doc: dict[str, Any]) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in doc["data"].items()}


def test_string_data_is_folded_over_data() -> None:
    made = secret(data={"a": "b2xk", "b": "b2xk"}, stringData={"a": "new"})
    assert plain(made) == {"a": b"new", "b": b"old"}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


def test_a_secret_never_enters_the_audit() -> None:
    secret(stringData={"key": "hunter2-hunter2"})
    verbs.edit(ROOT, kinds.SECRET, Key("here", "s"), lambda doc: doc.update(stringData={"key": "hunter3-hunter3"}))
    told = str(list(AuditEvent.objects.filter(resource="secrets").values()))
    for clear in ("hunter2-hunter2", "hunter3-hunter3"):
        assert clear not in told
        assert base64.b64encode(clear.encode()).decode() not in told


@pytest.mark.contract("W20")
@pytest.mark.parametrize("kind", [kinds.SECRET, kinds.CONFIG_MAP], ids=str)
def test_what_is_immutable_stays(kind: Any) -> None:
    doc = {"metadata": {"name": "s"}, "data": {"a": "YQ=="}, "immutable": True}
    verbs.create(ROOT, kind, doc, namespace="here")
    with pytest.raises(errors.Invalid, match="data: Forbidden: field is immutable when `immutable` is set"):
        verbs.edit(ROOT, kind, Key("here", "s"), lambda doc: doc["data"].update(a="Yg=="))
    with pytest.raises(errors.Invalid, match="immutable: Forbidden"):
        verbs.edit(ROOT, kind, Key("here", "s"), lambda doc: doc.update(immutable=False))
    verbs.edit(ROOT, kind, Key("here", "s"), lambda doc: doc["metadata"].update(labels={"a": "b"}))


@pytest.mark.contract("W20")
def test_the_type_of_a_secret_stays() -> None:
    secret(type="a/b")
    with pytest.raises(errors.Invalid, match="type: Invalid value"):
        verbs.edit(ROOT, kinds.SECRET, Key("here", "s"), lambda doc: doc.update(type="c/d"))


@pytest.mark.contract("W20")
@pytest.mark.parametrize("key", ["a b", "", "..", "ä", "a" * 254, "a/b"])
def test_keys_are_file_names(key: str) -> None:
    with pytest.raises(errors.Invalid, match="a valid config key must consist of"):
        secret(data={key: "YQ=="})


@pytest.mark.contract("W20")
def test_a_secret_is_at_most_one_mebibyte() -> None:
    secret(stringData={"a": "x" * (1024 * 1024)})
    with pytest.raises(errors.Invalid, match="Too long"):
        verbs.edit(ROOT, kinds.SECRET, Key("here", "s"), lambda doc: doc.update(stringData={"b": "yyyy"}))


@pytest.mark.contract("W20")
def test_a_key_is_in_one_of_both_maps() -> None:
    doc = {"metadata": {"name": "c"}, "data": {"a": "x"}, "binaryData": {"a": "eA=="}}
    with pytest.raises(errors.Invalid, match="duplicate of key present in binaryData"):
        verbs.create(ROOT, kinds.CONFIG_MAP, doc, namespace="here")


@pytest.mark.contract("W20")
@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("kubernetes.io/dockercfg", {}, r"data\[.dockercfg\]: Required value"),
        ("kubernetes.io/dockercfg", {".dockercfg": b"no json"}, r"data\[.dockercfg\]: Invalid value: .*redacted"),
        ("kubernetes.io/dockerconfigjson", {".dockercfg": b"{}"}, r"data\[.dockerconfigjson\]: Required value"),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": b"\xff"}, r"data\[.dockerconfigjson\]: Invalid value"),
        ("kubernetes.io/basic-auth", {"other": b""}, r"data\[username\]: Required value, data\[password\]: Required"),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": b""}, r"data\[ssh-privatekey\]: Required value"),
        ("kubernetes.io/tls", {}, r"data\[tls.crt\]: Required value, data\[tls.key\]: Required value"),
        ("kubernetes.io/tls", {"tls.crt": b""}, r"data\[tls.key\]: Required value"),
    ],
    ids=str,
)
def test_a_secret_has_what_its_type_needs(kind: str, data: dict[str, bytes], text: str) -> None:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    with pytest.raises(errors.Invalid, match=text) as refused:
        secret(type=kind, data=encoded)
    assert "no json" not in refused.value.message


@pytest.mark.contract("W20")
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("kubernetes.io/dockercfg", {".dockercfg": "{}"}),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": '{"auths": {}}'}),
        ("kubernetes.io/basic-auth", {"password": ""}),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": "a key"}),
        ("kubernetes.io/tls", {"tls.crt": "", "tls.key": "", "ca.crt": "more"}),
        ("example.com/anything", {}),
    ],
    ids=str,
)
def test_a_secret_of_a_known_type_is_stored_with_what_it_needs(kind: str, data: dict[str, str]) -> None:
    made = secret(type=kind, stringData=data)
    assert made["type"] == kind
    if data:
        with pytest.raises(errors.Invalid):
            verbs.edit(ROOT, kinds.SECRET, Key("here", "s"), lambda doc: doc.update(data={}))


@pytest.mark.contract("W21")
def test_token_secrets_go_with_their_account(settings: Any, tmp_path: Path) -> None:
    settings.OCMCONSOLE_HOME = tmp_path
    annotations = {"kubernetes.io/service-account.name": "bot"}
    for account in ("bot", "other"):
        verbs.create(ROOT, kinds.SERVICE_ACCOUNT, {"metadata": {"name": account}}, namespace="here")
    secret(metadata={"annotations": annotations}, type="kubernetes.io/service-account-token")
    secret(metadata={"name": "mere", "annotations": annotations})
    verbs.delete(ROOT, kinds.SERVICE_ACCOUNT, Key("here", "other"))
    workqueue.drain()
    assert verbs.find(kinds.SECRET, Key("here", "s"))
    verbs.delete(ROOT, kinds.SERVICE_ACCOUNT, Key("here", "bot"))
    verbs.create(ROOT, kinds.SERVICE_ACCOUNT, {"metadata": {"name": "bot"}}, namespace="here")
    secret(metadata={"name": "new", "annotations": annotations}, type="kubernetes.io/service-account-token")
    workqueue.drain()
    assert verbs.find(kinds.SECRET, Key("here", "s")) is None
    assert verbs.find(kinds.SECRET, Key("here", "mere"))
    assert verbs.find(kinds.SECRET, Key("here", "new"))
    revision = change_log.newest_revision()
    corecontrollers.reconcile_token_secrets(Key("here", "bot"))
    assert change_log.newest_revision() == revision


@pytest.mark.contract("W21")
def test_a_token_secret_is_filled_and_its_token_ends_with_it(settings: Any, tmp_path: Path) -> None:
    settings.OCMCONSOLE_HOME = tmp_path
    (tmp_path / "ca.crt").write_text("a certificate\n")
    verbs.create(ROOT, kinds.SERVICE_ACCOUNT, {"metadata": {"name": "bot"}}, namespace="here")
    made = secret(
        metadata={"annotations": {"kubernetes.io/service-account.name": "bot"}},
        type="kubernetes.io/service-account-token",
    )
    found = plain(made)
    assert found["namespace"] == b"here"
    assert found["ca.crt"] == b"a certificate\n"
    actor = tokens.service_account_actor(found["token"].decode())
    assert actor is not None
    assert actor.user == "system:serviceaccount:here:bot"
    verbs.delete(ROOT, kinds.SECRET, Key("here", "s"))
    with pytest.raises(errors.Unauthorized):
        tokens.service_account_actor(found["token"].decode())


@pytest.mark.contract("W21")
@pytest.mark.parametrize("annotations", [{}, {"kubernetes.io/service-account.name": "nobody"}])
def test_a_token_secret_names_an_account_that_is_there(annotations: dict[str, str]) -> None:
    with pytest.raises(errors.Invalid, match=r"metadata.annotations\[kubernetes.io/service-account.name\]"):
        secret(metadata={"annotations": annotations}, type="kubernetes.io/service-account-token")


@pytest.mark.parametrize("odd", [7, "x", [7], {"a": 7}, {"a": None}, {"a": "\ud800"}, {"a": "\0"}, None])
@pytest.mark.parametrize("field", ["data", "stringData", "type", "immutable", "annotations"])
def test_odd_secrets_are_refused_and_nothing_worse(field: str, odd: object) -> None:
    with refused_at_worst():
        if field == "annotations":
            secret(metadata={"annotations": odd}, type="kubernetes.io/service-account-token")
        else:
            secret(**{field: odd})
