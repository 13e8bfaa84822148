"""A name means one thing: every class of the product has a name of its own."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.architecture.test_repository import ROOT, tracked

# Django looks these up by their name.
CONVENTIONAL = {"Meta", "Command"}
PRODUCT = ("ocmconsole/*.py", "clusters/*.py", "clustersets/*.py", "placements/*.py", "registration/*.py")


def classes(tree: ast.AST, *, top: bool) -> list[str]:
    """Names of the classes of a module: those at its top level, or those inside other classes and functions."""
    return [
        child.name
        for node in ast.walk(tree)
        for child in ast.iter_child_nodes(node)
        if isinstance(child, ast.ClassDef) and isinstance(node, ast.Module) is top and child.name not in CONVENTIONAL
    ]


def test_a_class_name_is_defined_once() -> None:
    """A class inside a model, such as ``BulkItem.State``, is named with its owner, and never as one at top level."""
    places, inner = defaultdict(list), set()
    for path in tracked(*PRODUCT):
        if "migrations" in path.parts:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in classes(tree, top=True):
            places[name].append(str(path.relative_to(ROOT)))
        inner.update(classes(tree, top=False))
    assert len(places) > 300
    assert {name: where for name, where in places.items() if len(where) > 1 or name in inner} == {}
