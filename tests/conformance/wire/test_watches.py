"""Watches: framing, where they start, bookmarks, initial events, selectors (W11, W12)."""

from __future__ import annotations

import json
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conformance.wire.api import END, JSON, Api, Doc, eventually, refused, types, version, worked
from tests.conformance.wire.conftest import Made
from tests.conformance.wire.documents import ADDON, CLUSTERS, CONFIG_MAP, FORMS, LEASE, NAMESPACES, WORK, Sample
from tests.conformance.wire.identities import token_of
from tests.server import Server

LISTING: dict[str, Any] = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


@pytest.fixture
def place(admin: Api, name: str) -> str:
    """A namespace of its own."""
    admin.create(NAMESPACES, {"metadata": {"name": name}})
    return name


def works(admin: Api, place: str, *names: str) -> list[Doc]:
    return [admin.create(WORK.path(place), WORK.doc(each)) for each in names]


def named(events: list[Doc]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@pytest.mark.contract("W11", "W109", "W110")
def test_one_request_brings_an_informer_in_sync(admin: Api, place: str) -> None:
    """What every informer of client-go 0.35 sends first: three objects, one bookmark, then the end after the timeout."""
    made = works(admin, place, "a", "b", "c")
    began = time.monotonic()
    events = admin.watched(WORK.path(place), seconds=2, **LISTING)
    assert time.monotonic() - began > 1.5
    assert types(events[:4]) == ["ADDED", "ADDED", "ADDED", "BOOKMARK"]
    assert {event["object"]["metadata"]["name"] for event in events[:3]} == {"a", "b", "c"}
    end = events[3]["object"]
    assert (end["kind"], end["apiVersion"]) == ("ManifestWork", WORK.api_version)
    assert end["metadata"]["annotations"] == {END: "true"}
    assert version(end) >= max(version(doc) for doc in made)
    assert "spec" not in end


@pytest.mark.contract("W110", "W11")
@pytest.mark.parametrize("sample", FORMS, ids=str)
def test_initial_events_of_every_kind_end_with_a_bookmark(
    admin: Api, ns: str, name: str, made: Made, sample: Sample
) -> None:
    made(sample)
    with admin.watch(sample.path(ns), fieldSelector=f"metadata.name={name}", **LISTING) as watch:
        first, end = watch.next(), watch.next()
    assert types([first, end]) == ["ADDED", "BOOKMARK"]
    assert first["object"]["kind"] == end["object"]["kind"] == sample.kind
    assert first["object"]["apiVersion"] == end["object"]["apiVersion"] == sample.api_version
    assert end["object"]["metadata"]["annotations"] == {END: "true"}


@pytest.mark.contract("W110", "W124")
@pytest.mark.parametrize("sample", [ADDON, WORK, CONFIG_MAP], ids=str)
def test_initial_events_of_nothing_are_a_bookmark(admin: Api, ns: str, name: str, sample: Sample) -> None:
    with admin.watch(sample.path(ns), labelSelector=f"example.com/never={name}", **LISTING) as watch:
        assert watch.answer.status_code == 200
        assert types([watch.next()]) == ["BOOKMARK"]


@pytest.mark.contract("W109", "W112")
def test_initial_events_go_on_live(admin: Api, place: str) -> None:
    works(admin, place, "a")
    with admin.watch(WORK.path(place), **LISTING) as watch:
        watch.until("BOOKMARK")
        works(admin, place, "b")
        assert named([watch.next()]) == [("ADDED", "b")]


@pytest.mark.contract("W11")
def test_initial_events_are_of_now_however_old_the_version(admin: Api, place: str) -> None:
    """A kube-apiserver may begin with a state that is older than the last write; what is missing comes after it."""
    works(admin, place, "a")
    with admin.watch(WORK.path(place), resourceVersion="1", **LISTING) as watch:
        assert watch.until("ADDED", "a")


@pytest.mark.contract("W11")
def test_nobody_gets_a_bookmark_who_did_not_ask(admin: Api, place: str) -> None:
    works(admin, place, "a")
    query: dict[str, Any] = {**LISTING, "allowWatchBookmarks": "false"}
    assert types(admin.watched(WORK.path(place), **query)) == ["ADDED"]
    assert types(admin.watched(WORK.path(place))) == ["ADDED"]


@pytest.mark.contract("W11")
def test_no_initial_events_are_changes_only(admin: Api, place: str) -> None:
    works(admin, place, "a")
    query: dict[str, Any] = {**LISTING, "sendInitialEvents": "false"}
    assert "ADDED" not in types(admin.watched(WORK.path(place), **query))


@pytest.mark.contract("W111", "W175")
def test_list_and_watch_bring_an_informer_in_sync_too(admin: Api, place: str) -> None:
    """The way back of clients whose initial events were refused."""
    works(admin, place, "a", "b")
    listed = admin.read(WORK.path(place), limit=500, resourceVersion="0")
    since = listed["metadata"]["resourceVersion"]
    with admin.watch(WORK.path(place), resourceVersion=since, allowWatchBookmarks="true") as watch:
        works(admin, place, "c")
        assert named(watch.until("ADDED")) == [("ADDED", "c")]


@pytest.mark.contract("W12", "W112")
def test_headers_come_at_once_and_events_in_time(admin: Api, place: str) -> None:
    """Headers before there is anything to say, and the event before the stream ends."""
    with admin.watch(WORK.path(place)) as watch:
        assert watch.answer.headers["Content-Type"].startswith(JSON)
        assert "Content-Length" not in watch.answer.headers
        works(admin, place, "a")
        assert named([watch.next()]) == [("ADDED", "a")]


@pytest.mark.contract("W165")
@pytest.mark.parametrize("encoding", ["gzip", "identity", "gzip, deflate, br"])
def test_watch_is_never_compressed(admin: Api, place: str, encoding: str) -> None:
    works(admin, place, "a")
    with admin.with_headers(Accept_Encoding=encoding).watch(WORK.path(place)) as watch:
        assert "Content-Encoding" not in watch.answer.headers
        assert watch.next()["type"] == "ADDED"


@pytest.mark.contract("W12")
def test_one_event_is_one_line(admin: Api, place: str) -> None:
    doc = WORK.doc("a", annotations={"example.com/text": "one\ntwo\r\u2028three"})
    admin.create(WORK.path(place), doc)
    with admin.http.stream("GET", WORK.path(place), params={"watch": "1", "timeoutSeconds": "1"}) as answer:
        raw = b"".join(answer.iter_raw())
    assert raw.endswith(b"\n")
    (line,) = raw[:-1].split(b"\n")
    assert json.loads(line)["object"]["metadata"]["annotations"] == doc["metadata"]["annotations"]


@pytest.mark.contract("W113")
def test_watch_ends_when_it_should_and_goes_on_from_there(admin: Api, place: str) -> None:
    works(admin, place, "a")
    began = time.monotonic()
    first = admin.watched(WORK.path(place), seconds=2)
    assert time.monotonic() - began >= 1.5  # and not for ever, for which the client has no patience
    works(admin, place, "b")
    last = str(version(first[-1]["object"]))
    with admin.watch(WORK.path(place), resourceVersion=last) as watch:
        assert named([watch.next()]) == [("ADDED", "b")]


@pytest.mark.contract("W12")
@pytest.mark.parametrize("how", ["1", "true", "", "maybe"])
def test_watch_is_asked_for_in_many_ways(admin: Api, place: str, how: str) -> None:
    works(admin, place, "a")
    with admin.watch(WORK.path(place), watch=how) as watch:
        assert watch.next()["type"] == "ADDED"


@pytest.mark.contract("W12")
@pytest.mark.parametrize("how", ["0", "false"])
def test_watch_can_be_declined(admin: Api, place: str, how: str) -> None:
    assert admin.read(WORK.path(place), watch=how)["kind"] == "ManifestWorkList"


@pytest.mark.contract("W12")
def test_watch_of_one_object_is_a_get(admin: Api, place: str) -> None:
    works(admin, place, "a")
    assert admin.read(WORK.path(place, "a"), watch="true")["kind"] == "ManifestWork"


@pytest.mark.contract("W12")
def test_changes_arrive_in_order_and_once(admin: Api, place: str) -> None:
    since = admin.read(WORK.path(place))["metadata"]["resourceVersion"]
    works(admin, place, "a", "b")
    for number in range(3):
        admin.merge(WORK.path(place, "a"), {"metadata": {"labels": {"n": str(number)}}})
    worked(admin.delete(WORK.path(place, "b")))
    with admin.watch(WORK.path(place), resourceVersion=since) as watch:
        events = watch.until("DELETED", "b")
    assert named(events) == [("ADDED", "a"), ("ADDED", "b"), *[("MODIFIED", "a")] * 3, ("DELETED", "b")]
    versions = [version(event["object"]) for event in events]
    assert versions == sorted({*versions})


@pytest.mark.contract("W115", "W16")
def test_write_that_changes_nothing_is_no_event(admin: Api, place: str) -> None:
    (made,) = works(admin, place, "a")
    path = WORK.path(place, "a")
    with admin.watch(WORK.path(place), resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        worked(admin.put(path, made))
        admin.merge(path, {})
        admin.merge(path, {"spec": made["spec"]})
        assert version(admin.read(path)) == version(made)
        works(admin, place, "b")
        assert named([watch.next()]) == [("ADDED", "b")]


@pytest.mark.contract("W142")
def test_dry_run_is_no_event(admin: Api, place: str) -> None:
    since = admin.read(WORK.path(place))["metadata"]["resourceVersion"]
    worked(admin.post(WORK.path(place), WORK.doc("a"), dryRun="All"), 201)
    works(admin, place, "b")
    with admin.watch(WORK.path(place), resourceVersion=since) as watch:
        assert named([watch.next()]) == [("ADDED", "b")]


@pytest.mark.contract("W12", "W139")
@pytest.mark.parametrize("sample", [WORK, CONFIG_MAP, LEASE], ids=str)
def test_watch_of_a_selector_sees_who_comes_and_goes(
    admin: Api, ns: str, name: str, made: Made, sample: Sample
) -> None:
    created = made(sample)
    path = sample.path(ns, name)
    since = created["metadata"]["resourceVersion"]
    with admin.watch(sample.path(ns), labelSelector=f"example.com/in={name}", resourceVersion=since) as watch:
        admin.merge(path, {"metadata": {"labels": {"example.com/in": name}}})
        entered = watch.next()
        admin.merge(path, {"metadata": {"labels": {"example.com/more": "yes"}}})
        stayed = watch.next()
        gone = admin.merge(path, {"metadata": {"labels": {"example.com/in": None}}})
        left = watch.next()
    assert types([entered, stayed, left]) == ["ADDED", "MODIFIED", "DELETED"]
    assert left["object"]["metadata"]["labels"]["example.com/in"] == name
    assert version(left["object"]) == version(gone)


@pytest.mark.contract("W12", "W140")
def test_history_that_is_gone_is_expired(admin: Api, place: str) -> None:
    """As an event, or as the answer; version 1 was long before everything."""
    works(admin, place, "a")
    with admin.watch(CLUSTERS, resourceVersion="1", seconds=1) as watch:
        if watch.answer.status_code == 200:
            events = [*watch]
            if types(events) != ["ERROR"]:
                pytest.skip("the server still knows everything that ever happened")
            said = events[0]["object"]
        else:
            said = refused(watch.answer, 410, "Expired")
    assert (said["code"], said["reason"]) == (410, "Expired")
    assert said["message"].startswith("too old resource version: 1")


@pytest.mark.contract("W12")
def test_version_that_is_no_number_is_refused(admin: Api, place: str) -> None:
    with admin.watch(WORK.path(place), resourceVersion="x") as watch:
        assert watch.answer.status_code in {400, 500}


@pytest.mark.contract("W176")
@pytest.mark.parametrize("query", [{"resourceVersionMatch": "NotOlderThan"}, {"resourceVersionMatch": "Exact", "sendInitialEvents": "true"}, {"sendInitialEvents": "true"}], ids=str)  # fmt: skip
def test_watch_that_asks_for_what_cannot_be_is_refused(admin: Api, place: str, query: dict[str, Any]) -> None:
    with admin.watch(WORK.path(place), **query) as watch:
        refused(watch.answer, 422, "Invalid", "resourceVersionMatch")


@pytest.mark.contract("W12")
def test_watch_ends_with_a_bookmark_for_those_who_asked(admin: Api, place: str) -> None:
    works(admin, place, "a")
    events = admin.watched(WORK.path(place), seconds=1, allowWatchBookmarks="true")
    if "BOOKMARK" in types(events):
        assert version(events[-1]["object"]) >= version(events[0]["object"])
        assert events[-1]["object"]["kind"] == "ManifestWork"


@pytest.mark.contract("W12", "W30")
def test_many_watches_see_the_same(admin: Api, place: str) -> None:
    since = admin.read(WORK.path(place))["metadata"]["resourceVersion"]

    def see(_: int) -> list[tuple[str, str]]:
        with admin.watch(WORK.path(place), resourceVersion=since) as watch:
            return named(watch.until("DELETED", "a"))

    with ThreadPoolExecutor(6) as pool:
        seen = [pool.submit(see, number) for number in range(6)]
        works(admin, place, "a", "b")
        admin.merge(WORK.path(place, "b"), {"metadata": {"labels": {"a": "b"}}})
        worked(admin.delete(WORK.path(place, "a")))
        answers = [each.result() for each in seen]
    assert {*map(tuple, answers)} == {(("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a"))}


@pytest.mark.contract("W187")
def test_reader_who_does_not_read_is_nobodys_trouble(admin: Api, server: Server, ns: str, place: str) -> None:
    """A socket that is never read; others go on, and writes are as quick as before."""
    address = urlsplit(server.api_url)
    assert address.hostname
    admin.create(f"{NAMESPACES}/{place}/serviceaccounts", {"metadata": {"name": "slow"}})
    binding = {"metadata": {"name": f"slow-{place}"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [{"kind": "ServiceAccount", "name": "slow", "namespace": place}]}  # fmt: skip
    admin.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{place}/rolebindings", binding)
    request = f"GET {WORK.path(place)}?watch=1&timeoutSeconds=60 HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {token_of(admin, place, 'slow')}\r\n\r\n"
    works(admin, place, "a")
    with (
        socket.create_connection((address.hostname, address.port or 443), timeout=60) as raw,
        server.tls().wrap_socket(raw, server_hostname=address.hostname) as slow,
        admin.watch(WORK.path(place)) as watch,
    ):
        slow.sendall(request.encode())
        assert isinstance(slow, ssl.SSLSocket)
        for number in range(20):
            admin.merge(WORK.path(place, "a"), {"metadata": {"annotations": {"n": f"{number}" + "x" * 50_000}}})
        seen = [watch.next() for _ in range(21)]
    assert types(seen) == ["ADDED"] + ["MODIFIED"] * 20


@pytest.mark.contract("W138")
def test_condition_is_waited_for(admin: Api, ns: str, name: str, made: Made) -> None:
    """`kubectl wait --for=condition=…`: a list of one name, then a watch until it is true."""
    made(WORK)
    query: dict[str, Any] = {"fieldSelector": f"metadata.name={name}"}
    listed = admin.read(WORK.path(ns), limit=500, resourceVersion="0", **query)
    assert len(listed["items"]) == 1
    said = {
        "type": "Applied",
        "status": "True",
        "reason": "Tested",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    since = listed["metadata"]["resourceVersion"]
    with admin.watch(WORK.path(ns), resourceVersion=since, allowWatchBookmarks="true", **query) as watch:
        admin.merge(WORK.path(ns, name) + "/status", {"status": {"conditions": [said]}})
        changed = watch.until("MODIFIED")[-1]["object"]
        assert changed["status"]["conditions"] == [said]
        worked(admin.delete(WORK.path(ns, name)))
        assert watch.until("DELETED")


@pytest.mark.contract("W163")
def test_stream_that_breaks_is_taken_up_again(admin: Api, place: str) -> None:
    """What a client does after a restart of the server: the same versions still mean the same."""
    works(admin, place, "a")
    with admin.watch(WORK.path(place)) as watch:
        since = version(watch.next()["object"])
    works(admin, place, "b", "c")
    with admin.watch(WORK.path(place), resourceVersion=str(since)) as watch:
        assert named(watch.until("ADDED", "c")) == [("ADDED", "b"), ("ADDED", "c")]


@pytest.mark.contract("W124")
def test_agent_finds_its_addons_and_works(admin: Api, ns: str) -> None:
    for path in (ADDON.path(ns), WORK.path(ns), LEASE.path(ns)):
        with admin.watch(path, **LISTING) as watch:
            assert watch.answer.status_code == 200
            assert watch.until("BOOKMARK")


@pytest.mark.contract("W109")
def test_namespaces_come_and_go_in_a_watch(admin: Api, name: str) -> None:
    since = admin.read(NAMESPACES)["metadata"]["resourceVersion"]
    admin.create(NAMESPACES, {"metadata": {"name": name}})
    worked(admin.delete(f"{NAMESPACES}/{name}"))
    with admin.watch(NAMESPACES, resourceVersion=since, fieldSelector=f"metadata.name={name}", seconds=60) as watch:
        events = watch.until("DELETED")
    assert types(events)[0] == "ADDED"
    phases = [event["object"]["status"]["phase"] for event in events]
    assert phases[0] == "Active"
    assert phases[-1] == "Terminating"
    eventually(lambda: admin.get(f"{NAMESPACES}/{name}").status_code == 404)
