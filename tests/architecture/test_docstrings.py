"""What rooms and reconcilers say of themselves."""

from __future__ import annotations

import ast
import inspect
import re

from ocmconsole.kubeapi.control import controllers
from tests.architecture.test_documents import PACKAGES
from tests.architecture.test_repository import ROOT, tracked

# Found by Django by their names, or by the language of a user: no room.
NO_ROOM = ("management", "commands", "migrations", "en_GB")


def test_each_room_says_what_comes_in_what_goes_out_and_who_calls_it() -> None:
    rooms = tracked(*(f"{package}/*__init__.py" for package in PACKAGES))
    said = {
        str(path.relative_to(ROOT)): ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for path in rooms
        if not {*NO_ROOM} & {*path.parts}
    }
    assert len(said) > 40
    wanted = (r"\bIn: ", r"\bOut: ", r"\b[Cc]alled by |\bRun by ")
    assert [
        name for name, text in said.items() if not all(re.search(each, text.replace("\n", " ")) for each in wanted)
    ] == []


def test_each_reconciler_has_numbered_steps() -> None:
    without = [
        name
        for name, reconciler in controllers._reconcilers.items()
        if not re.search(r"^1\. \S", inspect.getdoc(reconciler.reconcile) or "", re.MULTILINE)
    ]
    assert without == []
