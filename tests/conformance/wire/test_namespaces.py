"""Namespaces: what comes with one, and how one goes (W27)."""

from __future__ import annotations

import pytest

from tests.conformance.wire.api import Api, eventually, refused, worked
from tests.conformance.wire.documents import CONFIG_MAP, NAMESPACES, SECRET, WORK, Sample


@pytest.mark.contract("W27")
def test_namespace_comes_furnished(admin: Api, name: str) -> None:
    made = admin.create(NAMESPACES, {"metadata": {"name": name}})
    assert made["metadata"]["labels"]["kubernetes.io/metadata.name"] == name
    assert made["spec"]["finalizers"] == ["kubernetes"]
    assert made["status"]["phase"] == "Active"
    eventually(lambda: admin.get(f"{NAMESPACES}/{name}/serviceaccounts/default").status_code == 200)
    trusted = eventually(lambda: admin.get(f"{NAMESPACES}/{name}/configmaps/kube-root-ca.crt").status_code == 200)
    assert trusted
    assert "BEGIN CERTIFICATE" in admin.read(f"{NAMESPACES}/{name}/configmaps/kube-root-ca.crt")["data"]["ca.crt"]


@pytest.mark.contract("W27", "W159")
def test_namespace_goes_with_what_is_in_it(admin: Api, name: str) -> None:
    admin.create(NAMESPACES, {"metadata": {"name": name}})
    hold = ["example.com/hold"]
    for sample in (CONFIG_MAP, SECRET, WORK):
        admin.create(sample.path(name), sample.doc("a"))
    admin.create(WORK.path(name), WORK.doc("held", finalizers=hold))
    told = worked(admin.delete(f"{NAMESPACES}/{name}"))
    assert told["status"]["phase"] == "Terminating"
    assert told["metadata"]["deletionTimestamp"]
    said = refused(
        admin.post(CONFIG_MAP.path(name), CONFIG_MAP.doc("b")),
        403,
        "Forbidden",
        f'configmaps "b" is forbidden: unable to create new content in namespace {name} because it is being terminated',
    )
    assert said["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    eventually(lambda: not admin.names(SECRET.path(name)))
    assert admin.read(f"{NAMESPACES}/{name}")["status"]["phase"] == "Terminating"
    eventually(lambda: admin.read(WORK.path(name, "held"))["metadata"].get("deletionTimestamp"))
    admin.merge(WORK.path(name, "held"), {"metadata": {"finalizers": None}})
    eventually(lambda: admin.get(f"{NAMESPACES}/{name}").status_code == 404)
    assert admin.names(CONFIG_MAP.path(name)) == []


@pytest.mark.contract("W159")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_nothing_is_created_where_there_is_no_namespace(admin: Api, name: str, sample: Sample) -> None:
    said = refused(admin.post(sample.path(name), sample.doc("a")), 404, "NotFound", f'namespaces "{name}" not found')
    assert (said["details"]["name"], said["details"]["kind"]) == (name, "namespaces")


@pytest.mark.contract("W27", "W179")
def test_namespace_is_finalized_through_its_own_path(admin: Api, name: str) -> None:
    made = admin.create(NAMESPACES, {"metadata": {"name": name}})
    made["spec"]["finalizers"] = ["kubernetes", "example.com/hold"]
    told = worked(admin.put(f"{NAMESPACES}/{name}/finalize", made))
    assert {*told["spec"]["finalizers"]} == {"kubernetes", "example.com/hold"}
    worked(admin.delete(f"{NAMESPACES}/{name}"))
    eventually(lambda: admin.read(f"{NAMESPACES}/{name}")["spec"]["finalizers"] == ["example.com/hold"])
    last = admin.read(f"{NAMESPACES}/{name}")
    last["spec"]["finalizers"] = []
    worked(admin.put(f"{NAMESPACES}/{name}/finalize", last))
    eventually(lambda: admin.get(f"{NAMESPACES}/{name}").status_code == 404)


@pytest.mark.contract("W27")
def test_main_path_keeps_phase_and_finalizers(admin: Api, name: str) -> None:
    made = admin.create(NAMESPACES, {"metadata": {"name": name}})
    told = admin.merge(f"{NAMESPACES}/{name}", {"status": {"phase": "Terminating"}, "spec": {"finalizers": []}})
    assert (told["status"], told["spec"]) == (made["status"], made["spec"])


@pytest.mark.contract("W27")
@pytest.mark.parametrize("name_", ["default", "kube-system", "kube-public"])
def test_namespaces_that_every_server_has(admin: Api, name_: str) -> None:
    assert admin.read(f"{NAMESPACES}/{name_}")["status"]["phase"] == "Active"


@pytest.mark.contract("W147")
def test_description_of_a_namespace_finds_no_quotas(admin: Api, ns: str) -> None:
    """`kubectl describe ns` asks for them and takes what is not there."""
    for plural in ("resourcequotas", "limitranges"):
        assert admin.get(f"{NAMESPACES}/{ns}/{plural}", limit=500).status_code in {200, 404}
