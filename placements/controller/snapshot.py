"""The fleet as the scheduler sees it at one moment: clusters, scores and decisions, kept in memory from run to run.

Each process follows the change log of three kinds, so that a run costs what has changed since the last one and not
what there is. What a ``Fleet`` holds is never changed afterwards. Called by the reconcilers.
"""

from __future__ import annotations

import sys
import threading
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import orjson
from django.db import connection

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clustersets import membership
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from ocmconsole.kubeapi.models import Change
from ocmconsole.kubeapi.watch import change_log
from placements.controller import decisions
from placements.controller.shared_changes import SharedChanges
from placements.explaining import causes
from placements.kinds import ADD_ON_PLACEMENT_SCORE, PLACEMENT_DECISION
from placements.scheduler.fleet import AddOnScore, Cluster, ClusterList, Fleet
from placements.scheduler.prioritizers import RESOURCES

if TYPE_CHECKING:
    from clustersets.membership import Membership
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind
    from placements.explaining.causes import ClusterChange

T = TypeVar("T")
Place = tuple[str, str]  # namespace and name

K = TypeVar("K")
V = TypeVar("V")

ROWS_AT_ONCE = 2_000  # of one fetch, so that a fleet is never in memory as rows too
MOST_MOVED = 500  # clusters that are put into the known members of a set one by one; with more all are sorted anew
MOST_CHANGED = 20_000  # objects whose last changes are kept in memory, some 500 bytes each


class StoredCluster(Cluster):
    """A cluster of which only the text stays in memory, and what placements commonly read.

    A document as Python objects takes ten times as much, and only expressions read the rest of it.
    """

    def __init__(self, text: str) -> None:
        read = Cluster(orjson.loads(text))
        self._text = text
        self.size = len(text)
        self.name = sys.intern(read.name)
        self.labels, self.claims, self.taints = read.labels, read.claims, read.taints
        self.is_being_deleted, self.is_accepted = read.is_being_deleted, read.is_accepted
        self.answers = {}
        self._allocatable = {name: read.allocatable(name) for name in RESOURCES.values()}

    @property
    def doc(self) -> Doc:  # type: ignore[override] # read again for each expression
        document: Doc = orjson.loads(self._text)
        return document


class _Mirror(Generic[T]):
    """Every object of a kind as ``read`` makes it of its text, as current as the last look."""

    def __init__(
        self,
        kind: Kind,
        read: Callable[[str], T],
        moved: Callable[[T | None, T | None], None],
        noted: Callable[[Change, T | None, T | None], None] | None = None,
    ) -> None:
        self._kind, self._read, self._moved, self._noted = kind, read, moved, noted
        self._revision = -1  # of the hub, that ``items`` are no older than; -1: nothing has been read
        self.noted_since = 0  # a revision after which every change was ``noted``
        self.items: dict[Place, T] = {}

    def forget(self) -> None:
        for item in self.items.values():
            self._moved(item, None)
        self.items, self._revision = {}, -1

    def catch_up(self, head: int) -> None:
        """``head``: a revision of the hub that has been committed; the mirror is no older afterwards."""
        if self._revision < 0 or not self._replay():
            self.forget()
            rows: Any = self._kind.model.objects.values_list("namespace", "name", "wire")
            for namespace, name, text in rows.iterator(chunk_size=ROWS_AT_ONCE):
                self._put((namespace, name), text)
            self.noted_since = change_log.newest_revision()  # a row may be newer than ``head``
        # Last: an interrupted look begins again. What was committed meanwhile is found by the next one.
        self._revision = max(self._revision, head)

    def _replay(self) -> bool:
        """Whether nothing of the log was cut unread; cuts are read after the entries, as ``change_log`` says."""
        resource, since = self._kind.resource, self._revision
        missed = Change.objects.filter(resource=resource, revision__gt=since).order_by("revision")
        reached = since
        for change in missed.iterator(chunk_size=ROWS_AT_ONCE):
            text = None if change.verb == Change.Verb.DELETED else change.wire
            old, new = self._put((change.namespace, change.name), text)
            if self._noted is not None:
                self._noted(change, old, new)
            reached = change.revision
        if change_log.cut_before([resource], since) is not None:
            return False
        self._revision = reached
        return True

    def _put(self, place: Place, text: str | None) -> tuple[T | None, T | None]:
        old, new = self.items.pop(place, None), None if text is None else self._read(text)
        if new is not None:
            self.items[place] = new
        self._moved(old, new)
        return old, new


class Snapshot:
    """What this process knows. One lock: two reconcilers may ask at the same time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._clusters = _Mirror(MANAGED_CLUSTER, StoredCluster, self._cluster_moved, self._cluster_changed)
        self._scores = _Mirror(ADD_ON_PLACEMENT_SCORE, _score, _nothing, self._score_changed)
        self._changes: OrderedDict[str, tuple[ClusterChange, ...]] = OrderedDict()  # by cluster, the newest last
        self._score_changes: OrderedDict[Place, ClusterChange] = OrderedDict()
        self._decided = _Mirror(PLACEMENT_DECISION, _decided_names, self._decision_moved)
        # Of each set that was asked for: its members by name, and how much of ``_moved`` they have in them.
        self._members: dict[Membership, tuple[ClusterList, int]] = {}
        self._moved: list[str] = []  # names of clusters in the order of their changes
        self._exclusive: dict[str, dict[str, Cluster]] = {}  # members by name of each exclusive set
        self._counts: Counter[str] = Counter()
        self._dropped = 0  # newest revision of a cluster's change that is not kept any more
        self._heads: dict[int, int] = {}  # revision of the hub that each mirror has seen, by its id
        self._database = ""
        self.shared = SharedChanges()

    def forget(self) -> None:
        """Start from the rows again; for tests that roll the database back."""
        with self._lock:
            for mirror in (self._clusters, self._scores, self._decided):
                mirror.forget()
            self._members.clear()
            self._moved.clear()
            self._exclusive.clear()
            self._heads.clear()
            self._changes.clear()
            self._score_changes.clear()
            self._dropped = 0
            self.shared.forget()

    def fleet(self, sets: Collection[Membership], *, with_scores: bool, with_decided: bool) -> Fleet:
        """Members of these sets now, and what else the Placement at hand reads."""
        with self._lock:
            head = change_log.newest_revision()
            if self._database != _database() or any(seen > head for seen in self._heads.values()):
                self.forget()
                self._database = _database()
            self._catch_up(self._clusters, head)
            members = {each.name: self._members_of(each) for each in sets}
            scores: Mapping[Place, AddOnScore] = {}
            if with_scores:
                self._catch_up(self._scores, head)
                scores = dict(self._scores.items)
            counts: Mapping[str, int] = {}
            if with_decided:
                self._catch_up(self._decided, head)
                counts = dict(self._counts)
            return Fleet(members, scores, counts, head)

    def decided(self) -> Mapping[str, int]:
        """In how many PlacementDecisions of the whole hub a cluster stands (P15)."""
        with self._lock:
            self._catch_up(self._decided, change_log.newest_revision())
            return dict(self._counts)

    def deciding(self, names: Collection[str]) -> list[Place]:
        """PlacementDecisions that name one of these clusters, in order."""
        wanted = frozenset(names)
        with self._lock:
            self._catch_up(self._decided, change_log.newest_revision())
            return sorted(place for place, listed in self._decided.items.items() if not wanted.isdisjoint(listed))

    @property
    def followed_since(self) -> int:
        """A revision after which ``changes_of`` misses none."""
        return max(self._clusters.noted_since, self._dropped)

    def changes_of(self, cluster: str) -> Sequence[ClusterChange]:
        """The latest changes of a cluster that this process has followed, the newest last."""
        return self._changes.get(cluster, ())

    def newest_changes(self, most: int) -> list[tuple[str, ClusterChange]]:
        """The clusters that changed last with their last change, the newest first."""
        with self._lock:
            return [(name, self._changes[name][-1]) for name in islice(reversed(self._changes), most)]

    def newest_scores(self, most: int) -> list[tuple[str, str, ClusterChange]]:
        """Cluster and name of the scores that changed last, the newest first."""
        with self._lock:
            return [(*place, self._score_changes[place]) for place in islice(reversed(self._score_changes), most)]

    def _cluster_changed(self, change: Change, old: StoredCluster | None, new: StoredCluster | None) -> None:
        found = causes.change_of(old, new, change.revision, change.time)
        if found is not None:
            dropped = _keep(self._changes, change.name, causes.latest(self._changes.get(change.name, ()), found))
            if dropped is not None:
                self._dropped = max(self._dropped, dropped[-1].revision)

    def _score_changed(self, change: Change, old: AddOnScore | None, new: AddOnScore | None) -> None:
        if old != new:
            found = causes.score_change(change.name, change.revision, change.time)
            _keep(self._score_changes, (change.namespace, change.name), found)

    def _catch_up(self, mirror: _Mirror[Any], head: int) -> None:
        if self._heads.get(id(mirror)) != head:
            mirror.catch_up(head)
            self._heads[id(mirror)] = head

    def _cluster_moved(self, old: StoredCluster | None, new: StoredCluster | None) -> None:
        for each in (old, new):
            if each is not None and (name := each.labels.get(CLUSTERSET_LABEL)):
                members = self._exclusive.setdefault(name, {})
                members.pop(each.name, None)
                if each is new:
                    members[each.name] = each
        if self._members and (moved := new or old) is not None:
            self._moved.append(moved.name)
            if len(self._moved) > MOST_MOVED:
                self._members.clear()
                self._moved.clear()

    def _decision_moved(self, old: tuple[str, ...] | None, new: tuple[str, ...] | None) -> None:
        for name in old or ():
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]
        self._counts.update(new or ())

    def _members_of(self, wanted: Membership) -> Sequence[Cluster]:
        """In the order of names. A list that was returned once is never changed: what has moved goes into a copy."""
        known = self._members.get(wanted)
        if known is None:
            members = ClusterList(sorted(self._all_of(wanted), key=_name))
        elif known[1] == len(self._moved):
            return known[0]
        else:
            members = ClusterList(known[0])
            for name in {*self._moved[known[1] :]}:
                self._move(members, name, wanted)
        self._members[wanted] = members, len(self._moved)
        return members

    def _all_of(self, wanted: Membership) -> Iterable[Cluster]:
        if wanted.is_exclusive:  # there may be as many of these sets as clusters
            return self._exclusive.get(wanted.name, {}).values()
        return (each for each in self._clusters.items.values() if wanted.includes(each.labels))

    def _move(self, members: list[Cluster], name: str, wanted: Membership) -> None:
        """Put the cluster as it is now into the members, or take it out."""
        place = bisect_left(members, name, key=_name)
        is_there = place < len(members) and members[place].name == name
        now = self._clusters.items.get(("", name))
        found = [now] if now is not None and wanted.includes(now.labels) else []
        members[place : place + is_there] = found


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> V | None:
    """The newest last, and no more than ``MOST_CHANGED``; what is not kept any more for it."""
    kept[key] = value
    kept.move_to_end(key)
    return kept.popitem(last=False)[1] if len(kept) > MOST_CHANGED else None


def _name(cluster: Cluster) -> str:
    return cluster.name


def _nothing(old: object, new: object) -> None:
    """Nothing is derived from these."""


def _score(text: str) -> AddOnScore:
    return AddOnScore.of(orjson.loads(text))


def _decided_names(text: str) -> tuple[str, ...]:
    return tuple(map(sys.intern, decisions.names_in(orjson.loads(text))))


def _database() -> str:
    return str(connection.settings_dict["NAME"])


class BoundSets(NamedTuple):
    """``sets``: those that exist and are bound in a namespace (P3), each with its membership (T6)."""

    sets: tuple[Membership, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.sets)


def bound_sets(namespace: str) -> BoundSets:
    """P3: sets that a binding of the namespace names and that exist; condition Bound is not asked."""
    names = ManagedClusterSetBinding.objects.filter(namespace=namespace).values_list("cluster_set", flat=True)
    rows = ManagedClusterSet.objects.filter(name__in=list(names)).order_by("name")
    return BoundSets(tuple(membership.membership_of(row.doc) for row in rows))


present = Snapshot()
