"""What the audit says of late about objects that placements share: Placements, bindings, sets, PlacementDecisions.

Followed by each process in memory, so that the runs of a storm do not ask the audit once each. What the scheduler
itself writes is no cause and left out. Called by ``evidence``; the ``snapshot`` of the process holds it.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.models import AuditEvent
from placements.kinds import PLACEMENT, PLACEMENT_DECISION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocmconsole.kubeapi.kinds import Kind

SCHEDULER = Actor.controller("placements").user  # its own writes are part of a run
LATEST = timedelta(minutes=10)  # a run follows its cause within seconds
MOST_KEPT = 5_000  # entries in memory, a kilobyte each
RESOURCES = frozenset(
    kind.resource for kind in (PLACEMENT, MANAGED_CLUSTER_SET_BINDING, MANAGED_CLUSTER_SET, PLACEMENT_DECISION)
)


class SharedChanges:
    """What this process knows. One lock: two workers may ask at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Start from the audit again; for tests that roll the database back."""
        self._reached = -1  # the revision up to which the audit was read; -1: nothing has been read
        self._complete_since = 0  # of younger revisions every entry is kept that is not older than ``LATEST``
        self._kept: deque[AuditEvent] = deque()
        self._by_place: defaultdict[tuple[str, str], deque[AuditEvent]] = defaultdict(deque)

    def since(self, revision: int, kind: Kind, namespace: str, now: datetime, upto: int) -> Sequence[AuditEvent] | None:
        """Allowed writes of others to such objects after a revision, up to another one that is committed; oldest first.

        None where some of them are not known.
        """
        with self._lock:
            if upto > self._reached:
                self._follow(now, upto)
            if revision < self._complete_since:
                return None
            found = self._by_place.get((kind.resource, namespace), ())
            return [entry for entry in found if revision < (entry.revision or 0) <= upto]

    def _follow(self, now: datetime, upto: int) -> None:
        allowed = AuditEvent.objects.filter(outcome=AuditEvent.Outcome.ALLOWED, revision__lte=upto)
        new: Any = allowed.exclude(user=SCHEDULER)
        # The range alone finds the rows: an index of resources would lead through all that was ever done to them.
        new = new.filter(time__gte=now - LATEST) if self._reached < 0 else new.filter(revision__gt=self._reached)
        columns = new.order_by("revision").values_list("pk", "revision", "resource")
        found = [(pk, revision) for pk, revision, resource in columns if resource in RESOURCES]
        for _, revision in found[:-MOST_KEPT]:
            self._complete_since = max(self._complete_since, revision)
        kept = [pk for pk, _ in found[-MOST_KEPT:]]
        rows = AuditEvent.objects.filter(pk__in=kept).order_by("revision") if kept else ()
        for entry in rows:
            self._kept.append(entry)
            self._by_place[entry.resource, entry.namespace].append(entry)
        self._reached = upto
        while self._kept and (len(self._kept) > MOST_KEPT or now - self._kept[0].time > LATEST):
            self._drop(self._kept.popleft(), now)

    def _drop(self, entry: AuditEvent, now: datetime) -> None:
        place = entry.resource, entry.namespace
        self._by_place[place].popleft()  # entries of a place are in the same order
        if not self._by_place[place]:
            del self._by_place[place]
        if now - entry.time <= LATEST:
            self._complete_since = max(self._complete_since, entry.revision or 0)
