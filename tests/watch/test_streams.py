"""What one watch stream looks like on the wire: where it starts, what it says, how it ends, and what it costs."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest

from tests.hub import Hub
from tests.watch.streams import END_OF_INITIAL, INITIAL, PARTIAL, TABLE, Doc, events, revision_of

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
# What no reconciler writes, so that every event is the test's own.
MAPS = "/api/v1/namespaces/streams/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
MANY = 300


@pytest.fixture(scope="module", autouse=True)
def _namespace(watched: Hub, pair: Path) -> None:
    with watched.client(pair=pair) as client:
        _done(client.post("/api/v1/namespaces", json={"metadata": {"name": "streams"}}))


def create(admin: httpx.Client, name: str, **labels: str) -> Doc:
    return _done(admin.post(MAPS, json={"metadata": {"name": name, "labels": labels}}))


def relabel(admin: httpx.Client, name: str, **labels: str | None) -> Doc:
    return _done(admin.patch(f"{MAPS}/{name}", json={"metadata": {"labels": labels}}, headers=MERGE))


def head(admin: httpx.Client) -> str:
    found: str = _done(admin.get(MAPS))["metadata"]["resourceVersion"]
    return found


def _done(answer: httpx.Response) -> Doc:
    assert answer.is_success, answer.text
    doc: Doc = answer.json()
    return doc


def take(stream: Iterator[Doc], count: int) -> list[tuple[str, str]]:
    """Type of event and name of object."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in islice(stream, count)]


# ---------------------------------------------------------------- where it starts


@pytest.mark.contract("W11", "W110")
class TestInitialEvents:
    def test_the_state_then_its_end_then_what_happens(self, admin: httpx.Client) -> None:
        for name in ("w11-a", "w11-b"):
            create(admin, name, suite="w11")
        stream = events(admin, MAPS, labelSelector="suite=w11", timeoutSeconds="60", **INITIAL)
        first, second, end = next(stream), next(stream), next(stream)
        assert [(event["type"], event["object"]["metadata"]["name"]) for event in (first, second)] == [
            ("ADDED", "w11-a"),
            ("ADDED", "w11-b"),
        ]
        assert end["type"] == "BOOKMARK"
        assert end["object"].keys() == {"kind", "apiVersion", "metadata"}
        assert end["object"]["kind"] == "ConfigMap"
        assert end["object"]["metadata"]["annotations"] == {END_OF_INITIAL: "true"}
        assert revision_of(end["object"]) >= revision_of(second["object"])
        made = create(admin, "w11-c", suite="w11")
        live = next(stream)
        assert (live["type"], live["object"]) == ("ADDED", made)
        assert revision_of(live["object"]) > revision_of(end["object"])
        stream.close()  # type: ignore[attr-defined] # a generator

    def test_of_nothing_there_is_only_the_end(self, admin: httpx.Client) -> None:
        found = list(events(admin, MAPS, labelSelector="suite=nobody", timeoutSeconds="1", **INITIAL))
        assert {event["type"] for event in found} == {"BOOKMARK"}
        assert found[0]["object"]["metadata"]["annotations"] == {END_OF_INITIAL: "true"}

    def test_it_is_of_the_kind_that_is_watched(self, admin: httpx.Client) -> None:
        end, *_ = events(admin, CLUSTERS, fieldSelector="metadata.name=nobody", timeoutSeconds="1", **INITIAL)
        group = "cluster.open-cluster-management.io/v1"
        assert (end["object"]["kind"], end["object"]["apiVersion"]) == ("ManagedCluster", group)

    def test_a_revision_is_only_a_lower_bound(self, admin: httpx.Client) -> None:
        create(admin, "w11-old", suite="w11-old")
        query = {"labelSelector": "suite=w11-old", "timeoutSeconds": "1", "resourceVersion": "1"}
        assert take(events(admin, MAPS, **INITIAL, **query), 2) == [("ADDED", "w11-old"), ("BOOKMARK", "")]

    def test_without_them_there_are_changes_only(self, admin: httpx.Client) -> None:
        create(admin, "w11-quiet", suite="w11-quiet")
        query = INITIAL | {"sendInitialEvents": "false", "labelSelector": "suite=w11-quiet", "timeoutSeconds": "1"}
        assert [event["type"] for event in events(admin, MAPS, **query)] == ["BOOKMARK"]

    @pytest.mark.contract("K42")
    def test_what_was_deleted_a_moment_ago_is_sent_to_those_who_name_no_version(self, admin: httpx.Client) -> None:
        """As clusteradm does, whose DELETE may come before its watch."""
        create(admin, "k42-gone", suite="k42")
        create(admin, "k42-back", suite="k42")
        create(admin, "k42-stays", suite="k42")
        _done(admin.delete(f"{MAPS}/k42-back"))
        create(admin, "k42-back", suite="k42")
        _done(admin.delete(f"{MAPS}/k42-gone"))
        told = {"labelSelector": "suite=k42", "timeoutSeconds": "1"}
        state = [("ADDED", "k42-stays"), ("ADDED", "k42-back")]
        assert take(events(admin, MAPS, **told), 9) == [*state, ("DELETED", "k42-gone")]
        create(admin, "k42-pinned")
        _done(admin.delete(f"{MAPS}/k42-pinned"))  # of its own: the watch before took some of the moment
        pinned = {"fieldSelector": "metadata.name=k42-pinned", "timeoutSeconds": "1"}
        assert take(events(admin, MAPS, **pinned), 9) == [("DELETED", "k42-pinned")]
        assert take(events(admin, MAPS, **told, **INITIAL), 2) == state
        assert take(events(admin, MAPS, resourceVersion="0", **told), 9) == state
        assert take(events(admin, MAPS, resourceVersion=head(admin), **told), 9) == []

    def test_nobody_gets_a_bookmark_who_did_not_ask(self, admin: httpx.Client) -> None:
        create(admin, "w11-plain", suite="w11-plain")
        query = INITIAL | {"allowWatchBookmarks": "false", "labelSelector": "suite=w11-plain", "timeoutSeconds": "1"}
        assert [event["type"] for event in events(admin, MAPS, **query)] == ["ADDED"]
        plain = {"labelSelector": "suite=w11-plain", "timeoutSeconds": "1"}
        assert [event["type"] for event in events(admin, MAPS, **plain)] == ["ADDED"]

    def test_every_form_has_its_own_end(self, admin: httpx.Client) -> None:
        create(admin, "w11-form", suite="w11-form")
        query = INITIAL | {"labelSelector": "suite=w11-form", "timeoutSeconds": "1"}
        row, end, *_ = events(admin, MAPS, accept=TABLE, **query)
        assert row["object"]["columnDefinitions"]
        assert row["object"]["rows"][0]["cells"][0] == "w11-form"
        assert end["object"]["kind"] == "Table"
        assert end["object"]["rows"][0]["object"]["metadata"]["annotations"] == {END_OF_INITIAL: "true"}
        added, end, *_ = events(admin, MAPS, accept=PARTIAL, **query)
        assert (added["object"]["kind"], end["object"]["kind"]) == ("PartialObjectMetadata",) * 2
        assert "spec" not in added["object"]


@pytest.mark.contract("W176")
def test_options_that_contradict_each_other_are_refused(admin: httpx.Client) -> None:
    refused = [
        {"watch": "true", "resourceVersionMatch": "NotOlderThan"},
        {"watch": "true", "sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
    ]
    answers = [admin.get(CLUSTERS, params=query) for query in refused]
    assert [answer.status_code for answer in answers] == [422] * 3
    assert "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided" in answers[0].text
    assert "sendInitialEvents is forbidden for list" in answers[2].text


# ---------------------------------------------------------------- what it says


@pytest.mark.contract("W12", "W139")
class TestSelectors:
    def test_entering_is_added_and_leaving_is_deleted_with_the_old_state(self, admin: httpx.Client) -> None:
        create(admin, "w12", suite="w12-no")
        query = {"resourceVersion": head(admin), "labelSelector": "suite=w12", "timeoutSeconds": "60"}
        stream = events(admin, MAPS, **query)
        entered = relabel(admin, "w12", suite="w12")
        stayed = relabel(admin, "w12", other="x")
        left = relabel(admin, "w12", suite=None)
        relabel(admin, "w12", other="unseen")
        back = relabel(admin, "w12", suite="w12")
        assert next(stream) == {"type": "ADDED", "object": entered}
        assert next(stream) == {"type": "MODIFIED", "object": stayed}
        gone = next(stream)
        assert gone["type"] == "DELETED"
        assert gone["object"]["metadata"]["labels"] == stayed["metadata"]["labels"]
        assert gone["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
        assert next(stream) == {"type": "ADDED", "object": back}
        _done(admin.delete(f"{MAPS}/w12"))
        assert take(stream, 1) == [("DELETED", "w12")]

    def test_a_field_that_changes_lets_objects_in_and_out(self, admin: httpx.Client) -> None:
        """A namespace that is being deleted leaves the active ones."""
        path = "/api/v1/namespaces"
        _done(admin.post(path, json={"metadata": {"name": "w12-phase"}}))
        _done(admin.post(f"{path}/w12-phase/configmaps", json={"metadata": {"name": "x", "finalizers": ["a.b/c"]}}))
        query = {"resourceVersion": head(admin), "timeoutSeconds": "60"}
        active = events(admin, path, fieldSelector="status.phase=Active,metadata.name=w12-phase", **query)
        ending = events(admin, path, fieldSelector="status.phase=Terminating,metadata.name=w12-phase", **query)
        _done(admin.delete(f"{path}/w12-phase"))
        left, came = next(active), next(ending)
        assert (left["type"], left["object"]["status"]["phase"]) == ("DELETED", "Active")
        assert (came["type"], came["object"]["status"]["phase"]) == ("ADDED", "Terminating")
        assert revision_of(left["object"]) == revision_of(came["object"])
        _done(admin.patch(f"{path}/w12-phase/configmaps/x", json={"metadata": {"finalizers": None}}, headers=MERGE))


@pytest.mark.contract("W13")
def test_an_agent_watches_its_own_cluster_and_no_other(admin: httpx.Client) -> None:
    group = "cluster.open-cluster-management.io/v1"
    accepted = {"metadata": {"name": "w13"}, "spec": {"hubAcceptsClient": True}}
    _done(admin.post(CLUSTERS, json={"apiVersion": group, "kind": "ManagedCluster", **accepted}))
    group = "system:open-cluster-management:w13"
    agent = {"Impersonate-User": f"{group}:agent", "Impersonate-Group": group}

    def ask(**query: str) -> int:
        return admin.get(CLUSTERS, params={"watch": "true", "timeoutSeconds": "1", **query}, headers=agent).status_code

    deadline = time.monotonic() + 120
    while (code := ask(fieldSelector="metadata.name=w13")) == 403 and time.monotonic() < deadline:
        time.sleep(0.1)  # until the reconcilers gave it its rights
    assert code == 200
    assert ask(fieldSelector="metadata.name=w12") == 403
    assert ask(fieldSelector="metadata.name!=w13") == 403
    assert ask() == 403
    deleting = admin.delete(CLUSTERS, params={"fieldSelector": "metadata.name=w13"}, headers=agent)
    assert deleting.status_code == 403


@pytest.mark.contract("W165")
def test_a_stream_is_chunked_and_never_compressed(admin: httpx.Client) -> None:
    for accepted in ("gzip", "identity"):
        query = {"watch": "true", "timeoutSeconds": "1"}
        with admin.stream("GET", MAPS, params=query, headers={"Accept-Encoding": accepted}) as answer:
            assert "content-encoding" not in answer.headers
            assert "content-length" not in answer.headers
            assert answer.headers["transfer-encoding"] == "chunked"
            assert answer.headers["content-type"] == "application/json"
            lines = answer.read().decode().splitlines()
        assert all(json.loads(line)["type"] in {"ADDED", "DELETED"} for line in lines)


# ---------------------------------------------------------------- how it ends


@pytest.mark.contract("W113")
def test_a_stream_ends_cleanly_when_its_time_is_over(admin: httpx.Client) -> None:
    made = create(admin, "w113")
    query = {"resourceVersion": made["metadata"]["resourceVersion"], "allowWatchBookmarks": "true"}
    started = time.monotonic()
    *_, last = events(admin, MAPS, timeoutSeconds="2", **query)  # no TransportError: the last chunk came
    assert time.monotonic() - started > 1.9  # and not for ever, for which the client has no patience
    assert last["type"] == "BOOKMARK"
    again = query | {
        "resourceVersion": last["object"]["metadata"]["resourceVersion"],
        "fieldSelector": "metadata.name=w113",
    }
    assert [event["type"] for event in events(admin, MAPS, timeoutSeconds="1", **again)] == ["BOOKMARK"]


@pytest.mark.contract("W12", "W140")
def test_who_comes_from_before_the_history_gets_410_and_lists_again(
    watched: Hub, admin: httpx.Client, pair: Path
) -> None:
    made = create(admin, "w140")
    old = made["metadata"]["resourceVersion"]
    relabel(admin, "w140", a="b")
    time.sleep(1.1)
    assert watched.manage("compact", "--keep=0", "--older-than=1s").endswith(" changes removed\n")
    (expired,) = events(admin, MAPS, resourceVersion=old, timeoutSeconds="5")
    status = expired["object"]
    assert (expired["type"], status["kind"], status["reason"], status["code"]) == ("ERROR", "Status", "Expired", 410)
    assert status["message"].startswith(f"too old resource version: {old} (")
    newest = events(admin, MAPS, resourceVersion=head(admin), timeoutSeconds="60")
    relabel(admin, "w140", a="c")
    assert take(newest, 1) == [("MODIFIED", "w140")]
    _assert_python_is_told(watched, pair, old)


@pytest.mark.contract("D21")
@pytest.mark.parametrize(
    "more", [{}, INITIAL, INITIAL | {"sendInitialEvents": "false"}], ids=["plain", "initial", "not"]
)
@pytest.mark.parametrize("place", [MAPS, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"])
def test_a_watch_from_beyond_the_head_gets_410_at_once(admin: httpx.Client, place: str, more: dict[str, str]) -> None:
    future = str(int(head(admin)) + 1_000_000)
    found = list(events(admin, place, resourceVersion=future, timeoutSeconds="60", **more))
    assert [(event["type"], event["object"]["code"], event["object"]["reason"]) for event in found] == [
        ("ERROR", 410, "Expired")
    ]
    assert found[0]["object"]["message"].startswith(f"too large resource version: {future} (")


def _assert_python_is_told(hub: Hub, pair: Path, revision: str) -> None:
    """The Python client of Kubernetes: it wants the event form."""
    import kubernetes

    configuration = kubernetes.client.Configuration(host=hub.api_url)
    configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file = str(hub.ca), str(pair), str(pair)
    with kubernetes.client.ApiClient(configuration) as client:
        api = kubernetes.client.CoreV1Api(client)
        watch: Any = kubernetes.watch.Watch  # its package has no types
        stream = watch().stream(
            api.list_namespaced_config_map,
            "streams",
            resource_version=revision,
            timeout_seconds=5,
        )
        with pytest.raises(kubernetes.client.ApiException) as told:
            list(stream)
    assert told.value.status == 410


# ---------------------------------------------------------------- what it costs


def test_streams_hold_no_thread(watched: Hub, pair: Path) -> None:
    """Three hundred streams, each of which still gets what happens."""
    context = watched.tls(pair)
    address = urlsplit(watched.api_url).netloc

    async def run() -> tuple[int, int, list[str]]:
        async with AsyncExitStack() as stack:
            few = [await stack.enter_async_context(_open(context, address)) for _ in range(20)]
            before = _threads(watched)
            many = [await stack.enter_async_context(_open(context, address)) for _ in range(MANY - len(few))]
            during = _threads(watched)
            await asyncio.to_thread(_create_with, watched, pair, "w-many")
            names = [json.loads(await asyncio.wait_for(_added(reader), 120)) for reader in few + many]
            return before, during, [event["object"]["metadata"]["name"] for event in names]

    before, during, names = asyncio.run(run())
    assert names == ["w-many"] * MANY
    assert during - before < 10, f"{before} threads became {during}"


def _create_with(hub: Hub, pair: Path, name: str) -> None:
    with hub.client(pair=pair) as client:
        create(client, name)


@asynccontextmanager
async def _open(context: ssl.SSLContext, address: str) -> AsyncIterator[asyncio.StreamReader]:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    query = urlencode({**INITIAL, "fieldSelector": "metadata.name=w-many"})
    writer.write(f"GET {MAPS}?watch=true&{query} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
    try:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert json.loads(await asyncio.wait_for(_line(reader), 120))["type"] == "BOOKMARK"
        yield reader
    finally:
        writer.transport.abort()  # a polite end of TLS would outlive the loop
        await asyncio.sleep(0)


async def _line(reader: asyncio.StreamReader) -> bytes:
    """One event: the hub sends each in a chunk of its own."""
    size = int(await reader.readline(), 16)
    return (await reader.readexactly(size + 2)).strip()


async def _added(reader: asyncio.StreamReader) -> bytes:
    """Past the bookmarks of a minute in which the others were opened."""
    while json.loads(line := await _line(reader))["type"] == "BOOKMARK":
        pass
    return line


def _threads(hub: Hub) -> int:
    status = Path(f"/proc/{hub.processes['server'].pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("Threads:")).split()[1])


# ---------------------------------------------------------------- what nobody may see any more

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/streams"


@pytest.mark.contract("D20", "W22")
def test_one_who_has_lost_the_right_is_sent_nothing_that_comes_afterwards(
    watched: Hub, pair: Path, admin: httpx.Client
) -> None:
    group = {"apiGroup": "rbac.authorization.k8s.io"}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
    _done(admin.post(f"{RBAC}/roles", json={"metadata": {"name": "reads"}, "rules": rules}))
    binding = {
        "metadata": {"name": "reads"},
        "roleRef": {**group, "kind": "Role", "name": "reads"},
        "subjects": [{**group, "kind": "User", "name": "zoe"}],
    }
    _done(admin.post(f"{RBAC}/rolebindings", json=binding))
    with (
        watched.client(pair=pair, **{"Impersonate-User": "zoe"}) as zoe,
        zoe.stream("GET", f"{MAPS}?watch=true&labelSelector=mine&resourceVersion={head(admin)}") as stream,
    ):
        assert stream.status_code == 200
        create(admin, "seen", mine="yes")
        lines = stream.iter_lines()
        assert json.loads(next(lines))["object"]["metadata"]["name"] == "seen"
        _done(admin.delete(f"{RBAC}/rolebindings/reads"))
        create(admin, "unseen", mine="yes")
        assert list(lines) == []
