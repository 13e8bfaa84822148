"""Backups by the clock, at the backup place, of which the newest are kept. Called by ``ocmconsole.tasks``."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings

from ocmconsole.environment.durations import span
from ocmconsole.kubeapi import clock

log = logging.getLogger(__name__)

NAME = "hub-%Y%m%dT%H%M%SZ.backup"  # so that the order of names is that of times
NAMED = re.compile(r"hub-\d{8}T\d{6}Z\.backup")
RETRY = timedelta(minutes=5)  # after a failure
LATE = 2  # periods after which a backup is missing


def take_if_due() -> None:
    """Nothing unless ``OCMCONSOLE_BACKUP_EVERY`` is set. A failure is logged, and tried again after ``RETRY``."""
    every, place, now = settings.OCMCONSOLE_BACKUP_EVERY, settings.OCMCONSOLE_BACKUP_PLACE, clock.now()
    if not every or place is None or now < _not_before.get(place, now):
        return
    from ocmconsole.backup import taking  # noqa: PLC0415 - few hubs have it so, and its libraries cost start time
    from ocmconsole.backup.encryption import BackupError, BackupKey  # noqa: PLC0415 - as above

    try:
        if (newest := _newest(place)) is not None and now - newest < every:
            return
        key = BackupKey.chosen(settings.OCMCONSOLE_BACKUP_PASSPHRASE, settings.OCMCONSOLE_BACKUP_KEY)
        made = taking.take_backup(place / now.strftime(NAME), key)
        for old in _backups(place)[: -max(settings.OCMCONSOLE_BACKUP_KEEP, 1)]:
            old.unlink(missing_ok=True)
    except (BackupError, OSError) as error:
        _not_before[place] = now + RETRY
        log.error("no backup was made: %s", error)  # noqa: TRY400 - one sentence says it
    else:
        log.info("a backup was made: resource version %d", made.revision)


_not_before: dict[Path, datetime] = {}


def warning() -> str:
    """In words when the newest backup is older than it should be, else empty."""
    every, place = settings.OCMCONSOLE_BACKUP_EVERY, settings.OCMCONSOLE_BACKUP_PLACE
    if not every or place is None:
        return ""
    try:
        newest = _newest(place)
    except OSError as error:
        return f"{place} cannot be read: {error.strerror}"
    if newest is None:
        return f"there is no backup in {place} yet"
    age = clock.now() - newest
    return f"the newest in {place} is {span(age)} old; the log says why" if age > LATE * every else ""


def _newest(place: Path) -> datetime | None:
    found = _backups(place)
    return datetime.strptime(found[-1].name, NAME).replace(tzinfo=UTC) if found else None


def _backups(place: Path) -> list[Path]:
    """Those that the clock made, oldest first; what else is there is somebody else's."""
    return sorted(path for path in place.iterdir() if NAMED.fullmatch(path.name))
