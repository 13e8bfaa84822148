"""Puts the files of a restored home into their place: the old ones or the new, whatever is killed in between.

A restore makes the new files in a folder inside the home and then writes a plan. From then on the restore is done:
what finds the plan, the restore itself or the next process that reads its settings, moves the files and removes it.
Each step may be done again. On PostgreSQL the plan counts only once the database is the restored one.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from ocmconsole.environment import home as files

PLAN = ".restore-plan"
PRESENT = "SELECT uid FROM kubeapi_incarnation ORDER BY number DESC LIMIT 1"


@dataclass(frozen=True)
class SwapPlan:
    """``new`` are names in ``folder``; ``old`` those of the home that go to ``aside``, or are removed if it is "".

    ``incarnation`` is what the database must say for the plan to count, "" where the database is among the files.
    """

    folder: str
    new: tuple[str, ...]
    old: tuple[str, ...]
    aside: str
    incarnation: str = ""


def write(home: Path, plan: SwapPlan) -> None:
    """The moment at which a restore of files is done. The caller holds the home (``home.locked``)."""
    for name in plan.new:
        with (home / plan.folder / name).open("rb") as file:
            files.sync(Path(file.name))
    files.sync(home / plan.folder)
    files.write_file(home / PLAN, json.dumps(asdict(plan)).encode(), secret=True)


def finish(home: Path, database_url: str) -> None:
    """Finish what a restore that was killed has left; nothing where none was. Called before the home is read.

    Raises ImproperlyConfigured while the database that has to decide does not answer.
    """
    if not (home / PLAN).exists():
        return
    with files.locked(home):
        if not (home / PLAN).exists():  # another process was first
            return
        plan = SwapPlan(**json.loads((home / PLAN).read_bytes()))
        if plan.incarnation and _incarnation(database_url) != plan.incarnation:
            discard(home, plan)
        else:
            apply(home, plan)


def apply(home: Path, plan: SwapPlan) -> None:
    """Move the files. The caller holds the home."""
    folder, aside = home / plan.folder, home / plan.aside
    if plan.aside:
        aside.mkdir(mode=0o700, exist_ok=True)
    for name in plan.old:
        is_old = (home / name).exists() and (name not in plan.new or (folder / name).exists())
        if is_old and not plan.aside:
            (home / name).unlink()
        elif is_old and not (aside / name).exists():
            (home / name).rename(aside / name)
    for name in plan.new:
        if (folder / name).exists():
            (folder / name).replace(home / name)
    files.sync(home)
    discard(home, plan)


def discard(home: Path, plan: SwapPlan) -> None:
    (home / PLAN).unlink(missing_ok=True)
    files.sync(home)
    shutil.rmtree(home / plan.folder, ignore_errors=True)


def _incarnation(database_url: str) -> str:
    import psycopg  # noqa: PLC0415 - of PostgreSQL alone

    try:
        with psycopg.connect(database_url) as connection:
            row = connection.execute(PRESENT).fetchone()
    except psycopg.errors.UndefinedTable:
        return ""
    except psycopg.Error as error:
        raise ImproperlyConfigured(
            f"a restore of this home was interrupted, and only the database says whether it was done: {error}"
        ) from error
    return str(row[0]) if row else ""
