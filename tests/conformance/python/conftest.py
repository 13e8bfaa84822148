"""Fixtures of the Python client's tests: it comes with a certificate, with a token, and as others."""

from __future__ import annotations

import gc
import itertools
import warnings
from collections.abc import Iterator

import pytest

from tests.conformance.python.clients import Api, client, of_file, with_token
from tests.hub import Hub

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def _abandoned_connections() -> Iterator[None]:
    """The client leaves a watch's connection to the garbage collector, which would complain in somebody else's test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def admin_client(hub: Hub) -> Iterator[Api]:
    """With the certificate in the first admin's kubeconfig."""
    with of_file(hub.admin_kubeconfig) as api:
        yield api


@pytest.fixture(scope="session")
def core(admin_client: Api) -> Api:
    return client.CoreV1Api(admin_client)


@pytest.fixture(scope="session")
def custom(admin_client: Api) -> Api:
    return client.CustomObjectsApi(admin_client)


@pytest.fixture(scope="session")
def bootstrap(hub: Hub) -> Iterator[Api]:
    """With the token in the kubeconfig that an agent starts with."""
    path = hub.home / "python.kubeconfig"
    hub.manage("bootstrap_token", "create", "--name", "python", "--uses", "1000", "--kubeconfig", str(path))
    with of_file(path) as api:
        yield api


@pytest.fixture
def name() -> str:
    return f"py{next(_numbers)}"


@pytest.fixture
def namespace(core: Api, name: str) -> str:
    core.create_namespace({"metadata": {"name": name}})
    return name


@pytest.fixture
def reader(hub: Hub, core: Api, namespace: str) -> Iterator[Api]:
    """A service account that may nothing yet, by its token."""
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "reader"}})
    made = core.create_namespaced_service_account_token("reader", namespace, {"spec": {"expirationSeconds": 600}})
    with with_token(hub, made.status.token) as api:
        yield api
