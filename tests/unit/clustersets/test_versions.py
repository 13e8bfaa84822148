"""What one version of a set says in another, and that nothing gets lost on the way (D1)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.kinds import GROUP
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from ocmconsole.kubeapi.kinds import Kind, Version

Doc = dict[str, Any]

V1BETA2, V1BETA1, V1ALPHA1 = MANAGED_CLUSTER_SET.versions
EXCLUSIVE, LEGACY = "ExclusiveClusterSetLabel", "LegacyClusterSetLabel"

WORDS = st.sampled_from(["a", "env", "prod", "x"])
LABEL_SELECTORS = st.fixed_dictionaries({}, optional={"matchLabels": st.dictionaries(WORDS, WORDS, max_size=2)})
NAMESPACES = st.lists(WORDS, unique=True, max_size=3).map(lambda names: [{"name": name} for name in names])
CONDITION = {
    "type": "ClusterSetEmpty",
    "status": "True",
    "reason": "NoClusterMatched",
    "message": "",
    "lastTransitionTime": "2026-11-21T02:21:11Z",
}
STATUS = st.fixed_dictionaries({}, optional={"status": st.just({"conditions": [CONDITION]})})


def selectors(*types: str) -> st.SearchStrategy[Doc]:
    optional: dict[str, st.SearchStrategy[Any]] = {"labelSelector": LABEL_SELECTORS}
    return st.fixed_dictionaries({"selectorType": st.sampled_from(types)}, optional=optional)


def documents(version: Version, spec: st.SearchStrategy[Doc] | None) -> st.SearchStrategy[Doc]:
    head = {"apiVersion": version.api_version, "kind": "ManagedClusterSet", "metadata": {"name": "web"}}
    whole = st.just(head) if spec is None else spec.map(lambda found: {**head, "spec": found})
    return st.builds(lambda doc, status: {**doc, **status}, whole, STATUS)


STORED = documents(
    V1BETA2,
    st.fixed_dictionaries(
        {"clusterSelector": selectors(EXCLUSIVE, "LabelSelector")}, optional={"managedNamespaces": NAMESPACES}
    ),
)
OLD_BETAS = documents(V1BETA1, st.fixed_dictionaries({"clusterSelector": selectors(LEGACY, "LabelSelector")}))
ALPHAS = documents(V1ALPHA1, None)


def stored(version: Version, doc: Doc, old: Doc | None = None) -> Doc:
    """As a write through the version leaves it."""
    converted = {**version.to_storage(deepcopy(doc), old), "apiVersion": V1BETA2.api_version}
    return V1BETA2.schema.default(converted)


@pytest.mark.contract("D1", "S145")
@pytest.mark.parametrize("version", MANAGED_CLUSTER_SET.versions, ids=lambda version: version.version)
@given(doc=STORED)
def test_what_is_read_and_written_back_through_any_version_is_what_was_stored(version: Version, doc: Doc) -> None:
    before = deepcopy(doc)
    assert stored(version, version.from_storage(doc), doc) == doc == before


@pytest.mark.contract("D1")
@given(doc=st.one_of(OLD_BETAS, ALPHAS), old=st.none() | STORED)
def test_what_is_written_through_a_version_is_read_back_through_it(doc: Doc, old: Doc | None) -> None:
    version = V1BETA1 if doc["apiVersion"] == V1BETA1.api_version else V1ALPHA1
    assert version.from_storage(stored(version, doc, old)) == doc


@pytest.mark.contract("D1")
@given(doc=OLD_BETAS, old=STORED)
def test_a_write_through_v1beta1_keeps_the_namespaces_that_it_cannot_express(doc: Doc, old: Doc) -> None:
    written = stored(V1BETA1, doc, old)
    assert written["spec"].get("managedNamespaces") == old["spec"].get("managedNamespaces")
    assert "managedNamespaces" not in V1BETA1.from_storage(old)["spec"]


@pytest.mark.contract("D1")
@given(doc=ALPHAS, old=STORED)
def test_a_write_through_v1alpha1_keeps_the_whole_spec(doc: Doc, old: Doc) -> None:
    assert stored(V1ALPHA1, doc, old)["spec"] == old["spec"]
    assert "spec" not in V1ALPHA1.from_storage(old)


@pytest.mark.contract("D1", "T7")
@pytest.mark.parametrize("spec", [None, {}, {"clusterSelector": {}}])
def test_a_new_set_is_exclusive_in_every_version_that_lets_it_be_left_out(spec: Doc | None) -> None:
    for version in MANAGED_CLUSTER_SET.versions:
        doc = {"apiVersion": version.api_version, "kind": "ManagedClusterSet", "metadata": {"name": "web"}}
        made = version.schema.default(version.schema.prune(doc if spec is None else {**doc, "spec": spec})[0])
        assert version.schema.validate(made) == []
        assert stored(version, made)["spec"] == {"clusterSelector": {"selectorType": EXCLUSIVE}}


@pytest.mark.contract("D1", "S146", "T7")
@pytest.mark.parametrize(("version", "foreign"), [(V1BETA2, LEGACY), (V1BETA1, EXCLUSIVE)], ids=["v1beta2", "v1beta1"])
def test_each_version_has_its_own_name_for_the_exclusive_type(version: Version, foreign: str) -> None:
    doc = {"metadata": {"name": "web"}, "spec": {"clusterSelector": {"selectorType": foreign}}}
    (cause,) = version.schema.validate(doc)
    assert f'Unsupported value: "{foreign}"' in str(cause)


@pytest.mark.contract("D1")
@pytest.mark.parametrize("kind", [MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING], ids=str)
def test_older_versions_are_deprecated_in_the_words_of_kubernetes(kind: Kind) -> None:
    newest, *older = kind.versions
    assert newest.warning == ""
    assert [version.warning for version in older] == [
        f"{GROUP}/{name} {kind} is deprecated; use {GROUP}/v1beta2 {kind}" for name in ("v1beta1", "v1alpha1")
    ]
