"""The files of a restored home change places whole, wherever the process that moves them is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ocmconsole.environment import home as files
from ocmconsole.environment import home_swap

pytestmark = pytest.mark.contract("D22")
OLD = {"ca.key": "old", "hub.sqlite3": "old", "hub.sqlite3-wal": "old"}
NEW = {"ca.key": "new", "hub.sqlite3": "new", "sa.key": "new"}


class KilledError(Exception):
    pass


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("aside", ["before", ""])
def test_a_swap_that_is_killed_at_any_step_is_finished_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aside: str
) -> None:
    finished = False
    for steps in range(20):
        home = tmp_path / str(steps)
        (home / "made").mkdir(parents=True)
        for folder, held in ((home, OLD), (home / "made", NEW)):
            for name, text in held.items():
                (folder / name).write_text(text)
        with files.locked(home):
            home_swap.write(home, home_swap.SwapPlan("made", tuple(sorted(NEW)), tuple(sorted(OLD)), aside))
        with monkeypatch.context() as patch:
            finished = finished or moved(home, steps, patch)
        home_swap.finish(home, "")
        assert content(home) == NEW, steps
        assert not aside or content(home / aside) == OLD
        assert not (home / "made").exists()
    assert finished


def moved(home: Path, steps: int, patch: pytest.MonkeyPatch) -> bool:
    """Whether so many moves were enough."""
    left = steps

    def counted(name: str) -> None:
        act = getattr(Path, name)

        def move(path: Path, *arguments: Any, **options: Any) -> Any:
            nonlocal left
            if left == 0:
                raise KilledError
            left -= 1
            return act(path, *arguments, **options)

        patch.setattr(Path, name, move)

    for name in ("rename", "replace", "unlink"):
        counted(name)
    try:
        home_swap.finish(home, "")
    except KilledError:
        return False
    return True
