"""The archive: a compressed tar of flat files, of which ``manifest.json`` comes first and names all others.

Unpacking writes only files that the manifest names, each with the size and digest that it says; whatever else an
archive holds is refused with a ``BackupError``.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from ocmconsole.backup.encryption import BackupError
from ocmconsole.environment.installation import PROGRAM

FORMAT = 1  # of the archive; a version that cannot read it any more counts up
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 2**20  # bytes; one has some kilobytes
FASTEST = 1  # of gzip's nine levels: documents shrink to a fifth with it, and to a seventh with the slowest
PIECE = 2**20  # bytes that are read at once


@dataclass(frozen=True)
class Member:
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What an archive is. ``time`` is UTC, ``revision`` the newest of the database, ``incarnation`` its id.

    ``key_places`` are URIs of CA keys that the hub has not, and the archive neither.
    """

    format: int
    version: str
    database: str
    incarnation: str
    revision: int
    time: str
    migrations: tuple[str, ...]
    settings: Mapping[str, str]
    members: Mapping[str, Member]
    key_places: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: bytes) -> Manifest:
        """Raises ValueError, KeyError or TypeError for what is no manifest, BackupError for one of a newer version."""
        values: dict[str, Any] = json.loads(text)
        if int(values["format"]) > FORMAT:
            raise BackupError(
                f"the backup was made by ocmconsole {values.get('version')}, which is newer than this one "
                f"({product_version()}): install that version and try again"
            )
        members = {name: Member(**member) for name, member in values.pop("members").items()}
        lists = {name: tuple(values.get(name, ())) for name in ("migrations", "key_places")}
        return cls(**{**values, **lists, "members": members})


def product_version() -> str:
    """Of the installed distribution, else the newest that the changelog of the checkout names."""
    try:
        return metadata.version("ocmconsole")
    except metadata.PackageNotFoundError:
        changelog = Path(__file__).resolve().parents[2] / "CHANGELOG.md"
        released = (line for line in changelog.read_text(encoding="utf-8").splitlines() if line.startswith("## [0"))
        return next(released, "## [unknown]").partition("[")[2].partition("]")[0]


def member_of(path: Path) -> Member:
    with path.open("rb") as file:
        return Member(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def pack(target: Path, manifest: Manifest, files: Mapping[str, Path]) -> None:
    text = json.dumps(asdict(manifest), indent=1, sort_keys=True).encode()
    with tarfile.open(target, "w:gz", compresslevel=FASTEST, format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(_entry(MANIFEST, len(text)), io.BytesIO(text))
        for name, path in files.items():
            with path.open("rb") as file:
                tar.addfile(_entry(name, manifest.members[name].size), file)


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry


def require_room(folder: Path, wanted: int) -> None:
    """Raises BackupError rather than fill the disk of a hub that goes on. ``wanted`` in bytes."""
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise BackupError(
            f"{folder} has {free // 2**20:,} MiB left and a backup may need {wanted // 2**20:,}: make room there"
        )


def unpack(source: Path, folder: Path, shown: Path, *, reserve: int = 0) -> Manifest:
    """Write the members into a folder; ``shown`` is what the archive is called. Raises BackupError.

    ``reserve``: bytes that must stay free there, or else nothing is written.
    """
    damaged = BackupError(f"{shown} is damaged: take another copy of it, or an older backup")
    foreign = BackupError(f"{shown} is no backup of a hub: name a file that {PROGRAM} backup has written")
    try:
        with tarfile.open(source, "r:gz") as tar:
            first = tar.next()
            if first is None or first.name != MANIFEST or not first.isreg() or first.size > LARGEST_MANIFEST:
                raise foreign
            manifest = Manifest.read(_content(tar, first).read())
            left = dict(manifest.members)
            require_room(folder, reserve + sum(member.size for member in left.values()))
            while entry := tar.next():
                expected = left.pop(entry.name, None)
                if expected is None or not entry.isreg() or "/" in entry.name or entry.name.startswith("."):
                    raise foreign
                _write(_content(tar, entry), folder / entry.name)
                if member_of(folder / entry.name) != expected:
                    raise damaged
            if left:
                raise damaged
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise damaged if "manifest" in locals() else foreign from error
    except (ValueError, KeyError, TypeError) as error:
        raise foreign from error
    except OSError as error:
        if not error.errno:
            raise damaged from error
        raise BackupError(f"{folder.parent} cannot be written ({error.strerror}): make room and try again") from error
    return manifest


def _content(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> Any:
    content = tar.extractfile(entry)
    assert content is not None
    return content


def _write(content: Any, path: Path) -> None:
    with path.open("xb") as file:
        path.chmod(0o600)
        while piece := content.read(PIECE):
            file.write(piece)
