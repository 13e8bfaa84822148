"""Fixtures of the wire checks. They know a server by its URL and an admin, and make everything else through the API."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.wire import identities
from tests.conformance.wire.api import Api, Doc, eventually
from tests.conformance.wire.documents import CLUSTERS, MANAGED_CLUSTER, NAMESPACES, Sample
from tests.server import Server

# Names of one run, so that what an earlier one left behind is in nobody's way.
RUN = secrets.token_hex(3)
Settled = Callable[[str], Doc]
Made = Callable[..., Doc]
Account = Callable[..., Api]


@pytest.fixture
def admin(everlasting: Api) -> Iterator[Api]:
    """The admin; what the test creates is deleted after it."""
    api = Api(everlasting.http)
    yield api
    everlasting.clean(api.made)


@pytest.fixture(scope="session")
def anonymous(server: Server) -> Iterator[Api]:
    with server.client() as http:
        yield Api(http)


@pytest.fixture(scope="session")
def ns(everlasting: Api) -> str:
    """A namespace for all tests."""
    name = f"wire-{RUN}"
    everlasting.create(NAMESPACES, {"metadata": {"name": name}})
    eventually(lambda: everlasting.get(f"{NAMESPACES}/{name}/serviceaccounts/default").status_code == 200)
    return name


@pytest.fixture
def name() -> str:
    """One that nothing has yet."""
    return f"w{RUN}{secrets.token_hex(3)}"


@pytest.fixture
def bearer(server: Server, admin: Api) -> Iterator[Callable[[str], Api]]:
    """A holder of a token; what it creates is deleted by the admin."""
    with ExitStack() as stack:

        def holder(token: str) -> Api:
            http = stack.enter_context(server.client(Authorization=f"Bearer {token}"))
            return Api(http, admin.made)

        yield holder


@pytest.fixture
def limited(admin: Api, bearer: Callable[[str], Api], ns: str, name: str) -> Account:
    """Somebody new with some rights and no others: a service account."""

    def make(*rules: Doc, within: str = "", called: str = name) -> Api:
        return bearer(identities.account(admin, ns, called, *rules, within=within))

    return make


@pytest.fixture
def holder_of(server: Server, admin: Api) -> Iterator[Callable[[Path], Api]]:
    """A holder of a certificate."""
    with ExitStack() as stack:
        yield lambda pair: Api(stack.enter_context(server.client(pair=pair)), admin.made)


@pytest.fixture(scope="session")
def settled(everlasting: Api) -> Settled:
    """An object that the hub has done with, as far as one can see: it stays as it is for a moment."""
    seen: dict[str, str] = {}

    def wait(path: str) -> Doc:
        def same() -> Doc | None:
            doc = everlasting.read(path)
            before, seen[path] = seen.get(path), doc["metadata"]["resourceVersion"]
            return doc if before == seen[path] and _is_tended(path, doc) else None

        eventually(same)
        return eventually(same)

    return wait


def _is_tended(path: str, doc: Doc) -> bool:
    """Whether the hub has made its first writes; of other kinds that is not known."""
    if path.startswith(CLUSTERS):
        return bool(doc["metadata"].get("finalizers") and doc["spec"].get("taints"))
    if any(f"/{kind}/" in path for kind in ("managedclustersets", "managedclustersetbindings", "placements")):
        return bool((doc.get("status") or {}).get("conditions"))
    return True


@pytest.fixture
def made(admin: Api, ns: str, name: str, settled: Settled) -> Made:
    """One object of a sample, when the hub has done with it."""

    def make(sample: Sample, called: str = name, **metadata: object) -> Doc:
        path = sample.path(ns)
        doc = admin.create(path, sample.doc(called, **metadata))
        return settled(f"{path}/{called}") if sample.busy else doc

    return make


@pytest.fixture
def cluster(made: Made) -> Doc:
    """A ManagedCluster that has the hub's finalizer and taint."""
    return made(MANAGED_CLUSTER)
