"""The managed cluster as its own API tells it: health, version, capacity, ClusterClaims (G32 to G34).

In: an API of the managed cluster. Out: ``ManagedClusterFacts`` for the status on the hub. Called by ``status``; a
simulated cluster brings another ``ManagedClusterSource``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from ..client.api import Api, Doc, HubError, Unreachable
from ..client.attempts import Log
from ..client.informer import Informer
from ..options import AgentOptions
from . import quantities

NODES = "/api/v1/nodes"
CLAIMS = "/apis/cluster.open-cluster-management.io/v1alpha1/clusterclaims"
SPOKE_ONLY = "open-cluster-management.io/spoke-only"
RESERVED = {
    "id.k8s.io",
    "kubeversion.open-cluster-management.io",
    "platform.open-cluster-management.io",
    "product.open-cluster-management.io",
}
NOT_THERE = {403, 404}  # statuses of a health path that the API server does not offer to this agent
FIRST_SYNC = 5.0  # seconds that the first status waits for nodes and claims; without them it is sent without them


@dataclass(frozen=True, slots=True)
class Health:
    """``trouble`` is empty while the API server is well; else what it answered."""

    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ManagedClusterFacts:
    """What is said of the cluster. None stands for what could not be read: the hub keeps what it knows."""

    version: str | None = None
    capacity: Mapping[str, str] | None = None
    allocatable: Mapping[str, str] | None = None
    claims: Mapping[str, str] | None = field(default=None)


class ManagedClusterSource(Protocol):
    changed: asyncio.Event

    async def run(self) -> None:
        """Keep up with the cluster until cancelled; ``changed`` is set when there is news."""

    async def health(self) -> Health: ...

    async def facts(self) -> ManagedClusterFacts: ...


class KubernetesCluster:
    """By an API server. What this identity may not read is left out, and said once in the log."""

    def __init__(self, api: Api, log: Log, chance: random.Random) -> None:
        self.changed = asyncio.Event()
        self._api, self._log = api, log
        self._nodes = Informer(api, NODES, {}, self.changed, log, chance)
        self._claims = Informer(api, CLAIMS, {}, self.changed, log, chance)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            group.create_task(self._claims.run())

    async def health(self) -> Health:
        """G32: ``/livez``, and ``/healthz`` where that is not offered."""
        try:
            status = await self._api.status_code("/livez")
            if status in NOT_THERE:
                status = await self._api.status_code("/healthz")
        except Unreachable as error:
            return Health(f"The kube-apiserver is not ok, status code: 0, {error}")
        return Health() if status == 200 else Health(f"The kube-apiserver is not ok, status code: {status}")  # noqa: PLR2004 - OK

    async def facts(self) -> ManagedClusterFacts:
        """G33, G34."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_SYNC):
                await self._nodes.answered.wait()
                await self._claims.answered.wait()
        try:
            version = str((await self._api.get("/version")).get("gitVersion") or "") or None
        except HubError:
            version = None
        return ManagedClusterFacts(version, *self._resources(), self._reported_claims())

    def _resources(self) -> tuple[Mapping[str, str] | None, Mapping[str, str] | None]:
        """Capacity of all nodes, what may be allocated on those that take work."""
        if not self._nodes.synced.is_set():
            return None, None
        nodes = [*self._nodes.objects.values()]
        schedulable = [node for node in nodes if not (node.get("spec") or {}).get("unschedulable")]
        return quantities.total(_parts(nodes, "capacity")), quantities.total(_parts(schedulable, "allocatable"))

    def _reported_claims(self) -> Mapping[str, str] | None:
        """Those that are not labelled as the cluster's own; none where the cluster does not know the kind."""
        if not self._claims.synced.is_set():
            refusal = self._claims.refusal
            return {} if refusal is not None and refusal.status == 404 else None  # noqa: PLR2004 - Not Found
        return {
            name: str((claim.get("spec") or {}).get("value") or "")
            for name, claim in self._claims.objects.items()
            if SPOKE_ONLY not in (claim["metadata"].get("labels") or {})
        }


def _parts(nodes: Iterable[Doc], name: str) -> list[Mapping[str, str]]:
    return [(node.get("status") or {}).get(name) or {} for node in nodes]


def ordered_claims(claims: Mapping[str, str], options: AgentOptions) -> list[Doc]:
    """G34: reserved ones first, each part by name; of the others no more than asked for. Empty values are no claims."""
    reserved = {
        name
        for name in claims
        if name in RESERVED or any(name.endswith(suffix) for suffix in options.reserved_claim_suffixes)
    }
    names = [*sorted(reserved), *sorted(claims.keys() - reserved)[: options.most_custom_claims]]
    return [{"name": name, "value": claims[name]} for name in names if claims[name]]
