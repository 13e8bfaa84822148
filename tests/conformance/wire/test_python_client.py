"""Python's `kubernetes` client against the server (W157)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch

from tests.conformance.wire.api import Api
from tests.conformance.wire.documents import CLUSTER_GROUP, CLUSTERS, MANAGED_CLUSTER, REQUEST, REQUESTS
from tests.server import Server

# Some of it has types and some has none, and answers are what they are.
CLIENT: Any = client
CONFIG: Any = config
DYNAMIC: Any = dynamic
WATCH: Any = watch


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[Any]:
    made = CONFIG.new_client_from_config(str(server.admin_kubeconfig))
    yield made
    with contextlib.suppress(Exception):
        made.close()


@pytest.mark.contract("W157", "W118", "W133")
def test_custom_objects_live_and_die(api: Any, admin: Api, name: str) -> None:
    assert int(CLIENT.VersionApi(api).get_code().minor) >= 27
    objects = CLIENT.CustomObjectsApi(api)
    place = (CLUSTER_GROUP, "v1", "managedclusters")
    admin.made.append(f"{CLUSTERS}/{name}")
    made = objects.create_cluster_custom_object(*place, MANAGED_CLUSTER.doc(name, labels={"example.com/run": name}))
    assert made["metadata"]["uid"]
    patched = objects.patch_cluster_custom_object(*place, name, {"metadata": {"labels": {"a": "b"}}})
    assert patched["metadata"]["labels"]["a"] == "b"
    listed = objects.list_cluster_custom_object(*place, label_selector=f"example.com/run={name}", limit=1)
    assert [each["metadata"]["name"] for each in listed["items"]] == [name]
    with pytest.raises(CLIENT.ApiException) as refused:
        objects.get_cluster_custom_object(*place, f"{name}-missing")
    assert refused.value.status == 404
    assert objects.delete_cluster_custom_object(*place, name)


@pytest.mark.contract("W157", "W131")
def test_watch_resumes_and_ends(api: Any, admin: Api, ns: str, name: str) -> None:
    core = CLIENT.CoreV1Api(api)
    body = {"metadata": {"name": name, "labels": {"example.com/run": name}}, "data": {"a": "1"}}
    admin.create(f"/api/v1/namespaces/{ns}/configmaps", body)
    stream = WATCH.Watch().stream(
        core.list_namespaced_config_map, ns, label_selector=f"example.com/run={name}", timeout_seconds=2
    )
    seen = []
    for event in stream:
        seen.append(event["type"])
        if seen == ["ADDED"]:
            core.patch_namespaced_config_map(name, ns, {"data": {"a": "2"}})
        if seen == ["ADDED", "MODIFIED"]:
            break
    assert seen == ["ADDED", "MODIFIED"]


@pytest.mark.contract("W157")
def test_dynamic_client_discovers_and_writes(api: Any, admin: Api, ns: str, name: str, tmp_path: Path) -> None:
    found = DYNAMIC.DynamicClient(api, cache_file=str(tmp_path / "discovery"))
    works = found.resources.get(api_version="work.open-cluster-management.io/v1", kind="ManifestWork")
    path = f"/apis/work.open-cluster-management.io/v1/namespaces/{ns}/manifestworks/{name}"
    admin.made.append(path)
    body = {
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {"name": name},
        "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}},
    }
    assert works.server_side_apply(body=body, namespace=ns, field_manager="python").metadata.uid
    patched = works.patch(
        body={"metadata": {"labels": {"a": "b"}}}, name=name, namespace=ns, content_type="application/merge-patch+json"
    )
    assert patched.metadata.labels.a == "b"
    assert works.get(name=name, namespace=ns).metadata.name == name
    assert works.delete(name=name, namespace=ns)


@pytest.mark.contract("W157", "W126", "W154")
def test_requests_are_approved_and_rights_asked(api: Any, admin: Api, name: str) -> None:
    requests = CLIENT.CertificatesV1Api(api)
    admin.create(REQUESTS, REQUEST.doc(name))
    condition = {"type": "Approved", "status": "True", "reason": "Tested", "message": ""}
    requests.patch_certificate_signing_request_approval(name, {"status": {"conditions": [condition]}})
    assert [each["type"] for each in admin.read(f"{REQUESTS}/{name}")["status"]["conditions"]] == ["Approved"]
    attributes = {"verb": "list", "group": CLUSTER_GROUP, "resource": "managedclusters"}
    review = {"spec": {"resourceAttributes": attributes}}
    answer = CLIENT.AuthorizationV1Api(api).create_self_subject_access_review(review)
    assert answer.status.allowed is True
