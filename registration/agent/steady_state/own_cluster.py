"""The agent's own ManagedCluster on the hub, as its watch shows it. Read by heartbeat, status and rotation."""

from __future__ import annotations

import asyncio

from ..client.api import Doc
from ..client.informer import Informer

ACCEPTED = "HubAcceptedManagedCluster"


class OwnCluster:
    """A view of the informer of managedclusters. ``follow`` wakes all that waits for a change."""

    def __init__(self, name: str, informer: Informer, changed: asyncio.Event) -> None:
        self.name = name
        self._informer, self._changed = informer, changed
        self._wake: asyncio.Future[None] | None = None
        # What the last own write made of it; the watch may be late.
        self._written: Doc | None = None

    async def follow(self) -> None:
        """Until cancelled: pass each change on to everybody who waits."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._wake is not None and not self._wake.done():
                self._wake.set_result(None)
            self._wake = None

    async def next_change(self) -> None:
        if self._wake is None:
            self._wake = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._wake)

    async def synced(self) -> None:
        await self._informer.synced.wait()

    def wrote(self, doc: Doc) -> None:
        self._written = doc

    @property
    def doc(self) -> Doc | None:
        """The newest version that is known, None while the cluster is not on the hub."""
        watched = self._informer.objects.get(self.name)
        if watched is None or self._written is None or _version(watched) >= _version(self._written):
            return watched
        same = watched["metadata"]["uid"] == self._written["metadata"]["uid"]
        return self._written if same else watched

    @property
    def spec(self) -> Doc:
        return (self.doc or {}).get("spec") or {}

    @property
    def conditions(self) -> dict[str, Doc]:
        status = (self.doc or {}).get("status") or {}
        return {each["type"]: each for each in status.get("conditions") or ()}

    @property
    def is_accepted(self) -> bool:
        """As the hub's condition says: rights and lease are there from then on."""
        return self.conditions.get(ACCEPTED, {}).get("status") == "True"

    @property
    def why_not_accepted(self) -> str:
        if self.doc is None:
            refusal = self._informer.refusal
            return f"the hub lets it see no cluster {self.name} ({refusal or 'it was deleted'})"
        condition = self.conditions.get(ACCEPTED)
        return str(condition["message"]) if condition else "the hub has not accepted the cluster yet"


def _version(doc: Doc) -> int:
    """Kubernetes orders versions of one object as numbers."""
    version = str(doc["metadata"].get("resourceVersion") or "0")
    return int(version) if version.isdecimal() else 0
