"""Fixtures of the conformance tests: kubectl as the first admin and as a bootstrap identity, names, clusters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cluster import Cluster, managed
from tests.conformance.commands import Kubectl
from tests.hub import Hub

_numbers = itertools.count(1)


@pytest.fixture
def admin(hub: Hub, kubectl: Path) -> Kubectl:
    return Kubectl(hub, kubectl, hub.admin_kubeconfig)


@pytest.fixture(scope="session")
def bootstrap_kubeconfig(hub: Hub) -> Path:
    path = hub.home / "bootstrap.kubeconfig"
    hub.manage("bootstrap_token", "create", "--name", "conformance", "--kubeconfig", str(path))
    return path


@pytest.fixture
def bootstrap(admin: Kubectl, bootstrap_kubeconfig: Path) -> Kubectl:
    return admin.as_(bootstrap_kubeconfig)


@pytest.fixture
def name() -> str:
    """One that nothing on the hub has yet."""
    return f"c{next(_numbers)}"


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
        name = f"p{next(_numbers)}"
        admin("create", "-f", "-", stdin=managed(name, **how))
        return name

    return make
