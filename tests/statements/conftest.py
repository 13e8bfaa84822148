"""Fixtures of the statements: a hub for many, or one whose clusters are counted; the documents' programs; agents."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance.commands import Doc, Kubectl
from tests.conftest import StartHub
from tests.fleet import Fleet
from tests.hub import Hub
from tests.statements.provider import Provider

_numbers = itertools.count(1)


@dataclass
class Desk:
    """What somebody has who follows a document: a hub and the programs for it."""

    hub: Hub
    binary: Path
    fleet: Fleet

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(self.hub, self.binary, self.hub.admin_kubeconfig)

    def clusteradm(self, line: str, *, user: str = "") -> str:
        """As the first admin, or as somebody with rights of their own."""
        # Loads modules of the hub, which must wait until Django's settings are chosen.
        from tests.statements.clusteradm import Clusteradm

        tool = Clusteradm(self.hub, user)
        try:
            return tool(line)
        finally:
            tool.close()

    def grant(self, role: str, user: str) -> str:
        """Bind an existing cluster role to a user; returns the user's name."""
        self.kubectl("create", "clusterrolebinding", f"{role}-{user}", f"--clusterrole={role}", f"--user={user}")
        return user

    def allow(self, user: str, *rules: tuple[str, str]) -> str:
        """A role of the test's own: verbs and resources, with commas, of OCM's group."""
        self.kubectl("create", "-f", "-", stdin=_role("ClusterRole", f"own-{user}", "", rules))
        return self.grant(f"own-{user}", user)

    def allow_in(self, namespace: str, user: str, *rules: tuple[str, str]) -> str:
        """The same in one namespace."""
        self.kubectl("create", "-f", "-", stdin=_role("Role", user, namespace, rules))
        self.kubectl("create", "rolebinding", user, f"--role={user}", f"--user={user}", "-n", namespace)
        return user


def _role(kind: str, name: str, namespace: str, rules: tuple[tuple[str, str], ...]) -> Doc:
    group = ["cluster.open-cluster-management.io"]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "rules": [{"apiGroups": group, "verbs": verbs.split(","), "resources": of.split(",")} for verbs, of in rules],
    }


@pytest.fixture(scope="session")
def desk(hub: Hub, kubectls: dict[str, Path]) -> Iterator[Desk]:
    """At the hub that other tests use as well: nothing may be counted."""
    with Fleet(hub) as fleet:
        yield Desk(hub, kubectls["recent"], fleet)


@pytest.fixture
def name() -> str:
    """One that nothing on the hub has yet."""
    return f"s{next(_numbers)}"


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Provider:
    return Provider(tmp_path_factory.mktemp("provider"))


@pytest.fixture(scope="session")
def bare(start_hub: StartHub, kubectls: dict[str, Path], provider: Provider) -> Iterator[Desk]:
    """A hub without the sets that always exist, for which somebody else signs."""
    gates = {"FEATURE_GATES": "DefaultClusterSet=false"}
    signing = {"CSR_SIGNER": "external", "CLIENT_CA_FILE": str(provider.ca)}
    with start_hub(**gates, **signing) as hub, Fleet(hub) as fleet:
        yield Desk(hub, kubectls["recent"], fleet)
