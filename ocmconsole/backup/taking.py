"""``manage.py backup FILE``: a copy of database and home in one encrypted file, beside a hub that goes on.

The file is there whole or not at all. What is not encrypted lies in ``.backup`` in the home, which belongs to one
backup at a time, or to one that is tried out (``opening``), and is emptied by the next one after a crash.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connection

from ocmconsole.backup import archive, databases, encryption
from ocmconsole.backup.encryption import BackupError, BackupKey
from ocmconsole.environment import home as files
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.health import outages
from registration.pki import ca

if TYPE_CHECKING:
    from ocmconsole.backup.archive import Manifest

# What a home holds besides the database and what each start makes anew. Not all of it is in every home.
HOME_FILES = (
    "ca.crt", "ca.key", "client-ca.crt", "client-ca.key", "sa.key", "serving.crt", "serving.key",
    "secret-key", "audit-key", "encryption-keys", "admin-password", "admin.kubeconfig", "revocations.log",
)  # fmt: skip
NEEDED = ("ca.crt", "ca.key", "audit-key")  # a home without them is no hub's
SCRATCH = ".backup"
PREFIX = "OCMCONSOLE_"
# Settings whose values are not kept: they belong to a machine, or open what is outside of the hub.
NOT_KEPT = (
    "DATABASE_URL", "REDIS_URL", "BACKUP_PASSPHRASE", "_PASSWORD", "SECRET", "AUDIT_WEBHOOK", "ANCHOR_WEBHOOK",
    "_PIN", "_FILE", "_HEADERS",
)  # fmt: skip
COPIES = 3  # of the database, at most: the copy, what is packed of it, and the archive


def take_backup(target: Path, key: BackupKey) -> Manifest:
    """Write the archive; an older file of that name is replaced. Raises BackupError, and then that is untouched."""
    home = Path(settings.OCMCONSOLE_HOME)
    missing = [name for name in NEEDED if not (home / name).exists()]
    if missing:
        raise BackupError(
            f"the home {home} holds no hub ({missing[0]} is missing): set OCMCONSOLE_HOME to one that does"
        )
    if not target.parent.is_dir() or target.is_dir():
        raise BackupError(f"{target} cannot be written: name a file in a folder that is there")
    try:
        with scratch(home) as folder:
            for place in {home, target.parent}:
                archive.require_room(place, COPIES * databases.size() + settings.OCMCONSOLE_DISK_RESERVE)
            copy, moment = folder / databases.FILES[connection.vendor], clock.now()
            facts = databases.copy(copy)
            # After the database: keys of a later moment open what is in it, those of an earlier one need not.
            members = {copy.name: copy} | {path.name: path for path in copy_files(home, folder)}
            manifest = archive.Manifest(
                format=archive.FORMAT,
                version=archive.product_version(),
                database=connection.vendor,
                incarnation=facts.incarnation,
                revision=facts.revision,
                time=f"{moment:%Y-%m-%dT%H:%M:%SZ}",
                migrations=facts.migrations,
                settings=kept_settings(os.environ),
                members={name: archive.member_of(path) for name, path in members.items()},
                key_places=tuple(ca.key_places(folder)),
            )
            archive.pack(folder / "archive", manifest, members)
            with files.replacing(target, secret=True) as file:
                encryption.encrypt(folder / "archive", file, key)
    except DatabaseFailure as error:
        raise BackupError(f"the database cannot be read: {outages.operator_line(error)}") from error
    except OSError as error:
        place = error.filename or target.parent
        raise BackupError(
            f"{place} cannot be written ({error.strerror or error}): see to that and try again"
        ) from error
    return manifest


def copy_files(home: Path, folder: Path) -> list[Path]:
    """What the home holds besides the database, as of one moment: no step of a rotation lies in between."""
    with files.locked(home):
        return [Path(shutil.copy(home / name, folder / name)) for name in HOME_FILES if (home / name).exists()]


def kept_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What was set for the hub and matters for another one in its place."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(PREFIX) and not any(part in name for part in NOT_KEPT)
    }


@contextmanager
def no_backup() -> Iterator[None]:
    """No backup of this home runs meanwhile: it needs the keys of its copy of the database. Raises BackupError."""
    with scratch(Path(settings.OCMCONSOLE_HOME), "a backup"):
        yield


@contextmanager
def scratch(home: Path, other: str = "another backup") -> Iterator[Path]:
    """A folder for one backup at a time, empty before and gone afterwards; no restore runs there meanwhile.

    Raises BackupError.
    """
    folder = home / SCRATCH
    with files.usage_lock(home) as usage:
        try:
            fcntl.flock(usage, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupError(f"a restore into {home} is under way: wait until it has ended") from error
        yield from _alone(folder, other)


def _alone(folder: Path, other: str) -> Iterator[Path]:
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupError(f"{other} of this hub is under way: wait until it has ended") from error
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)
