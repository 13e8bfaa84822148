"""Files in the home: each is written whole or not at all, by one process at a time, and only its owner may read it.

Callers are the owners of keys, registration.pki.ca and core.tokens.token_formats, and ``ocmconsole.settings`` and
``ocmconsole.apps`` when a process starts.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

log = logging.getLogger(__name__)

OTHERS = 0o077  # every bit of a mode that is not the owner's
ROOT_UID = 0  # of the user that may read and write everything
IN_USE = ".in-use"
PUBLIC = ".crt"  # certificates: a proxy of another user may have to read them


class HomeError(Exception):
    """The home cannot be used now."""


def refuse_root(home: Path) -> None:
    """Raises HomeError for root in the home of somebody else: what it writes there, the servers could not read."""
    try:
        owner = home.stat().st_uid
    except FileNotFoundError:
        return  # it will be root's
    if os.geteuid() == ROOT_UID and owner != ROOT_UID:
        raise HomeError(
            f"the home {home} belongs to {_user(owner)}: run this as that user, because the hub could not read what "
            "root writes there"
        )


def _user(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:  # of a container
        return f"the user {uid}"


def protect(home: Path, *elsewhere: Path) -> None:
    """Make the home readable by its owner only: the umask of this process, and the modes of what is there already.

    ``elsewhere`` are secret files that may lie outside of the home, such as the database. Each repair is a warning in
    the log; so is a mode that cannot be repaired because the file belongs to another user. Links are not followed in
    the home; sockets keep their mode, which ``serving`` decides.
    """
    os.umask(OTHERS)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in (home, *sorted(home.iterdir()), *(each.resolve() for each in elsewhere)):
        if path.suffix != PUBLIC:
            _repair(path)


def _repair(path: Path) -> None:
    try:
        before = path.lstat().st_mode
        if before & OTHERS and (stat.S_ISREG(before) or stat.S_ISDIR(before)):
            after = stat.S_IMODE(before) & ~OTHERS
            path.chmod(after)
            log.warning(
                "%s was open to other users (mode %03o); its mode is %03o now", path, stat.S_IMODE(before), after
            )
    except FileNotFoundError:
        pass  # a file of another process, renamed or removed meanwhile
    except OSError as error:
        log.warning("%s is open to other users and its mode cannot be changed: %s", path, error)


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Hold the home against other processes and threads. The directory itself is the lock: no file is left behind."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def usage_lock(home: Path) -> Iterator[int]:
    """A file that servers, workers, beats and backups hold shared while they live, and a restore holds alone."""
    handle = os.open(home / IN_USE, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def occupy(home: Path) -> None:
    """Hold the home against a restore until this process ends. Doing it again changes nothing.

    Raises HomeError while one is under way.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _held:
        return
    handle = os.open(home / IN_USE, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise HomeError(f"a restore into {home} is under way: start the hub when it has ended") from error
    _held.append(handle)


_held: list[int] = []


def write_file(path: Path, content: bytes, *, secret: bool) -> None:
    """Replace a file so that a reader, or a machine that stops, sees the old content or the new, never a part."""
    with replacing(path, secret=secret) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, *, secret: bool) -> Iterator[IO[bytes]]:
    """As ``write_file``, for content that comes in pieces: the file is in its place when the block ends well.

    Raises OSError, also for what is no file: a device, or ``/dev/stdout``, would be lost to the whole machine.
    """
    if (path.exists() and not path.is_file()) or (path.is_symlink() and str(path.readlink()).startswith("/proc/")):
        raise OSError(errno.EINVAL, "it is no file that can be replaced")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o600 if secret else 0o644)
            yield file
            file.flush()
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(directory: Path) -> None:
    """A rename survives a power cut only when the directory reached the disk too."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
