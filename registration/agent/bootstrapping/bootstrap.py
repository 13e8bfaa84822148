"""Bootstrap: with the bootstrap identity, register the cluster and obtain the agent's certificate (G6 to G14).

In: a hub that answers, and names. Out: a certificate and its key. In the order of upstream's agent: own cluster,
watch of it and of certificate requests at once; the cluster is created where it is missing; then a certificate is asked
for. Called by ``agent``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ..client.api import Api, Doc, HubError, Refused
from ..client.informer import Informer
from ..equipment import Equipment
from ..keys import subject_of
from ..options import AgentOptions
from ..racing import first_of
from .certificate_requests import CLUSTER_LABEL, CertificateRequests, Issued
from .certificate_requests import PATH as REQUESTS

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
AGENT_ANNOTATIONS = "agent.open-cluster-management.io"  # prefix of those that an agent may bring
RECREATE = (3600, 7200)  # seconds, as upstream: a cluster that was deleted meanwhile is created again (G12)
NOT_ALLOWED = {401, 403}


class Bootstrap:
    def __init__(self, api: Api, options: AgentOptions, equipment: Equipment) -> None:
        """``options`` name the cluster and the agent."""
        log, chance = equipment.log, equipment.chance
        self._api, self._options, self._log, self._chance = api, options, log, chance
        self._cluster = options.cluster_name
        self._attempts = equipment.attempts("cluster not registered")
        self._registered = asyncio.Event()
        self._was_accepted: bool | None = None
        self._cluster_changed, requests_changed = asyncio.Event(), asyncio.Event()
        self._clusters = Informer(api, CLUSTERS, own_cluster(self._cluster), self._cluster_changed, log, chance)
        self._requests = Informer(api, REQUESTS, own_requests(self._cluster), requests_changed, log, chance)
        self._certificates = CertificateRequests(
            api, self._requests, requests_changed, equipment, cluster=self._cluster,
            subject=subject_of(self._cluster, options.agent_name), expiration_seconds=options.certificate_seconds,
        )  # fmt: skip

    async def run(self) -> Issued:
        """Returns when the hub has signed a certificate, however long people take."""
        followers = [informer.run() for informer in (self._clusters, self._requests)]
        return await first_of([self._obtain()], [self._register(), self._say_accepted(), *followers])

    async def _obtain(self) -> Issued:
        await self._registered.wait()
        return await self._certificates.obtain()

    async def _register(self) -> None:
        while True:
            try:
                await self._look_and_create()
            except Refused as error:
                # The cluster may be there without a right of the agent to see it: the request counts (G8, G9).
                if error.status in NOT_ALLOWED:
                    self._registered.set()
                await self._attempts.wait_after(error)
            except HubError as error:
                await self._attempts.wait_after(error)
            else:
                self._attempts.worked()
                self._registered.set()
                await asyncio.sleep(self._chance.uniform(*RECREATE))

    async def _look_and_create(self) -> None:
        """G8, G9, G11."""
        try:
            present = await self._api.get(f"{CLUSTERS}/{self._cluster}")
        except Refused as error:
            if error.status != 404:  # noqa: PLR2004 - Not Found
                raise
            await self._create()
        else:
            await self._complete(present)

    async def _create(self) -> None:
        metadata: Doc = {"name": self._cluster}
        annotations = {
            name: value for name, value in self._options.annotations.items() if name.startswith(AGENT_ANNOTATIONS)
        }
        if annotations:
            metadata["annotations"] = annotations
        spec: Doc = {"hubAcceptsClient": False}
        if configs := client_configs(self._options):
            spec["managedClusterClientConfigs"] = configs
        doc = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"}
        try:
            await self._api.create(CLUSTERS, {**doc, "metadata": metadata, "spec": spec})
        except Refused as error:
            if error.reason != "AlreadyExists":
                raise
        self._log.info("cluster registered on the hub: it waits to be accepted")

    async def _complete(self, present: Doc) -> None:
        """G11: addresses that the hub does not know yet are added, none is taken away."""
        known = (present.get("spec") or {}).get("managedClusterClientConfigs") or []
        urls = {config.get("url") for config in known}
        missing = [config for config in client_configs(self._options) if config["url"] not in urls]
        if not missing:
            return
        present.setdefault("spec", {})["managedClusterClientConfigs"] = [*known, *missing]
        try:
            await self._api.replace(f"{CLUSTERS}/{self._cluster}", present)
        except Refused as error:
            if error.status not in NOT_ALLOWED:
                raise
            self._log.info("the bootstrap identity may not add the cluster's address: left to an admin of the hub")

    async def _say_accepted(self) -> None:
        while True:
            await self._cluster_changed.wait()
            self._cluster_changed.clear()
            cluster = self._clusters.objects.get(self._cluster)
            if cluster is None:
                continue
            accepts = (cluster.get("spec") or {}).get("hubAcceptsClient") is True
            if accepts != self._was_accepted:
                self._log.info("the hub %s", "accepts this cluster" if accepts else "does not accept this cluster yet")
            self._was_accepted = accepts


def own_cluster(name: str) -> Mapping[str, str]:
    return {"fieldSelector": f"metadata.name={name}"}


def own_requests(name: str) -> Mapping[str, str]:
    return {"labelSelector": f"{CLUSTER_LABEL}={name}"}


def client_configs(options: AgentOptions) -> list[Doc]:
    """Where the managed cluster's API is reached from outside, and the CA to trust there."""
    bundle = {"caBundle": options.ca_bundle} if options.ca_bundle else {}
    return [{"url": url, **bundle} for url in options.external_urls]
