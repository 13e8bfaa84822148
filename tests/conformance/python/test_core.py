"""CoreV1Api and what else any API server has: typed models read every answer."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from tests.conformance.commands import eventually
from tests.conformance.python.clients import GROUP, JSON_PATCH, MERGE, STRATEGIC, Api, client, refused


@pytest.mark.contract("W157", "W1")
def test_a_namespace_comes_and_goes(core: Api, name: str) -> None:
    made = core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name, labels={"suite": name})))
    assert made.status.phase == "Active"
    assert [each.metadata.name for each in core.list_namespace(label_selector=f"suite={name}").items] == [name]
    core.delete_namespace(name)
    eventually(lambda: not core.list_namespace(label_selector=f"suite={name}").items)


@pytest.mark.contract("W157", "W178")
def test_a_secret_keeps_what_it_was_given(core: Api, namespace: str) -> None:
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"word": "hush"})
    made = core.create_namespaced_secret(namespace, secret)
    assert base64.b64decode(made.data["word"]) == b"hush"
    assert made.type == "Opaque"
    made.data = {"word": base64.b64encode(b"loud").decode()}
    made.metadata.resource_version = None  # a secret may be replaced unseen
    made.metadata.managed_fields = None
    assert base64.b64decode(core.replace_namespaced_secret("s", namespace, made).data["word"]) == b"loud"
    core.delete_namespaced_secret("s", namespace)
    with refused(404, "NotFound") as status:
        core.read_namespaced_secret("s", namespace)
    assert status["message"] == 'secrets "s" not found'


@pytest.mark.contract("W157", "W158")
def test_a_config_map_takes_each_form_of_patch(core: Api, namespace: str) -> None:
    core.create_namespaced_config_map(
        namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="m"), data={"a": "1"})
    )

    def patch(body: object, media: str) -> dict[str, str]:
        data: dict[str, str] = core.patch_namespaced_config_map("m", namespace, body, _content_type=media).data
        return data

    assert patch({"data": {"b": "2"}}, STRATEGIC) == {"a": "1", "b": "2"}
    assert patch({"data": {"a": None}}, MERGE) == {"b": "2"}
    assert patch([{"op": "add", "path": "/data/c", "value": "3"}], JSON_PATCH) == {"b": "2", "c": "3"}
    core.delete_collection_namespaced_config_map(namespace, field_selector="metadata.name=m")
    with refused(404, "NotFound"):
        core.read_namespaced_config_map("m", namespace)


@pytest.mark.contract("W157", "W150")
def test_a_typed_list_comes_in_pages(core: Api, namespace: str) -> None:
    for number in range(5):
        core.create_namespaced_secret(namespace, {"metadata": {"name": f"s{number}"}})
    first = core.list_namespaced_secret(namespace, limit=3)
    assert first.metadata.remaining_item_count == 2
    rest = core.list_namespaced_secret(namespace, limit=3, _continue=first.metadata._continue)
    assert [each.metadata.name for each in first.items + rest.items] == [f"s{number}" for number in range(5)]
    assert not rest.metadata._continue


@pytest.mark.contract("W157")
def test_an_event_is_found_by_what_it_is_about_in_both_groups(core: Api, admin_client: Api, namespace: str) -> None:
    event = client.CoreV1Event(
        metadata=client.V1ObjectMeta(name="e"),
        involved_object=client.V1ObjectReference(kind="ConfigMap", name="m", namespace=namespace),
        reason="Seen",
        message="It was seen.",
        type="Normal",
        event_time=datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        action="Look",
        reporting_component="test",
        reporting_instance="test-1",
    )
    core.create_namespaced_event(namespace, event)
    (found,) = core.list_namespaced_event(namespace, field_selector="involvedObject.name=m").items
    assert (found.reason, found.message) == ("Seen", "It was seen.")
    assert core.list_namespaced_event(namespace, field_selector="involvedObject.name=other").items == []
    other = client.EventsV1Api(admin_client).read_namespaced_event("e", namespace)
    assert (other.note, other.regarding.name) == ("It was seen.", "m")
    assert other.event_time == event.event_time


@pytest.mark.contract("W156", "W157")
def test_a_token_of_a_service_account_says_who_comes(core: Api, reader: Api, namespace: str) -> None:
    who = client.AuthenticationV1Api(reader).create_self_subject_review({}).status.user_info
    assert who.username == f"system:serviceaccount:{namespace}:reader"
    assert f"system:serviceaccounts:{namespace}" in who.groups
    with refused(403, "Forbidden"):
        client.CoreV1Api(reader).list_namespaced_secret(namespace)
    core.delete_namespaced_service_account("reader", namespace)
    with refused(401, "Unauthorized"):
        client.CoreV1Api(reader).list_namespaced_secret(namespace)


@pytest.mark.contract("W156")
def test_a_token_that_would_end_at_once_is_refused(core: Api, namespace: str) -> None:
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "short"}})
    with refused(422, "Invalid"):
        core.create_namespaced_service_account_token("short", namespace, {"spec": {"expirationSeconds": 5}})
    with refused(404, "NotFound"):
        core.create_namespaced_service_account_token("absent", namespace, {"spec": {}})


@pytest.mark.contract("W157")
def test_the_version_can_be_asked_for(admin_client: Api) -> None:
    code = client.VersionApi(admin_client).get_code()
    assert (code.major, code.minor) == ("1", "32")
    assert code.git_version.startswith("v1.32.")


@pytest.mark.contract("W157")
def test_groups_and_their_resources_can_be_asked_for(admin_client: Api) -> None:
    groups = {group.name: group for group in client.ApisApi(admin_client).get_api_versions().groups}
    assert groups[GROUP].preferred_version.version == "v1"
    listed = client.CoordinationV1Api(admin_client).get_api_resources()
    assert "leases" in {resource.name for resource in listed.resources}


@pytest.mark.contract("W157")
def test_definitions_of_the_kinds_can_be_read(admin_client: Api) -> None:
    api = client.ApiextensionsV1Api(admin_client)
    read = api.read_custom_resource_definition(f"managedclusters.{GROUP}")
    assert (read.spec.names.kind, read.spec.scope) == ("ManagedCluster", "Cluster")
    assert {condition.type: condition.status for condition in read.status.conditions}["Established"] == "True"
    (served,) = [version for version in read.spec.versions if version.name == "v1"]
    assert served.model_dump(by_alias=True)["schema"]
    assert read.metadata.name in {each.metadata.name for each in api.list_custom_resource_definition().items}
