"""Rows of the machinery: the abstract resource, revision counter, change log, audit, work queue and bulk jobs.

The wire text of a resource is the resource; its other columns are an index of it, made from the document at each write
(docs/adr/0001-the-wire-text-is-the-row.md). Only ``store.commit`` may write resources: everything else raises.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import orjson
from django.conf import settings
from django.db import connection, models, transaction

from ocmconsole.kubeapi import errors, kinds
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.kinds import Key

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from ocmconsole.kubeapi.errors import Doc

LONGEST_QUERY = 2_000  # characters; browsers and proxies take addresses of this length
APPEND_ONLY = "the audit is append-only: entries are neither changed nor removed"


class PermissionName(StrEnum):
    """Django permissions as ``app.codename``; each app names those of its models once, beside the models.

    Checks, messages, presets and templates take them from there; ``tests/architecture/test_permissions.py`` holds it.
    """

    @property
    def codename(self) -> str:
        return self.value.partition(".")[2]


class AuditPermission(PermissionName):
    VIEW = "kubeapi.view_auditevent"  # of everybody, not only of what one sees


_store_is_writing: ContextVar[bool] = ContextVar("store_is_writing", default=False)


@contextmanager
def writing() -> Iterator[None]:
    """Open the guard of resources; ``store.commit`` is the only caller."""
    token = _store_is_writing.set(True)
    try:
        yield
    finally:
        _store_is_writing.reset(token)


def _refuse_outside_store(what: str) -> None:
    if not _store_is_writing.get():
        msg = f"{what} on a resource goes through verbs, so that rules, audit and watches hold"
        raise RuntimeError(msg)


class NameField(models.CharField[str, str]):
    """Text that orders by its bytes on every database (names, namespaces)."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        parameters = super().db_parameters(connection)
        parameters["collation"] = "C" if connection.vendor == "postgresql" else None
        return parameters


class ResourceQuerySet(models.QuerySet[Any]):
    """Reads as usual; writes only from the store."""

    def at(self, key: Key) -> Self:
        return self.filter(namespace=key.namespace, name=key.name)

    def update(self, **columns: Any) -> int:
        _refuse_outside_store("update()")
        return super().update(**columns)

    def delete(self) -> tuple[int, dict[str, int]]:
        _refuse_outside_store("delete()")
        return super().delete()

    def bulk_create(self, *args: Any, **options: Any) -> list[Any]:
        _refuse_outside_store("bulk_create()")
        return super().bulk_create(*args, **options)


class Resource(models.Model):
    """One stored object of a kind."""

    uid = models.CharField(max_length=36, primary_key=True)
    namespace = NameField(max_length=63, blank=True, default="")
    name = NameField(max_length=253)
    labels = models.JSONField(default=dict)
    resource_version = models.BigIntegerField()
    created = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True)
    wire = models.TextField()

    objects: ClassVar[ResourceQuerySet] = ResourceQuerySet.as_manager()  # type: ignore[assignment] # a queryset's own manager

    class Meta:
        abstract = True
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["namespace", "name"], name="%(app_label)s_%(class)s_key"),
        ]

    def __str__(self) -> str:
        return str(self.key)

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def doc(self) -> Doc:
        """A fresh copy of the document in its stored version."""
        document: Doc = orjson.loads(self.text)
        return document

    @property
    def text(self) -> str:
        """The wire text, decrypted where the kind is confidential. Raises Unreadable."""
        wire = stored_text.kept(self.wire) if type(self) in kinds.confidential_models else self.wire
        return stored_text.decrypt(wire, self.resource_version, self.namespace, self.name)

    def begin(self) -> None:
        """Set what only a new row says; the store calls it before it inserts one."""

    def save(self, *args: Any, **options: Any) -> None:
        _refuse_outside_store("save()")
        super().save(*args, **options)

    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:
        _refuse_outside_store("delete()")
        return super().delete(*args, **options)


class TakenCounter(NamedTuple):
    """What the counter says to who has taken it."""

    last: int  # of the numbers that were reserved
    rights: int  # how often rights or credentials have changed
    ended_rights: int  # how often some may have ended by that


class Revision(models.Model):
    """The one counter row: every write takes its numbers here, first, so that commit order is revision order."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    value = models.BigIntegerField(default=1)
    # How often rights or credentials have changed: who has seen this many need not look further.
    rights = models.BigIntegerField(default=0)
    # How many of those were changes of objects alone, by which no certificate ended. What the release before counts is
    # not among them, so it is taken for more than it is.
    rights_of_objects = models.BigIntegerField(default=0, db_default=0)
    # How many of those need nobody asked again who watches or renews a lease: new objects only give rights, and a watch
    # is asked by itself after its object is gone, and with it the permissions on it. Of the release before as above.
    rights_given = models.BigIntegerField(default=0, db_default=0)
    # While a person has made the hub read-only: why, in words; else null.
    read_only = models.TextField(null=True)  # noqa: DJ001 - the release before inserts nothing here

    # Of a process: whether it may write nevertheless, to end that or to migrate.
    is_exempt: ClassVar[bool] = False

    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def take(cls, count: int) -> TakenCounter:
        """Reserve ``count`` numbers and lock the counter until the transaction ends; the first write ever makes it.

        Raises ServiceUnavailable while a hub is read-only.
        """
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO kubeapi_revision (id, value, rights) VALUES (1, %s, 0) "
                "ON CONFLICT (id) DO UPDATE SET value = kubeapi_revision.value + %s "
                "RETURNING value, rights, rights - rights_given, read_only",
                [1 + count, count],
            )
            *taken, read_only = cursor.fetchone()
            if read_only is not None and not cls.is_exempt:
                raise errors.unable(read_only)
            return TakenCounter(*taken)


class Incarnation(models.Model):
    """One life of the hub (D28): the first begins with it, each further one with a restore; the newest is the present.

    A hub is quiet in one that nobody has activated: it schedules nothing, so that it evicts nobody.
    """

    number = models.PositiveIntegerField(primary_key=True)
    uid = models.CharField(max_length=36, unique=True)
    begun_at = models.DateTimeField()
    activated_at = models.DateTimeField(null=True)
    activated_by = models.CharField(max_length=320, blank=True, default="")
    # Of a restore: when its backup was made, and up to when what was revoked afterwards is known; else null.
    backup_at = models.DateTimeField(null=True)
    revoked_until = models.DateTimeField(null=True)
    # Of the first one: since when nothing that is to be encrypted is in clear; from then on no such text is believed.
    encrypted_since = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.number} {self.uid}"


class Change(models.Model):
    """One line of the log that feeds every watch, index and cache. ``revision`` is the object's resourceVersion."""

    class Verb(models.TextChoices):
        ADDED = "ADDED"
        MODIFIED = "MODIFIED"
        DELETED = "DELETED"

    revision = models.BigIntegerField(primary_key=True)
    resource = models.CharField(max_length=120)
    verb = models.CharField(max_length=8, choices=Verb)
    namespace = NameField(max_length=63, blank=True, default="")
    name = NameField(max_length=253)
    time = models.DateTimeField(db_index=True)
    wire = models.TextField()
    # The document before, kept only when labels or selectable fields moved: watches with a selector need it (W12).
    before = models.TextField(blank=True, default="")
    size = models.PositiveIntegerField(default=0)  # bytes of both documents

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["resource", "revision"]),
            models.Index(fields=["resource", "size"]),  # summed without reading the documents
        ]

    def __str__(self) -> str:
        return f"{self.revision} {self.verb} {self.resource} {Key(self.namespace, self.name)}"

    @property
    def text(self) -> str:
        """The wire text, decrypted where the kind is confidential. Raises Unreadable."""
        wire = stored_text.kept(self.wire) if self.resource in kinds.confidential_resources else self.wire
        return stored_text.decrypt(wire, self.revision, self.namespace, self.name)


class Compaction(models.Model):
    """Up to which revision the log of a resource has been cut; a watch from before gets 410."""

    resource = models.CharField(max_length=120, primary_key=True)
    revision = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.resource} up to {self.revision}"


class HeldBack(models.Model):
    """Requests of one identity that a limit refused (D23). ``user`` is "" for a caller without a valid credential.

    ``since`` is the first of the refusals that ``count`` counts, which lie less than an hour apart.
    """

    user = models.CharField(max_length=320, blank=True, default="")
    address = models.CharField(max_length=64, blank=True, default="")
    limit = models.CharField(max_length=60)
    count = models.BigIntegerField()
    since = models.DateTimeField()
    last = models.DateTimeField(db_index=True)

    class Meta:
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["user", "limit"])]

    def __str__(self) -> str:
        return f"{self.user or self.address}: {self.limit}, {self.count} times"


class Owner(models.Model):
    """Index of owner references: who depends on which uid (W18). A longer uid is nobody's and not indexed."""

    LONGEST_UID = 64

    owner_uid = models.CharField(max_length=LONGEST_UID, db_index=True)
    resource = models.CharField(max_length=120)
    uid = models.CharField(max_length=36, db_index=True)
    namespace = NameField(max_length=63, blank=True, default="")
    name = NameField(max_length=253)

    def __str__(self) -> str:
        return f"{self.resource} {Key(self.namespace, self.name)} of {self.owner_uid}"


class AuditQuerySet(models.QuerySet[Any]):
    """Append-only: a denial is counted on its row for a minute, and retention cuts what is sealed (D11)."""

    def update(self, **columns: Any) -> int:
        if columns.keys() - {"count", "time"}:
            raise RuntimeError(APPEND_ONLY)
        return super().update(**columns)

    def delete(self) -> tuple[int, dict[str, int]]:
        raise RuntimeError(APPEND_ONLY)

    def cut(self) -> int:
        """For ``audit_chain.delete_old_entries`` alone."""
        return super().delete()[0]


class AuditEvent(models.Model):
    """Who did what through which entry point, or was denied and why. Append-only; D11: one row a minute for denials.

    A reader that goes on from the newest entry misses none: each is numbered by a transaction that holds the counter
    (``Revision.take``) until it ends. ``save`` takes it; a caller of ``bulk_create`` has taken it.
    """

    class Outcome(models.TextChoices):
        ALLOWED = "allowed"
        DENIED = "denied"

    time = models.DateTimeField(db_index=True)
    revision = models.BigIntegerField(null=True, unique=True)
    request_id = models.CharField(max_length=36, blank=True, default="", db_index=True)
    user = models.CharField(max_length=320, db_index=True)
    groups = models.JSONField(default=list)
    impersonator = models.CharField(max_length=320, blank=True, default="")
    credential = models.CharField(max_length=120, blank=True, default="")
    address = models.CharField(max_length=64, blank=True, default="")
    user_agent = models.CharField(max_length=256, blank=True, default="")
    entry_point = models.CharField(max_length=10, db_column="door")  # the name of the column and of exports
    outcome = models.CharField(max_length=7, choices=Outcome)
    act = models.CharField(max_length=80)
    verb = models.CharField(max_length=20)
    resource = models.CharField(max_length=160)
    namespace = NameField(max_length=253, blank=True, default="")
    name = NameField(max_length=253, blank=True, default="")
    uid = models.CharField(max_length=36, blank=True, default="")
    reason = models.TextField(blank=True, default="")
    diff = models.JSONField(default=list)
    count = models.PositiveIntegerField(default=1)
    # Digest of what a minute's equal denials share; null for writes.
    same = models.CharField(max_length=64, null=True, unique=True)  # noqa: DJ001 - unique among denials only

    objects: ClassVar[AuditQuerySet] = AuditQuerySet.as_manager()  # type: ignore[assignment] # a queryset's own manager

    class Meta:
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["resource", "namespace", "name", "time"])]

    def __str__(self) -> str:
        return f"{self.time:%Y-%m-%d %H:%M:%S} {self.user} {self.act} {self.resource} {self.name}: {self.outcome}"

    def save(self, *args: Any, **options: Any) -> None:
        if not self._state.adding:
            raise RuntimeError(APPEND_ONLY)
        with transaction.atomic(savepoint=False):
            Revision.take(0)  # as commits do: no entry becomes visible before one with a lower number
            super().save(*args, **options)

    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:  # noqa: ARG002 - Django's signature
        raise RuntimeError(APPEND_ONLY)


class AuditSeal(models.Model):
    """A segment of the audit and its place in the hash chain (D11). Stays when the entries are cut.

    ``key`` says by which key of a home it was made (``audit_chain.key_name``); empty where that was not noted yet.
    """

    number = models.PositiveIntegerField(primary_key=True)
    first = models.BigIntegerField()
    last = models.BigIntegerField(unique=True)
    count = models.PositiveIntegerField()
    newest = models.DateTimeField()
    digest = models.CharField(max_length=64)
    cut_at = models.DateTimeField(null=True)
    cut_mark = models.CharField(max_length=64, blank=True, default="")
    key = models.CharField(max_length=16, blank=True, default="", db_default="")

    def __str__(self) -> str:
        return f"{self.number} up to {self.last}: {self.digest[:16]}"


class OutboundPosition(models.Model):
    """Up to which audit entry and seal the receiver of an outlet has taken everything, and how sending goes.

    ``sender`` is the process that sends, until ``busy_until``; nothing is sent before ``due``.
    """

    outlet = models.CharField(max_length=40, primary_key=True)
    entry = models.BigIntegerField(default=0)
    seal = models.PositiveIntegerField(default=0)
    taken_at = models.DateTimeField(null=True)
    sender = models.CharField(max_length=36, blank=True, default="")
    busy_until = models.DateTimeField(null=True)
    due = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    problem = models.CharField(max_length=300, blank=True, default="")
    failing_since = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.outlet} up to {self.entry}"


class WorkItem(models.Model):
    """Something to look at again: one row for each reconciler and key, written with the change that caused it."""

    reconciler = models.CharField(max_length=80)
    namespace = NameField(max_length=63, blank=True, default="")
    name = NameField(max_length=253)
    due = models.DateTimeField(db_index=True)
    attempts = models.PositiveIntegerField(default=0)
    # Until then a worker is at it; one that died is over then.
    busy_until = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["reconciler", "namespace", "name"], name="kubeapi_workitem_key"),
        ]

    def __str__(self) -> str:
        return f"{self.reconciler} {self.key}"

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class Pulse(models.Model):
    """When a process of the hub last said that it is alive; one row for each role that others need."""

    name = models.CharField(max_length=40, primary_key=True)
    seen = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} {self.seen:%Y-%m-%d %H:%M:%S}"


class BulkSelection(models.Model):
    """Objects that a person selected for one act: names with what the act needs of each. Forgotten after a day.

    Kept here so that any number can be selected, by a filter too, and no name travels in an address.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    items = models.JSONField(default=dict)
    # Of the address of the list in which they were selected: its filter and page.
    query = models.CharField(max_length=LONGEST_QUERY, blank=True, default="")
    created = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{len(self.items)} objects selected by {self.person_id}"


class BulkJob(models.Model):
    """An act on many objects: the user who started it, their address and credential, and the items."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    act = models.CharField(max_length=40)
    arguments = models.JSONField(default=dict)
    # Of the address of the list from which it was begun: its filter and page.
    query = models.CharField(max_length=LONGEST_QUERY, blank=True, default="")
    # Credential, address, user agent and request id of the user who started it, for the audit of each item.
    origin = models.JSONField(default=dict)
    created = models.DateTimeField(db_index=True)
    ended = models.DateTimeField(null=True)
    # Until then a worker is at it; one that died is over then.
    busy_until = models.DateTimeField(null=True)
    undone = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.act} of {self.person_id}"


class BulkItem(models.Model):
    """One object of such an act and what became of it."""

    class State(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        REFUSED = "refused"
        FAILED = "failed"
        NOT_TRIED = "not tried"

    job = models.ForeignKey(BulkJob, models.CASCADE, related_name="items")
    name = NameField(max_length=253)
    given = models.JSONField(default=dict)
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    text = models.TextField(blank=True, default="")

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["job", "name"], name="kubeapi_bulkitem_key"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.state}"
