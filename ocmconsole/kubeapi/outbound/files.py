"""A file as receiver: lines are appended and on the disk before the position moves.

Nothing that the file has is written twice in a row: what a killed process wrote is found by its last line. The file may
be moved away at any time; the next lines begin a new one.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import orjson

from ocmconsole.kubeapi.outbound.delivery import DeliveryError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ocmconsole.kubeapi.outbound.delivery import OutboundLine

TAIL = 1024 * 1024  # bytes of the end that are looked at; more than the longest line
OURS = b'{"type":"audit.'  # how each of our lines begins


class FileReceiver:
    """Readable by its owner only, when it is made."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def deliver(self, lines: Sequence[OutboundLine]) -> None:
        try:
            is_new = not self._path.exists()
            opened = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(opened, "r+b", buffering=0) as file:
                self._hold(file.fileno())
                last = self._last_id(file.fileno())
                ids = [line.id for line in lines]
                new = lines[ids.index(last) + 1 :] if last in ids else lines
                self._write_all(file.fileno(), b"".join(line.body + b"\n" for line in new))
                os.fsync(file.fileno())
            if is_new:
                self._keep_name()
        except OSError as error:
            raise DeliveryError(f"the file cannot be written: {error.strerror}") from error

    @staticmethod
    def _hold(file: int) -> None:
        """Until it is closed. What another writer has half written, as one that stood still does, is not cut off."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DeliveryError("the file cannot be written: another process or outlet writes it") from error

    @staticmethod
    def _last_id(file: int) -> str:
        """A half line at the end, of a killed process or a full disk, is taken off: it comes again."""
        size = os.fstat(file).st_size
        tail = os.pread(file, TAIL, max(0, size - TAIL))
        whole, end, rest = tail.rpartition(b"\n")
        if rest and (rest.startswith(OURS) or OURS.startswith(rest)):
            os.ftruncate(file, size - len(rest))
        elif rest:
            os.write(file, b"\n")
        try:
            return str(orjson.loads(whole.rpartition(b"\n")[2])["id"]) if end else ""
        except (orjson.JSONDecodeError, KeyError, TypeError):  # somebody else's line
            return ""

    @staticmethod
    def _write_all(file: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]

    def _keep_name(self) -> None:
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
