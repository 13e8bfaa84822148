"""``manage.py restore FILE`` (D22): the hub of a backup in the place of this one, or in an empty one.

Or of a copy of its SQLite database alone, with the keys of this home (``database_copy``). The new hub is made whole
beside the old one: opened, its incarnation begun, checked. Only then the files, and on PostgreSQL the database, change
places (``home_swap``). What the old one had is kept aside. Until the last step a kill or an error changes nothing;
after it the restore is done, whichever process finishes moving.
"""

from __future__ import annotations

import fcntl
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import connection, connections

from ocmconsole.backup import database_copy, databases, opening, revocation_log, succession, taking
from ocmconsole.backup.archive import Manifest
from ocmconsole.backup.encryption import BackupError, BackupKey
from ocmconsole.backup.opening import OpenedArchive
from ocmconsole.environment import home as files
from ocmconsole.environment import home_swap
from ocmconsole.kubeapi import clock

SQLITE_LOGS = ("hub.sqlite3-wal", "hub.sqlite3-shm", "hub.sqlite3-journal")


@dataclass(frozen=True)
class RestoreResult:
    """``said`` are lines for a person, ``aside`` is where the old home went, or "".

    ``unmarked`` are places where an older hub may look and meets no mark of the new incarnation.
    """

    manifest: Manifest
    said: str
    aside: str
    unmarked: tuple[Path, ...]


def restore(source: Path, key: BackupKey | None, *, replace: bool, logs: Sequence[Path]) -> RestoreResult:
    """``key`` opens a backup; None for a copy of the database alone. Raises BackupError.

    ``logs`` are copies of ``revocations.log`` besides those of the backup and the home.
    """
    home = Path(settings.OCMCONSOLE_HOME)
    try:
        with _alone(home), ExitStack() as stack:
            return _restored(home, source, key, replace=replace, logs=logs, stack=stack)
    except OSError as error:
        place = error.filename or home
        raise BackupError(f"{place} cannot be written ({error.strerror or error}): make room and try again") from error


def _restored(
    home: Path, source: Path, key: BackupKey | None, *, replace: bool, logs: Sequence[Path], stack: ExitStack
) -> RestoreResult:
    """The caller has the home alone."""
    if connection.vendor == databases.POSTGRESQL:
        stack.enter_context(databases.restored_alone())
    is_copy, has_keys, has_rows = key is None, (home / "ca.key").exists(), databases.holds_hub()
    if (has_rows or (has_keys and not is_copy)) and not replace:
        is_elsewhere = has_rows and not has_keys and connection.vendor == databases.POSTGRESQL
        where = f"the database {connection.settings_dict['NAME']}" if is_elsewhere else str(home)
        place = "database" if is_elsewhere else "home"
        raise BackupError(f"{where} holds a hub already: name an empty {place}, or say --replace to put it aside")
    for each in logs:
        _require_log(each)
    found = stack.enter_context(
        database_copy.opened(source, home) if key is None else opening.opened(source, key, beside=home)
    )
    _require_own_file(home)
    log, places = found.folder / revocation_log.NAME, _places(None if is_copy else source.parent)
    revocation_log.gather(log, [log, *(each / log.name for each in (home, *places)), *logs])
    url, name = stack.enter_context(_loaded(found))
    after = max((mark.number for each in (home, *places) if (mark := succession.read(each))), default=0)
    said = found.run("restore", found.manifest.time, "--inside=begin", f"--after={after}", database_url=url)
    moment = f"{clock.now():%Y%m%d-%H%M%S}"
    aside = f"before-restore-{moment}" if has_keys or has_rows else ""
    new = tuple(sorted(path.name for path in found.folder.iterdir() if path.name in _KNOWN))
    old = tuple(sorted(path.name for path in home.iterdir() if path.name in (_KNOWN_ASIDE if aside else _KNOWN)))
    uid = said.splitlines()[0]
    plan = home_swap.SwapPlan(found.folder.name, new, old, aside, incarnation=uid if name else "")
    with files.locked(home):
        connections.close_all()
        home_swap.write(home, plan)
        if name:
            try:
                databases.take_place(name, f"{connection.settings_dict['NAME']}_before_restore_{moment}")
            except BackupError:
                home_swap.discard(home, plan)
                raise
        home_swap.apply(home, plan)
    unmarked = _leave_marks(home, places)
    return RestoreResult(found.manifest, "\n".join(said.splitlines()[1:]), aside, unmarked)


_KNOWN = frozenset({*taking.HOME_FILES, databases.HUB_FILE, *SQLITE_LOGS, succession.NAME})
_KNOWN_ASIDE = _KNOWN | {f".{databases.HUB_FILE}-litestream"}  # what Litestream knows of the file that goes


def _places(folder: Path | None) -> tuple[Path, ...]:
    """Where an older hub looks for a newer one: the folder of the backup, and the one that the settings name."""
    return tuple(dict.fromkeys(filter(None, (folder, settings.OCMCONSOLE_BACKUP_PLACE))))


def _leave_marks(home: Path, places: Sequence[Path]) -> tuple[Path, ...]:
    """The places that took none. A served hub leaves its mark in that of the settings again."""
    mark, unmarked = succession.read(home), []
    for place in places:
        try:
            left = succession.read(place)
            if mark is not None and left is not None and left.hub != mark.hub:
                unmarked.append(place)
            elif mark is not None:
                succession.write(place, mark)
        except OSError:
            unmarked.append(place)
    return tuple(unmarked)


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """No server, worker, beat, backup or other restore uses the home. Raises BackupError."""
    with files.usage_lock(home) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupError(
                f"a hub serves from {home}, or a backup or another restore is under way there: stop it, or wait until "
                "it has ended"
            ) from error
        for left in home.glob(f"{opening.PREFIX}*/"):  # of one that was killed
            shutil.rmtree(left, ignore_errors=True)
        yield


def _require_log(file: Path) -> None:
    """A name with a slip would take away nothing again."""
    try:
        is_log = bool(revocation_log.parsed(file.read_text(encoding="utf-8", errors="replace").splitlines()))
    except OSError:
        is_log = False
    if not is_log:
        raise BackupError(f"{file} is no log of revocations: name a copy of {revocation_log.NAME}")


def _require_own_file(home: Path) -> None:
    if connection.vendor == databases.POSTGRESQL:
        return
    if Path(str(connection.settings_dict["NAME"])) != home / databases.HUB_FILE:
        raise BackupError(f"a restore writes {home / databases.HUB_FILE}: unset OCMCONSOLE_DATABASE_URL")


@contextmanager
def _loaded(found: OpenedArchive) -> Iterator[tuple[str, str]]:
    """URL and name of a new database with the archive's rows; both empty for the SQLite file in its folder."""
    is_sqlite = found.manifest.database == databases.SQLITE
    if is_sqlite:
        found.copy.rename(found.folder / databases.HUB_FILE)
    if connection.vendor == databases.SQLITE:
        if not is_sqlite:
            opening.require_present_tables(found)
            _carry(found)
            found.copy.unlink()
        yield "", ""
        return
    databases.drop_left("restore")
    with databases.scratch(f"{connection.settings_dict['NAME']}_restore_{secrets.token_hex(4)}") as name:
        url = databases.url_of(name)
        if is_sqlite:
            _carry(found, database_url=url)
            for left in (databases.HUB_FILE, *SQLITE_LOGS):
                (found.folder / left).unlink(missing_ok=True)
        else:
            databases.load_postgresql(found.copy, name)
        yield url, name


def _carry(found: OpenedArchive, database_url: str = "") -> None:
    """From one kind of database to the other, between tables of one version."""
    found.run("migrate", "--verbosity=0")
    found.run("restore", found.manifest.time, "--inside=carry", database_url=database_url)
