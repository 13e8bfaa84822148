"""A watched collection: the present objects by name, kept up as client-go's reflectors do (W11, W12).

It never lists where the server streams the present state: ``sendInitialEvents``, then changes, from the last version
seen when a stream ends. A server that refuses that is listed and watched; 410 begins anew. Called by ``bootstrap`` and
``serving`` for the hub, by ``managed_cluster`` for the managed cluster.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from .api import Api, Doc, HubError, Refused
from .attempts import Attempts, Log

SHORTEST = (
    300  # seconds of a stream, as client-go: between five and ten minutes, so that a fleet does not come back as one
)
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
EXPIRED = 410  # status of a version that the server has forgotten
NO_STREAMED_STATE = {400, 422}  # statuses of a server that does not know sendInitialEvents


class Informer:
    """``objects`` by name. ``synced`` is set from the first whole state on, ``answered`` also by an earlier failure."""

    def __init__(
        self, api: Api, path: str, selector: Mapping[str, str], changed: asyncio.Event, log: Log, chance: random.Random
    ) -> None:
        """``selector`` is a query, such as a fieldSelector. ``changed`` is set at news; several may share it."""
        self.objects: dict[str, Doc] = {}
        self.synced, self.answered = asyncio.Event(), asyncio.Event()
        self.refusal: Refused | None = None
        self._api, self._path, self._selector = api, path, dict(selector)
        self._changed, self._chance = changed, chance
        self._attempts = Attempts(f"watch of {path.rpartition('/')[2]}", log, chance)
        self._version = ""
        self._streams_state = True
        self._fresh: dict[str, Doc] | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
            except HubError as error:
                if isinstance(error, Refused) and self._begins_anew(error):
                    continue
                self._note(error)
                await self._attempts.wait_after(error)

    def _begins_anew(self, error: Refused) -> bool:
        if error.status == EXPIRED and self._version:
            self._version = ""
            return True
        if error.status in NO_STREAMED_STATE and not self._version and self._streams_state:
            self._streams_state = False
            return True
        return False

    def _note(self, error: HubError) -> None:
        """A new refusal is news for what waits for this collection."""
        self.answered.set()
        former, self.refusal = self.refusal, error if isinstance(error, Refused) else None
        if str(former) != str(self.refusal):
            self._changed.set()

    async def _follow(self) -> None:
        if not self._version and not self._streams_state:
            await self._list()
        seconds = self._chance.randrange(SHORTEST, 2 * SHORTEST)
        query = {"allowWatchBookmarks": "true", **self._selector}
        if self._version:
            query["resourceVersion"] = self._version
        else:
            query |= {"resourceVersionMatch": "NotOlderThan", "sendInitialEvents": "true"}
            self._fresh = {}
        query |= {"timeoutSeconds": f"{seconds}", "watch": "true"}
        async with aclosing(self._api.events(self._path, query, seconds)) as events:
            async for event in events:
                self.refusal = None
                self._attempts.worked()
                self._take(event)

    async def _list(self) -> None:
        answer = await self._api.get(self._path, self._selector)
        self._version = str(answer["metadata"].get("resourceVersion") or "")
        self._complete({item["metadata"]["name"]: item for item in answer.get("items") or ()})

    def _take(self, event: Doc) -> None:
        doc: dict[str, Any] = event["object"]
        metadata = doc["metadata"]
        objects = self.objects if self._fresh is None else self._fresh
        if event["type"] == "BOOKMARK":
            self._version = metadata["resourceVersion"]
            if self._fresh is not None and INITIAL_EVENTS_END in (metadata.get("annotations") or {}):
                self._complete(self._fresh)
            return
        if event["type"] == "DELETED":
            objects.pop(metadata["name"], None)
        else:
            objects[metadata["name"]] = doc
        if self._fresh is None:
            self._version = metadata["resourceVersion"]
            self._changed.set()

    def _complete(self, objects: dict[str, Doc]) -> None:
        self.objects, self._fresh = objects, None
        self.synced.set()
        self.answered.set()
        self._changed.set()
