"""Status of the cluster on the hub: joined, available, version, resources, claims; patched on a difference (G31-G36).

In: the managed cluster, and the cluster's present document on the hub. Out: merge patches with uid and version, and an
Event when Available changes. Called by ``serving``.
"""

from __future__ import annotations

import asyncio
import copy
import socket
from datetime import datetime, timedelta
from typing import Any

from ..bootstrapping.bootstrap import CLUSTERS
from ..client.api import Api, Doc, HubError, Refused
from ..client.clock import micro_text, seconds_text
from ..equipment import Equipment
from ..options import AgentOptions
from .managed_cluster import ManagedClusterFacts, ManagedClusterSource, ordered_claims
from .own_cluster import OwnCluster

JOINED, AVAILABLE = "ManagedClusterJoined", "ManagedClusterConditionAvailable"
CLOCK_SYNCED, ROTATED = "ManagedClusterConditionClockSynced", "ClusterCertificateRotated"
PATIENCE = timedelta(seconds=20)  # that the API server may be ill before the hub hears of it, as upstream
RECHECK = 5.0  # seconds between looks at an API server that is ill
MOST_CONFLICTS = 5  # attempts at one status; the next change or minute tries again
EVENTS = {
    "True": ("Available", "Normal", "it is managed by the hub cluster. Its apieserver is available"),
    "False": ("Unavailable", "Warning", "its Kube API server is unavailable"),
}


class StatusReporter:
    def __init__(
        self,
        api: Api,
        cluster: OwnCluster,
        managed: ManagedClusterSource,
        options: AgentOptions,
        equipment: Equipment,
    ) -> None:
        self._api, self._cluster, self._managed, self._options = api, cluster, managed, options
        self._clock, self._log = equipment.clock, equipment.log
        self._attempts = equipment.attempts("status not reported")
        self._event_attempts = equipment.attempts("event not written")
        self._path = f"{CLUSTERS}/{cluster.name}/status"
        self._ill_since: datetime | None = None
        self._rotation: Doc | None = None
        self._was_unsynced = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled: on changes here and there, and each period."""
        while True:
            self._managed.changed.clear()
            self._wake.clear()
            changed = asyncio.ensure_future(self._cluster.next_change())  # from now on: what comes while it looks, too
            try:
                await self._rest(await self._reported(), changed)
            finally:
                changed.cancel()

    async def _reported(self) -> float:
        """Report; the seconds after which to look again without a change."""
        try:
            wait = await self._report()
        except HubError as error:
            return min(self._attempts.failed(error), self._options.status_period)
        self._attempts.worked()
        return wait

    async def _rest(self, seconds: float, changed: asyncio.Future[None]) -> None:
        others = [asyncio.ensure_future(each.wait()) for each in (self._managed.changed, self._wake)]
        waits: list[asyncio.Future[Any]] = [changed, *others]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in others:
                each.cancel()

    def say_rotation(self, *, worked: bool, words: str) -> None:
        """G24, G25: the condition about the certificate goes with the next patch, which is sent at once."""
        reason = "ClientCertificateUpdated" if worked else "ClientCertificateUpdateFailed"
        self._rotation = _condition(ROTATED, "True" if worked else "False", reason, words)
        self._wake.set()

    # ------------------------------------------------------------------------------------------------------ one report

    async def _report(self) -> float:
        """Look, compare, patch; as ``_reported``. Raises HubError."""
        for _ in range(MOST_CONFLICTS):
            doc = self._cluster.doc
            if doc is None or not self._cluster.is_accepted or self._is_unsynced():
                return self._options.status_period
            status, wait = await self._status(doc)
            change = merge_patch(doc.get("status") or {}, status)
            if not change:
                return wait
            try:
                await self._patch(doc, change)
            except Refused as error:
                if error.reason != "Conflict":
                    raise
                # The hub wrote meanwhile; its version is read, not waited for.
                self._cluster.wrote(await self._api.get(f"{CLUSTERS}/{self._cluster.name}"))
            else:
                return wait
        return RECHECK

    def _is_unsynced(self) -> bool:
        """G36: while the hub says that the clocks differ, upstream's agent sends no status. Neither does this one."""
        is_unsynced = self._cluster.conditions.get(CLOCK_SYNCED, {}).get("status") == "False"
        if is_unsynced and not self._was_unsynced:
            ahead = self._api.ahead
            by = (
                f"{abs(ahead.total_seconds()):.0f} s {'ahead of' if ahead > timedelta() else 'behind'}"
                if ahead
                else "off"
            )
            self._log.error("this clock is %s the hub's: no status is sent until they agree", by)
        elif self._was_unsynced and not is_unsynced:
            self._log.info("the clocks agree again")
        self._was_unsynced = is_unsynced
        return is_unsynced

    async def _status(self, doc: Doc) -> tuple[Doc, float]:
        """The status as it should be, and when to look again. The order is upstream's: joined, available, facts."""
        status: Doc = copy.deepcopy(doc.get("status") or {})
        now = seconds_text(self._clock.now())
        say = _Conditions(status.setdefault("conditions", []), now)
        say(_condition(JOINED, "True", "ManagedClusterJoined", "Managed cluster joined"), once=True)
        if self._rotation is not None:
            say(self._rotation)
        health = await self._managed.health()
        if health.trouble:
            ill_since = self._ill_since or self._clock.now()
            if self._ill_since is None:
                self._log.warning("the managed cluster is not well: %s", health.trouble)
            self._ill_since = ill_since
            if self._clock.now() - ill_since >= PATIENCE:
                say(_condition(AVAILABLE, "False", "ManagedClusterKubeAPIServerUnavailable", health.trouble))
            return status, RECHECK
        if self._ill_since is not None:
            self._log.info("the managed cluster is well again")
        self._ill_since = None
        say(_condition(AVAILABLE, "True", "ManagedClusterAvailable", "Managed cluster is available"))
        self._take(status, await self._managed.facts())
        return status, self._options.status_period

    def _take(self, status: Doc, facts: ManagedClusterFacts) -> None:
        """G33, G34: what could not be read stays as the hub has it."""
        if facts.capacity is not None:
            # Keys that others put there stay (G33).
            status["capacity"] = {**(status.get("capacity") or {}), **facts.capacity}
        if facts.allocatable is not None:
            status["allocatable"] = dict(facts.allocatable)
        if facts.version is not None:
            status["version"] = {"kubernetes": facts.version}
        if facts.claims is not None:
            claims = ordered_claims(facts.claims, self._options)
            if claims or status.get("clusterClaims"):
                status["clusterClaims"] = claims

    async def _patch(self, doc: Doc, change: Doc) -> None:
        """G39a, and G38: an Event when Available became True or False."""
        metadata = {name: doc["metadata"][name] for name in ("resourceVersion", "uid")}
        before = self._cluster.conditions.get(AVAILABLE, {}).get("status")
        written = await self._api.patch(self._path, {"metadata": metadata, "status": change})
        self._cluster.wrote(written)
        after = self._cluster.conditions.get(AVAILABLE, {}).get("status")
        self._log.info("status reported: %s", ", ".join(sorted(change)))
        if after != before and after in EVENTS:
            await self._write_event(doc, EVENTS[after])

    async def _write_event(self, doc: Doc, event: tuple[str, str, str]) -> None:
        reason, type_, words = event
        joint = "and" if type_ == "Normal" else "However,"
        now, name = self._clock.now(), self._cluster.name
        begin = f"The {name} is successfully imported"
        metadata = {"name": f"{name}.{int(now.timestamp() * 1e9):x}", "namespace": name}
        regarding = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "name": name}
        regarding |= {
            "namespace": name,
            "uid": doc["metadata"]["uid"],
            "resourceVersion": doc["metadata"]["resourceVersion"],
        }
        try:
            await self._api.create(
                f"/apis/events.k8s.io/v1/namespaces/{name}/events",
                {
                    "apiVersion": "events.k8s.io/v1",
                    "kind": "Event",
                    "metadata": metadata,
                    "eventTime": micro_text(now),
                    "reportingController": "klusterlet-agent",
                    "reportingInstance": f"klusterlet-agent-{socket.gethostname()}"[:128],
                    "action": reason,
                    "reason": reason,
                    "regarding": regarding,
                    "note": f"{begin}, {joint} {words}" if type_ == "Normal" else f"{begin}. {joint} {words}",
                    "type": type_,
                },
            )
        except HubError as error:
            self._event_attempts.failed(error)  # it is news, no state: not tried again
        else:
            self._event_attempts.worked()


class _Conditions:
    """Sets conditions in a list; the time of the last transition moves with the status alone."""

    def __init__(self, conditions: list[Doc], now: str) -> None:
        self._conditions, self._now = conditions, now

    def __call__(self, condition: Doc, *, once: bool = False) -> None:
        """``once``: one that says the same status already stays as it is."""
        for index, present in enumerate(self._conditions):
            if present["type"] == condition["type"]:
                same = present["status"] == condition["status"]
                if not (once and same):
                    since = present.get("lastTransitionTime") if same else self._now
                    self._conditions[index] = {**condition, "lastTransitionTime": since or self._now}
                return
        self._conditions.append({**condition, "lastTransitionTime": self._now})


def _condition(type_: str, status: str, reason: str, message: str) -> Doc:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def merge_patch(old: Doc, new: Doc) -> Doc:
    """RFC 7386: what leads from the old document to the new one. Lists are replaced as a whole."""
    change: Doc = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        present = old.get(name)
        if isinstance(value, dict) and isinstance(present, dict):
            if inner := merge_patch(present, value):
                change[name] = inner
        elif value != present:
            change[name] = value
    return change
