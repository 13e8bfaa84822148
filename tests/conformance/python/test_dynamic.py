"""The dynamic client: it learns from discovery what there is, and does everything with what it learnt."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.conformance.commands import eventually
from tests.conformance.python.clients import GROUP, MERGE, Api, cluster_set, dynamic


@pytest.fixture(scope="module")
def dynamic_client(admin_client: Api, tmp_path_factory: pytest.TempPathFactory) -> Api:
    return dynamic.DynamicClient(admin_client, cache_file=str(tmp_path_factory.mktemp("cache") / "discovery"))


@pytest.fixture(scope="module")
def sets(dynamic_client: Api) -> Api:
    return dynamic_client.resources.get(api_version=f"{GROUP}/v1beta2", kind="ManagedClusterSet")


@pytest.mark.contract("W157", "W164")
def test_discovery_lists_names_and_verbs(dynamic_client: Api, sets: Api) -> None:
    assert dynamic_client.version["kubernetes"]["minor"] == "32"
    assert (sets.name, sets.namespaced) == ("managedclustersets", False)
    assert {"create", "get", "list", "watch", "patch", "update", "delete"} <= set(sets.verbs)
    clusters = dynamic_client.resources.get(short_names=["mcl", "mcls"])
    assert (clusters.kind, "status" in clusters.subresources) == ("ManagedCluster", True)
    maps = dynamic_client.resources.get(api_version="v1", kind="ConfigMap")
    assert (maps.name, maps.namespaced) == ("configmaps", True)
    with pytest.raises(dynamic.exceptions.ResourceNotFoundError):
        dynamic_client.resources.get(api_version=f"{GROUP}/v1", kind="Absent")


@pytest.mark.contract("W157")
def test_another_client_reads_discovery_from_the_cache(admin_client: Api, tmp_path: Path) -> None:
    path = str(tmp_path / "discovery")
    for _ in range(2):
        found = dynamic.DynamicClient(admin_client, cache_file=path).resources.get(api_version="v1", kind="Secret")
        assert found.name == "secrets"
    assert Path(path).stat().st_size > 1000


@pytest.mark.contract("W157", "W141")
def test_an_object_has_a_whole_life(sets: Api, name: str) -> None:
    made = sets.create(body=cluster_set(name, suite=name))
    assert made.metadata.uid == sets.get(name=name).metadata.uid
    changed = sets.patch(body={"metadata": {"name": name, "labels": {"a": "b"}}}, content_type=MERGE)
    assert changed.metadata.labels.to_dict() == {"suite": name, "a": "b"}
    assert [each.metadata.name for each in sets.get(label_selector=f"suite={name}").items] == [name]
    applied = sets.server_side_apply(body=cluster_set(name, owner="me"), field_manager="me")
    assert applied.metadata.labels.owner == "me"
    with pytest.raises(dynamic.exceptions.ConflictError):
        sets.server_side_apply(body=cluster_set(name, owner="you"), field_manager="you")
    forced = sets.server_side_apply(body=cluster_set(name, owner="you"), field_manager="you", force_conflicts=True)
    assert forced.metadata.labels.owner == "you"
    assert sets.delete(name=name).status == "Success"
    with pytest.raises(dynamic.exceptions.NotFoundError):
        sets.get(name=name)


@pytest.mark.contract("W157")
def test_its_usual_patch_is_for_built_in_kinds_only(dynamic_client: Api, sets: Api, namespace: str) -> None:
    """Strategic merge, which a custom kind does not take."""
    maps = dynamic_client.resources.get(api_version="v1", kind="ConfigMap")
    maps.create(namespace=namespace, body={"metadata": {"name": "m"}, "data": {"a": "1"}})
    patched = maps.patch(namespace=namespace, name="m", body={"data": {"b": "2"}})
    assert patched.data.to_dict() == {"a": "1", "b": "2"}
    sets.create(body=cluster_set(namespace))
    with pytest.raises(dynamic.exceptions.DynamicApiError) as refusal:
        sets.patch(name=namespace, body={"metadata": {"labels": {"a": "b"}}})
    assert refusal.value.status == 415


@pytest.mark.contract("W157", "W12")
def test_a_watch_begins_with_what_is_there_and_ends_in_time(sets: Api, name: str) -> None:
    sets.create(body=cluster_set(name, suite=name))
    seen = list(sets.watch(label_selector=f"suite={name}", timeout=1))
    assert [event["type"] for event in seen][:1] == ["ADDED"]
    assert {event["object"].metadata.name for event in seen} == {name}


@pytest.mark.contract("W157", "W11")
def test_a_watch_may_ask_for_initial_events(sets: Api, name: str) -> None:
    sets.create(body=cluster_set(name, suite=name))
    eventually(lambda: sets.get(name=name).to_dict().get("status", {}).get("conditions"))  # the hub's own write is over
    stream = sets.watch(
        label_selector=f"suite={name}",
        timeout=60,
        allow_watch_bookmarks=True,
        send_initial_events=True,
        resource_version_match="NotOlderThan",
    )
    seen = list(islice(stream, 2))
    stream.close()
    assert [event["type"] for event in seen] == ["ADDED", "BOOKMARK"]
    assert seen[1]["raw_object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
