"""The Python client of Kubernetes, with the credentials that people and agents have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kubernetes
import kubernetes.dynamic
import kubernetes.informer
import kubernetes.watch
import pytest

from tests.hub import Hub

# Its types say that everything may be None, as the protocol does; here the hub's answers are known better.
Api = Any
client: Api = kubernetes.client
config: Api = kubernetes.config
dynamic: Api = kubernetes.dynamic
informer: Api = kubernetes.informer
watch: Api = kubernetes.watch
Doc = dict[str, Any]

GROUP = "cluster.open-cluster-management.io"
CLUSTERS = (GROUP, "v1", "managedclusters")
SETS = (GROUP, "v1beta2", "managedclustersets")
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"


@contextmanager
def of_file(path: Path) -> Iterator[Api]:
    with config.new_client_from_config(config_file=str(path)) as api:
        yield api


@contextmanager
def with_token(hub: Hub, token: str) -> Iterator[Api]:
    configuration = client.Configuration(host=hub.api_url, api_key={"authorization": f"Bearer {token}"})
    configuration.ssl_ca_cert = str(hub.ca)
    with client.ApiClient(configuration) as api:
        yield api


@contextmanager
def with_pair(hub: Hub, certificate: Path, key: Path) -> Iterator[Api]:
    configuration = client.Configuration(host=hub.api_url)
    configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file = str(hub.ca), str(certificate), str(key)
    with client.ApiClient(configuration) as api:
        yield api


@contextmanager
def refused(code: int, reason: str = "") -> Iterator[Doc]:
    """The Status with which the hub refuses what happens inside."""
    status: Doc = {}
    with pytest.raises(client.ApiException) as refusal:
        yield status
    assert refusal.value.status == code, refusal.value.body
    status |= json.loads(refusal.value.body)
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", code)
    assert not reason or status["reason"] == reason


def cluster(name: str, **labels: str) -> Doc:
    metadata = {"name": name, "labels": labels}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ManagedCluster",
        "metadata": metadata,
        "spec": {"hubAcceptsClient": False},
    }


def cluster_set(name: str, **labels: str) -> Doc:
    return {"apiVersion": f"{GROUP}/v1beta2", "kind": "ManagedClusterSet", "metadata": {"name": name, "labels": labels}}
