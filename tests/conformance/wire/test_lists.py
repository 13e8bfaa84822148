"""Lists: selectors, pages, versions (W10, W150 to W152)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.wire.api import TABLE, Api, Doc, eventually, refused, worked
from tests.conformance.wire.conftest import RUN, Made
from tests.conformance.wire.documents import (
    CLUSTERS,
    CONFIG_MAP,
    EVENT,
    FORMS,
    LEASE,
    MANAGED_CLUSTER,
    NAMESPACES,
    NEW_EVENT,
    REQUEST,
    SAMPLES,
    SECRET,
    WORK,
    Sample,
)

SIX: dict[str, dict[str, str]] = {
    "one": {"env": "prod", "tier": "web"},
    "two": {"env": "prod", "tier": "db", "size": "3"},
    "three": {"env": "dev", "size": "10"},
    "four": {"env": "", "open-cluster-management.io/cluster-name": "ca1"},
    "five": {"tier": "web", "size": "x"},
    "six": {},
}
SELECTORS = [
    ("env", "one two three four"),
    ("!env", "five six"),
    ("env=prod", "one two"),
    ("env==prod", "one two"),
    ("env!=prod", "three four five six"),
    ("env in (prod,dev)", "one two three"),
    ("env notin (prod,dev)", "four five six"),
    ("env=", "four"),
    ("env in ()", "four"),
    ("env notin ()", "one two three five six"),
    ("env=prod,tier=db", "two"),
    ("env,!tier", "three four"),
    ("size>5", "three"),
    ("size<5", "two"),
    ("open-cluster-management.io/cluster-name = ca1", "four"),
    (" env  in ( prod , dev ) , tier ", "one two"),
    ("env notin (prod), tier", "five"),
    ("", "one two three four five six"),
    ("nothing=here", ""),
]


@pytest.fixture(scope="module")
def six(everlasting: Api, ns: str) -> str:
    """A path that lists six objects; their names are those of SIX."""
    name = f"six-{RUN}"
    everlasting.create(NAMESPACES, {"metadata": {"name": name}})
    for each, labels in SIX.items():
        everlasting.create(WORK.path(name), WORK.doc(each, labels=labels))
    return WORK.path(name)


@pytest.mark.contract("W10", "W151", "W123")
@pytest.mark.parametrize(("selector", "expected"), SELECTORS)
def test_label_selector_chooses(admin: Api, six: str, selector: str, expected: str) -> None:
    assert {*admin.names(six, labelSelector=selector)} == {*expected.split()}


@pytest.mark.contract("W151")
@pytest.mark.parametrize(
    "selector", ["=a", "a b", "a in b", "a=b=c", "a>x", ",", "!", "a in (b", "-a=b", "a=b c", "a==!"]
)
def test_malformed_label_selector_is_refused(admin: Api, six: str, selector: str) -> None:
    said = refused(admin.get(six, labelSelector=selector), 400, "BadRequest")
    assert selector != "=a" or "found '=', expected: " in said["message"]


@pytest.mark.contract("W10", "W152")
@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=one", "one"),
        ("metadata.name==one", "one"),
        ("metadata.name!=one", "two three four five six"),
        ("metadata.name!=one,metadata.name!=two", "three four five six"),
        ("metadata.name=one,metadata.name=two", ""),
        pytest.param(f"metadata.namespace=six-{RUN}", "one two three four five six", id="its namespace"),
        ("metadata.namespace=elsewhere", ""),
        ("", "one two three four five six"),
    ],
)  # fmt: skip
def test_field_selector_chooses(admin: Api, six: str, selector: str, expected: str) -> None:
    assert {*admin.names(six, fieldSelector=selector)} == {*expected.split()}


@pytest.mark.contract("W10")
@pytest.mark.parametrize("sample", FORMS, ids=str)
def test_every_kind_is_found_by_name_and_label(admin: Api, ns: str, name: str, made: Made, sample: Sample) -> None:
    made(sample, labels={"example.com/found": name})
    assert admin.names(sample.path(ns), fieldSelector=f"metadata.name={name}") == [name]
    assert admin.names(sample.path(ns), labelSelector=f"example.com/found={name}") == [name]
    everywhere = f"{sample.root}/{sample.plural}"
    assert admin.names(everywhere, labelSelector=f"example.com/found = {name}") == [name]


@pytest.mark.contract("W152")
def test_field_that_cannot_be_selected_is_refused(admin: Api) -> None:
    refused(
        admin.get(CLUSTERS, fieldSelector="spec.hubAcceptsClient=true"),
        400,
        "BadRequest",
        "field label not supported: spec.hubAcceptsClient",
    )
    refused(
        admin.get(CLUSTERS, fieldSelector="bad"), 400, "BadRequest", "invalid selector: 'bad'; can't understand 'bad'"
    )
    refused(admin.get(CLUSTERS, fieldSelector="metadata.namespace=a"), 400, "BadRequest")


def _one(admin: Api, path: str, selector: str, name: str) -> bool:
    return name in admin.names(path, fieldSelector=selector)


@pytest.mark.contract("W152", "W10", "W28")
@pytest.mark.parametrize(
    ("sample", "yes", "no"),
    [
        (SECRET, "type=Opaque", "type=other"),
        (REQUEST, "spec.signerName=kubernetes.io/kube-apiserver-client", "spec.signerName=a.b/c"),
        (
            EVENT,
            "involvedObject.kind=ConfigMap,involvedObject.name=a,involvedObject.namespace=default",
            "involvedObject.name=b",
        ),
        (EVENT, "reason=Tested,type=Normal", "type=Warning"),
        (EVENT, "involvedObject.uid=", "involvedObject.uid=x"),
        (NEW_EVENT, "regarding.kind=ConfigMap,regarding.name=a", "regarding.name=b"),
        (NEW_EVENT, "reason=Tested", "reportingController=nobody"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_fields_of_a_kind_are_selected(
    admin: Api, ns: str, name: str, made: Made, sample: Sample, yes: str, no: str
) -> None:
    made(sample)
    assert _one(admin, sample.path(ns), yes, name)
    assert not _one(admin, sample.path(ns), no, name)


@pytest.mark.contract("W152")
def test_namespaces_are_selected_by_phase(admin: Api, ns: str) -> None:
    assert ns in admin.names(NAMESPACES, fieldSelector="status.phase=Active")
    assert ns not in admin.names(NAMESPACES, fieldSelector="status.phase=Terminating")


@pytest.mark.contract("W152")
def test_leases_have_no_fields_to_select(admin: Api, ns: str) -> None:
    refused(admin.get(LEASE.path(ns), fieldSelector="spec.holderIdentity=a"), 400, "BadRequest", "spec.holderIdentity")


# --------------------------------------------------------------------------------------------------------------- pages


def _pages(admin: Api, path: str, limit: int, **query: Any) -> list[Doc]:
    pages = [admin.read(path, limit=limit, **query)]
    while token := pages[-1]["metadata"].get("continue"):
        pages.append(admin.read(path, limit=limit, **{"continue": token, **query}))
    return pages


@pytest.mark.contract("W10", "W150")
@pytest.mark.parametrize(
    ("limit", "sizes"), [(1, [1] * 6), (2, [2, 2, 2]), (4, [4, 2]), (6, [6]), (0, [6]), (100, [6])]
)
def test_pages_hold_everything_once(admin: Api, six: str, limit: int, sizes: list[int]) -> None:
    pages = _pages(admin, six, limit)
    assert [len(page["items"]) for page in pages] == sizes
    names = [each["metadata"]["name"] for page in pages for each in page["items"]]
    assert names == sorted(SIX)
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
    left = [page["metadata"].get("remainingItemCount", 0) for page in pages]
    assert left == [6 - sum(sizes[: number + 1]) for number in range(len(sizes))]


@pytest.mark.contract("W150")
def test_pages_under_a_selector_tell_no_remainder(admin: Api, six: str) -> None:
    first, *others = _pages(admin, six, 2, labelSelector="env")
    assert "remainingItemCount" not in first["metadata"]
    names = [each["metadata"]["name"] for page in (first, *others) for each in page["items"]]
    assert names == ["four", "one", "three", "two"]


@pytest.mark.contract("W150")
def test_pages_stay_of_one_piece_while_others_write(admin: Api, ns: str, name: str) -> None:
    where = f"{NAMESPACES}/{name}/configmaps"
    admin.create(NAMESPACES, {"metadata": {"name": name}})
    eventually(lambda: "kube-root-ca.crt" in admin.names(where))
    for number in range(4):
        admin.create(where, CONFIG_MAP.doc(f"c{number}"))
    first = admin.read(where, limit=2)
    admin.create(where, CONFIG_MAP.doc("a-new"))
    worked(admin.delete(f"{where}/c3"))
    token = first["metadata"]["continue"]
    rest = admin.read(where, **{"continue": token})
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    names = [each["metadata"]["name"] for page in (first, rest) for each in page["items"]]
    assert [each for each in names if each in {"c0", "c1", "c2"}] == ["c0", "c1", "c2"]


@pytest.mark.contract("W150", "W9")
def test_tables_come_in_pages(admin: Api, six: str) -> None:
    first = admin.read(six, accept=TABLE, limit=5)
    assert len(first["rows"]) == 5
    assert first["metadata"]["remainingItemCount"] == 1
    second = admin.read(six, accept=TABLE, limit=5, **{"continue": first["metadata"]["continue"]})
    assert len(second["rows"]) == 1


@pytest.mark.contract("W150", "W19")
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"limit": "1", "continue": "bad"}, "continue"),
        ({"limit": "x"}, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"watch": "1", "timeoutSeconds": "x"}, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"resourceVersion": "x"}, "invalid resource version"),
    ],
)  # fmt: skip
def test_nonsense_in_the_query_is_refused(admin: Api, six: str, query: dict[str, str], text: str) -> None:
    refused(admin.get(six, **query), 400, "BadRequest", text)


@pytest.mark.contract("W150")
def test_continue_and_version_exclude_each_other(admin: Api, six: str) -> None:
    token = admin.read(six, limit=1)["metadata"]["continue"]
    text = "specifying resource version is not allowed when using continue"
    refused(admin.get(six, resourceVersion="5", **{"continue": token}), 400, "BadRequest", text)


@pytest.mark.contract("W10", "W150")
def test_version_of_a_list_is_a_place_to_watch_from(admin: Api, six: str) -> None:
    listed = admin.read(six)["metadata"]["resourceVersion"]
    for wanted in ("", "0", listed):
        again = admin.read(six, resourceVersion=wanted)
        assert len(again["items"]) == 6
        assert int(again["metadata"]["resourceVersion"]) >= int(listed)
    assert len(admin.items(six, resourceVersion=listed, resourceVersionMatch="NotOlderThan")) == 6


@pytest.mark.contract("W10", "W176")
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"resourceVersionMatch": "Exact"}, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ({"resourceVersionMatch": "NotOlderThan"}, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Bogus", "resourceVersion": "1"}, "resourceVersionMatch"),
        ({"sendInitialEvents": "true"}, "sendInitialEvents is forbidden for list"),
        ({"watch": "true", "resourceVersionMatch": "NotOlderThan"}, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
        ({"watch": "true", "sendInitialEvents": "true"}, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
    ],
)  # fmt: skip
def test_options_that_exclude_each_other_are_refused(admin: Api, six: str, query: dict[str, str], text: str) -> None:
    refused(admin.get(six, **query), 422, "Invalid", 'ListOptions.meta.k8s.io "" is invalid', text)


@pytest.mark.contract("W10")
def test_exact_version_is_the_one_of_the_list(admin: Api, six: str) -> None:
    now = admin.read(six)["metadata"]["resourceVersion"]
    answer = admin.get(six, resourceVersion=now, resourceVersionMatch="Exact")
    if answer.status_code != 410:
        assert worked(answer)["metadata"]["resourceVersion"] == now


@pytest.mark.contract("W10")
@pytest.mark.parametrize("sample", [CONFIG_MAP, WORK], ids=str)
def test_exact_version_shows_what_was(admin: Api, ns: str, name: str, sample: Sample) -> None:
    """Whatever was changed, deleted or created since; a server that cannot tell says so (410)."""
    names = [f"{name}-{letter}" for letter in "abc"]
    for each in names:
        admin.create(sample.path(ns), sample.doc(each, labels={"example.com/exact": name}))
    selector = {"labelSelector": f"example.com/exact={name}"}
    then = admin.read(sample.path(ns), **selector)
    admin.merge(sample.path(ns, names[0]), {"metadata": {"labels": {"example.com/exact": None}}})
    worked(admin.delete(sample.path(ns, names[1])))
    admin.create(sample.path(ns), sample.doc(f"{name}-d", labels={"example.com/exact": name}))
    wanted = {"resourceVersion": then["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact", **selector}
    answer = admin.get(sample.path(ns), **wanted)
    if answer.status_code == 410:
        refused(answer, 410, "Expired", "The resourceVersion for the provided list is too old.")
        return
    assert worked(answer)["items"] == then["items"]
    assert answer.json()["metadata"]["resourceVersion"] == then["metadata"]["resourceVersion"]
    first = admin.read(sample.path(ns), **wanted, limit=2)
    rest = admin.read(sample.path(ns), **selector, limit=2, **{"continue": first["metadata"]["continue"]})
    assert [*first["items"], *rest["items"]] == then["items"]


@pytest.mark.contract("W175")
def test_version_of_the_future_is_waited_for_in_vain(admin: Api, six: str) -> None:
    said = refused(
        admin.get(six, resourceVersion="99999999999"),
        504,
        "Timeout",
        "Too large resource version: 99999999999, current: ",
    )
    assert said["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert said["details"]["retryAfterSeconds"] == 1


@pytest.mark.contract("W175")
def test_object_of_a_future_version_is_waited_for_in_vain(admin: Api, six: str) -> None:
    name = admin.read(six)["items"][0]["metadata"]["name"]
    text = "Too large resource version: 99999999999, current: "
    for place in (f"{six}/{name}", f"{six}/missing"):
        said = refused(admin.get(place, resourceVersion="99999999999"), 504, "Timeout", text)
        assert said["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    now = admin.read(six)["metadata"]["resourceVersion"]
    for known in ("0", "1", now):
        assert worked(admin.get(f"{six}/{name}", resourceVersion=known))["metadata"]["name"] == name


@pytest.mark.contract("W175")
def test_nothing_is_deleted_as_of_a_future_version(admin: Api, six: str) -> None:
    refused(admin.http.delete(six, params={"resourceVersion": "99999999999"}), 504, "Timeout", "Too large")
    assert len(admin.read(six)["items"]) == 6


@pytest.mark.contract("W19")
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_list_names_its_kind(admin: Api, ns: str, sample: Sample) -> None:
    listed = admin.read(sample.path(ns))
    assert listed["kind"] == f"{sample.kind}List"
    assert listed["apiVersion"] == sample.api_version
    assert isinstance(listed["items"], list)
    if sample.custom:
        assert {each["kind"] for each in listed["items"]} <= {sample.kind}


@pytest.mark.contract("W101")
def test_nothing_is_an_empty_list(admin: Api, name: str) -> None:
    """What `kubectl get` on an empty server reads."""
    assert admin.read(CLUSTERS, labelSelector=f"example.com/never={name}", limit=500)["items"] == []
    table = admin.read(CLUSTERS, accept=TABLE, labelSelector=f"example.com/never={name}", limit=500)
    assert table["rows"] == []
    assert MANAGED_CLUSTER.columns == tuple(column["name"] for column in table["columnDefinitions"])


@pytest.mark.contract("W149")
def test_services_are_a_list_that_kubectl_can_read(admin: Api) -> None:
    """`kubectl cluster-info` ends with an error without it."""
    path = "/api/v1/namespaces/kube-system/services"
    found = admin.read(path, labelSelector="kubernetes.io/cluster-service=true")
    assert found["kind"] == "ServiceList"
    refused(admin.get(f"{path}/not-there"), 404, "NotFound", 'services "not-there" not found')


@pytest.mark.contract("W149", "W9")
@pytest.mark.parametrize("path", ["/api/v1/namespaces/kube-public/services", "/api/v1/services"])
def test_services_are_a_table_for_those_who_print(admin: Api, path: str) -> None:
    table = admin.read(path, accept=TABLE, labelSelector="example.com/never=there")
    assert (table["kind"], table["rows"]) == ("Table", [])
    columns = ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"]
    assert [column["name"] for column in table["columnDefinitions"]] == columns
