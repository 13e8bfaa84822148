"""D28: a hub that meets a newer incarnation of itself writes nothing any more.

A home says in ``incarnation.json`` which incarnation it belongs to, and a restore leaves the same file as its mark at
the backup place. ``look`` compares the home's with the newest of the database and with the mark; what it finds is
``outages.state.superseded``, which every write asks. Called by a thread of each server and worker (``embedded``).
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from ocmconsole.environment import home as files
from ocmconsole.kubeapi.health import outages, probes
from ocmconsole.kubeapi.storage import incarnations

if TYPE_CHECKING:
    from ocmconsole.kubeapi.models import Incarnation

log = logging.getLogger(__name__)

NAME = "incarnation.json"


@dataclass(frozen=True, order=True)
class IncarnationMark:
    """One incarnation, in the order in which they begin. ``hub`` is the uid of the hub's first one, the same in all."""

    number: int
    begun_at: str
    uid: str
    hub: str

    @classmethod
    def of(cls, row: Incarnation, first: Incarnation) -> IncarnationMark:
        return cls(row.number, row.begun_at.isoformat(timespec="seconds"), row.uid, first.uid)

    def is_newer_than(self, other: IncarnationMark) -> bool:
        return self.hub == other.hub and self.uid != other.uid and self > other


def read(folder: Path) -> IncarnationMark | None:
    """None where the folder has no mark, or none that can be read."""
    try:
        return IncarnationMark(**json.loads((folder / NAME).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def write(folder: Path, mark: IncarnationMark) -> None:
    """Raises OSError."""
    files.write_file(folder / NAME, json.dumps(asdict(mark)).encode(), secret=True)


def present() -> IncarnationMark | None:
    """What the database says; None before the first start of a hub. Raises an error of the database."""
    known = incarnations.all_of_them()
    return IncarnationMark.of(known[-1], known[0]) if known else None


def mark_home() -> IncarnationMark | None:
    """To which incarnation the home belongs; one without a mark gets that of the database, if there is any yet.

    Raises an error of the database, and OSError.
    """
    home = settings.OCMCONSOLE_HOME
    own = read(home)
    if own is None and (own := present()) is not None:
        write(home, own)
    return own


def look() -> None:
    """Find out whether a newer incarnation has begun. A place that cannot be read says nothing.

    Raises an error of the database, and then what was known before stands.
    """
    place, own = settings.OCMCONSOLE_BACKUP_PLACE, mark_home()
    if own is None:
        return
    left = read(place) if place else None
    newer = _newer(own, present(), left)
    outages.state.superseded = _words(newer) if newer else ""
    if newer is None and place and left != own:
        _leave(place, own, left)


def found() -> str:
    """What ``look`` would find, in words; it writes nothing. Raises an error of the database."""
    home, place = settings.OCMCONSOLE_HOME, settings.OCMCONSOLE_BACKUP_PLACE
    if (own := read(home)) is None:
        return ""
    newer = _newer(own, read(place) if place else None) or _newer(own, present())
    return _words(newer) if newer else ""


def _newer(own: IncarnationMark, *others: IncarnationMark | None) -> IncarnationMark | None:
    return max((mark for mark in others if mark is not None and mark.is_newer_than(own)), default=None)


def _words(newer: IncarnationMark) -> str:
    return (
        f"this hub only reads, because it was restored from a backup and goes on elsewhere since {newer.begun_at}: "
        "stop it and use the restored one"
    )


def _leave(place: Path, own: IncarnationMark, left: IncarnationMark | None) -> None:
    """The mark of this incarnation, unless another hub's is there."""
    if left is not None and left.hub != own.hub:
        problem = f"{place} is the backup place of another hub: set OCMCONSOLE_BACKUP_PLACE to a folder of this one"
    else:
        problem = ""
        try:
            write(place, own)
        except OSError as error:
            problem = (
                f"{place} cannot be written ({error.strerror}): an older hub that comes back does not stop by itself"
            )
    if problem and problem != _said.get(place):
        log.warning(problem)
    _said[place] = problem


_said: dict[Path, str] = {}  # problems that the log has, by place


def trouble() -> str:
    """The check ``incarnation`` of ``/readyz``."""
    return outages.state.superseded


probes.register("incarnation", trouble, needs_database=False)
