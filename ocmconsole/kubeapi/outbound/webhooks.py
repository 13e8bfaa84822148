"""A webhook as receiver: batches by POST, signed, taken when it answers with 2xx."""

from __future__ import annotations

import hashlib
from datetime import UTC, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.outbound import http_client
from ocmconsole.kubeapi.outbound.delivery import DeliveryError
from ocmconsole.kubeapi.outbound.signatures import signed_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocmconsole.kubeapi.outbound.delivery import OutboundLine
    from ocmconsole.kubeapi.outbound.http_client import HttpAnswer, Network

HEADERS = {"Content-Type": "application/json", "User-Agent": "ocmconsole"}


class Webhook:
    """``kind`` is the type of its messages. The same lines have the same ``webhook-id`` whenever they are sent."""

    def __init__(
        self, url: str, kind: str, secrets: Sequence[bytes], *, private: Sequence[Network] = (), ca_file: str = ""
    ) -> None:
        self._url, self._kind, self._secrets = url, kind, secrets
        self._private, self._ca_file = private, ca_file

    def deliver(self, lines: Sequence[OutboundLine]) -> None:
        time = lines[-1].time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        head = f'{{"type":"{self._kind}","timestamp":"{time}","data":[\n'.encode()
        body = head + b",\n".join(line.body for line in lines) + b"\n]}"
        message = hashlib.sha256(" ".join((self._kind, *(line.id for line in lines))).encode()).hexdigest()[:32]
        self.send(f"msg_{message}", body)

    def send(self, message: str, body: bytes) -> None:
        """Raises DeliveryError. ``message`` is the id by which the receiver knows one that it has seen."""
        signed = signed_headers(self._secrets, message, int(clock.now().timestamp()), body)
        answer = http_client.post(self._url, body, {**HEADERS, **signed}, private=self._private, ca_file=self._ca_file)
        if not answer.is_success:
            problem, is_final = f"it answered {answer.status}", is_refusal(answer.status)
            raise DeliveryError(problem, retry_after=_retry_after(answer), is_final=is_final)


def is_refusal(status: int) -> bool:
    """Of this message, for good: the class of HTTP says that the request is wrong, and two of it say later."""
    later = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
    return HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in later


def _retry_after(answer: HttpAnswer) -> timedelta | None:
    """Seconds; the form with a date is rare, and the hub's own pauses do as well."""
    text = answer.retry_after
    return timedelta(seconds=int(text)) if text.isascii() and text.isdecimal() and len(text) <= len("86400") else None
