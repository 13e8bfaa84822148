"""Bootstrap hubs: which there are, and which of several an agent may turn to (G4, G43).

In: bootstrap kubeconfigs. Out: one of them that answers and lets this cluster in. Called by ``agent``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from ..client.api import Api, HubError, Refused
from ..client.attempts import Log
from ..client.kubeconfig import ApiEndpoint, Kubeconfig, KubeconfigError, read_kubeconfig
from .bootstrap import CLUSTERS

LOOK = 5.0  # seconds between looks at the files: Kubernetes updates a mounted Secret within a minute
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
# What an agent must be allowed to do with its bootstrap identity, by group and resource.
NEEDED = {
    ("cluster.open-cluster-management.io", "managedclusters"): ("create", "get"),
    ("certificates.k8s.io", "certificatesigningrequests"): ("create", "get", "list", "watch"),
}

Connect = Callable[[Kubeconfig], Api]


class HubSource(Protocol):
    def present(self) -> list[Kubeconfig]:
        """Bootstrap kubeconfigs in the order of preference; those that cannot be used are left out."""

    async def changed(self) -> None:
        """Returns when another kubeconfig is there than at the last ``present``."""


class FilesOfHubs:
    """Kubeconfigs in files, which somebody may replace while the agent runs (G4)."""

    def __init__(self, paths: Sequence[Path], log: logging.Logger) -> None:
        self._paths, self._log = paths, log
        self._seen = self._contents()

    def present(self) -> list[Kubeconfig]:
        self._seen = self._contents()
        found = []
        for path in self._paths:
            try:
                found.append(read_kubeconfig(path))
            except KubeconfigError as error:
                self._log.error("bootstrap kubeconfig cannot be used: %s", error)
        return found

    async def changed(self) -> None:
        while self._contents() == self._seen:  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(LOOK)

    def _contents(self) -> list[bytes | None]:
        return [path.read_bytes() if path.is_file() else None for path in self._paths]


async def choose(
    hubs: Sequence[Kubeconfig], current: ApiEndpoint | None, cluster: str, connect: Connect, log: Log
) -> Kubeconfig | None:
    """The first that is usable, the current one before others (G43); a single one without a question. None: none is."""
    if len(hubs) == 1:
        return hubs[0]
    for hub in sorted(hubs, key=lambda each: each.endpoint != current):
        trouble = await _trouble(hub, cluster, connect)
        if not trouble:
            return hub
        log.warning("hub %s is not usable: %s", hub.endpoint.server, trouble)
    return None


async def _trouble(hub: Kubeconfig, cluster: str, connect: Connect) -> str:
    """Why the cluster cannot turn to a hub; empty when it can."""
    try:
        api = connect(hub)
    except KubeconfigError as error:
        return str(error)
    try:
        for (group, resource), verbs in NEEDED.items():
            for verb in verbs:
                if not await _may(api, group, resource, verb):
                    return f"the bootstrap identity may not {verb} {resource} there"
        return await _refuses(api, cluster)
    except HubError as error:
        return str(error)
    finally:
        await api.close()


async def _may(api: Api, group: str, resource: str, verb: str) -> bool:
    asked = {"group": group, "resource": resource, "verb": verb}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    answer = await api.create(REVIEWS, {**review, "spec": {"resourceAttributes": asked}})
    return (answer.get("status") or {}).get("allowed") is True


async def _refuses(api: Api, cluster: str) -> str:
    """A cluster that is there and not accepted makes a hub unusable; one that is not there may be created."""
    try:
        doc = await api.get(f"{CLUSTERS}/{cluster}")
    except Refused as error:
        if error.status == 404:  # noqa: PLR2004 - Not Found
            return ""
        raise
    return "" if (doc.get("spec") or {}).get("hubAcceptsClient") is True else "it does not accept this cluster"
