"""Heartbeats: GET and PUT of the cluster's lease while the hub accepts the cluster (G37).

In: the watched ManagedCluster. Out: renewed leases. Called by ``serving``.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from ..client.api import Api, HubError, Refused
from ..client.clock import micro_text
from ..equipment import Equipment
from .own_cluster import OwnCluster

LEASE = "managed-cluster-lease"
JITTER = 0.25  # of the period, by which a heartbeat may be late, so that a fleet does not beat as one
DEFAULT_PERIOD = 60  # seconds, where the cluster names none or nonsense


class Heartbeat:
    def __init__(self, api: Api, cluster: OwnCluster, equipment: Equipment) -> None:
        self._api, self._cluster = api, cluster
        self._clock, self._log, self._chance = equipment.clock, equipment.log, equipment.chance
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.name}/leases/{LEASE}"
        self._attempts = equipment.attempts("lease not renewed", first=1)
        self.renewed: datetime | None = None

    async def run(self) -> None:
        """Until cancelled: a renewal every one to one and a quarter periods; a change of the period counts at once."""
        said: int | None = None
        is_first = True
        while True:
            period = self._period() if self._cluster.is_accepted else None
            if period != said or is_first:
                self._say(period)
            said, is_first = period, False
            wait = None if period is None else await self._beat(period)
            await self._rest(wait, period)

    def _say(self, period: int | None) -> None:
        if period is None:
            self._log.warning("heartbeats stopped: %s", self._cluster.why_not_accepted)
        else:
            self._log.info("heartbeats every %d to %.0f s", period, period * (1 + JITTER))

    async def _rest(self, wait: float | None, period: int | None) -> None:
        """Until the next beat, or until the cluster says something else about beats."""
        while (self._period() if self._cluster.is_accepted else None) == period:
            begun = asyncio.get_running_loop().time()
            try:
                # Not wait_for: in Python 3.11 a change that comes at the same time swallows the agent's end.
                async with asyncio.timeout(wait):
                    await self._cluster.next_change()
            except TimeoutError:
                return
            if wait is not None:
                wait = max(0.0, wait - (asyncio.get_running_loop().time() - begun))

    async def _beat(self, period: int) -> float:
        """Renew; the seconds until the next renewal."""
        try:
            await self._renew()
        except HubError as error:
            return min(self._attempts.failed(error), period * (1 + JITTER))
        self._attempts.worked()
        self.renewed = self._clock.now()
        return self._chance.uniform(period, period * (1 + JITTER))

    async def _renew(self) -> None:
        lease = await self._api.get(self._path)
        try:
            await self._put(lease)
        except Refused as error:
            if error.reason != "Conflict":
                raise
            await self._put(await self._api.get(self._path))  # the hub wrote in between

    async def _put(self, lease: dict[str, object]) -> None:
        spec = lease.get("spec")
        lease["spec"] = {**(spec if isinstance(spec, dict) else {}), "renewTime": micro_text(self._clock.now())}
        await self._api.replace(self._path, lease)

    def _period(self) -> int:
        period = self._cluster.spec.get("leaseDurationSeconds")
        return period if isinstance(period, int) and period > 0 else DEFAULT_PERIOD
