"""Space on the disk of the SQLite file: a reserve beside it keeps deletes and sign-in working when the disk is full.

The reserve is a file of zeros. ``probes`` looks a few times a second: when the disk is nearly full the file is removed,
so that the hub has that much left, and until there is room for it again ``outages.state.full`` makes the store refuse
whatever grows. Where another program takes that space too, nothing can be written any more, and every answer says so.

PostgreSQL's disk cannot be seen from here, nor kept free: what it refuses for want of space is answered with 507, and
for ``REMEMBERED_SECONDS`` after that the store lets only what shrinks try.
"""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path
from time import monotonic

from django.conf import settings
from django.db import connection

from ocmconsole.kubeapi.health import outages

log = logging.getLogger(__name__)

NAME = "reserve"
SHARE = 4  # of a small file system the reserve takes at most this part
MARGIN = (
    8  # this part of the reserve may still be free when it is given up; room for it and as much is needed to make it
)
WARN_PERCENT = 90  # of the disk that is used
REMEMBERED_SECONDS = 10.0  # after a write failed for a full disk


def folder() -> Path:
    """Where the hub's files grow: beside the SQLite file, else the home."""
    if connection.vendor == "sqlite":
        return Path(str(connection.settings_dict["NAME"])).parent
    return Path(settings.OCMCONSOLE_HOME)


def used_percent() -> float:
    """Of the file system of that folder, as ``df`` counts. Raises OSError."""
    usage = shutil.disk_usage(folder())
    return 100 * usage.used / max(usage.used + usage.free, 1)


def warning() -> str:
    """In words from ``WARN_PERCENT`` on, else empty."""
    try:
        percent, free = used_percent(), shutil.disk_usage(folder()).free
    except OSError:
        return ""
    if percent < WARN_PERCENT:
        return ""
    return f"the disk of {folder()} is {percent:.0f} % full, {free // 2**20:,} MiB are left"


def check_space() -> None:
    """Give up the reserve or make it, and set ``outages.state.full``."""
    state = outages.state
    if connection.vendor != "sqlite":
        is_recent = state.full_seen is not None and monotonic() - state.full_seen < REMEMBERED_SECONDS
        state.full = outages.FULL if is_recent else ""
        return
    path = folder() / NAME
    try:
        wanted, free = _wanted(path.parent)
        if path.exists() and free < wanted // MARGIN:
            path.unlink(missing_ok=True)
            log.error("the disk of %s is full: the reserve of %d MiB was given up", path.parent, wanted // 2**20)
        elif not path.exists() and free > wanted + 2 * wanted // MARGIN:
            _make(path, wanted)
            log.info("a reserve of %d MiB is kept in %s", wanted // 2**20, path)
        state.full = "" if path.exists() else outages.FULL
    except OSError as error:
        log.warning("the space in %s is not known: %s", path.parent, error)


def is_short() -> bool:
    """Whether there is neither the reserve nor room for it; also where no server runs. Raises OSError."""
    path = folder() / NAME
    wanted, free = _wanted(path.parent)
    return not path.exists() and free <= wanted + 2 * wanted // MARGIN


def _wanted(place: Path) -> tuple[int, int]:
    """The size of the reserve, and what is free beside it, in bytes."""
    usage = shutil.disk_usage(place)
    return min(settings.OCMCONSOLE_DISK_RESERVE, usage.total // SHARE), usage.free


def _make(path: Path, size: int) -> None:
    """Whole or not at all. Raises OSError."""
    handle = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise
    finally:
        os.close(handle)


def trouble() -> str:
    """The check ``disk``."""
    if not outages.state.full:
        return ""
    if connection.vendor == "sqlite":
        return f"{outages.FULL}: only deletes, heartbeats and sign-in are let through"
    return f"{outages.FULL}, as PostgreSQL says"
