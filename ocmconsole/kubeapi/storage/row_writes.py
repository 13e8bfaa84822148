"""Writing the rows of one commit: each object once, and many objects of one kind by one statement for each table.

Invariant: a row is replaced or deleted only where it still has the version that was read. Deletes come first, so that
an object may take the place of one that goes in the same commit. Called by ``store`` alone, under the counter's lock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from django.db import IntegrityError, transaction
from django.db.models import Q

from ocmconsole.kubeapi.models import Owner, Resource
from ocmconsole.kubeapi.storage import plain_sql, reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import ChildRows, Key, Kind

MOST_NAMES = 500  # in one query: databases bound how deep a condition may be
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class RowChange:
    """What a commit makes of one object: from ``old`` and its row to ``new`` with its text and revision.

    ``old`` is None for one that is created, ``new`` for one that is deleted; neither is there of one that does both.
    ``text`` is as the database gets it; ``row`` is what is written.
    """

    kind: Kind
    key: Key
    present: Resource | None
    old: Doc | None
    new: Doc | None = None
    text: str = ""
    revision: int = 0
    row: Resource | None = None


class Moved(Exception):
    """These rows are not what was read."""

    def __init__(self, changes: Sequence[RowChange]) -> None:
        super().__init__()
        self.changes = changes


class Taken(Exception):
    """An object of that name is there already."""

    def __init__(self, change: RowChange) -> None:
        super().__init__()
        self.change = change


def write(changes: Sequence[RowChange]) -> None:
    """Raises Moved, Taken."""
    for change in changes:
        if change.new is None and change.old is not None:
            _delete(change)
    for same in _by_kind(change for change in changes if change.new is not None and change.old is not None):
        _update(same)
    for same in _by_kind(change for change in changes if change.new is not None and change.old is None):
        _insert(same)
    for same in _by_kind(change for change in changes if change.new is not None):
        for part in same[0].kind.parts:
            _replace_parts(part, same)
    _index_owners([change for change in changes if change.new is not None])


def _by_kind(changes: Iterable[RowChange]) -> Iterator[list[RowChange]]:
    found: defaultdict[str, list[RowChange]] = defaultdict(list)
    for change in changes:
        found[change.kind.resource].append(change)
    yield from found.values()


def _delete(change: RowChange) -> None:
    present = change.present
    assert present is not None
    found = change.kind.model.objects.filter(uid=present.uid, resource_version=present.resource_version)
    if not found.delete()[0]:
        raise Moved([change])
    Owner.objects.filter(uid=present.uid).delete()


def _project(change: RowChange) -> Resource:
    assert change.new is not None
    change.row = reader.row_of(change.kind, change.key, change.new, change.text, change.revision)
    return change.row


def _update(changes: Sequence[RowChange]) -> None:
    rows, read = [], []
    for change in changes:
        row, present = _project(change), change.present
        assert present is not None
        for moment, cause in change.kind.timed.items():
            if getattr(row, cause) == getattr(present, cause):
                setattr(row, moment, getattr(present, moment))
        rows.append(row)
        read.append((present.uid, present.resource_version))
    if plain_sql.replace(rows, ("uid", "resource_version"), read) != len(rows):
        raise Moved(_moved(changes))


def _moved(changes: Sequence[RowChange]) -> list[RowChange]:
    """Those whose row has not the revision that was just given to it."""
    if len(changes) == 1:
        return list(changes)
    model, found = changes[0].kind.model, dict[str, int]()
    for some in _pieces(changes):
        uids = [change.row.uid for change in some if change.row is not None]
        found |= dict(model.objects.filter(uid__in=uids).values_list("uid", "resource_version"))
    return [change for change in changes if change.row is None or found.get(change.row.uid) != change.revision]


def _insert(changes: Sequence[RowChange]) -> None:
    rows = [_project(change) for change in changes]
    for row in rows:
        row.begin()
    try:
        with transaction.atomic(savepoint=len(rows) > 1):  # so that after a refusal it can be asked which one it was
            plain_sql.insert(rows)
    except IntegrityError as error:
        raise Taken(_taken(changes)) from error


def _taken(changes: Sequence[RowChange]) -> RowChange:
    """The first whose place is taken."""
    if len(changes) == 1:
        return changes[0]
    for some in _pieces(changes):
        places = Q()
        for change in some:
            places |= Q(namespace=change.key.namespace, name=change.key.name)
        there = set(changes[0].kind.model.objects.filter(places).values_list("namespace", "name"))
        for change in some:
            if change.key in there:
                return change
    return changes[0]


def _pieces(found: Sequence[T]) -> Iterator[Sequence[T]]:
    return (found[start : start + MOST_NAMES] for start in range(0, len(found), MOST_NAMES))


def _replace_parts(part: ChildRows, changes: Sequence[RowChange]) -> None:
    """Child rows follow the document; the database drops them with their parent."""
    gone, come, parent = [], [], f"{part.parent}_id"
    for change in changes:
        assert change.new is not None
        wanted = part.columns(change.new)
        if change.old is not None:
            present = part.columns(change.old)
            if present == wanted:
                continue
            if present:
                gone.append((change.new["metadata"]["uid"],))
        come += [part.model(**{parent: change.new["metadata"]["uid"]}, **columns) for columns in wanted]
    plain_sql.delete(part.model, (parent,), gone)
    plain_sql.insert(come)


def _owners(doc: Doc | None) -> list[Doc]:
    return doc["metadata"].get("ownerReferences") or [] if doc else []


def _index_owners(changes: Iterable[RowChange]) -> None:
    for change in changes:
        assert change.new is not None
        references, uid = _owners(change.new), change.new["metadata"]["uid"]
        if _owners(change.old) == references:
            continue
        if change.old is not None:
            Owner.objects.filter(uid=uid).delete()
        plain_sql.insert([
            Owner(owner_uid=reference["uid"], resource=change.kind.resource, uid=uid,
                  namespace=change.key.namespace, name=change.key.name)
            for reference in references if len(reference["uid"]) <= Owner.LONGEST_UID
        ])  # fmt: skip
