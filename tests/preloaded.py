"""Programs of the project that tests start: forked from a process of the worker that has imported the libraries already.

To import them is half of what a command costs: 0.3 s of CPU time. Another 0.5 s are the project's own modules, which
``prepared`` keeps. ``FULL=1`` starts each as anybody would, and so does everything that is not as expected; what is
measured is started so too (``is_used``).
"""

from __future__ import annotations

import atexit
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, AnyStr

from tests import importer, selection

ROOT = Path(__file__).resolve().parent.parent
SET_CHILD_SUBREAPER = 36  # of prctl: orphans among the descendants become children of this process
PARAMETERS = (
    "self", "args", "executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env", "startupinfo", "creationflags",
    "shell", "p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite", "restore_signals", "gid", "gids",
    "uid", "umask", "start_new_session", "process_group",
)  # fmt: skip
# Programs of tests that set Django up.
OF_TESTS = {"tests.crash.again", "tests.watch.impatient"}
# What is read before a program begins is as it was for the process that imports.
EARLY_VARIABLES = ("LD_", "MALLOC_", "OPENSSL_", "PYTHON")

# False where programs are measured: a fork shares memory with its parent, and copies each page that it touches.
is_used = not selection.FULL


def _is_as_expected() -> bool:
    """Of CPython, whose own method is overridden here."""
    method = getattr(subprocess.Popen, "_execute_child", None)
    return sys.platform == "linux" and method is not None and tuple(inspect.signature(method).parameters) == PARAMETERS


class Popen(subprocess.Popen[AnyStr]):
    """As ``subprocess.Popen``; a Python program of the project begins with its libraries imported."""

    def _execute_child(self, *arguments: Any) -> None:
        given = dict(zip(PARAMETERS[1:], arguments, strict=True))
        if not _can_be_forked(given):
            super()._execute_child(*arguments)  # type: ignore[misc] # CPython's own, as of PARAMETERS
            return
        streams = [
            given[name] if given[name] != -1 else number
            for number, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        self.pid = _importer.fork(
            {
                "argv": [os.fspath(each) for each in given["args"][1:]],
                "cwd": os.fspath(given["cwd"] or Path.cwd()),
                "env": dict(os.environ if given["env"] is None else given["env"]),
                "new_session": given["start_new_session"],
                "is_of_project": _is_of_project(given),
            },
            streams,
        )
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[each] for each in pipes))  # type: ignore[attr-defined] # as above


def run(command: list[str], *, timeout: float | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run`` with ``capture_output`` and ``text``."""
    with Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as process:
        try:
            said, complained = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, said, complained)


def _can_be_forked(given: dict[str, Any]) -> bool:
    command = given["args"]
    if not is_used or not _is_as_expected():
        return False
    if given["preexec_fn"] or given["pass_fds"] or given["uid"] is not None or not isinstance(command, list | tuple):
        return False
    if command[0] != sys.executable or len(command) < 2 or not (command[1] == "-m" or command[1].endswith(".py")):
        return False
    early = ({name: value for name, value in each.items() if name.startswith(EARLY_VARIABLES)}
             for each in (given["env"] or os.environ, os.environ))  # fmt: skip
    return next(early) == next(early)


def _is_of_project(given: dict[str, Any]) -> bool:
    """Of this checkout, and with Django: agents of ours have none."""
    first, second = [os.fspath(each) for each in (*given["args"][1:3], "")][:2]
    return given["cwd"] == ROOT and (first == "manage.py" or (first, second) == ("-m", "celery") or second in OF_TESTS)


class _Importer:
    """The process that has imported the libraries; started when it is needed, it ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._prctl = ctypes.CDLL(None).prctl

    def fork(self, program: dict[str, Any], streams: list[int]) -> int:
        """The number of a new child of this process that runs the program."""
        with self._lock:
            channel = self._channel = self._channel or self._started()
            self._prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(channel, [json.dumps(program).encode()], streams)
                return int(channel.recv(importer.MOST))
            finally:
                self._prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    @staticmethod
    def _started() -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            process = subprocess.Popen(
                [sys.executable, importer.__file__, str(number)],
                pass_fds=(number,),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

        def end() -> None:
            ours.close()
            process.wait()

        atexit.register(end)
        return ours


_importer = _Importer()
