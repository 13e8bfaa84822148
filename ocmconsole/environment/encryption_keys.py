"""``encryption-keys`` in the home: the keys of what the database holds encrypted, a line for each, the newest first.

Invariant: a file that was read once is not forgotten while it is missing or damaged, so that a hub goes on until
somebody has put it back; the file is replaced whole. Servers notice a replaced one at the next text.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from ocmconsole.environment import home as files
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.encryption.stored_text import DataKey

NAME = "encryption-keys"
LENGTH = 32  # bytes of a key
PARTS = 3  # of a line: id, key, when it was made


class KeyFile:
    """The source of keys of a process."""

    def __init__(self, home: Path) -> None:
        self._path = home / NAME
        self._seen: tuple[int, ...] = ()
        self._keys: tuple[DataKey, ...] = ()

    def keys(self) -> tuple[DataKey, ...]:
        """None where there was never a file. Raises Unreadable for one that is damaged."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return self._keys
        seen = found.st_mtime_ns, found.st_ino, found.st_size
        if seen != self._seen:
            self._keys, self._seen = _read(self._path), seen
        return self._keys

    def make_first(self) -> None:
        """Another process may have made it meanwhile."""
        with files.locked(self._path.parent):
            if not self._path.exists():
                self._write([_new_line()])

    def add(self) -> None:
        """A new key encrypts from now on; the others still decrypt."""
        with files.locked(self._path.parent):
            self._write([_new_line(), *_lines(self._path)])

    def forget(self, names: Collection[str]) -> None:
        """The caller has made sure that nothing is encrypted with them."""
        with files.locked(self._path.parent):
            self._write([line for line in _lines(self._path) if line.partition(" ")[0] not in names])

    def _write(self, lines: list[str]) -> None:
        files.write_file(self._path, "".join(f"{line}\n" for line in lines).encode(), secret=True)


def _new_line() -> str:
    key = base64.b64encode(secrets.token_bytes(LENGTH)).decode()
    return f"{secrets.token_hex(stored_text.ID_LENGTH // 2)} {key} {clock.now():%Y-%m-%dT%H:%M:%SZ}"


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="ascii").splitlines() if line.strip()]


def _read(path: Path) -> tuple[DataKey, ...]:
    try:
        found = tuple(_key(line) for line in _lines(path))
    except OSError as error:
        raise stored_text.Unreadable(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, binascii.Error) as error:
        raise _damaged(path) from error
    if not found:
        raise _damaged(path)
    return found


def _damaged(path: Path) -> stored_text.Unreadable:
    return stored_text.Unreadable(f"{path} is damaged: put it back from a copy of the home or a backup that has it")


def _key(line: str) -> DataKey:
    parts = line.split()
    if len(parts) != PARTS or len(parts[0]) != stored_text.ID_LENGTH:
        raise ValueError(line[: stored_text.ID_LENGTH])
    made = datetime.strptime(parts[2], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return DataKey.of(parts[0], made, base64.b64decode(parts[1], validate=True))
