"""An archive as a home again, in a scratch folder: opened, its digests compared, its database loaded and checked.

``opened`` is where ``backup --verify`` ends and where a restore begins.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from ocmconsole.backup import archive, databases, encryption, taking
from ocmconsole.backup.archive import Manifest
from ocmconsole.backup.encryption import BackupError, BackupKey

PREFIX = ".restore-"
PACKAGES = ("ocmconsole", "clusters", "clustersets", "placements", "registration")


@dataclass(frozen=True)
class OpenedArchive:
    """What an archive holds: files as in a home, and the copy of the database under its name in the archive."""

    folder: Path
    manifest: Manifest

    @property
    def copy(self) -> Path:
        return self.folder / databases.FILES[self.manifest.database]

    def run(self, *command: str, database_url: str = "") -> str:
        """Output of a manage.py command with this folder as its home. Raises BackupError with what it said."""
        environment = {name: value for name, value in os.environ.items() if name != "OCMCONSOLE_DATABASE_URL_FILE"}
        environment |= {
            "OCMCONSOLE_HOME": str(self.folder),
            "OCMCONSOLE_DATABASE_URL": database_url,
            "OCMCONSOLE_REDIS_URL": "",
            "OCMCONSOLE_CONTROLLERS": "inline",
            "DJANGO_SETTINGS_MODULE": "ocmconsole.settings",
        }
        done = subprocess.run(  # noqa: S603 - its arguments are ours
            [sys.executable, "-m", "django", *command],
            cwd=settings.ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = " ".join((done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-3:])
            raise BackupError(said.removeprefix("CommandError: "))
        return done.stdout


@contextmanager
def opened(source: Path, key: BackupKey, *, beside: Path, reserve: int = 0) -> Iterator[OpenedArchive]:
    """Decrypt and unpack into a folder of this process, which is gone afterwards unless it was moved.

    ``beside``: in which folder it is made; ``reserve``: bytes that must stay free there. Raises BackupError.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=beside))
    except OSError as error:
        raise BackupError(f"{beside} cannot be written ({error.strerror}): see to that and try again") from error
    try:
        plain = folder / ".archive"
        encryption.decrypt(source, plain, key)
        manifest = archive.unpack(plain, folder, source, reserve=reserve)
        plain.unlink()
        found = OpenedArchive(folder, manifest)
        require_known(found, source)
        yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def require_known(found: OpenedArchive, source: Path) -> None:
    """The archive holds what its manifest says of the database, and nothing that this version does not know."""
    if found.manifest.database not in databases.FILES or not found.copy.exists():
        raise BackupError(
            f"{source} holds no database that this version knows: install the newest version of ocmconsole"
        )
    known = {".".join(each) for each in MigrationLoader(None).disk_migrations}
    strange = [name for name in found.manifest.migrations if name not in known and _is_ours(name)]
    if strange:
        version = found.manifest.version
        maker = (
            f"the backup was made by ocmconsole {version}, which" if version else f"the ocmconsole that wrote {source}"
        )
        raise BackupError(
            f"{maker} knows {strange[0]} and is newer than this one ({archive.product_version()}): install that "
            "version and try again"
        )


def require_present_tables(found: OpenedArchive) -> None:
    """The rows of a dump fit into the tables of this version. Raises BackupError."""
    loader = MigrationLoader(None)
    missing = [".".join(each) for each in loader.disk_migrations if ".".join(each) not in found.manifest.migrations]
    if older := [name for name in missing if _is_ours(name)]:
        raise BackupError(
            f"the backup was made by ocmconsole {found.manifest.version}, which is older and lacks {older[0]}: "
            "restore it onto PostgreSQL with this version, and take another backup there"
        )


def _is_ours(migration: str) -> bool:
    """Other apps, such as a provider's, may be installed or not."""
    label = migration.partition(".")[0]
    return any(app.label == label and app.name.partition(".")[0] in PACKAGES for app in apps.get_app_configs())


def verify(source: Path, key: BackupKey) -> Manifest:
    """Restore an archive where nobody sees it and check it. Raises BackupError.

    In the home, because the folder of temporary files may be one in memory that others share.
    """
    home, reserve = Path(settings.OCMCONSOLE_HOME), settings.OCMCONSOLE_DISK_RESERVE
    try:
        with taking.scratch(home) as folder, ExitStack() as stack:
            if source.is_file():
                archive.require_room(folder, reserve + source.stat().st_size)
            found = stack.enter_context(opened(source, key, beside=folder, reserve=reserve))
            url = stack.enter_context(_loaded(found))
            found.run("restore", found.manifest.time, "--inside=check", database_url=url)
    except OSError as error:
        place = error.filename or home
        raise BackupError(f"{place} cannot be written ({error.strerror or error}): make room and try again") from error
    return found.manifest


@contextmanager
def _loaded(found: OpenedArchive) -> Iterator[str]:
    """URL of a database with the archive's rows; empty for an SQLite file in its folder."""
    if found.manifest.database == databases.SQLITE:
        found.copy.rename(found.folder / databases.HUB_FILE)
        yield ""
        return
    if connection.vendor != databases.POSTGRESQL:
        raise BackupError(
            "the backup is of a hub on PostgreSQL: set OCMCONSOLE_DATABASE_URL to a server on which it can be tried"
        )
    with databases.scratch(f"ocmconsole_verify_{secrets.token_hex(4)}") as name:
        databases.load_postgresql(found.copy, name)
        yield databases.url_of(name)
