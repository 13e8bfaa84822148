"""Rows of resources: how they are read, and which columns a document has.

The wire text is the truth; ``row_of`` says what the other columns must be, ``check_wire`` proves that they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.db.models import Exists, Q, Subquery
from django.db.models.lookups import In

from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.models import Owner, Resource, Revision
from ocmconsole.kubeapi.schema.times import parse_time
from ocmconsole.kubeapi.storage import plain_sql
from ocmconsole.kubeapi.storage.selector_sql import LabelValue
from ocmconsole.kubeapi.storage.selectors import Operator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import ChildRows
    from ocmconsole.kubeapi.storage.selectors import LabelSelector

EXACT = frozenset({Operator.EQUALS, Operator.IN})
# The rest of a longer selector is checked on the documents: a database refuses an expression that is too deep.
MOST_CONDITIONS = 20
ROWS_OF_A_PART = 250  # of a list that is read at once: half a MiB of clusters
LARGEST_PAGE = 2**31  # a client's limit may be larger than a database's LIMIT


def read_row(kind: Kind, key: Key) -> Resource | None:
    """The stored object, or None. One query."""
    row: Resource | None = plain_sql.row_by(kind.model.objects, namespace=key.namespace, name=key.name)
    return row


@dataclass(frozen=True, slots=True)
class TextPage:
    """Wire texts in key order with the revision of the snapshot; ``last`` is set when more follow.

    ``versions`` are the uid and resourceVersion of each.
    """

    texts: list[str]
    versions: list[tuple[str, int]]
    revision: int
    last: Key | None = None
    remaining: int | None = None


def read_page(kind: Kind, *, namespace: str = "", selector: LabelSelector | None = None, name: str | None = None,
         after: Key | None = None, limit: int = 0, deleting: bool = False) -> TextPage:  # fmt: skip
    """Rows of a kind by namespace and name, as of one revision: a watch from there repeats and misses nothing.

    ``deleting`` leaves out all that are not being deleted.
    """
    rows = _narrowed(kind, namespace=namespace, selector=selector, name=name)
    if deleting:
        rows = rows.filter(deleted_at__isnull=False)
    if after is not None:
        rows = rows.filter(_beyond(after, in_one=not kind.namespaced or namespace == after.namespace))
    limit = min(limit, LARGEST_PAGE)
    found, revision = _snapshot(rows, limit + 1 if limit else None)
    page = found[:limit] if limit else found
    versions = [(row[5], row[4]) for row in page]
    if len(page) == len(found):
        return TextPage(_texts(kind, page), versions, revision)
    total = rows.count() - limit if selector is None or selector.is_empty else None
    return TextPage(_texts(kind, page), versions, revision, Key(*page[-1][:2]), total)


def _beyond(after: Key, *, in_one: bool) -> Q:
    """Rows behind the key, as a range of the index: what is before is not looked at. ``in_one``: of its namespace."""
    if in_one:
        return Q(namespace=after.namespace, name__gt=after.name)
    return Q(namespace__gte=after.namespace) & (Q(namespace__gt=after.namespace) | Q(name__gt=after.name))


def _texts(kind: Kind, found: Iterable[Any]) -> list[str]:
    """Of rows of a snapshot. Raises Unreadable."""
    if not kind.confidential:
        return [row[2] for row in found]
    return [
        stored_text.decrypt(stored_text.kept(wire), version, namespace, name)
        for namespace, name, wire, _, version, _ in found
    ]


def _snapshot(rows: Any, count: int | None) -> tuple[list[Any], int]:
    """Rows and the revision of the hub, read by one statement. A transaction would stop SQLite's writers."""
    counter = Revision.objects.filter(pk=1)
    columns = ("namespace", "name", "wire", Subquery(counter.values("value")), "resource_version", "uid")
    while not (found := list(rows.values_list(*columns)[:count])):
        revision, has_come = counter.annotate(has_rows=Exists(rows)).values_list("value", "has_rows").first() or (
            1,
            False,
        )
        if not has_come:
            return [], revision
    return found, found[0][3]


def read_everything(kind: Kind, *, namespace: str = "") -> tuple[list[bytes], int]:
    """All texts of a kind as parts of a JSON list, which commas join, and their revision: of one snapshot.

    Read by one statement, without a copy of the whole.
    """
    rows = _narrowed(kind, namespace=namespace, selector=None, name=None)
    if kind.confidential:
        snapshot, revision = _snapshot(rows, None)
        return ([",".join(_texts(kind, snapshot)).encode()] if snapshot else []), revision
    counter = Revision.objects.filter(pk=1).values("value")
    found = rows.values_list("wire", Subquery(counter))
    sql, parameters = found.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        parts, revision = [], 0
        while batch := cursor.fetchmany(ROWS_OF_A_PART):
            parts.append(",".join([wire for wire, _ in batch]).encode())
            revision = batch[0][1]
    if parts:
        return parts, revision
    texts, revision = _snapshot(rows, None)  # nothing: then it is to be known as of when
    return ([",".join([row[2] for row in texts]).encode()] if texts else []), revision


def _narrowed(kind: Kind, *, namespace: str, selector: LabelSelector | None, name: str | None) -> Any:
    """Push down what SQL can decide; the caller checks the selector on each document again."""
    rows = kind.model.objects.order_by("namespace", "name")
    if namespace:
        rows = rows.filter(namespace=namespace)
    if name is not None:
        rows = rows.filter(name=name)
    exact = [each for each in selector.requirements if each.operator in EXACT] if selector else []
    for requirement in exact[:MOST_CONDITIONS]:
        rows = rows.filter(In(LabelValue(requirement.key), list(requirement.values)))
    return rows


def has_dependents(uid: str) -> bool:
    """Whether any object names the uid as an owner."""
    return Owner.objects.filter(owner_uid=uid).exists()


def row_of(kind: Kind, key: Key, doc: Doc, text: str, revision: int) -> Resource:
    """The row that a document projects to."""
    metadata = doc["metadata"]
    row = kind.model(
        uid=metadata["uid"],
        namespace=key.namespace,
        name=key.name,
        labels=metadata.get("labels") or {},
        resource_version=revision,
        created=parse_time(metadata["creationTimestamp"]),
        deleted_at=parse_time(metadata["deletionTimestamp"]) if metadata.get("deletionTimestamp") else None,
        wire=text,
    )
    if kind.project is not None:
        kind.project(row, doc)
    return row


def check_wire() -> tuple[int, list[str]]:
    """Compare every row's columns with what its wire text projects to: rows seen, and what is wrong."""
    checked, wrong = 0, []
    for kind in kinds.all_kinds():
        for row in kind.model.objects.iterator():
            checked += 1
            try:
                doc = row.doc
            except stored_text.Unreadable as error:
                wrong.append(f"{kind.resource} {row.key}: {error.message}")
                continue
            wanted = row_of(kind, row.key, doc, row.wire, int(doc["metadata"]["resourceVersion"]))
            wrong += [
                f"{kind.resource} {row.key}: column {column.attname} is {getattr(row, column.attname)!r}"
                for column in row._meta.concrete_fields  # noqa: SLF001 - Django's documented name
                if column.attname not in kind.timed and getattr(row, column.attname) != getattr(wanted, column.attname)
            ]
            wrong += [
                f"{kind.resource} {row.key}: rows of {part.model._meta.model_name} differ"  # noqa: SLF001 - as above
                for part in kind.parts
                if not _is_kept(part, row, doc)
            ]
    return checked, wrong


def _is_kept(part: ChildRows, row: Resource, doc: Doc) -> bool:
    """Whether the child rows are what the document says, in any order."""
    wanted = part.columns(doc)
    names = list(wanted[0]) if wanted else ["pk"]
    children = part.model._default_manager.filter(**{part.parent: row.pk})  # noqa: SLF001 - Django's documented name
    return sorted(children.values_list(*names)) == sorted(tuple(columns.values()) for columns in wanted)
