"""Templates stand where a stranger looks for them: in the folder of the view that renders them."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tests.architecture.test_documents import PACKAGES
from tests.architecture.test_repository import ROOT, tracked

NAMED = re.compile(r'"([a-z_/]+\.html)"')
# Whose names Django's admin and allauth look for, and what pages of all rooms are made of.
OF_LIBRARIES = {"admin", "account", "mfa", "socialaccount", "components"}


def test_a_template_is_in_the_room_of_its_view() -> None:
    found = [
        (path.relative_to(ROOT).as_posix(), name)
        for path in tracked(*(f"{package}/*.py" for package in PACKAGES))
        for name in NAMED.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(found) > 60
    rooms = {source: PurePosixPath(source.removeprefix("ocmconsole/")).parent for source, _ in found}
    elsewhere = [(source, name) for source, name in found if rooms[source] != PurePosixPath(name).parent]
    assert [each for each in elsewhere if each[1].split("/")[0] not in OF_LIBRARIES] == []
