"""A process that hands one message to a chat service by Apprise: an order as JSON on stdin, an answer on stdout.

Invariants: it connects to no address that the hub may not ask, judged as the address of each connection, so that a
name that means something else a moment later and a redirect lead nowhere else; it opens no file but those of Python
and of its CAs, whatever the URL names, and starts no program. Hooks of the interpreter (PEP 578) see to that, which
cannot be taken off; so this is a process and not a thread of the hub. Run by ``chat``.
"""

from __future__ import annotations

import json
import logging
import mimetypes
import os
import re
import ssl
import sys
import sysconfig
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocmconsole.kubeapi.outbound import http_client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apprise import NotifyBase

    from ocmconsole.kubeapi.outbound.http_client import Network

CONNECTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"}
# Of services that are on the machine of the hub, or a receiver of logs.
LOCAL = {"syslog", "rsyslog", "dbus", "kde", "qt", "glib", "gnome", "macosx", "windows", "blink1"}
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
STATUS = re.compile(r"\berror=(\d{3})\b")  # as each service logs what it was answered
Answer = dict[str, Any]


class Guard:
    """``refused`` says whether an address was."""

    def __init__(self, private: Sequence[Network], ca_file: str) -> None:
        self.refused = False
        self._private = private
        ours = Path(__file__).resolve().parents[1]
        paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        trust = ssl.get_default_verify_paths()
        found = [*paths, *sys.path[1:], trust.cafile, trust.capath, ca_file, *mimetypes.knownfiles, os.devnull]
        self._readable = tuple(str(Path(path).resolve()) for path in found if path and path != str(ours.parent))
        self._readable += (str(ours), "/usr/share/zoneinfo")

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in CONNECTS:
            self._judge(arguments[1])
        elif event in PROGRAMS:
            raise PermissionError("a chat service starts no program")
        elif event == "open" and not isinstance(arguments[0], int):
            self._look(arguments[0])

    def _judge(self, place: object) -> None:
        """A name is never connected to: who resolves it must do so before, and is judged by what was found."""
        try:
            address = ip_address(str(place[0]).partition("%")[0]) if isinstance(place, tuple) else None
        except ValueError:
            address = None
        if address is None or not http_client.is_allowed(address, self._private):
            self.refused = True
            raise PermissionError("its address is private")

    def _look(self, path: object) -> None:
        shown = os.path.realpath(os.fsdecode(path))  # type: ignore[arg-type] # a text, bytes or a path
        if not any(shown == root or shown.startswith(f"{root}{os.sep}") for root in self._readable):
            raise PermissionError("a chat service reads no file of the hub")


class Statuses(logging.Handler):
    """The status of HTTP that the service was answered with last; what it said beside is not kept."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.last = 0

    def emit(self, record: logging.LogRecord) -> None:
        if found := STATUS.search(record.getMessage()):
            self.last = int(found[1])


def answer_to(order: dict[str, Any]) -> Answer:
    """``problem`` is empty when the service has taken it, or would be asked."""
    guard = Guard([ip_network(each) for each in order["private"]], order["ca_file"])
    sys.addaudithook(guard)
    import apprise  # noqa: PLC0415 - behind the guard

    statuses = Statuses()
    logger = logging.getLogger("apprise")
    logger.addHandler(statuses)
    logger.propagate = False
    asset = apprise.AppriseAsset(
        app_id="ocmconsole",
        app_desc="Open Cluster Management",
        storage_mode="memory",
        async_mode=False,
        allow_templates=False,  # which are files
    )
    target = apprise.Apprise.instantiate(order["url"], asset=asset)
    if (problem := _flaw(target, order["url"])) or target is None:
        return {"problem": problem, "is_final": False}
    if "title" not in order:
        return {"problem": "", "is_final": False}
    service = apprise.Apprise(asset=asset)
    service.add(target)
    is_taken = service.notify(order["body"], order["title"], apprise.NotifyType(order["type"]), body_format="text")
    return {"problem": "" if is_taken else _problem(guard, statuses.last), "status": statuses.last}


def _flaw(target: NotifyBase | None, url: str) -> str:
    """Why the hub does not use this address."""
    schema, _, rest = url.partition("://")
    schema = schema.lower()
    if schema in LOCAL:
        return "it must be a service elsewhere"
    if target is None:
        return "Apprise knows no service with such an address"
    secure = _texts(target.secure_protocol)
    host = re.split(r"[/?#]", rest.rpartition("@")[2] or rest)[0]
    if schema in _texts(target.protocol) and schema not in secure and not _is_loopback(host):
        return f"it would be sent without TLS: write {secure[0]}://" if secure else "it would be sent without TLS"
    if not target.verify_certificate:
        return "certificates are always verified: leave verify away"
    return ""


def _texts(found: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (found,) if isinstance(found, str) else tuple(found or ())


def _is_loopback(host: str) -> bool:
    return host in LOOPBACK or host.rpartition(":")[0].strip("[]") in LOOPBACK


def _problem(guard: Guard, status: int) -> str:
    if guard.refused:
        return "its address is private, and OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES does not allow it"
    return f"it answered {status}" if status else "the service was not reached, or does not take it"


def main() -> None:
    order = json.load(sys.stdin)
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a service that prints says nothing to the hub
    os.write(answers, json.dumps(answer_to(order)).encode())


if __name__ == "__main__":
    main()
