"""Create, read, replace: what holds for every kind, and where kinds differ (W14, W178)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.wire.api import JSON, Api, Doc, eventually, refused, version, worked
from tests.conformance.wire.conftest import Made
from tests.conformance.wire.documents import (
    BUILT_IN,
    CLUSTERS,
    CONFIG_MAP,
    CUSTOM,
    FORMS,
    LEASE,
    MANAGED_CLUSTER,
    NAMESPACE,
    NAMESPACES,
    REQUEST,
    SAMPLES,
    SECRET,
    SERVICE_ACCOUNT,
    WORK,
    Sample,
)

every_kind = pytest.mark.parametrize("sample", SAMPLES, ids=str)
every_form = pytest.mark.parametrize("sample", FORMS, ids=str)


@pytest.mark.contract("W14", "W133")
@every_kind
def test_object_is_created_read_listed_and_changed(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    doc = made(sample)
    path = sample.path(ns, name)
    assert doc["apiVersion"] == sample.api_version
    assert doc["kind"] == sample.kind
    assert doc["metadata"]["uid"]
    assert doc["metadata"]["creationTimestamp"].endswith("Z")
    assert name in admin.names(sample.path(ns))
    changed = admin.merge(path, {"metadata": {"annotations": {"example.com/a": "b"}}})
    assert changed["metadata"]["annotations"]["example.com/a"] == "b"
    assert changed["metadata"]["uid"] == doc["metadata"]["uid"]
    assert version(changed) > version(doc)
    assert version(admin.merge(path, sample.change)) >= version(changed)


@pytest.mark.contract("W19")
@every_form
def test_name_is_taken_once(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    made(sample)
    said = refused(
        admin.post(sample.path(ns), sample.doc(name)),
        409,
        "AlreadyExists",
        f'"{name}" already exists',
    )
    assert said["details"]["name"] == name
    assert said["details"]["kind"] == sample.plural
    assert said["message"].startswith(sample.called)
    assert said["details"].get("group", "") in {sample.stored_group, sample.group}


@pytest.mark.contract("W19", "W132")
@every_kind
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_what_is_not_there_is_not_found(admin: Api, ns: str, name: str, sample: Sample, method: str) -> None:
    said = refused(admin.ask(method, sample.path(ns, name)), 404, "NotFound", f'"{name}" not found')
    assert said["message"].startswith(sample.called)
    assert (said["details"]["name"], said["details"]["kind"]) == (name, sample.plural)


@pytest.mark.contract("W14", "W178")
@every_kind
def test_put_without_a_version_is_for_some_kinds(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    """The missing version is written as 0 or 0x0; Kubernetes has had both."""
    doc = made(sample)
    del doc["metadata"]["resourceVersion"]
    doc["metadata"]["labels"] = {**doc["metadata"].get("labels", {}), "example.com/put": "yes"}
    answer = admin.put(sample.path(ns, name), doc)
    if sample.unconditional:
        assert worked(answer)["metadata"]["labels"]["example.com/put"] == "yes"
    else:
        said = refused(
            answer, 422, "Invalid", "metadata.resourceVersion: Invalid value: 0", "must be specified for an update"
        )
        assert [cause["field"] for cause in said["details"]["causes"]] == ["metadata.resourceVersion"]


@pytest.mark.contract("W178")
@every_kind
def test_put_of_what_is_not_there_creates_only_some_kinds(admin: Api, ns: str, name: str, sample: Sample) -> None:
    doc = sample.doc(name)
    if not (sample.unconditional or sample.created_by_put):
        doc["metadata"]["resourceVersion"] = "1"
    answer = admin.put(sample.path(ns, name), doc)
    if sample.created_by_put:
        assert worked(answer, 201)["metadata"]["uid"]
    else:
        refused(answer, 404, "NotFound", f'{sample.qualified} "{name}" not found')


@pytest.mark.contract("W178", "W14")
@pytest.mark.parametrize("sample", [each for each in SAMPLES if each.created_by_put], ids=str)
def test_put_that_creates_minds_no_version_but_a_uid(admin: Api, ns: str, name: str, sample: Sample) -> None:
    """Nothing is there that the version could be of; the uid can only be another object's."""
    another = sample.doc(name, uid="00000000-0000-0000-0000-000000000000")
    refused(admin.put(sample.path(ns, name), another), 409, "Conflict", name)
    refused(admin.get(sample.path(ns, name)), 404, "NotFound")
    made = worked(admin.put(sample.path(ns, name), sample.doc(name, resourceVersion="1")), 201)
    assert made["metadata"]["resourceVersion"] != "1"


@pytest.mark.contract("W14", "W178")
@every_form
def test_version_zero_is_none(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    """A PUT with it is one without a version."""
    doc = made(sample)
    doc["metadata"] |= {"resourceVersion": "0", "labels": {**doc["metadata"].get("labels", {}), "example.com/a": "b"}}
    answer = admin.put(sample.path(ns, name), doc)
    if sample.unconditional:
        assert worked(answer)["metadata"]["labels"]["example.com/a"] == "b"
    else:
        refused(answer, 422, "Invalid", "metadata.resourceVersion", "must be specified for an update")
    created = admin.post(sample.path(ns), sample.doc(f"{name}-new", resourceVersion="0"))
    assert worked(created, 201)["metadata"]["resourceVersion"] != "0"


@pytest.mark.contract("W178")
@every_form
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_collection_is_not_written(admin: Api, ns: str, name: str, sample: Sample, method: str) -> None:
    """Custom kinds miss a name (400); built-in kinds have no such route (405)."""
    kind = "application/merge-patch+json" if method == "PATCH" else JSON
    answer = admin.ask(method, sample.path(ns), sample.doc(name), kind=kind)
    if sample.custom:
        refused(answer, 400, "BadRequest", "name must be provided")
    else:
        refused(answer, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


@pytest.mark.contract("W20")
def test_null_in_a_map_of_texts_is_the_empty_text(admin: Api, ns: str, name: str) -> None:
    """Go reads it so, into texts and into bytes."""
    metadata: Doc = {"name": name, "labels": {"example.com/a": None}, "annotations": {"example.com/b": None}}
    for sample, fields in ((CONFIG_MAP, ("data", "binaryData")), (SECRET, ("data", "stringData"))):
        parts = {field: {f"{field}.key": None} for field in fields}
        for doc in (
            admin.create(sample.path(ns), {"metadata": metadata, **parts}),
            worked(admin.put(sample.path(ns, name), {"metadata": metadata, **parts})),
        ):
            assert doc["metadata"]["labels"] == {"example.com/a": ""}
            assert doc["metadata"]["annotations"] == {"example.com/b": ""}
            said = {**doc["data"], **doc.get("binaryData", {})}
            assert said == {f"{field}.key": "" for field in fields}


@pytest.mark.contract("W20")
@pytest.mark.parametrize(
    ("sample", "empty"),
    [
        (CONFIG_MAP, {"data": {}, "binaryData": {}}),
        (SECRET, {"data": {}, "stringData": {}}),
        (SERVICE_ACCOUNT, {"secrets": [], "imagePullSecrets": []}),
    ],
    ids=str,
)
def test_empty_map_is_left_out(admin: Api, ns: str, name: str, sample: Sample, empty: Doc) -> None:
    doc = admin.create(sample.path(ns), {"metadata": {"name": name}, **empty})
    assert not empty.keys() & doc.keys()
    again = worked(admin.put(sample.path(ns, name), {"metadata": {"name": name}, **empty}))
    assert again["metadata"]["resourceVersion"] == doc["metadata"]["resourceVersion"]


@pytest.mark.contract("W20", "W19")
@pytest.mark.parametrize(
    ("sample", "body"),
    [
        (SECRET, {"data": {"a": "not base64!"}}),
        (SECRET, {"data": {"a": "YQ"}}),
        (CONFIG_MAP, {"binaryData": {"a": "%"}}),
        (CONFIG_MAP, {"data": {"a": 1}}),
        (CONFIG_MAP, {"data": []}),
        (REQUEST, {"spec": {**REQUEST.body["spec"], "request": "?"}}),
    ],
    ids=str,
)
def test_value_that_cannot_be_read_is_a_bad_request(
    admin: Api, ns: str, name: str, made: Made, sample: Sample, body: Doc
) -> None:
    """Built-in kinds have types. What a patch makes of an object is invalid instead."""
    doc = {**sample.doc(name), **body}
    text = f'{sample.kind} in version "v1" cannot be handled as a {sample.kind}'
    refused(admin.post(sample.path(ns), doc), 400, "BadRequest", text)
    if sample is not REQUEST:  # whose spec no later write can change
        made(sample)
        refused(admin.put(sample.path(ns, name), doc), 400, "BadRequest", text)
        refused(admin.patch(sample.path(ns, name), "merge", body), 422, "Invalid")


@pytest.mark.contract("W20")
def test_base64_may_be_broken_into_lines(admin: Api, ns: str, name: str) -> None:
    doc = admin.create(SECRET.path(ns), {"metadata": {"name": name}, "data": {"a": "YWJj\nZGVm\r\n"}})
    assert doc["data"] == {"a": "YWJjZGVm"}


@pytest.mark.contract("W14")
@every_form
def test_put_with_an_old_version_conflicts(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    doc = made(sample)
    path = sample.path(ns, name)
    admin.merge(path, {"metadata": {"labels": {"example.com/first": "yes"}}})
    doc["metadata"]["labels"] = {"example.com/second": "yes"}
    text = f'"{name}": the object has been modified; please apply your changes to the latest version and try again'
    said = refused(admin.put(path, doc), 409, "Conflict", text)
    assert said["message"].startswith(tuple(f"Operation cannot be fulfilled on {each}" for each in sample.called))
    assert (said["details"]["name"], said["details"]["kind"]) == (name, sample.plural)


@pytest.mark.contract("W115", "W16")
@every_form
def test_put_of_the_same_object_changes_nothing(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    made(sample)
    path = sample.path(ns, name)

    def put() -> bool:
        doc = admin.read(path)
        answer = admin.put(path, doc)
        return (
            answer.status_code == 200
            and answer.json()["metadata"]["resourceVersion"] == doc["metadata"]["resourceVersion"]
        )

    assert eventually(put) if sample.busy else put()


@pytest.mark.contract("W17", "W162")
@every_form
def test_names_are_generated(admin: Api, ns: str, name: str, sample: Sample) -> None:
    made = [admin.create(sample.path(ns), sample.doc("", generateName=f"{name}-")) for _ in range(2)]
    names = [doc["metadata"]["name"] for doc in made]
    assert len({*names}) == 2
    for each in names:
        assert each.startswith(f"{name}-")
        assert set(each.removeprefix(f"{name}-")) <= set("bcdfghjklmnpqrstvwxz2456789")
        assert len(each) == len(name) + 6
    assert made[0]["metadata"]["generateName"] == f"{name}-"


@pytest.mark.contract("W117")
@every_form
def test_body_without_content_type_is_json(admin: Api, ns: str, name: str, sample: Sample) -> None:
    created = worked(admin.ask("POST", sample.path(ns), sample.doc(name), kind=None), 201)
    assert created["metadata"]["name"] == name


@pytest.mark.contract("W20", "W142")
@every_form
def test_dry_run_creates_nothing(admin: Api, ns: str, name: str, sample: Sample) -> None:
    answer = admin.post(sample.path(ns), sample.doc(name), dryRun="All")
    admin.made.clear()
    told = worked(answer, 201)["metadata"]
    assert told["uid"]
    assert told["creationTimestamp"]
    assert not told.get("resourceVersion")
    refused(admin.get(sample.path(ns, name)), 404, "NotFound")


@pytest.mark.contract("W20", "W142")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK, LEASE], ids=str)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_dry_run_changes_nothing(admin: Api, ns: str, name: str, made: Made, sample: Sample, method: str) -> None:
    doc = made(sample)
    path = sample.path(ns, name)
    if method == "PUT":
        told = worked(
            admin.put(
                path, {**doc, **sample.change, "metadata": {**doc["metadata"], "labels": {"a": "b"}}}, dryRun="All"
            )
        )
        assert told["metadata"]["resourceVersion"] == doc["metadata"]["resourceVersion"]
        assert told["metadata"]["labels"] == {"a": "b"}
    elif method == "PATCH":
        told = admin.merge(path, {"metadata": {"labels": {"a": "b"}}}, dryRun="All")
        assert told["metadata"]["labels"] == {"a": "b"}
    else:
        worked(admin.delete(path, dryRun="All"))
    assert admin.read(path) == doc


@pytest.mark.contract("W142")
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("POST", "CreateOptions"),
        ("PUT", "UpdateOptions"),
        ("PATCH", "PatchOptions"),
        ("DELETE", "DeleteOptions"),
    ],
)
@pytest.mark.parametrize("value", ["Yes", "", "all", ["All", ""]], ids=str)
def test_dry_run_is_all_or_nothing(
    admin: Api, ns: str, name: str, made: Made, method: str, options: str, value: str | list[str]
) -> None:
    """An empty value is none that is known: a real server writes nothing either."""
    before = made(CONFIG_MAP)
    path = CONFIG_MAP.path(ns, "" if method == "POST" else name)
    body = (
        None if method == "DELETE" else CONFIG_MAP.doc(f"{name}-new" if method == "POST" else name, labels={"a": "b"})
    )
    kind = "application/merge-patch+json" if method == "PATCH" else JSON
    answer = admin.ask(method, path, body, kind=kind, query={"dryRun": value})
    refused(
        answer,
        422,
        "Invalid",
        f'{options}.meta.k8s.io "" is invalid',
        "dryRun: Unsupported value",
        'supported values: "All"',
    )
    assert admin.read(CONFIG_MAP.path(ns, name)) == before
    refused(admin.get(CONFIG_MAP.path(ns, f"{name}-new")), 404, "NotFound")


@pytest.mark.contract("W3", "W8")
@pytest.mark.parametrize("sample", CUSTOM, ids=str)
@pytest.mark.parametrize("field", ["kind", "apiVersion"])
def test_custom_kind_names_itself(admin: Api, ns: str, name: str, sample: Sample, field: str) -> None:
    doc = sample.doc(name)
    del doc[field]
    refused(admin.post(sample.path(ns), doc), 400, "BadRequest")


@pytest.mark.contract("W117")
@pytest.mark.parametrize("sample", BUILT_IN, ids=str)
def test_built_in_kind_is_known_from_the_path(admin: Api, ns: str, name: str, sample: Sample) -> None:
    doc = {field: value for field, value in sample.doc(name).items() if field not in {"kind", "apiVersion"}}
    made = admin.create(sample.path(ns), doc)
    assert (made["kind"], made["apiVersion"]) == (sample.kind, sample.api_version)


@pytest.mark.contract("W14")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_name_in_body_and_path_agree(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    doc = made(sample)
    doc["metadata"]["name"] = "other"
    text = f"the name of the object (other) does not match the name on the URL ({name})"
    refused(admin.put(sample.path(ns, name), doc), 400, "BadRequest", text)


@pytest.mark.contract("W19")
def test_namespace_in_body_and_path_agree(admin: Api, ns: str, name: str) -> None:
    text = "the namespace of the provided object does not match the namespace sent on the request"
    refused(admin.post(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name, namespace="other")), 400, "BadRequest", text)


@pytest.mark.contract("W14")
def test_object_comes_without_a_version(admin: Api, ns: str, name: str) -> None:
    """Kubernetes calls it an error of its own (500)."""
    answer = admin.post(CONFIG_MAP.path(ns), CONFIG_MAP.doc(name, resourceVersion="1"))
    assert answer.status_code in {400, 500}
    assert "resourceVersion should not be set on objects to be created" in answer.json()["message"]


@pytest.mark.contract("W14")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_put_with_another_uid_conflicts(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    doc = made(sample)
    doc["metadata"]["uid"] = "abc"
    refused(admin.put(sample.path(ns, name), doc), 409, "Conflict", "Precondition failed: UID in precondition: abc")


@pytest.mark.contract("W19")
def test_object_needs_a_name(admin: Api, ns: str) -> None:
    for sample in (CONFIG_MAP, WORK):
        text = "name or generateName is required"
        refused(admin.post(sample.path(ns), sample.doc("")), 422, "Invalid", text)


@pytest.mark.contract("W28", "W178")
@pytest.mark.parametrize("sample", [each for each in SAMPLES if each is not NAMESPACE], ids=str)
def test_kinds_live_where_they_say(admin: Api, name: str, sample: Sample) -> None:
    """Across namespaces one may list, and nothing else; cluster-wide kinds are in no namespace."""
    if sample.namespaced:
        everywhere = f"{sample.root}/{sample.plural}"
        worked(admin.get(everywhere))
        assert admin.post(everywhere, sample.doc(name)).status_code in {404, 405}
    else:
        assert admin.get(f"{sample.root}/namespaces/default/{sample.plural}").status_code == 404


@pytest.mark.contract("W10")
def test_list_in_a_namespace_that_is_not_there_is_empty(admin: Api, name: str) -> None:
    listed = admin.read(CONFIG_MAP.path(name))
    assert listed["items"] == []
    assert int(listed["metadata"]["resourceVersion"]) > 0
    refused(admin.post(CONFIG_MAP.path(name), CONFIG_MAP.doc("a")), 404, "NotFound", f'namespaces "{name}" not found')


@pytest.mark.contract("W6")
@pytest.mark.parametrize("path", ["", "/api/v1/namespaces/kube-system", CLUSTERS, "/version", "/api", "/apis"])
def test_slash_at_the_end_changes_nothing(admin: Api, path: str) -> None:
    answer = admin.get(f"{path}/")
    assert answer.status_code == 200
    assert not answer.is_redirect
    assert answer.headers["Content-Type"].startswith(JSON)


@pytest.mark.contract("W5", "W116")
def test_go_writes_zero_values_that_mean_nothing(admin: Api, name: str, settled: object) -> None:
    doc = MANAGED_CLUSTER.doc(name, creationTimestamp=None)
    doc["status"] = {"conditions": None, "version": {}}
    made = admin.create(CLUSTERS, doc)
    assert made["metadata"]["creationTimestamp"]
    assert not made.get("status")
    assert made["spec"]["hubAcceptsClient"] is False
    assert made["spec"]["leaseDurationSeconds"] == 60


@pytest.mark.contract("W5")
def test_explicit_zero_is_kept_where_there_is_a_default(admin: Api, name: str) -> None:
    doc = MANAGED_CLUSTER.doc(name)
    doc["spec"]["leaseDurationSeconds"] = 0
    assert admin.create(CLUSTERS, doc)["spec"]["leaseDurationSeconds"] == 0


@pytest.mark.contract("W15")
def test_name_that_cannot_be_is_refused(admin: Api, ns: str) -> None:
    said = refused(
        admin.post(CONFIG_MAP.path(ns), CONFIG_MAP.doc("A_b")), 422, "Invalid", "metadata.name: Invalid value"
    )
    assert said["details"]["causes"][0]["reason"] == "FieldValueInvalid"
    said = refused(
        admin.post(NAMESPACES, {"metadata": {"name": "a.b"}}), 422, "Invalid", "metadata.name: Invalid value"
    )
    assert said["details"]["kind"] == "Namespace"


@pytest.mark.contract("W158")
def test_patches_in_parallel_all_take_effect(admin: Api, ns: str, name: str, made: Made) -> None:
    made(WORK)
    path = WORK.path(ns, name)
    patches: list[Doc] = [{"metadata": {"labels": {f"example.com/{number}": "yes"}}} for number in range(16)]
    with ThreadPoolExecutor(16) as pool:
        answers = [*pool.map(lambda patch: admin.patch(path, "merge", patch).status_code, patches)]
    assert answers == [200] * 16
    assert len(admin.read(path)["metadata"]["labels"]) == 16
