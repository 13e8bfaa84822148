"""Rules for structural schemas: what a schema file cannot contain, each with its path."""

from __future__ import annotations

from typing import Any

import pytest

from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.schema import structural
from ocmconsole.kubeapi.schema.compiled_schema import OBJECT_META

TEXT: Doc = {"type": "string"}
ELEMENT: Doc = {"type": "object", "required": ["key"], "properties": {"key": TEXT}}


def problems_of(node: Any) -> list[str]:
    return structural.problems({"type": "object", "properties": {"a": node}})


def test_metadata_is_a_structural_schema() -> None:
    assert structural.problems(OBJECT_META) == []


@pytest.mark.parametrize(
    "node",
    [
        TEXT,
        {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": {"b": [1]}},
        {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+%?$", "default": 0},
        {"type": "array", "items": ELEMENT, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]},
        {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        {"type": "array", "items": ELEMENT, "default": [{"key": "b"}]},
        {"type": "integer", "format": "int32", "minimum": 0, "default": 60},
        {"type": "string", "enum": ["True", "False"], "default": "True", "nullable": True},
    ],
)
def test_a_structural_schema_has_no_problems(node: Doc) -> None:
    assert problems_of(node) == []


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ("string", "must be a schema"),
        ({}, "needs either a type or x-kubernetes-int-or-string"),
        ({"type": "integer", "x-kubernetes-int-or-string": True}, "needs either a type or x-kubernetes-int-or-string"),
        ({"type": ["string"]}, "type must be one of object, array, string, boolean, integer, number"),
        ({**TEXT, "anyOf": []}, "unknown keyword anyOf"),
        ({**TEXT, "x-kubernetes-list-typ": "set"}, "unknown keyword x-kubernetes-list-typ"),
        ({**TEXT, "format": "ipv4"}, "unknown format ipv4 of type string"),
        ({**TEXT, "format": "int32"}, "unknown format int32 of type string"),
        ({**TEXT, "minimum": 1}, "minimum is not for type string"),
        ({**TEXT, "description": ""}, "description must be a text that is not empty"),
        ({**TEXT, "pattern": "("}, "pattern must be a regular expression"),
        ({**TEXT, "maxLength": -1}, "maxLength must be a number from 0"),
        ({**TEXT, "maxLength": True}, "maxLength must be a number from 0"),
        ({**TEXT, "nullable": "yes"}, "nullable must be true, or left out"),
        ({"type": "array"}, "type array needs items"),
        ({"type": "array", "items": TEXT, "properties": {}}, "properties is not for type array"),
        (
            {"type": "object", "properties": {}, "additionalProperties": TEXT},
            "properties and additionalProperties exclude each other",
        ),
        ({"type": "object", "required": ["b"], "properties": {}}, "required field b is not among the properties"),
        ({**ELEMENT, "required": ["key", "key"]}, "required must be a list of names, each once"),
        ({**ELEMENT, "x-kubernetes-map-type": "set"}, "x-kubernetes-map-type must be one of atomic, granular"),
        (
            {"type": "array", "items": ELEMENT, "x-kubernetes-list-type": "map"},
            "x-kubernetes-list-map-keys and x-kubernetes-list-type map need each other",
        ),
        (
            {"type": "array", "items": ELEMENT, "x-kubernetes-list-map-keys": ["key"]},
            "x-kubernetes-list-map-keys and x-kubernetes-list-type map need each other",
        ),
        (
            {"type": "array", "items": ELEMENT, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b"]},
            "key b is not among the properties of the items",
        ),
        (
            {"type": "array", "items": ELEMENT, "x-kubernetes-patch-merge-key": "key"},
            "x-kubernetes-patch-merge-key needs x-kubernetes-patch-strategy",
        ),
        (
            {"type": "array", "items": ELEMENT, "x-kubernetes-list-type": "set"},
            "x-kubernetes-list-type set is for plain values",
        ),
        ({**TEXT, "enum": []}, "enum must be a list of values, each once"),
        (
            {**TEXT, "enum": [True, "False"]},
            'enum value True does not match: Invalid value: "boolean": value in body must be of type string: "boolean"',
        ),
        (
            {**TEXT, "default": 5},
            'default 5 does not match: Invalid value: "integer": value in body must be of type string: "integer"',
        ),
        (
            {**TEXT, "enum": ["b"], "default": "c"},
            'default \'c\' does not match: Unsupported value: "c": supported values: "b"',
        ),
        ({**ELEMENT, "default": {}}, "default {} does not match: Required value"),
        (
            {**ELEMENT, "default": {"key": "b", "kee": "c"}},
            "default {'key': 'b', 'kee': 'c'} does not match: unknown field kee",
        ),
    ],
)
def test_what_kubernetes_or_this_hub_cannot_serve_is_a_problem(node: Any, problem: str) -> None:
    assert f"a: {problem}" in problems_of(node)


def test_problems_have_the_path_of_their_node() -> None:
    wrong = {"type": "int"}
    deep = {"type": "array", "items": {"type": "object", "additionalProperties": wrong}}
    assert [problem.partition(":")[0] for problem in problems_of({"type": "object", "properties": {"b": deep}})] == [
        "a.b[].*"
    ]
    assert structural.problems([]) == [".: must be a schema"]
