"""A number that somebody chose says its unit and the reason for it (CONTRIBUTING), beside it or right above."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.test_names import PRODUCT
from tests.architecture.test_repository import ROOT, tracked

# Their names are units.
UNITS = {"KIB", "MIB", "MICROSECOND", "MINUTE", "HOUR", "DAY"}


def is_number(value: ast.expr) -> bool:
    """A number, a sum or product of numbers, several of them, or a duration made of them."""
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Tuple(elts=elements):
            return bool(elements) and all(map(is_number, elements))
        case ast.Call(func=ast.Name(id="timedelta"), args=arguments, keywords=keywords):
            return all(map(is_number, (*arguments, *(each.value for each in keywords))))
    return False


def unexplained(text: str) -> Iterator[str]:
    """Names of a module's numbers at top level that have no comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {
        token.start[0]: not token.line[: token.start[1]].strip()
        for token in tokens
        if token.type == tokenize.COMMENT and not token.string.startswith("# noqa")
    }  # by line: whether it stands alone
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None or not is_number(node.value):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        is_beside = any(line in comments for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if not is_beside and not comments.get(node.lineno - 1) and not names_in(target) <= UNITS:
            yield ast.unparse(target)


def names_in(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def test_the_check_sees_numbers_and_durations_without_a_comment() -> None:
    text = (
        "A = 3\nB = timedelta(days=2)\n# reason\nC = 4\nD = 5  # seconds\nHOUR = 3600\nE = 'text'\nF, G = -1, 2 * 3\n"
    )
    assert list(unexplained(text)) == ["A", "B", "(F, G)"]


def test_each_number_says_its_unit_and_reason() -> None:
    modules: list[Path] = [
        path for path in tracked(*PRODUCT) if "migrations" not in path.parts and path.name != "settings.py"
    ]
    assert len(modules) > 300
    found = [f"{path.relative_to(ROOT)}: {name}" for path in modules for name in unexplained(path.read_text("utf-8"))]
    assert found == []
