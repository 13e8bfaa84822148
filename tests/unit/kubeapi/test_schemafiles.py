"""Schema files: each belongs to one kind and version, and a broken one is a clear error at the start."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from ocmconsole.kubeapi import kinds, virtual_resources
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.formats import schema_files
from ocmconsole.kubeapi.schema import structural
from ocmconsole.kubeapi.schema.compiled_schema import Schema
from tests.architecture.test_documents import PACKAGES
from tests.architecture.test_repository import tracked

FILES = {path.name.removesuffix(".yaml"): path for path in tracked(*(f"{package}/*.yaml" for package in PACKAGES))}


def schema_of(stem: str) -> Schema:
    return schema_files.load(FILES[stem], name=stem)


def served_schemas() -> dict[str, Schema]:
    """By the name that its file has: plural and version, with the group where two groups share these."""
    found = {
        f"{kind.plural}.{version.version}": version.schema
        for kind, version in chain(kinds.all_served(), virtual_resources.collected())
        if version.group != "events.k8s.io"
    }
    newer_events = kinds.find_served("events.k8s.io", "v1", "events")
    assert newer_events
    found["events.v1.events.k8s.io"] = newer_events.version.schema
    endpoints = [each for each in virtual_resources.described() if each.schema]
    return found | {f"{each.plural}.{each.version}": each.schema for each in endpoints if each.schema}


def test_each_served_version_is_described_by_the_file_of_its_name() -> None:
    served = served_schemas()
    assert {stem: schema.root for stem, schema in served.items()} == {stem: schema_of(stem).root for stem in served}
    assert sorted(set(FILES) - set(served)) == ["tokenrequests.v1"]  # the body of a subresource


def test_a_file_stands_in_the_folder_of_an_app_and_begins_with_its_kind() -> None:
    for stem, path in FILES.items():
        kind, group_version = path.read_text().splitlines()[0].removeprefix("# ").split(", ")
        plural, version = stem.split(".")[:2]
        assert path.parent.name == "schemas", stem
        assert f"{kind.lower()}s" == plural
        assert group_version.rpartition("/")[2] == version, stem


def nodes(node: Doc) -> Iterator[Doc]:
    yield node
    for child in node.get("properties", {}).values():
        yield from nodes(child)
    for keyword in ("items", "additionalProperties"):
        if keyword in node:
            yield from nodes(node[keyword])


def test_keys_have_one_order_in_all_files() -> None:
    order = [*structural.KEYWORDS]
    for stem in FILES:
        for node in nodes(schema_of(stem).root):
            assert list(node) == sorted(node, key=order.index), stem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("type: [", "error converting YAML to JSON: while parsing a flow node"),
        ("type: object\ntype: object\n", "\n  type: stands twice"),
        ("", "\n  .: must be a schema"),
        ("properties: {}\n", "\n  .: needs either a type or x-kubernetes-int-or-string"),
        ("type: string\n", "\n  .: the type of the root must be object"),
        (
            "type: object\nproperties:\n  spec:\n    type: object\n    properties: {size: {type: int}, name: {type: string, len: 3}}\n",
            "\n  spec.size: type must be one of object, array, string, boolean, integer, number\n  spec.name: unknown keyword len",
        ),
    ],
)
def test_a_broken_file_is_refused_with_its_name_and_the_paths_of_all_problems(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "widgets.v1.yaml"
    path.write_text(text)
    with pytest.raises(ImproperlyConfigured) as refused:
        schema_files.load(path, name="Widget")
    assert str(refused.value).startswith(f"schema file {path}:")
    assert problem in str(refused.value)


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"widgets\.v1\.yaml: .*No such file"):
        schema_files.load(tmp_path / "widgets.v1.yaml", name="Widget")
