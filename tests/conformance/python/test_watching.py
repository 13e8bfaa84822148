"""``watch.Watch`` and the informer: timeouts, versions to resume from, 410, and a server that goes and comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from signal import SIGKILL, SIGTERM

import pytest
import urllib3

from tests.conformance.commands import eventually
from tests.conformance.python.clients import SETS, Api, client, cluster_set, informer, of_file, watch
from tests.conftest import StartHub
from tests.hub import Hub

NAMESPACE = "watched"


@pytest.fixture(scope="module")
def own(start_hub: StartHub) -> Iterator[Hub]:
    """A hub whose server may be stopped."""
    with start_hub() as hub:
        yield hub


@pytest.fixture(scope="module")
def maps(own: Hub) -> Iterator[Api]:
    with of_file(own.admin_kubeconfig) as api:
        client.CoreV1Api(api).create_namespace({"metadata": {"name": NAMESPACE}})
        yield client.CoreV1Api(api)


def write(maps: Api, name: str, **labels: str) -> str:
    made = maps.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": name, "labels": labels}})
    revision: str = made.metadata.resource_version
    return revision


def told(events: Iterator[Api]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"].metadata.name) for event in events]


@pytest.mark.contract("W113", "W157")
def test_a_watch_ends_when_its_time_is_over(maps: Api) -> None:
    write(maps, "in-time", suite="in-time")
    stream = watch.Watch().stream(
        maps.list_namespaced_config_map, NAMESPACE, label_selector="suite=in-time", timeout_seconds=2
    )
    assert told(stream) == [("ADDED", "in-time")]


@pytest.mark.contract("W12", "W157")
def test_a_watch_resumes_from_the_version_of_a_list_or_an_event(maps: Api) -> None:
    write(maps, "before", suite="resume")
    revision = maps.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    write(maps, "after", suite="resume")
    maps.delete_namespaced_config_map("before", NAMESPACE)
    watcher = watch.Watch()
    selected = {"label_selector": "suite=resume", "timeout_seconds": 1}
    stream = watcher.stream(maps.list_namespaced_config_map, NAMESPACE, resource_version=revision, **selected)
    assert told(stream) == [("ADDED", "after"), ("DELETED", "before")]
    write(maps, "later", suite="resume")
    again = watcher.stream(
        maps.list_namespaced_config_map, NAMESPACE, resource_version=watcher.resource_version, **selected
    )
    assert told(again) == [("ADDED", "later")]


@pytest.mark.contract("W113", "W157")
def test_bookmarks_come_to_those_who_ask(maps: Api) -> None:
    revision = write(maps, "marked", suite="marked")
    watcher = watch.Watch()
    stream = watcher.stream(
        maps.list_namespaced_config_map,
        NAMESPACE,
        resource_version=revision,
        label_selector="suite=marked",
        allow_watch_bookmarks=True,
        timeout_seconds=1,
    )
    assert [event["type"] for event in stream] == ["BOOKMARK"]
    assert int(watcher.resource_version) >= int(revision)


@pytest.mark.contract("W157")
def test_custom_objects_are_watched_as_dictionaries(own: Hub, maps: Api) -> None:
    custom = client.CustomObjectsApi(maps.api_client)
    custom.create_cluster_custom_object(*SETS, cluster_set("seen", suite="seen"))
    watcher = watch.Watch()
    stream = watcher.stream(custom.list_cluster_custom_object, *SETS, label_selector="suite=seen", timeout_seconds=60)
    first = next(stream)
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "seen")
    custom.delete_cluster_custom_object(*SETS, "seen")
    assert "DELETED" in (event["type"] for event in stream)
    watcher.stop()
    stream.close()


@pytest.mark.contract("W140", "W157")
def test_who_comes_from_before_history_gets_410_and_lists_again(own: Hub, maps: Api) -> None:
    old = write(maps, "old", suite="gone")
    write(maps, "newer", suite="gone")
    time.sleep(1.1)
    own.manage("compact", "--keep=0", "--older-than=1s")
    for timeout in ({}, {"timeout_seconds": 5}):  # without, it tries once more with the same version
        stream = watch.Watch().stream(maps.list_namespaced_config_map, NAMESPACE, resource_version=old, **timeout)
        with pytest.raises(client.ApiException) as gone:
            list(stream)
        assert (gone.value.status, gone.value.reason.partition(":")[0]) == (410, "Expired")
    listed = maps.list_namespaced_config_map(NAMESPACE, label_selector="suite=gone")
    assert {each.metadata.name for each in listed.items} == {"old", "newer"}
    write(maps, "newest", suite="gone")
    again = watch.Watch().stream(
        maps.list_namespaced_config_map,
        NAMESPACE,
        resource_version=listed.metadata.resource_version,
        label_selector="suite=gone",
        timeout_seconds=1,
    )
    assert told(again) == [("ADDED", "newest")]


def _all_of(maps: Api, suite: str, revision: str, count: int) -> list[tuple[str, str]]:
    """A loop as people write it: the same watcher again, when the server was away, from where it was."""
    watcher, seen = watch.Watch(), list[tuple[str, str]]()
    while len(seen) < count:
        stream = watcher.stream(
            maps.list_namespaced_config_map, NAMESPACE, label_selector=f"suite={suite}", resource_version=revision
        )
        try:
            for event in islice(stream, count - len(seen)):
                seen.append((event["type"], event["object"].metadata.name))
        except (urllib3.exceptions.HTTPError, OSError):
            time.sleep(0.1)
        revision = watcher.resource_version
    watcher.stop()
    return seen


@pytest.mark.contract("W163", "W157")
@pytest.mark.parametrize("how", [SIGTERM, SIGKILL])
def test_a_watch_that_goes_on_after_a_restart_misses_nothing_and_repeats_nothing(own: Hub, maps: Api, how: int) -> None:
    suite = f"restart-{int(how)}"
    revision = maps.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(_all_of, maps, suite, revision, 6)
        for number in range(2):
            write(maps, f"{suite}-{number}", suite=suite)
        own.stop("server", how)  # type: ignore[arg-type] # parametrize forgets the enum
        own.start("server")
        for number in range(2, 4):
            write(maps, f"{suite}-{number}", suite=suite)
            maps.delete_namespaced_config_map(f"{suite}-{number}", NAMESPACE)
        events = seen.result(300)
    added = [("ADDED", f"{suite}-{number}") for number in range(4)]
    assert events == [*added[:3], ("DELETED", f"{suite}-2"), added[3], ("DELETED", f"{suite}-3")]


@pytest.mark.contract("W163", "W140", "W157")
def test_an_informer_ends_up_with_what_there_is(own: Hub, maps: Api) -> None:
    """Also over a restart, after which its version is older than history."""
    selected = {"namespace": NAMESPACE, "label_selector": "suite=informer"}
    keeper = informer.SharedInformer(list_func=maps.list_namespaced_config_map, resync_period=1, **selected)

    def known() -> set[str]:
        return {each.metadata.name for each in keeper.cache.list()}

    write(maps, "i0", suite="informer")
    keeper.start()
    try:
        eventually(lambda: known() == {"i0"})
        write(maps, "i1", suite="informer")
        eventually(lambda: known() == {"i0", "i1"})
        own.stop("server")
        own.start("server")
        write(maps, "i2", suite="informer")
        maps.delete_namespaced_config_map("i0", NAMESPACE)
        own.manage("compact", "--keep=0", "--older-than=1s")
        eventually(lambda: known() == {"i1", "i2"})
    finally:
        keeper.stop()
