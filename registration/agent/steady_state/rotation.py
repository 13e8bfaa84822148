"""Rotation of the agent's certificate: a new key and certificate with a fifth to a quarter of the lifetime left (G25).

In: the present certificate. Out: the new one, kept. Called by ``serving``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from ..bootstrapping.certificate_requests import CertificateRequests, Issued
from ..client.clock import AgentClock
from ..equipment import Equipment
from ..keys import ClientCertificate

LEFT = (0.20, 0.25)  # of the lifetime, when a new certificate is asked for, as upstream
LOOK = 300.0  # seconds between looks at the clock, as upstream; a clock may be set


class Rotation:
    def __init__(
        self,
        certificate: ClientCertificate,
        requests: CertificateRequests,
        keep: Callable[[Issued], Awaitable[None]],
        equipment: Equipment,
        issued: datetime | None = None,
    ) -> None:
        """``issued`` is when it came, if this process saw it come."""
        self._certificate, self._requests, self._keep = certificate, requests, keep
        self._clock, self._log = equipment.clock, equipment.log
        lifetime = certificate.not_after - certificate.not_before
        self.due = certificate.not_after - lifetime * equipment.chance.uniform(*LEFT)
        if issued is not None:
            # Hubs antedate certificates by minutes: of a short one, that share is over when it comes.
            self.due = max(self.due, issued + (certificate.not_after - issued) / 2)

    async def run(self) -> None:
        """Returns when the next certificate is kept."""
        self._log.info(
            "the certificate ends at %s, its successor is asked for at %s",
            _text(self._certificate.not_after),
            _text(self.due),
        )
        await sleep_until(self.due, self._clock)
        await self._keep(await self._requests.obtain())


async def sleep_until(moment: datetime, clock: AgentClock) -> None:
    """By the clock, which may be set while one sleeps."""
    while (left := (moment - clock.now()).total_seconds()) > 0:  # noqa: ASYNC110 - a clock has no event
        await asyncio.sleep(min(left, LOOK))


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def rotation_words(certificate: ClientCertificate) -> str:
    """Of the condition ClusterCertificateRotated (G24), with times as Go prints them."""
    begin, end = (f"{moment:%Y-%m-%d %H:%M:%S} +0000 UTC" for moment in (certificate.not_before, certificate.not_after))
    return f"client certificate rotated starting from {begin} to {end}"
