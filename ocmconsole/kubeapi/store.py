"""Storage of resources: reads, and ``commit``, the only code that writes them.

Invariant: one transaction holds the revision numbers, the rows, the change log, the audit and the work for reconcilers.
The counter is taken by its first statement, so commits are serial and commit order is revision order. Nothing is locked
before it; a row is written only ``WHERE resource_version`` is what was read, else Conflict.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from ocmconsole.kubeapi import admission, audit, changes, controllers, errors, kinds, workqueue
from ocmconsole.kubeapi.actor import Actor
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.models import AuditEvent, Change, Owner, Resource, writing

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.selectors import LabelSelector

# Stands for the resourceVersion in text that is rendered before the number is known; cannot occur in a client's text.
_PLACEHOLDER = f"rv-{secrets.token_hex(16)}"
_sqlite_writes = threading.RLock()


@dataclass(slots=True)
class Write:
    """One object's step from ``old`` to ``new``; either may be absent (create, delete)."""

    kind: Kind
    key: Key
    row: Resource | None
    old: Doc | None
    new: Doc | None
    actor: Actor
    verb: str
    act: str
    reason: str = ""
    text: str = field(default="", init=False)
    before: str = field(default="", init=False)
    audit: AuditEvent | None = field(default=None, init=False)
    revision: int = field(default=0, init=False)


# ---------------------------------------------------------------- reads


def read(kind: Kind, key: Key) -> Resource | None:
    row: Resource | None = kind.model.objects.at(key).first()
    return row


@dataclass(frozen=True, slots=True)
class Page:
    """Wire texts in key order with the revision of the snapshot; ``last`` is set when more follow."""

    texts: list[str]
    revision: int
    last: Key | None = None
    remaining: int | None = None


def page(kind: Kind, *, namespace: str = "", selector: LabelSelector | None = None, name: str | None = None,
         after: Key | None = None, limit: int = 0) -> Page:  # fmt: skip
    """Rows of a kind by namespace and name. The revision is read before the rows, so a watch from it misses nothing."""
    revision = changes.head()
    rows = _narrowed(kind, namespace=namespace, selector=selector, name=name)
    total = None
    if after is not None:
        rows = rows.filter(
            models.Q(namespace__gt=after.namespace) | models.Q(namespace=after.namespace, name__gt=after.name)
        )
    found = list(rows.values_list("namespace", "name", "wire")[: limit + 1] if limit else rows.values_list("wire"))
    if not limit:
        return Page([row[0] for row in found], revision)
    if len(found) <= limit:
        return Page([row[2] for row in found], revision)
    last = Key(*found[limit - 1][:2])
    if selector is None or selector.is_empty:
        total = rows.count() - limit
    return Page([row[2] for row in found[:limit]], revision, last, total)


def _narrowed(kind: Kind, *, namespace: str, selector: LabelSelector | None, name: str | None) -> Any:
    """Push down what SQL can decide; the caller checks the selector on each document again."""
    rows = kind.model.objects.order_by("namespace", "name")
    if namespace:
        rows = rows.filter(namespace=namespace)
    if name is not None:
        rows = rows.filter(name=name)
    for requirement in selector.requirements if selector else ():
        if requirement.operator in {"=", "==", "in"}:
            rows = rows.filter(
                models.lookups.In(  # type: ignore[attr-defined] # lookups are expressions since Django 4.0
                    models.fields.json.KeyTextTransform(requirement.key, "labels"), list(requirement.values)
                )
            )
    return rows


def names(kind: Kind, *, namespace: str) -> list[str]:
    return list(kind.model.objects.filter(namespace=namespace).values_list("name", flat=True))


def has_dependents(uid: str) -> bool:
    """Whether any object names the uid as an owner."""
    return Owner.objects.filter(owner_uid=uid).exists()


# ---------------------------------------------------------------- the one write


def commit(writes: Sequence[Write], *, rows: Iterable[models.Model] = ()) -> int:
    """Write everything or nothing; returns the last revision.

    ``rows`` are the hub's own records (facts, audit notes) saved in the same transaction.
    Raises Conflict when a row is not what the caller read, AlreadyExists when a create came second.
    """
    now = timezone.now()
    facts: list[models.Model] = []
    for write in writes:
        facts += admission.records_of(write.actor, write.kind, write.old, write.new)
        _prepare(write, now)
    work = controllers.caused_by(writes)
    with writing(), _serial(), transaction.atomic(durable=True):
        last = _take(len(writes))
        for number, write in enumerate(writes, start=last - len(writes) + 1):
            _number(write, number)
            _write_row(write)
        _append(writes, now)
        for row in (*facts, *rows):
            row.save()
        workqueue.put(work, now)
        transaction.on_commit(lambda: _announce(writes, poke=bool(work)))
    return last


def _announce(writes: Sequence[Write], *, poke: bool) -> None:
    changes.wake({write.kind.resource for write in writes})
    if poke:
        workqueue.poke()


def _serial() -> AbstractContextManager[Any]:
    """SQLite lets one writer in; queue for it here instead of spinning inside the database."""
    return _sqlite_writes if connection.vendor == "sqlite" else nullcontext()


def _take(count: int) -> int:
    """Reserve numbers and hold the counter until the transaction ends; the first write ever makes it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO kubeapi_revision (id, value) VALUES (1, %s) "
            "ON CONFLICT (id) DO UPDATE SET value = kubeapi_revision.value + %s RETURNING value",
            [1 + count, count],
        )
        return int(cursor.fetchone()[0])


def _prepare(write: Write, now: datetime) -> None:
    """Everything that needs no lock: text, what it replaces, the audit entry."""
    document = write.new if write.new is not None else write.old
    assert document is not None
    document["metadata"]["resourceVersion"] = _PLACEHOLDER
    write.text = orjson.dumps(document).decode()
    if write.old is not None and write.row is not None and _selection_moved(write):
        write.before = write.row.wire
    if write.kind.audited:
        write.audit = AuditEvent(
            **audit.who(write.actor),
            time=now,
            outcome=AuditEvent.Outcome.ALLOWED,
            act=write.act,
            verb=write.verb,
            resource=write.kind.resource,
            namespace=write.key.namespace,
            name=write.key.name,
            uid=document["metadata"].get("uid", ""),
            reason=write.reason,
            diff=audit.diff(write.old, write.new, write.kind.secret_fields),
        )


def _selection_moved(write: Write) -> bool:
    """Whether a selector may have seen the old document and not the new one."""
    if write.new is None or write.old is None:
        return False
    if write.old["metadata"].get("labels") != write.new["metadata"].get("labels"):
        return True
    return any(
        value(version.from_storage(write.old)) != value(version.from_storage(write.new))
        for version in write.kind.versions
        for value in version.fields.values()
    )


def _number(write: Write, number: int) -> None:
    document = write.new if write.new is not None else write.old
    assert document is not None
    write.revision = number
    document["metadata"]["resourceVersion"] = str(number)
    write.text = write.text.replace(_PLACEHOLDER, str(number), 1)
    if write.audit is not None:
        write.audit.revision = number


def _write_row(write: Write) -> None:
    if write.new is None:
        _delete_row(write)
    elif write.row is None:
        _insert_row(write)
    else:
        _update_row(write)


def _columns(write: Write) -> Resource:
    """The row that the new document projects to."""
    assert write.new is not None
    metadata = write.new["metadata"]
    row = write.kind.model(
        uid=metadata["uid"],
        namespace=write.key.namespace,
        name=write.key.name,
        labels=metadata.get("labels") or {},
        resource_version=write.revision,
        created=instant(metadata["creationTimestamp"]),
        deleted_at=instant(metadata["deletionTimestamp"]) if metadata.get("deletionTimestamp") else None,
        wire=write.text,
    )
    if write.kind.project is not None:
        write.kind.project(row, write.new)
    return row


def _insert_row(write: Write) -> None:
    try:
        with transaction.atomic():
            _columns(write).save(force_insert=True)
    except IntegrityError as error:
        raise errors.already_exists(write.kind.group, write.kind.plural, write.key.name) from error
    _index_owners(write)


def _update_row(write: Write) -> None:
    assert write.row is not None
    row = _columns(write)
    columns = {column.attname: getattr(row, column.attname) for column in row._meta.concrete_fields}  # noqa: SLF001 - Django's documented name
    found = write.kind.model.objects.filter(uid=write.row.uid, resource_version=write.row.resource_version)
    if not found.update(**columns):
        raise Stale.of(write)
    if write.old is not None and write.old["metadata"].get("ownerReferences") != write.new["metadata"].get(
        "ownerReferences"
    ):  # type: ignore[index] # checked by _write_row
        Owner.objects.filter(uid=row.uid).delete()
        _index_owners(write)


def _delete_row(write: Write) -> None:
    assert write.row is not None
    found = write.kind.model.objects.filter(uid=write.row.uid, resource_version=write.row.resource_version)
    if not found.delete()[0]:
        raise Stale.of(write)
    Owner.objects.filter(uid=write.row.uid).delete()


def _index_owners(write: Write) -> None:
    assert write.new is not None
    references = write.new["metadata"].get("ownerReferences") or []
    Owner.objects.bulk_create(
        Owner(owner_uid=reference["uid"], resource=write.kind.resource, uid=write.new["metadata"]["uid"],
              namespace=write.key.namespace, name=write.key.name)
        for reference in references if len(reference["uid"]) <= Owner.LONGEST_UID
    )  # fmt: skip


def _append(writes: Sequence[Write], now: datetime) -> None:
    Change.objects.bulk_create(
        Change(
            revision=write.revision,
            resource=write.kind.resource,
            verb=_log_verb(write),
            namespace=write.key.namespace,
            name=write.key.name,
            time=now,
            wire=write.text,
            before=write.before,
        )
        for write in writes
    )
    AuditEvent.objects.bulk_create(write.audit for write in writes if write.audit is not None)


def _log_verb(write: Write) -> Change.Verb:
    if write.new is None:
        return Change.Verb.DELETED
    return Change.Verb.ADDED if write.row is None else Change.Verb.MODIFIED


class Stale(errors.Conflict):
    """The row moved between reading and writing; a patch without a resourceVersion is tried again."""

    @classmethod
    def of(cls, write: Write) -> Stale:
        told = errors.conflict(write.kind.group, write.kind.plural, write.key.name)
        return cls(told.message, details=told.details)


def check_wire() -> tuple[int, list[str]]:
    """Compare every row's columns with what its wire text projects to: rows seen, and what is wrong."""
    checked, wrong = 0, []
    for kind in kinds.all_kinds():
        for row in kind.model.objects.iterator():
            checked += 1
            write = Write(kind, row.key, row, None, row.doc, Actor.anonymous(), "", "")
            write.text, write.revision = row.wire, int(row.doc["metadata"]["resourceVersion"])
            wrong += [
                f"{kind.resource} {row.key}: column {column.attname} is {getattr(row, column.attname)!r}"
                for column in row._meta.concrete_fields  # noqa: SLF001 - Django's documented name
                if getattr(row, column.attname) != getattr(_columns(write), column.attname)
            ]
    return checked, wrong


# ---------------------------------------------------------------- times


def instant(text: str) -> datetime:
    """RFC 3339 text to an aware datetime."""
    return datetime.fromisoformat(text)


def timestamp(moment: datetime) -> str:
    """metav1.Time: whole seconds in UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """metav1.MicroTime: exactly six decimals (W29)."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
