"""The three patch types: examples of their standards, laws, and hostile input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.kubeapi.errors import ApiError, BadRequest, Doc, Invalid, RequestTooLarge
from ocmconsole.kubeapi.formats.patches import clone, json_patch, merge_patch
from ocmconsole.kubeapi.formats.strategic_patches import strategic_patch

scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(alphabet="ab~/$", max_size=3))
keys = st.sampled_from(["a", "b", "c", "~", "a/b", "", "0"])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=12,
)
docs = st.dictionaries(keys, values, max_size=4)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def containers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        yield id(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


def assert_independent(result: Any, *inputs: Any) -> None:
    theirs = {place for value in inputs for place in containers(value)}
    assert theirs.isdisjoint(containers(result))


def nested(depth: int) -> Doc:
    doc: Doc = {}
    for _ in range(depth):
        doc = {"a": doc}
    return doc


# ---- JSON merge patch


@pytest.mark.contract("W4")
@pytest.mark.parametrize(
    ("doc", "patch", "result"),
    [
        # RFC 7386, appendix A, those with objects
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_follows_its_standard(doc: Doc, patch: Doc, result: Doc) -> None:
    assert merge_patch(doc, patch) == result


@pytest.mark.contract("W15")
def test_a_merge_patch_replaces_lists_whole_and_keeps_the_order_of_keys() -> None:
    doc = {"metadata": {"name": "c1"}, "spec": {"taints": [{"key": "a"}], "hubAcceptsClient": False}}
    patched = merge_patch(doc, {"spec": {"taints": [{"key": "b"}], "new": 1}, "metadata": {"uid": "u"}})
    assert patched == {
        "metadata": {"name": "c1", "uid": "u"},
        "spec": {"taints": [{"key": "b"}], "hubAcceptsClient": False, "new": 1},
    }
    assert list(patched) == ["metadata", "spec"]
    assert list(patched["spec"]) == ["taints", "hubAcceptsClient", "new"]


@pytest.mark.contract("W4")
@pytest.mark.parametrize(
    ("patch", "word"), [([], "array"), ("a", "string"), (1, "number"), (1.5, "number"), (True, "bool"), (None, "null")]
)
def test_a_merge_patch_must_be_an_object(patch: Any, word: str) -> None:
    message = f"error decoding patch: json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
    for apply in (merge_patch, lambda doc, patch: strategic_patch(doc, patch, {})):
        with pytest.raises(BadRequest) as refused:
            apply({}, patch)
        assert refused.value.message == message


@pytest.mark.contract("W4", "W16")
@given(docs, docs)
def test_merge_patches_are_idempotent_and_change_no_input(doc: Doc, patch: Doc) -> None:
    before = deepcopy((doc, patch))
    once = merge_patch(doc, patch)
    assert merge_patch(once, patch) == once
    assert merge_patch(doc, {}) == doc
    assert (doc, patch) == before
    assert_independent(once, doc, patch)


@pytest.mark.contract("W15")
@given(docs, docs)
def test_a_merge_patch_of_the_difference_leads_to_the_target(old: Doc, target: Doc) -> None:
    new = without_nulls(target)
    assert merge_patch(old, difference(old, new)) == new


def difference(old: Doc, new: Doc) -> Doc:
    """What the OCM patcher sends: old to new, absent keys as nulls."""
    patch: Doc = dict.fromkeys(old.keys() - new.keys())
    for key, item in new.items():
        both = isinstance(item, dict) and isinstance(old.get(key), dict)
        if key not in old or item != old[key] or both:
            patch[key] = difference(old[key], item) if both else item
    return patch


# ---- JSON patch


@pytest.mark.contract("W4")
@pytest.mark.parametrize(
    ("doc", "ops", "result"),
    [
        # RFC 6902, appendix A
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
        ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        (
            {"foo": ["all", "grass", "cows", "eat"]},
            [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        (
            {"baz": "qux", "foo": ["a", 2, "c"]},
            [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
            {"baz": "qux", "foo": ["a", 2, "c"]},
        ),
        ({"foo": "bar"}, [{"op": "add", "path": "/child", "value": {"x": {}}}], {"foo": "bar", "child": {"x": {}}}),
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}], {"foo": "bar", "baz": "qux"}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["a"]}], {"foo": ["bar", ["a"]]}),
        # beyond the appendix
        ({"a": 1}, [{"op": "add", "path": "/a", "value": None}], {"a": None}),
        ({"a": 1}, [{"op": "add", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/a/c"}], {"a": {"b": 1, "c": {"b": 1}}}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": ""}], {"b": 1}),
        ({"a": {"b": 1}}, [{"op": "move", "from": "/a", "path": ""}], {"b": 1}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
        ({"": {"a/b": 1}}, [{"op": "remove", "path": "//a~1b"}], {"": {}}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
        ({"a": 1}, [{"op": "test", "path": "", "value": {"a": 1}}], {"a": 1}),
        ({"a": 1}, [], {"a": 1}),
        ({"01": 1}, [{"op": "remove", "path": "/01"}], {}),
        # a member that is not there is null for all but remove and move, and a value that is left out is null, as in Kubernetes
        ({}, [{"op": "replace", "path": "/a", "value": 1}], {"a": 1}),
        ({"a": None}, [{"op": "test", "path": "/b", "value": None}], {"a": None}),
        ({}, [{"op": "test", "path": "/b"}], {}),
        ({}, [{"op": "copy", "from": "/a", "path": "/b"}], {"b": None}),
        ({"a": 1}, [{"op": "add", "path": "/a"}], {"a": None}),
    ],
)
def test_json_patch_follows_its_standard(doc: Doc, ops: list[Doc], result: Doc) -> None:
    before = deepcopy((doc, ops))
    patched = json_patch(doc, ops)
    assert patched == result
    assert (doc, ops) == before
    assert_independent(patched, doc, ops)


@pytest.mark.contract("W4")
@pytest.mark.parametrize(
    ("doc", "op"),
    [
        ({"foo": "bar"}, {"op": "add", "path": "/baz/bat", "value": "qux"}),
        ({"baz": "qux"}, {"op": "test", "path": "/baz", "value": "bar"}),
        ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": "10"}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": True}),
        ({"a": 0}, {"op": "test", "path": "/a", "value": False}),
        ({"a": [1]}, {"op": "test", "path": "/a", "value": [1, 2]}),
        ({"a": {"b": 1}}, {"op": "test", "path": "/a", "value": {"b": 1, "c": 2}}),
        ({"a": None}, {"op": "test", "path": "/b", "value": 1}),
        ({}, {"op": "test", "path": "/a/b", "value": None}),
        ({}, {"op": "replace", "path": "/a/b", "value": 1}),
        ({"a": None}, {"op": "add", "path": "/a/b", "value": 1}),
        ({}, {"op": "copy", "from": "/a/b", "path": "/c"}),
        ({}, {"op": "move", "from": "/a", "path": "/b"}),
        ({}, {"op": "move", "from": "/a", "path": "/a"}),
        ({}, {"op": "move", "from": "/a/b", "path": "/c"}),
        ({"a": [1]}, {"op": "copy", "from": "/a/1", "path": "/c"}),
        ({"a": [1]}, {"op": "test", "path": "/a/1", "value": None}),
        ({}, {"op": "remove", "path": "/a"}),
        ({}, {"op": "remove", "path": ""}),
        ({"a": {}}, {"op": "move", "from": "/a", "path": "/a/b"}),
        ({"a": [{}, {}]}, {"op": "move", "from": "/a/0", "path": "/a/0/x"}),
        ({"a": [1]}, {"op": "add", "path": "/a/2", "value": 1}),
        ({"a": [1]}, {"op": "add", "path": "/a/01", "value": 1}),
        ({"a": [1]}, {"op": "add", "path": "/a/-1", "value": 1}),
        ({"a": [1]}, {"op": "add", "path": f"/a/{'9' * 5000}", "value": 1}),
        ({"a": [1]}, {"op": "add", "path": "/a/\u0661", "value": 1}),
        ({"a": [1]}, {"op": "remove", "path": "/a/-"}),
        ({"a": "b"}, {"op": "remove", "path": "/a/0"}),
        ({"a": None}, {"op": "move", "from": "/a/b", "path": "/c"}),
        ({"a": [1]}, {"op": "replace", "path": "/a/1", "value": 1}),
        ({"a": "b"}, {"op": "add", "path": "/a/0", "value": 1}),
        ({"a": "b"}, {"op": "replace", "path": "", "value": [1]}),
        ({"a": "b"}, {"op": "copy", "from": "/a", "path": ""}),
        ({"a": 1}, {}),
        ({"a": 1}, {"op": "frob", "path": "/a"}),
        ({"a": 1}, {"op": "test", "path": "/a"}),
        ({"a": 1}, {"op": "remove"}),
        ({"a": 1}, {"op": "remove", "path": "a"}),
        ({"a": 1}, {"op": "remove", "path": "/a~"}),
        ({"a": 1}, {"op": "remove", "path": "/a~2"}),
        ({"a": 1}, {"op": "move", "path": "/a"}),
    ],
)
def test_an_operation_that_fails_is_422_in_the_words_of_kubernetes(doc: Doc, op: Doc) -> None:
    before = deepcopy(doc)
    with pytest.raises(Invalid) as refused:
        json_patch(doc, [op])
    assert refused.value.message == "the server rejected our request due to an error in our request"
    assert "details" not in refused.value.status()
    assert doc == before


@pytest.mark.contract("W4")
@pytest.mark.parametrize(
    "ops",
    [
        {},
        None,
        "x",
        ["x"],
        [None],
        [{"op": ["add"], "path": "/a"}],
        [{"op": "remove", "path": 1}],
        [{"op": "copy", "path": "/a", "from": None}],
    ],
)
def test_what_is_no_json_patch_is_a_bad_request(ops: Any) -> None:
    with pytest.raises(BadRequest, match=r"^error decoding patch: "):
        json_patch({"a": 1}, ops)


def test_a_json_patch_has_at_most_ten_thousand_operations() -> None:
    op = {"op": "test", "path": "/a", "value": 1}
    assert json_patch({"a": 1}, [op] * 10_000) == {"a": 1}
    with pytest.raises(RequestTooLarge, match="The allowed maximum operations in a JSON patch is 10000, got 10001"):
        json_patch({"a": 1}, [op] * 10_001)


def test_copying_cannot_blow_a_document_up() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(40)]
    with pytest.raises(ApiError):
        json_patch({"a": ["x" * 1000]}, doubling)
    wide = [{"op": "copy", "from": "/a", "path": f"/b{index}"} for index in range(10_000)]
    with pytest.raises(RequestTooLarge, match="copy operations"):
        json_patch({"a": ["x" * 1000]}, wide)


def test_moving_deeper_and_deeper_ends_in_a_bad_request() -> None:
    ops: list[Doc] = []
    for index in range(40):
        ops.append({"op": "add", "path": f"/b{index}", "value": nested(30)})
        if index:
            ops.append({"op": "move", "from": f"/b{index - 1}", "path": f"/b{index}{'/a' * 30}/a"})
    with pytest.raises(BadRequest, match="nested deeper"):
        json_patch({}, ops)


pointers = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "~0", "a~1b", ""]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": pointers},
    optional={"value": values, "from": pointers},
)


@given(docs, st.one_of(values, st.lists(st.one_of(operations, values), max_size=5)))
def test_any_json_patch_gives_a_document_or_a_refusal(doc: Doc, ops: Any) -> None:
    before = deepcopy((doc, ops))
    try:
        result = json_patch(doc, ops)
    except ApiError as refused:
        assert refused.code in (400, 413, 422)  # noqa: PT017 - both outcomes are fine, a crash is not
    else:
        assert isinstance(result, dict)
        assert_independent(result, doc, ops)
    assert (doc, ops) == before


@given(docs, keys, values)
def test_what_is_added_can_be_tested_moved_and_removed(doc: Doc, key: str, value: Any) -> None:
    path = "/" + key.replace("~", "~0").replace("/", "~1")
    ops: list[Doc] = [
        {"op": "add", "path": path, "value": value},
        {"op": "test", "path": path, "value": json.loads(json.dumps(value))},
        {"op": "copy", "from": path, "path": "/copied"},
        {"op": "move", "from": path, "path": "/moved"},
    ]
    result = json_patch(doc, ops)
    assert result == {**{name: item for name, item in doc.items() if name != key}, "copied": value, "moved": value}


# ---- Strategic merge patch

ITEMS = {"items": "name", "deep.items": "name", "tags": ""}


def strategic(doc: Doc, patch: Any) -> Doc:
    return strategic_patch(doc, patch, ITEMS)


@pytest.mark.contract("W179")
def test_maps_merge_nulls_delete_and_unlisted_lists_replace() -> None:
    doc = {"a": {"b": 1, "c": 2}, "rules": [1, 2], "d": 1}
    patch = {"a": {"c": None, "x": {"y": None, "z": 1}}, "rules": [3], "d": None}
    assert strategic(doc, patch) == {"a": {"b": 1, "x": {"z": 1}}, "rules": [3]}


@pytest.mark.contract("W179")
def test_finalizers_merge_as_a_set_with_new_ones_first() -> None:
    doc = {"metadata": {"finalizers": ["a"]}}
    assert strategic(doc, {"metadata": {"finalizers": ["b"]}}) == {"metadata": {"finalizers": ["b", "a"]}}
    assert strategic(doc, {"metadata": {"finalizers": ["a"]}}) == doc


@pytest.mark.contract("W179")
def test_owner_references_merge_by_uid() -> None:
    doc = {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]}}
    patch = {"metadata": {"ownerReferences": [{"uid": "2", "controller": True}]}}
    assert strategic(doc, patch)["metadata"]["ownerReferences"] == [
        {"uid": "1", "name": "a"},
        {"uid": "2", "name": "b", "controller": True},
    ]


@pytest.mark.contract("W179")
@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        ([{"name": "a", "v": 1}], [{"name": "a", "w": 2}], [{"name": "a", "v": 1, "w": 2}]),
        ([{"name": "a", "v": 1}], [{"name": "b"}], [{"name": "b"}, {"name": "a", "v": 1}]),
        ([{"name": "a"}, {"name": "b"}], [{"name": "a", "$patch": "delete"}], [{"name": "b"}]),
        ([{"name": "a"}], [{"name": "x", "$patch": "delete"}], [{"name": "a"}]),
        ([{"name": "a"}, {"name": "b"}], [{"$patch": "replace"}, {"name": "c", "v": None}], [{"name": "c"}]),
        ([{"name": "a"}, {"name": "b"}], [{"$patch": "replace"}], []),
        ([{"name": "a", "v": 1}], [{"name": "a", "$patch": "merge", "w": 2}], [{"name": "a", "v": 1, "w": 2}]),
        ([{"name": "a", "v": 1}], [{"name": "a", "v": None}], [{"name": "a"}]),
        ([], [{"name": "a"}], [{"name": "a"}]),
        (None, [{"name": "a", "w": None}], [{"name": "a"}]),
        ([{"name": "a"}], [], [{"name": "a"}]),
        ([{"name": 1}], [{"name": True}], [{"name": True}, {"name": 1}]),
    ],
)
def test_lists_with_a_merge_key_merge_by_element(old: list[Doc] | None, patch: list[Doc], new: list[Doc]) -> None:
    doc = {} if old is None else {"items": old}
    assert strategic(doc, {"items": patch})["items"] == new
    assert strategic({"deep": doc}, {"deep": {"items": patch}})["deep"]["items"] == new


@pytest.mark.contract("W179")
@pytest.mark.parametrize(
    ("doc", "patch", "result"),
    [
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2, "d": None}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "delete"}}, {"a": {}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "merge", "c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": 1, "b": 2}, {"$retainKeys": ["b", "c"], "c": 3}, {"b": 2, "c": 3}),
        ({"a": 1, "b": 2}, {"$retainKeys": ["b"], "a": None}, {"b": 2}),
        ({"tags": ["a", "b"]}, {"$deleteFromPrimitiveList/tags": ["a", "x"]}, {"tags": ["b"]}),
        ({"tags": ["a", "b"]}, {"$deleteFromPrimitiveList/tags": ["a"], "tags": ["c"]}, {"tags": ["c", "b"]}),
        ({"tags": ["a", "b", "c"]}, {"$setElementOrder/tags": ["c", "a"]}, {"tags": ["b", "c", "a"]}),
        ({"tags": ["a", "b"]}, {"$setElementOrder/tags": ["a", "c", "b"], "tags": ["c"]}, {"tags": ["a", "c", "b"]}),
        (
            {"items": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
            {"$setElementOrder/items": [{"name": "c"}, {"name": "b"}], "items": [{"name": "b", "v": 1}]},
            {"items": [{"name": "a"}, {"name": "c"}, {"name": "b", "v": 1}]},
        ),
        ({"rules": [{"x": 1}]}, {"$setElementOrder/rules": [{"x": 1}]}, {"rules": [{"x": 1}]}),
        ({}, {"$setElementOrder/tags": ["a"], "$deleteFromPrimitiveList/tags": ["a"]}, {}),
        ({}, {"a": [{"b": None, "$patch": "merge"}, {"$patch": "delete", "c": 1}]}, {"a": [{}]}),
        ({"a": "text"}, {"a": {"b": {"$patch": "delete"}}}, {"a": {"b": {}}}),
    ],
)
def test_directives_steer_the_merge(doc: Doc, patch: Doc, result: Doc) -> None:
    assert strategic(doc, patch) == result


@pytest.mark.contract("W179")
def test_the_order_of_the_server_is_kept_around_patched_elements() -> None:
    doc = {"tags": ["a", "b", "c", "d"]}
    assert strategic(doc, {"tags": ["c", "x"]})["tags"] == ["a", "b", "c", "x", "d"]


@pytest.mark.parametrize(
    "patch",
    [
        {"a": {"$patch": "frob"}},
        {"a": {"$patch": ["delete"]}},
        {"$retainKeys": "b"},
        {"$retainKeys": [1]},
        {"$retainKeys": ["b"], "a": 1},
        {"$setElementOrder/tags": "a"},
        {"$deleteFromPrimitiveList/tags": {}},
        {"$deleteFromPrimitiveList/tags": [["a"]]},
        {"items": [{"v": 1}]},
        {"items": ["a"]},
        {"items": [{"name": {}}]},
        {"items": [{"$patch": "delete"}]},
        {"tags": [["a"]]},
    ],
)
def test_a_malformed_strategic_patch_is_a_bad_request(patch: Doc) -> None:
    with pytest.raises(BadRequest):
        strategic({"a": {}, "items": [{"name": "a"}], "tags": ["a"]}, patch)


strategic_keys = st.sampled_from(
    [
        "items",
        "tags",
        "a",
        "deep",
        "name",
        "$patch",
        "$retainKeys",
        "$setElementOrder/tags",
        "$setElementOrder/items",
        "$deleteFromPrimitiveList/tags",
    ]
)
strategic_values = st.recursive(
    st.one_of(scalars, st.sampled_from(["delete", "replace", "merge"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(strategic_keys, inner, max_size=3)),
    max_leaves=12,
)
named_items = st.lists(st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"v": scalars}), max_size=3)
strategic_docs = st.fixed_dictionaries(
    {}, optional={"items": named_items, "tags": st.lists(st.sampled_from("abc"), unique=True), "a": values}
)


@given(strategic_docs, st.dictionaries(strategic_keys, strategic_values, max_size=4))
def test_any_strategic_patch_gives_a_document_or_a_bad_request(doc: Doc, patch: Doc) -> None:
    before = deepcopy((doc, patch))
    try:
        result = strategic(doc, patch)
    except BadRequest as refused:
        assert refused.message  # noqa: PT017 - both outcomes are fine, a crash is not
    else:
        assert_independent(result, doc, patch)
        assert "$patch" not in json.dumps(result)
    assert (doc, patch) == before


@given(strategic_docs, strategic_docs)
def test_strategic_patches_without_directives_are_idempotent(doc: Doc, patch: Doc) -> None:
    once = strategic(doc, patch)
    twice = strategic(once, patch)
    assert twice == strategic(twice, patch)
    for tag in patch.get("tags", []):
        assert tag in once["tags"]


# ---- Depth


@pytest.mark.parametrize("depth", [100, 5_000, 200_000])
def test_deep_nesting_is_a_bad_request(depth: int) -> None:
    deep = nested(depth)
    attempts: list[Callable[[], Any]] = [
        lambda: clone(deep),
        lambda: merge_patch({}, deep),
        lambda: merge_patch(deep, {}),
        lambda: strategic_patch({}, deep, {}),
        lambda: strategic_patch({}, {"$patch": "replace", "a": deep}, {}),
        lambda: strategic_patch({}, {"x": [deep]}, {}),
        lambda: json_patch({}, [{"op": "add", "path": "/a", "value": deep}]),
        lambda: json_patch({}, [{"op": "add", "path": "/a" * depth, "value": 1}]),
        lambda: json_patch({}, [{"op": "test", "path": "", "value": deep}, {"op": "remove", "path": "/a" * depth}]),
    ]
    for attempt in attempts:
        with pytest.raises(ApiError) as refused:
            attempt()
        assert refused.value.code in (400, 422)
