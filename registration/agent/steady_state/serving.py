"""Steady state: with its own certificate the agent watches, beats, reports and renews (G30 to G45).

In: kept files of a hub. Out: the reason for which to begin anew. Called by ``agent``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from ..bootstrapping.bootstrap import CLUSTERS, own_cluster, own_requests
from ..bootstrapping.certificate_requests import PATH as REQUESTS
from ..bootstrapping.certificate_requests import CertificateRequests, Issued
from ..client.api import Api
from ..client.informer import Informer
from ..equipment import Equipment
from ..keys import ClientCertificate
from ..options import AgentOptions
from ..racing import first_of
from .heartbeat import Heartbeat
from .managed_cluster import ManagedClusterSource
from .own_cluster import OwnCluster
from .rotation import Rotation, rotation_words, sleep_until
from .status import StatusReporter


class End(StrEnum):
    """Why a stay ended."""

    RENEWED = "the certificate was renewed"
    EXPIRED = "the certificate expired"
    HUBS_CHANGED = "the bootstrap kubeconfig changed"
    NOT_ACCEPTED = "the hub does not accept this cluster any more"
    NOT_HEARD = "no heartbeat reached the hub for too long"


UNAUTHORIZED = 401  # status for a credential that the hub does not know, or not any more


class SteadyState:
    """One stay at one hub, with one certificate."""

    def __init__(
        self,
        api: Api,
        certificate: ClientCertificate,
        managed: ManagedClusterSource,
        options: AgentOptions,
        keep: Callable[[Issued], Awaitable[None]],
        equipment: Equipment,
        issued: datetime | None = None,
        *,
        is_renewed: bool = False,
    ) -> None:
        """``options`` name the cluster; ``keep`` stores the next certificate; ``issued`` is when this one came.

        ``is_renewed``: it followed another, which the hub is to hear of (G24).
        """
        log, chance = equipment.log, equipment.chance
        self._certificate, self._options, self._clock, self._log = certificate, options, equipment.clock, log
        name = options.cluster_name
        self._cluster_changed, requests_changed = asyncio.Event(), asyncio.Event()
        self._clusters = Informer(api, CLUSTERS, own_cluster(name), self._cluster_changed, log, chance)
        self._requests = Informer(api, REQUESTS, own_requests(name), requests_changed, log, chance)
        addons = f"/apis/addon.open-cluster-management.io/v1beta1/namespaces/{name}/managedclusteraddons"
        self._addons = Informer(api, addons, {}, asyncio.Event(), log, chance)
        self._cluster = OwnCluster(name, self._clusters, self._cluster_changed)
        self._heartbeat = Heartbeat(api, self._cluster, equipment)
        self._status = StatusReporter(api, self._cluster, managed, options, equipment)
        certificates = CertificateRequests(
            api, self._requests, requests_changed, equipment, cluster=name, subject=certificate.subject,
            expiration_seconds=options.certificate_seconds,
            failed=lambda words: self._status.say_rotation(worked=False, words=words),
        )  # fmt: skip
        self._rotation = Rotation(certificate, certificates, keep, equipment, issued)
        if is_renewed:
            words = rotation_words(certificate)
            self._log.info("%s", words)
            self._status.say_rotation(worked=True, words=words)

    @property
    def is_unknown(self) -> bool:
        """Whether the hub refuses the certificate itself (401), not only what it may."""
        return self._clusters.refusal is not None and self._clusters.refusal.status == UNAUTHORIZED

    async def run(self, *, may_leave: bool, hubs_changed: Coroutine[Any, Any, None]) -> End:
        """Until something asks to begin anew; why. ``may_leave``: there are other hubs to turn to (G44)."""
        ends = [self._rotate(), self._expire(), _then(hubs_changed, End.HUBS_CHANGED)]
        if may_leave:
            ends += [self._leave_when_not_accepted(), self._leave_when_not_heard()]
        followers = [informer.run() for informer in (self._clusters, self._addons, self._requests)]
        return await first_of(ends, [*followers, self._cluster.follow(), self._live()])

    async def _live(self) -> None:
        """Heartbeats and status begin when the cluster is known and all watches are answered, as upstream's do."""
        await self._cluster.synced()
        await self._addons.answered.wait()
        await self._requests.answered.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._heartbeat.run())
            group.create_task(self._status.run())

    async def _rotate(self) -> End:
        await self._rotation.run()
        return End.RENEWED

    async def _expire(self) -> End:
        """G26."""
        await sleep_until(self._certificate.not_after, self._clock)
        self._log.error("the certificate expired before the hub issued its successor")
        return End.EXPIRED

    async def _leave_when_not_accepted(self) -> End:
        await self._cluster.synced()
        while self._cluster.doc is None or self._cluster.spec.get("hubAcceptsClient") is True:
            await self._cluster.next_change()
        return End.NOT_ACCEPTED

    async def _leave_when_not_heard(self) -> End:
        begun = self._clock.now()
        limit = timedelta(seconds=self._options.hub_timeout)
        # Each renewal moves the end.
        while (end := (self._heartbeat.renewed or begun) + limit) > self._clock.now():
            await sleep_until(end, self._clock)
        return End.NOT_HEARD


async def _then(waited: Coroutine[Any, Any, None], reason: End) -> End:
    await waited
    return reason
