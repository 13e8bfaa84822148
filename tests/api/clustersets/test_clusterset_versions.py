"""Sets and bindings in three versions at once: one object, three faces, and no write that loses anything (D1)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from clusters.kinds import GROUP
from clustersets.kinds import MANAGED_CLUSTER_SET
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from tests import factories as make
from tests.actors import grant, person, rule
from tests.api import entry
from tests.api.contract import KindContract
from tests.api.entry import APPLY, JSON_PATCH, MERGE, TABLE, Answer, Doc
from tests.fuzz import world
from tests.fuzz.world import Site

VERSIONS = ("v1beta2", "v1beta1", "v1alpha1")
OLDER = VERSIONS[1:]
EXCLUSIVE, LEGACY = "ExclusiveClusterSetLabel", "LegacyClusterSetLabel"
PROD: Doc = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "prod"}}}
DEV: Doc = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "dev"}}}
APPS = [{"name": "apps"}]


def sets(version: str) -> str:
    return f"/apis/{GROUP}/{version}/managedclustersets"


def bindings(version: str, namespace: str = "apps") -> str:
    return f"/apis/{GROUP}/{version}/namespaces/{namespace}/managedclustersetbindings"


def document(version: str, spec: Doc | None = None, *, kind: str = "ManagedClusterSet", **metadata: Any) -> Doc:
    doc: Doc = {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": "web", **metadata}}
    return doc if spec is None else doc | {"spec": spec}


def created(version: str, spec: Doc | None = None, **metadata: Any) -> Doc:
    return well(entry.root().post(sets(version), document(version, spec, **metadata)))


def read(version: str = "v1beta2") -> Doc:
    return well(entry.root().get(f"{sets(version)}/web"))


def spec_of(version: str = "v1beta2") -> Doc | None:
    return read(version).get("spec")


def well(answer: Answer) -> Doc:
    assert answer.code in {200, 201}, answer.body
    return answer.doc


# ---------------------------------------------------------------- what every kind must do, in each older version


class OlderSet(KindContract):
    put_needs_version = True


class TestManagedClusterSetV1Beta1(OlderSet):
    site = Site(world.OCM, "v1beta1", "managedclustersets", lambda _: {"spec": {"clusterSelector": PROD}})
    bad: Doc = {"spec": {"clusterSelector": {"selectorType": EXCLUSIVE}}}
    complaint = (
        f'spec.clusterSelector.selectorType: Unsupported value: "{EXCLUSIVE}": '
        f'supported values: "{LEGACY}", "LabelSelector"'
    )


class TestManagedClusterSetV1Alpha1(OlderSet):
    site = Site(world.OCM, "v1alpha1", "managedclustersets", lambda _: {})
    bad: Doc = {"spec": []}
    complaint = 'spec: Invalid value: "array": spec in body must be of type object: "array"'


class OlderBinding(KindContract):
    bad: Doc = {"spec": {}}
    complaint = "spec.clusterSet: Required value"
    put_needs_version = True

    @pytest.mark.contract("A8")
    def test_generated_names_have_the_prefix_and_five_safe_characters(self) -> None:
        """No generated name is that of a set."""
        doc = {**self.site.document("made"), "metadata": {"generateName": "made-"}}
        assert self.root.post(self.site.path, doc).said == (400, "BadRequest")


class TestManagedClusterSetBindingV1Beta1(OlderBinding):
    site = Site(world.OCM, "v1beta1", "managedclustersetbindings", lambda name: {"spec": {"clusterSet": name}})


class TestManagedClusterSetBindingV1Alpha1(OlderBinding):
    site = Site(world.OCM, "v1alpha1", "managedclustersetbindings", lambda name: {"spec": {"clusterSet": name}})


# ---------------------------------------------------------------- one object, three faces


@pytest.mark.django_db
@pytest.mark.contract("D1", "S21", "S46", "T7")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_set_that_says_nothing_is_exclusive_whatever_version_made_it(version: str) -> None:
    created(version)
    assert spec_of("v1beta2") == {"clusterSelector": {"selectorType": EXCLUSIVE}}
    assert spec_of("v1beta1") == {"clusterSelector": {"selectorType": LEGACY}}
    assert "spec" not in read("v1alpha1")
    faces = [read(each) for each in VERSIONS]
    assert [face["apiVersion"] for face in faces] == [f"{GROUP}/{each}" for each in VERSIONS]
    assert len({face["metadata"]["resourceVersion"] for face in faces}) == 1


@pytest.mark.django_db
@pytest.mark.contract("D1", "S146")
def test_the_type_of_one_version_is_refused_by_the_other() -> None:
    for version, foreign, known in (("v1beta2", LEGACY, EXCLUSIVE), ("v1beta1", EXCLUSIVE, LEGACY)):
        answer = entry.root().post(sets(version), document(version, {"clusterSelector": {"selectorType": foreign}}))
        assert answer.said == (422, "Invalid")
        assert f'Unsupported value: "{foreign}": supported values: "{known}", "LabelSelector"' in answer.message


@pytest.mark.django_db
@pytest.mark.contract("D1")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("spec", [{}, None])
def test_an_empty_spec_is_taken_by_every_version_even_strictly(version: str, spec: Doc | None) -> None:
    answer = entry.root().post(f"{sets(version)}?fieldValidation=Strict", {**document(version), "spec": spec})
    assert answer.code == 201, answer.body


@pytest.mark.django_db
@pytest.mark.contract("D1", "W8")
@pytest.mark.parametrize(
    ("version", "spec", "field"),
    [
        ("v1beta1", {"managedNamespaces": APPS}, "spec.managedNamespaces"),
        ("v1alpha1", {"clusterSelector": PROD}, "spec.clusterSelector"),
    ],
)
def test_a_field_of_a_newer_version_is_unknown_in_an_older_one(version: str, spec: Doc, field: str) -> None:
    answer = entry.root().post(f"{sets(version)}?fieldValidation=Strict", document(version, spec))
    assert answer.said == (400, "BadRequest")
    assert f'unknown field "{field}"' in answer.message
    warned = entry.root().post(sets(version), document(version, spec))
    assert f'299 - "unknown field \\"{field}\\""' in warned.headers["Warning"]
    assert spec_of() == {"clusterSelector": {"selectorType": EXCLUSIVE}}


@pytest.mark.django_db
@pytest.mark.contract("D1")
def test_lists_and_tables_speak_the_version_of_their_path() -> None:
    created("v1beta2", {"clusterSelector": {"selectorType": EXCLUSIVE}, "managedNamespaces": APPS})
    make.settle()
    for version in VERSIONS:
        listed = entry.root().get(sets(version)).doc
        assert {item["apiVersion"] for item in listed["items"]} == {listed["apiVersion"]} == {f"{GROUP}/{version}"}
        assert listed["items"] == [read(version)]
        table = entry.root().get(f"{sets(version)}?includeObject=Object", accept=TABLE).doc
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Empty", "Age"]
        [row] = table["rows"]
        assert row["cells"][:2] == ["web", "True"]
        assert row["object"] == read(version)
        selected = entry.root().get(f"{sets(version)}?fieldSelector=metadata.name%3Dweb").doc
        assert selected["items"] == listed["items"]


@pytest.mark.django_db
@pytest.mark.contract("D1", "H25", "S131")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_binding_of_any_version_is_bound_and_seen_in_all(version: str) -> None:
    make.namespace("apps")
    make.clusterset("web")
    doc = document(version, {"clusterSet": "web"}, kind="ManagedClusterSetBinding")
    well(entry.root().post(bindings(version), doc))
    make.settle()
    for each in VERSIONS:
        seen = well(entry.root().get(f"{bindings(each)}/web"))
        assert (seen["apiVersion"], seen["spec"]) == (f"{GROUP}/{each}", {"clusterSet": "web"})
        assert make.condition(seen, "Bound") == ("True", "ClusterSetBound", "")


# ---------------------------------------------------------------- deprecated, and said so


@pytest.mark.django_db
@pytest.mark.contract("D1", "S100", "S102", "S143")
@pytest.mark.parametrize("version", OLDER)
def test_every_answer_of_an_older_version_names_the_newest(version: str) -> None:
    root = entry.root()
    make.namespace("apps")
    for kind, url in (("ManagedClusterSet", sets(version)), ("ManagedClusterSetBinding", bindings(version))):
        text = f'299 - "{GROUP}/{version} {kind} is deprecated; use {GROUP}/v1beta2 {kind}"'
        doc = document(version, {"clusterSet": "web"} if "Binding" in kind else None, kind=kind)
        answers = [
            root.get(f"{url}/web"),
            root.post(url, doc),
            root.get(url),
            root.get(url, accept=TABLE),
            root.patch(f"{url}/web", {"metadata": {"labels": {"a": "b"}}}),
            root.delete(f"{url}/web"),
        ]
        assert [answer.code for answer in answers] == [404, 201, 200, 200, 200, 200]
        assert [answer.headers["Warning"] for answer in answers] == [text] * 6


@pytest.mark.django_db
@pytest.mark.contract("D1")
def test_the_newest_version_warns_of_nothing() -> None:
    for answer in (entry.root().post(sets("v1beta2"), document("v1beta2")), entry.root().get(sets("v1beta2"))):
        assert "Warning" not in answer.headers


# ---------------------------------------------------------------- discovery


@pytest.mark.django_db
@pytest.mark.contract("D1", "W6", "W164", "S99")
def test_both_forms_of_discovery_list_both_kinds_in_each_version_the_newest_first() -> None:
    root = entry.root()
    group = root.get(f"/apis/{GROUP}").doc
    assert [each["version"] for each in group["versions"]] == ["v1", *VERSIONS]
    assert group["preferredVersion"]["version"] == "v1"
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    [aggregated] = [each for each in root.get("/apis", accept=accept).doc["items"] if each["metadata"]["name"] == GROUP]
    assert [each["version"] for each in aggregated["versions"]] == ["v1", *VERSIONS]
    for version in VERSIONS:
        legacy = {each["name"] for each in root.get(f"/apis/{GROUP}/{version}").doc["resources"]}
        [found] = [each["resources"] for each in aggregated["versions"] if each["version"] == version]
        for plural in ("managedclustersets", "managedclustersetbindings"):
            assert {plural, f"{plural}/status"} <= legacy
            [resource] = [each for each in found if each["resource"] == plural]
            assert resource["responseKind"]["version"] == version
            assert [sub["subresource"] for sub in resource["subresources"]] == ["status"]


@pytest.mark.django_db
@pytest.mark.contract("D1", "W8")
def test_each_version_publishes_its_own_schema() -> None:
    root = entry.root()
    name = "io.open-cluster-management.cluster.{}.ManagedClusterSet"
    v2 = root.get("/openapi/v2").doc["definitions"]
    told = {}
    for version in VERSIONS:
        v3 = root.get(f"/openapi/v3/apis/{GROUP}/{version}").doc["components"]["schemas"][name.format(version)]
        assert v3["x-kubernetes-group-version-kind"] == [
            {"group": GROUP, "version": version, "kind": "ManagedClusterSet"}
        ]
        told[version] = set(v3["properties"]["spec"]["properties"])
        assert set(v2[name.format(version)]["properties"]["spec"].get("properties", {})) == told[version]
    assert told == {
        "v1beta2": {"clusterSelector", "managedNamespaces"},
        "v1beta1": {"clusterSelector"},
        "v1alpha1": set(),
    }


# ---------------------------------------------------------------- writes keep what they cannot express


def put(url: str, change: Doc) -> Answer:
    doc = entry.root().get(url).doc
    return entry.root().put(url, {**doc, **change, "metadata": {**doc["metadata"], "labels": {"seen": "yes"}}})


@pytest.mark.django_db
@pytest.mark.contract("D1")
@pytest.mark.parametrize(
    ("as_", "body"),
    [
        ("", {"spec": {}}),
        ("", {}),
        (MERGE, {"spec": {"clusterSelector": {"selectorType": LEGACY, "labelSelector": None}}}),
        (MERGE, {"spec": None}),
        (JSON_PATCH, [{"op": "remove", "path": "/spec"}]),
        (JSON_PATCH, [{"op": "replace", "path": "/spec", "value": {"clusterSelector": {"selectorType": LEGACY}}}]),
        (APPLY, document("v1beta1", {"clusterSelector": {"selectorType": LEGACY}})),
    ],
    ids=["put-empty", "put-same", "merge", "merge-null", "json-remove", "json-replace", "apply"],
)
def test_no_form_of_write_through_v1beta1_drops_managed_namespaces(as_: str, body: Any) -> None:
    created("v1beta2", {"clusterSelector": PROD, "managedNamespaces": APPS})
    url = f"{sets('v1beta1')}/web"
    query = "?fieldManager=gitops&force=true" if as_ == APPLY else ""
    well(entry.root().patch(url + query, body, as_) if as_ else put(url, body))
    spec = spec_of()
    assert spec is not None
    assert spec["managedNamespaces"] == APPS
    assert spec["clusterSelector"]["selectorType"] == ("LabelSelector" if body == {} else EXCLUSIVE)


@pytest.mark.django_db
@pytest.mark.contract("D1")
@pytest.mark.parametrize(
    ("as_", "body"),
    [
        ("", {"spec": {}}),
        ("", {}),
        (MERGE, {"metadata": {"labels": {"seen": "yes"}}, "spec": {"clusterSelector": DEV}}),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]),
        (JSON_PATCH, [{"op": "add", "path": "/spec", "value": {}}]),
        (APPLY, {**document("v1alpha1", labels={"seen": "yes"}), "spec": {}}),
    ],
    ids=["put-empty", "put-same", "merge", "json", "json-spec", "apply"],
)
def test_no_form_of_write_through_v1alpha1_touches_the_spec(as_: str, body: Any) -> None:
    before = created("v1beta2", {"clusterSelector": PROD, "managedNamespaces": APPS})
    url = f"{sets('v1alpha1')}/web"
    query = "?fieldManager=gitops" if as_ == APPLY else ""
    well(entry.root().patch(url + query, body, as_) if as_ else put(url, body))
    after = read()
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == 1


@pytest.mark.django_db
@pytest.mark.contract("D1", "W16")
@pytest.mark.parametrize("version", OLDER)
def test_a_status_written_through_an_older_version_changes_the_status_alone(version: str) -> None:
    created("v1beta2", {"clusterSelector": PROD, "managedNamespaces": APPS})
    condition = {
        "type": "ClusterSetEmpty",
        "status": "False",
        "reason": "Said",
        "message": "",
        "lastTransitionTime": world.MOMENT,
    }
    url = f"{sets(version)}/web/status"
    body = {"status": {"conditions": [condition]}, "spec": {"clusterSelector": {"selectorType": "Nope"}}}
    assert well(entry.root().patch(url, body))["status"]["conditions"] == [condition]
    assert spec_of() == {"clusterSelector": PROD, "managedNamespaces": APPS}
    doc = well(entry.root().get(url))
    doc["status"]["conditions"] = []
    well(entry.root().put(url, doc))
    assert read()["status"] == {"conditions": []}
    assert spec_of() == {"clusterSelector": PROD, "managedNamespaces": APPS}
    refused = entry.root().patch(url, {"status": {"conditions": [{"type": "x"}]}})
    assert refused.said == (422, "Invalid")


@pytest.mark.django_db
@pytest.mark.contract("D1", "W5")
@pytest.mark.parametrize("version", OLDER)
def test_a_status_on_the_main_endpoint_is_ignored_and_never_looked_at(version: str) -> None:
    doc = document(version) | {"status": {"conditions": [{"type": "x"}]}}
    assert "status" not in well(entry.root().post(sets(version), doc))


SPECS = st.sampled_from(
    [{"clusterSelector": {"selectorType": LEGACY}}, {"clusterSelector": PROD}, {"clusterSelector": DEV}]
)
LABELS = st.sampled_from(["a", "b", "c"])
WRITES = st.one_of(
    st.tuples(st.just("put"), st.just("v1beta1"), SPECS),
    st.tuples(st.just("merge"), st.just("v1beta1"), SPECS),
    st.tuples(st.just("json"), st.just("v1beta1"), SPECS),
    st.tuples(st.just("apply"), st.just("v1beta1"), SPECS),
    st.tuples(st.sampled_from(["put", "merge", "apply"]), st.just("v1alpha1"), st.just({})),
    st.tuples(st.just("status"), st.sampled_from(VERSIONS), st.just({})),
)


def write(how: str, version: str, spec: Doc, label: str) -> Answer:
    url, root = f"{sets(version)}/web", entry.root()
    labels: Doc = {"labels": {"seen": label}}
    match how:
        case "put":
            doc = root.get(url).doc
            return root.put(url, {**doc, "spec": spec, "metadata": {**doc["metadata"], **labels}})
        case "merge":
            cleared = {"clusterSelector": {"labelSelector": None, **spec["clusterSelector"]}} if spec else {}
            return root.patch(url, {"metadata": labels, "spec": cleared})
        case "json":
            return root.patch(url, [{"op": "add", "path": "/spec", "value": spec}], JSON_PATCH)
        case "apply":
            manager = f"{url}?fieldManager={APPLIER}&force=true"
            return root.patch(manager, document(version, spec, **labels), APPLY)
        case _:
            return root.patch(f"{url}/status", {"status": {"conditions": []}, "spec": spec})


APPLIER, UPDATER = "gitops", "updater"


class Selector:
    """The stored selector, and who owns its label selector: an applier takes back only what is its own alone."""

    def __init__(self) -> None:
        self.type, self.labels = PROD["selectorType"], PROD["labelSelector"]
        self.owners = {APPLIER}

    @property
    def doc(self) -> Doc:
        said = {"selectorType": self.type, "labelSelector": self.labels}
        return {name: value for name, value in said.items() if value is not None}

    def write(self, how: str, selector: Doc) -> None:
        self.type = EXCLUSIVE if selector["selectorType"] == LEGACY else selector["selectorType"]
        labels = selector.get("labelSelector")
        if how == "apply":
            self._apply(labels)
        elif labels != self.labels:
            self.labels, self.owners = labels, {UPDATER} if labels else set()

    def _apply(self, labels: Doc | None) -> None:
        if labels is None:
            if self.owners == {APPLIER}:
                self.labels = None
            self.owners.discard(APPLIER)
        else:
            self.owners = {APPLIER} | (self.owners if labels == self.labels else set())
            self.labels = labels


def label_selector_owners() -> set[str]:
    listed = [
        APPLIER if entry["operation"] == "Apply" else UPDATER
        for entry in read()["metadata"]["managedFields"]
        if "f:labelSelector" in entry["fieldsV1"].get("f:spec", {}).get("f:clusterSelector", {})
    ]
    assert len(listed) == len(set(listed))
    return set(listed)


def putting(selector: Doc, label: str = "a") -> tuple[tuple[str, str, Doc], str]:
    return ("put", "v1beta1", {"clusterSelector": selector}), label


def applying(selector: Doc | None, label: str = "a") -> tuple[tuple[str, str, Doc], str]:
    if selector is None:
        return ("apply", "v1alpha1", {}), label
    return ("apply", "v1beta1", {"clusterSelector": selector}), label


NOT_BY_LABELS: Doc = {"selectorType": LEGACY}


@pytest.mark.contract("D1", "W141")
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=st.lists(st.tuples(WRITES, LABELS), min_size=1, max_size=5))
@example(writes=[putting(NOT_BY_LABELS), putting(PROD), applying(NOT_BY_LABELS)])  # the label selector is the updater's
@example(writes=[applying(None), putting(DEV), applying(NOT_BY_LABELS)])  # and so it is when the applier cannot see it
@example(writes=[applying(None), putting(NOT_BY_LABELS)])
def test_writes_through_any_mix_of_versions_lose_nothing(db: None, writes: list[Any]) -> None:
    entry.root().delete(f"{sets('v1beta2')}/web")
    well(
        entry.root().patch(
            f"{sets('v1beta2')}/web?fieldManager={APPLIER}",
            document("v1beta2", {"clusterSelector": PROD, "managedNamespaces": APPS}),
            APPLY,
        )
    )
    selector = Selector()
    for (how, version, spec), label in writes:
        well(write(how, version, spec, label))
        if version == "v1beta1" and how != "status":
            selector.write(how, spec["clusterSelector"])
        assert spec_of() == {"clusterSelector": selector.doc, "managedNamespaces": APPS}
        assert label_selector_owners() == selector.owners


# ---------------------------------------------------------------- who owns what, across versions


def applied(version: str, spec: Doc | None, manager: str = "gitops", *, force: bool = False) -> Answer:
    query = f"?fieldManager={manager}" + ("&force=true" if force else "")
    return entry.root().patch(f"{sets(version)}/web{query}", document(version, spec), APPLY)


def owned(manager: str) -> tuple[str, Doc]:
    [found] = [each for each in read()["metadata"]["managedFields"] if each["manager"] == manager]
    return found["apiVersion"].rpartition("/")[2], found["fieldsV1"]


TYPE: Doc = {"f:spec": {"f:clusterSelector": {"f:selectorType": {}}}}
BOTH: Doc = {"f:spec": {"f:clusterSelector": {"f:labelSelector": {}, "f:selectorType": {}}, "f:managedNamespaces": {}}}


@pytest.mark.django_db
@pytest.mark.contract("D1", "W141")
def test_an_applier_of_another_version_conflicts_where_it_means_something_else() -> None:
    well(applied("v1beta1", {"clusterSelector": {"selectorType": LEGACY}}))
    assert owned("gitops") == ("v1beta1", TYPE)
    well(applied("v1beta2", {"clusterSelector": {"selectorType": EXCLUSIVE}}, "other"))  # it is the same
    assert owned("other") == ("v1beta2", TYPE)
    refused = applied("v1beta2", {"clusterSelector": PROD}, "other")
    assert refused.said == (409, "Conflict")
    assert refused.message == (
        'Apply failed with 1 conflict: conflict with "gitops": .spec.clusterSelector.selectorType'
    )
    well(applied("v1beta2", {"clusterSelector": PROD}, "other", force=True))
    assert [each["manager"] for each in read()["metadata"]["managedFields"]] == ["other"]


@pytest.mark.django_db
@pytest.mark.contract("D1", "W141")
def test_an_applier_that_goes_back_to_an_older_version_gives_up_only_what_that_can_express() -> None:
    well(applied("v1beta2", {"clusterSelector": PROD, "managedNamespaces": APPS}))
    well(applied("v1beta1", {"clusterSelector": {"selectorType": "LabelSelector"}}))
    assert spec_of() == {"clusterSelector": {"selectorType": "LabelSelector"}, "managedNamespaces": APPS}
    version, fields = owned("gitops")
    assert version == "v1beta1"
    assert set(fields["f:spec"]) == {"f:clusterSelector", "f:managedNamespaces"}
    refused = applied("v1beta2", {"managedNamespaces": [{"name": "apps"}, {"name": "base"}]}, "other")
    assert refused.code == 200  # another element of the list is nobody's
    well(applied("v1alpha1", None))
    assert spec_of() == {
        "clusterSelector": {"selectorType": "LabelSelector"},
        "managedNamespaces": [{"name": "apps"}, {"name": "base"}],
    }
    well(applied("v1beta2", {"clusterSelector": {"selectorType": EXCLUSIVE}}))
    spec = spec_of()
    assert spec == {
        "clusterSelector": {"selectorType": EXCLUSIVE},
        "managedNamespaces": [{"name": "apps"}, {"name": "base"}],
    }
    assert owned("gitops") == ("v1beta2", TYPE)


@pytest.mark.django_db
@pytest.mark.contract("D1", "W141")
def test_what_an_applier_alone_owned_goes_when_it_can_say_so() -> None:
    well(applied("v1beta2", {"clusterSelector": PROD, "managedNamespaces": APPS}))
    well(applied("v1beta1", {"clusterSelector": PROD}))
    well(applied("v1beta2", {"clusterSelector": PROD}))
    assert spec_of() == {"clusterSelector": PROD}


@pytest.mark.django_db
@pytest.mark.contract("D1", "W141")
@pytest.mark.parametrize("spec", [None, {}])
def test_a_set_that_was_applied_without_a_spec_has_one_that_nobody_owns(spec: Doc | None) -> None:
    well(applied("v1alpha1", spec))
    well(applied("v1beta2", {"clusterSelector": PROD}, "other"))
    well(applied("v1alpha1", spec))
    assert spec_of() == {"clusterSelector": PROD}
    assert owned("other")[0] == "v1beta2"


@pytest.mark.django_db
@pytest.mark.contract("D1", "W141")
def test_one_who_creates_owns_what_its_version_can_express() -> None:
    created("v1alpha1", labels={"team": "edge"})
    [mine] = read()["metadata"]["managedFields"]
    assert (mine["apiVersion"], mine["operation"]) == (f"{GROUP}/v1alpha1", "Update")
    assert mine["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:team": {}}}}
    well(applied("v1beta2", {"clusterSelector": PROD}))


@pytest.mark.django_db
@pytest.mark.contract("D1", "W141")
def test_an_update_through_one_version_takes_fields_from_entries_of_another() -> None:
    well(applied("v1beta2", {"clusterSelector": PROD, "managedNamespaces": APPS}))
    body = {"spec": {"clusterSelector": {"selectorType": LEGACY, "labelSelector": None}}}
    well(entry.root().patch(f"{sets('v1beta1')}/web?fieldManager=person", body))
    assert set(owned("gitops")[1]["f:spec"]) == {"f:managedNamespaces"}
    assert owned("person") == ("v1beta1", TYPE)
    well(entry.root().patch(f"{sets('v1alpha1')}/web?fieldManager=person", {"metadata": {"labels": {"a": "b"}}}))
    found = [each for each in read()["metadata"]["managedFields"] if each["manager"] == "person"]
    assert {each["apiVersion"].rpartition("/")[2]: set(each["fieldsV1"]) for each in found} == {
        "v1beta1": {"f:spec"},
        "v1alpha1": {"f:metadata"},
    }


# ---------------------------------------------------------------- the rules hold in each version


@pytest.mark.django_db
@pytest.mark.contract("A8", "A9", "D4", "D1")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("by_apply", [False, True], ids=["post", "apply"])
def test_the_rules_of_bindings_are_the_same_in_every_version(version: str, by_apply: bool) -> None:
    make.namespace("apps")
    make.cluster("c1", accepted=True)
    make.settle()

    def bind(by: entry.Entry, namespace: str, set_: str = "web") -> Answer:
        doc = document(version, {"clusterSet": set_}, kind="ManagedClusterSetBinding")
        if not by_apply:
            return by.post(bindings(version, namespace), doc)
        return by.patch(f"{bindings(version, namespace)}/web?fieldManager=gitops", doc, APPLY)

    grant(person("li"), rule("create patch", "managedclustersetbindings", groups=GROUP))
    assert "must have the same name" in bind(entry.root(), "apps", "data").message
    assert 'user "li" is not allowed to bind cluster set "web"' in bind(entry.person("li"), "apps").message
    assert "is the cluster namespace of a registered cluster" in bind(entry.root(), "c1").message
    assert bind(entry.root(), "apps").code == 201


@pytest.mark.django_db
@pytest.mark.contract("D1", "W22")
def test_a_right_on_the_kind_is_a_right_in_each_version() -> None:
    grant(person("li"), rule("get", "managedclustersets", groups=GROUP, names="web"))
    created("v1beta2")
    assert [entry.person("li").get(f"{sets(version)}/web").code for version in VERSIONS] == [200] * 3
    assert [entry.person("li").get(f"{sets(version)}/data").code for version in VERSIONS] == [403] * 3


@pytest.mark.django_db
@pytest.mark.contract("D1", "S21", "S46")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_yaml_of_the_documents_is_applied_strictly_as_kubectl_does(version: str) -> None:
    text = yaml.safe_dump(
        {"apiVersion": f"{GROUP}/{version}", "kind": "ManagedClusterSet", "metadata": {"name": "web"}}
    )
    query = "?fieldManager=kubectl-client-side-apply&fieldValidation=Strict"
    well(entry.root().send("POST", sets(version) + query, text.encode(), entry.YAML))
    make.settle()
    stored = verbs.find(MANAGED_CLUSTER_SET, Key("", "web"))
    assert stored is not None
    assert stored["apiVersion"] == f"{GROUP}/v1beta2"


# ---------------------------------------------------------------- whatever arrives

ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", LEGACY, "LabelSelector", "\0", "\ud800", "web"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["clusterSelector", "selectorType", "labelSelector", "matchLabels", "clusterSet", "a"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@pytest.mark.contract("D1", "A11")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    version=st.sampled_from(OLDER),
    form=st.sampled_from(["POST", "PUT", MERGE, APPLY, JSON_PATCH]),
    part=st.sampled_from(["spec", "status", "metadata"]),
    odd=ODD,
)
def test_an_odd_document_is_refused_or_stored_and_never_an_error(
    db: None,
    version: str,
    form: str,
    part: str,
    odd: Any,
) -> None:
    root, url = entry.root(), f"{sets(version)}/web"
    root.delete(url)
    made = created("v1beta2", {"clusterSelector": PROD, "managedNamespaces": APPS}) if form != "POST" else {}
    metadata = {"name": "web", **({"resourceVersion": made["metadata"]["resourceVersion"]} if made else {})}
    if part == "metadata":
        odd = {**metadata, "labels": odd, "annotations": odd}
    doc = {**document(version), "metadata": metadata, part: odd}
    body = json.dumps([{"op": "add", "path": f"/{part}", "value": odd}] if form == JSON_PATCH else doc).encode()
    if form in {"POST", "PUT"}:
        answer = root.send(form, sets(version) if form == "POST" else url, body)
    else:
        answer = root.patch(f"{url}?fieldManager=odd", body, form)
    assert answer.code < 500, answer.body
    if answer.code < 300:
        read(version)
