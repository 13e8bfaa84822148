"""The change log as the hub's database has it, noted before it is compacted, and what a watcher should make of it.

An oracle of its own: it knows what a selector means in the words of the test and follows W12 and W139, nothing else.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from tests.hub import Hub

Doc = dict[str, Any]
Matches = Callable[[Doc], bool]
Event = tuple[str, int, Doc]

PAUSE_SECONDS = 0.2


class History:
    """Every change of some resources, also those that the hub has forgotten."""

    def __init__(self, hub: Hub, resources: Iterable[str]) -> None:
        self._hub = hub
        self._changes: dict[str, list[Event]] = {resource: [] for resource in resources}
        self._last = 0
        self._noting = threading.Lock()

    def record(self, until: threading.Event) -> None:
        while not until.wait(PAUSE_SECONDS):
            self.catch_up()

    def noted(self) -> datetime:
        """A moment, up to which everything is noted now."""
        moment = datetime.now(UTC)
        self.catch_up()
        return moment

    def catch_up(self) -> None:
        with self._noting:
            self._catch_up()

    def _catch_up(self) -> None:
        names = ", ".join(f"'{resource}'" for resource in self._changes)
        wanted = f"resource IN ({names}) AND revision > {self._last}"
        with self._hub.reading() as query:
            cuts = query(f"SELECT resource FROM kubeapi_compaction WHERE {wanted}")  # noqa: S608 - our own words
            rows = query(
                f"SELECT revision, verb, resource, wire FROM kubeapi_change WHERE {wanted} ORDER BY revision"  # noqa: S608
            )
        assert not cuts, "the hub forgot what was not noted yet"
        for revision, verb, resource, wire in rows:
            self._changes[resource].append((verb, revision, json.loads(wire)))
            self._last = revision

    def floor(self, resource: str) -> int:
        """The oldest revision from which the hub can continue a watch now."""
        with self._hub.reading() as query:
            rows = query(f"SELECT revision FROM kubeapi_compaction WHERE resource = '{resource}'")  # noqa: S608
        return rows[0][0] if rows else 0

    def revisions(self, resource: str) -> list[int]:
        return [revision for _, revision, _ in self._changes[resource]]

    def newest(self, resource: str) -> int:
        return self.revisions(resource)[-1]

    def state(self, resource: str, matches: Matches, at: int) -> dict[str, int]:
        """Revision by uid of what was there."""
        there: dict[str, Doc] = {}
        for verb, revision, doc in self._changes[resource]:
            if revision > at:
                break
            there[doc["metadata"]["uid"]] = doc
            if verb == "DELETED":
                del there[doc["metadata"]["uid"]]
        return {uid: int(doc["metadata"]["resourceVersion"]) for uid, doc in there.items() if matches(doc)}

    def expected(self, resource: str, matches: Matches, after: int, upto: int) -> list[Event]:
        """W139: enters, stays, leaves."""
        state: dict[str, Doc] = {}
        found: list[Event] = []
        for verb, revision, doc in self._changes[resource]:
            old = state.pop(doc["metadata"]["uid"], None)
            if verb != "DELETED":
                state[doc["metadata"]["uid"]] = doc
            if after < revision <= upto:
                seen = old if old is not None and matches(old) else None
                found += _told(seen, doc if verb != "DELETED" and matches(doc) else None, revision)
        return found


def _told(old: Doc | None, new: Doc | None, revision: int) -> list[Event]:
    """What the watcher saw before and sees now, as an event."""
    if new is not None:
        return [("MODIFIED" if old else "ADDED", revision, new)]
    if old is not None:
        return [("DELETED", revision, {**old, "metadata": {**old["metadata"], "resourceVersion": str(revision)}})]
    return []
