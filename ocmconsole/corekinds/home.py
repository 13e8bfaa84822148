"""Files in the home: each is written whole or not at all, and by one process at a time.

Callers are the owners of keys: registration.ca and corekinds.identity.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Hold the home against other processes and threads. The directory itself is the lock: no file is left behind."""
    home.mkdir(parents=True, exist_ok=True)
    handle = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write(path: Path, content: bytes, *, secret: bool) -> None:
    """Replace a file so that a reader, or a machine that stops, sees the old content or the new, never a part."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o600 if secret else 0o644)
            file.write(content)
            file.flush()
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(directory: Path) -> None:
    """A rename survives a power cut only when the directory reached the disk too."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
