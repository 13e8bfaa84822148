"""The process of ``preloaded`` that has imported the libraries: a program that a test starts is a fork of it.

Run with the number of a socket, over which each message has a program's arguments, folder and environment, and its three
standard streams. The answer is the number of the process, which the one that asks adopts: it is a subreaper then.
A program of this checkout that sets Django up is a fork of another process, which has imported the project too.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from pathlib import Path
from typing import Any

MOST = 1 << 17  # bytes of a message, which holds an environment
MOST_OPEN = 64  # file numbers of this process
LIBRARIES = (
    "asgiref.sync",
    "celery.app.base",
    "celery.bin.celery",
    "cel_expr_python.cel",
    "cryptography.fernet",
    "cryptography.x509",
    "dj_database_url",
    "django.contrib.sessions.serializers",
    "django.core.management.base",
    "django.core.servers.basehttp",
    "django.db.backends.postgresql.base",
    "django.db.backends.sqlite3.base",
    "django.db.migrations.executor",
    "django.forms",
    "django.template.defaulttags",
    "django.test.client",
    "django.urls",
    "django.views.generic",
    "django_stubs_ext",
    "fido2.webauthn",
    "google.protobuf.descriptor_pb2",
    "httpx",
    "jwt",
    "kombu.transport.redis",
    "orjson",
    "prometheus_client",
    "psycopg",
    "redis",
    "structlog",
    "uvicorn.protocols.http.httptools_impl",
    "yaml",
)


def _serve(channel: socket.socket, *, is_prepared: bool = False) -> list[str]:
    """Returns the arguments in each process that is to become a program; ends where nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    project: socket.socket | None = None
    while True:
        request, streams, _, _ = socket.recv_fds(channel, MOST, 3)
        if not request:
            os._exit(0)
        if is_prepared or not json.loads(request)["is_of_project"]:
            if answer := _forked():
                channel.send(answer)
            else:
                return _become(json.loads(request), streams, is_prepared=is_prepared)
        else:
            if project is None:
                project, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if os.fork() == 0:
                    os.closerange(3, theirs.fileno())
                    return _serve_prepared(theirs)
                theirs.close()
            socket.send_fds(project, [request], streams)
            channel.send(project.recv(MOST))
        for each in streams:
            os.close(each)


def _forked() -> bytes:
    """The number of the new process; nothing in that process."""
    reading, writing = os.pipe()
    if (between := os.fork()) == 0:  # when it ends, its child is the test's
        if (number := os.fork()) == 0:
            return b""
        os.write(writing, str(number).encode())
        os._exit(0)
    os.waitpid(between, 0)
    answer = os.read(reading, 20)
    for each in (reading, writing):
        os.close(each)
    return answer


def _serve_prepared(channel: socket.socket) -> list[str]:
    sys.path[0] = str(Path.cwd())
    from tests import prepared  # later: the folder of this file has modules that are named as libraries

    prepared.prepare()
    gc.collect()
    gc.freeze()
    return _serve(channel, is_prepared=True)


def _become(program: dict[str, Any], streams: list[int], *, is_prepared: bool) -> list[str]:
    if program["new_session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, MOST_OPEN)
    os.chdir(program["cwd"])
    os.environ.clear()
    os.environ.update(program["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    argv: list[str] = program["argv"]
    if is_prepared:
        from tests import prepared

        prepared.rewind(argv, program["env"])
    return argv


def _main() -> None:
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    argv = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.path[0] = str(Path.cwd())
    if argv[0] == "-m":
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = argv
        runpy.run_path(argv[0], run_name="__main__")


if __name__ == "__main__":
    _main()
