"""Text that strangers sent: whatever it is, it becomes plain values or a 4xx."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from ocmconsole.kubeapi.errors import ApiError, BadRequest, Invalid
from ocmconsole.kubeapi.formats import documents
from ocmconsole.kubeapi.formats.documents import MAX_DEPTH, read_json, read_yaml

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)


def outcome(read: Callable[[bytes], tuple[Any, list[str]]], raw: bytes) -> int:
    """The code of the refusal, or 200 for a value that can be written again."""
    try:
        orjson.dumps(read(raw)[0])
    except ApiError as refused:
        return refused.code
    return 200


@given(JSON)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert read_json(json.dumps(value).encode(), find_duplicates=True) == (value, [])


@given(st.binary() | st.text(alphabet='{}[]":,\\u0d8e1-.aN \n').map(str.encode))
@example(b'{"a": NaN}')
@example(b'{"a": 1e999}')
@example(b"\xef\xbb\xbf{}")
def test_no_bytes_crash_the_readers(raw: bytes) -> None:
    assert outcome(read_json, raw) in {200, 400, 422}
    assert outcome(read_yaml, raw) in {200, 400}


@given(st.text(alphabet="{}[]'\":,-&*!?|>#%@ab1.~<= \n"))
@example("&a [*a]")
@example("? [a]\n: b")
@example("!!int ''")
@example("!!bool maybe")
@example("!!python/object:os.system {}")
@example("*a : b")
@example("<<: [1]")
@example("%YAML 9.9\n--- a")
def test_no_yaml_crashes_the_reader(text: str) -> None:
    assert outcome(read_yaml, text.encode()) in {200, 400}


@pytest.mark.contract("W184")
@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('{"spec":{"x":1,"x":2}}', ["spec.x"]),
        ('{"a":1,"a":2,"a":3}', ["a"]),
        ('{"spec":{"taints":[{},{"key":"a","key":"b"}]},"z":1,"z":1}', ["z", "spec.taints[1].key"]),
        ('{"a":{"b":1,"b":2},"a":{"c":1}}', ["a"]),
        ('{"a":{"x":1},"b":{"x":1}}', []),
    ],
)
def test_keys_given_twice_are_named_by_their_path(text: str, paths: list[str]) -> None:
    assert read_json(text.encode(), find_duplicates=True) == (json.loads(text), paths)
    assert read_json(text.encode()) == (json.loads(text), [])
    assert set(read_yaml(text.encode())[1]) >= set(paths)


def test_the_report_of_keys_given_twice_is_bounded() -> None:
    text = "[" + ",".join(['{"a":1,"a":2}'] * 500) + "]"
    assert len(read_json(text.encode(), find_duplicates=True)[1]) == 100
    assert len(read_yaml(text.encode())[1]) == 100


@pytest.mark.parametrize("digits", [str(2**63), str(-(2**63) - 1), str(2**64), "1" * 30, "-" + "9" * 200, "9" * 5000])
def test_numbers_beyond_64_bits_are_refused(digits: str) -> None:
    for read in (read_json, read_yaml):
        with pytest.raises(BadRequest):
            read(f'{{"a": {digits}}}'.encode())


def test_the_largest_numbers_and_long_digits_in_text_pass() -> None:
    value = {"most": 2**63 - 1, "least": -(2**63), "text": "1" * 40, "float": 1234567890123456789.5}
    assert read_json(json.dumps(value).encode())[0] == value


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "1e999", "{'a': 1}", "{} {}", "", "[1,]", '"\t"'])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="json parse error"):
        read_json(text.encode())


def test_an_empty_body_says_so() -> None:
    with pytest.raises(BadRequest, match="unexpected end of JSON input"):
        read_json(b"")


def test_bytes_that_are_no_utf8_are_refused() -> None:
    with pytest.raises(BadRequest, match="not UTF-8"):
        read_json(b'"\xed\xa0\x80"')


@pytest.mark.parametrize("text", [r'"\ud800"', r'{"a":"x\udc00"}', r'{"\ud800\ud800":1}'])
def test_a_lone_surrogate_is_unprocessable(text: str) -> None:
    with pytest.raises(Invalid, match="lone surrogates"):
        read_json(text.encode())


@pytest.mark.parametrize("end", ["", "1", '"x"'])
def test_depth_is_bounded_without_recursion(end: str) -> None:
    for read in (read_json, read_yaml):
        assert read(("[" * MAX_DEPTH + end + "]" * MAX_DEPTH).encode())
        for depth in (MAX_DEPTH + 1, 1000, 1_000_000):
            with pytest.raises(BadRequest):
                read(("[" * depth + end + "]" * depth).encode())


def test_deep_objects_in_block_form_are_refused() -> None:
    with pytest.raises(BadRequest, match="nested more than 128 levels deep"):
        read_yaml("\n".join(" " * depth + "a:" for depth in range(1000)).encode())


def test_braces_in_text_are_no_depth() -> None:
    assert read_json(json.dumps({"a": "[{" * 500, "b": [[[]]]}).encode())[0]["a"] == "[{" * 500


# YAML


@given(JSON)
def test_yaml_of_any_json_value_is_read_back(value: Any) -> None:
    assert read_yaml(yaml.dump(value, Dumper=yaml.CSafeDumper, encoding="utf-8"))[0] == value


@pytest.mark.contract("W171")
def test_yaml_is_read_as_kubernetes_reads_it() -> None:
    text = """
    kind: ManagedCluster
    spec: {hubAcceptsClient: yes, leaseDurationSeconds: 60}
    metadata:
      labels: {on: "off", 1: one, true: x, ~: nil}
      annotations:
        at: 2026-11-21T02:21:11Z
        day: 2026-11-21
        ports: 22:22
        float: 1.5
        hex: 0x10
        nothing:
        equals: =
        tagged: !!str 12
        lines: |
          a
          b
    """
    assert read_yaml(text.encode())[0] == {
        "kind": "ManagedCluster",
        "spec": {"hubAcceptsClient": True, "leaseDurationSeconds": 60},
        "metadata": {
            "labels": {"on": "off", "1": "one", "true": "x", "~": "nil"},
            "annotations": {
                "at": "2026-11-21T02:21:11Z",
                "day": "2026-11-21",
                "ports": "22:22",
                "float": 1.5,
                "hex": 16,
                "nothing": None,
                "equals": "=",
                "tagged": "12",
                "lines": "a\nb\n",
            },
        },
    }


def test_aliases_are_copies_and_merge_keys_merge() -> None:
    text = "base: &b {x: 1, y: [2]}\nsame: *b\nmore: {<<: *b, x: 3}\nboth: {<<: [{x: 4}, *b]}\nquoted: {'<<': 1}"
    value, duplicates = read_yaml(text.encode())
    assert value == {
        "base": {"x": 1, "y": [2]},
        "same": {"x": 1, "y": [2]},
        "more": {"x": 3, "y": [2]},
        "both": {"x": 4, "y": [2]},
        "quoted": {"<<": 1},
    }
    assert value["base"] is not value["same"]
    assert value["base"]["y"] is not value["same"]["y"]
    assert duplicates == []


@pytest.mark.parametrize("item", ["lol", "[]", "{a: b}", "a" * 200])
def test_a_bomb_of_aliases_is_refused(item: str) -> None:
    lines = [f"a0: &a0 [{', '.join([item] * 10)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(BadRequest, match="aliases make it too large"):
        read_yaml("\n".join(lines).encode())


def test_a_ladder_of_aliases_is_refused_for_its_depth() -> None:
    lines = ["a0: &a0 []", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 300))]
    with pytest.raises(BadRequest, match="nested more than"):
        read_yaml("\n".join(lines).encode())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\n---\nb: 2", "more than one document"),
        ("a: *b", "unknown anchor 'b'"),
        ("&a [*a]", "unknown anchor 'a'"),
        ("? [a]\n: b", "a key must be a scalar"),
        ("? {a: b}\n: b", "a key must be a scalar"),
        ("x: &a [1]\n*a : b", "a key must be a scalar"),
        ("a: .nan", "must be finite"),
        ("a: !!binary aGk=", "is not supported"),
        ("a: !foo b", "is not supported"),
        ("a: !!int x", "is no tag"),
        ("<<: 1", "map merge requires map"),
        ("a: [", "did not find expected node content"),
        ("a: \x01", "control characters are not allowed"),
    ],
)
def test_yaml_that_is_no_json_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadRequest, match="error converting YAML to JSON: .*" + why):
        read_yaml(text.encode())


def test_an_empty_text_is_null() -> None:
    assert documents.read_yaml(b"# nothing\n") == (None, [])
