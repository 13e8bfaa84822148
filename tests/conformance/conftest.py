"""Fixtures of the conformance tests: kubectl as the admin and as a bootstrap identity, names, clusters.

The server may be somebody else's: whatever a test needs is made through its API.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cluster import Cluster, managed
from tests.conformance.commands import Kubectl
from tests.conformance.wire import identities
from tests.conformance.wire.api import Api
from tests.server import Server

# Names of one run, so that what an earlier one left behind is in nobody's way.
RUN = secrets.token_hex(2)
_numbers = itertools.count(1_000)  # of one length: names are listed in the order of their making


@pytest.fixture(scope="session")
def everlasting(server: Server) -> Iterator[Api]:
    """The admin by HTTP, for what all tests share."""
    with server.admin() as http:
        api = Api(http)
        yield api
        api.clean(api.made)


@pytest.fixture
def admin(server: Server, kubectl: Path) -> Kubectl:
    return Kubectl(server, kubectl, server.admin_kubeconfig)


@pytest.fixture(scope="session")
def bootstrap_kubeconfig(server: Server, everlasting: Api) -> Path:
    token = identities.bootstrap_token(everlasting)
    with server.client(Authorization=f"Bearer {token}") as http:
        if not Api(http).allowed("create", "managedclusters", group="cluster.open-cluster-management.io"):
            identities.let_join(everlasting, token)
    return server.kubeconfig(server.home / "bootstrap.kubeconfig", token)


@pytest.fixture
def bootstrap(admin: Kubectl, bootstrap_kubeconfig: Path) -> Kubectl:
    return admin.as_(bootstrap_kubeconfig)


@pytest.fixture
def name() -> str:
    """One that nothing on the hub has yet."""
    return f"c{RUN}{next(_numbers)}"


@pytest.fixture
def cluster(name: str, tmp_path: Path, admin: Kubectl, bootstrap: Kubectl) -> Iterator[Cluster]:
    """Nothing of it exists on the hub so far."""
    made = Cluster(name, tmp_path, admin=admin, bootstrap=bootstrap)
    yield made
    if "https" in vars(made):
        made.https.close()


Present = Callable[..., str]


@pytest.fixture
def present(admin: Kubectl) -> Present:
    """Creates a ManagedCluster; its name is returned."""

    def make(**how: Any) -> str:
        name = f"p{RUN}{next(_numbers)}"
        admin("create", "-f", "-", stdin=managed(name, **how))
        return name

    return make
