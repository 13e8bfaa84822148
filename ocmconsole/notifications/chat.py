"""Chat services by Apprise, an optional package: each message by a process of its own (``chat_process``).

The address, which is a secret, goes to it by a pipe, and no variable of the hub's environment does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings

from ocmconsole.kubeapi.outbound.delivery import DeliveryError
from ocmconsole.kubeapi.outbound.webhooks import is_refusal
from ocmconsole.models import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocmconsole.kubeapi.outbound.delivery import OutboundLine

SECONDS = 30.0  # for a message: less than a claim lasts
MOST_AT_ONCE = 4  # D23: processes of one process of the hub; each takes some 55 MiB
WAIT_SECONDS = 10.0  # for the others: with the message itself less than a claim lasts
MISSING = "Apprise is not installed: pip install 'ocmconsole[chat]'"
ROOT = Path(__file__).resolve().parents[2]  # from where the process finds the hub's modules
KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")  # of the environment
_slots = threading.BoundedSemaphore(MOST_AT_ONCE)
TYPES = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.CRITICAL: "failure"}


def is_installed() -> bool:
    return find_spec("apprise") is not None


def flaw_of(url: str) -> str:
    """Why this is no address to which the hub sends; empty for none. Asks nobody."""
    try:
        return str(_ask({"url": url})["problem"])
    except DeliveryError as error:
        return str(error)


class ChatReceiver:
    def __init__(self, url: str) -> None:
        self._url = url

    def deliver(self, lines: Sequence[OutboundLine]) -> None:
        for line in lines:
            data = orjson.loads(line.body)["data"]
            text = "\n".join(filter(None, (data["detail"], data["url"], f"Severity: {data['severity']}")))
            kind = TYPES[Severity[data["severity"].upper()]]
            answer = _ask({"url": self._url, "title": f"[{data['hub']}] {data['text']}", "body": text, "type": kind})
            if answer["problem"]:
                raise DeliveryError(answer["problem"], is_final=is_refusal(answer.get("status", 0)))


def _ask(order: dict[str, Any]) -> dict[str, Any]:
    """Raises DeliveryError where there is no answer."""
    if not is_installed():
        raise DeliveryError(MISSING)
    if not _slots.acquire(timeout=WAIT_SECONDS):
        raise DeliveryError("messages of other channels are being sent")
    try:
        return _run(order)
    finally:
        _slots.release()


def _run(order: dict[str, Any]) -> dict[str, Any]:
    ca_file = settings.OCMCONSOLE_WEBHOOK_CA_FILE
    private = [str(network) for network in settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES]
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"REQUESTS_CA_BUNDLE": ca_file} if ca_file else {}
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-m", "ocmconsole.notifications.chat_process"],
            input=orjson.dumps({**order, "private": private, "ca_file": ca_file}),
            capture_output=True,
            cwd=ROOT,
            env=environment,
            timeout=SECONDS,
            check=True,
        )
        answer: dict[str, Any] = orjson.loads(done.stdout)
    except subprocess.TimeoutExpired as error:
        raise DeliveryError(f"no answer within {SECONDS:.0f} s") from error
    except (subprocess.CalledProcessError, orjson.JSONDecodeError) as error:
        raise DeliveryError("Apprise failed") from error
    return answer
