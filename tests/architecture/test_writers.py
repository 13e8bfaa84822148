"""Rights of people are written by one service: everything else asks it, so that nothing is given without an audit."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.test_repository import ROOT, tracked

WRITERS = {"ocmconsole/accounts/permissions.py", "ocmconsole/accounts/people.py"}
SHORTCUTS = {"assign_perm", "remove_perm", "bulk_assign_perm", "bulk_remove_perm"}
MAKERS = {"create_user", "create_superuser", "set_password", *SHORTCUTS}
OF_RIGHTS = {"user_permissions", "permissions", "groups", "user_set"}
MOVES = {"add", "remove", "set", "clear", "create"}


def sources() -> list[Path]:
    return tracked("ocmconsole/*.py", "clusters/*.py", "clustersets/*.py", "placements/*.py", "registration/*.py")


def written(tree: ast.AST) -> list[str]:
    """What of this module gives or takes rights of people."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("guardian"):
            found += [alias.name for alias in node.names if alias.name in SHORTCUTS]
        if not isinstance(node, ast.Attribute):
            continue
        owner = node.value.attr if isinstance(node.value, ast.Attribute) else ""
        if node.attr in MAKERS or (owner in OF_RIGHTS and node.attr in MOVES):
            found.append(node.attr)
    return found


@pytest.mark.contract("D2", "D11")
def test_only_the_service_gives_rights_and_changes_accounts() -> None:
    found = {
        name: writes
        for path in sources()
        if (name := str(path.relative_to(ROOT))) not in WRITERS
        and (writes := written(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


def test_what_gives_rights_is_recognised() -> None:
    code = "from guardian.shortcuts import assign_perm\nuser.groups.add(x)\nuser.set_password('x')\nseen.add(1)"
    assert written(ast.parse(code)) == ["assign_perm", "add", "set_password"]


def test_only_the_store_writes_rows_past_the_models() -> None:
    """Models refuse a write of a resource outside of the store; SQL that is made from them does not ask."""
    wanted = re.compile(r"plain_sql\.(insert|replace|put|delete)\(|plain_sql import .*\b(insert|replace|put|delete)\b")
    found = {str(path.relative_to(ROOT)) for path in sources() if wanted.search(path.read_text(encoding="utf-8"))}
    assert found == {"ocmconsole/kubeapi/writes/store.py", "ocmconsole/kubeapi/storage/row_writes.py"}
