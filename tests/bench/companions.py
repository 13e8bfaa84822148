"""What an accepted cluster has besides its ManagedCluster, for many at once, written past the store.

One cluster is let in by the hub's own reconcilers; its objects are copied for all others with their names and uids, so
that text, columns and sizes are those of the hub. Certificates are signed by the hub's CA and are in its register.
Called by ``crowd``, inside the hub's own Django.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Self

import orjson
from django.conf import settings
from django.db import connection, transaction

from clusters.kinds import LEASE, MANAGED_CLUSTER
from ocmconsole.kubeapi import kinds, verbs
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, MASTERS, Actor
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.models import Resource, writing
from ocmconsole.kubeapi.storage import reader
from registration.models import AcceptedKey, IssuedCertificate, KeyLine
from registration.pki import agent_names, ca

Doc = dict[str, Any]

ROOT = Actor(user="root", groups=(MASTERS, AUTHENTICATED))
TEMPLATE = "bench-template-cluster"  # a text that occurs in no object of another one
AGENT = "bench"  # the name of every cluster's agent
RENEWER = "registration"  # by which its program is known in managedFields


@dataclass(frozen=True)
class Copied:
    """One object of the template: table, columns, and values as the database takes them."""

    number: int
    table: str
    columns: tuple[str, ...]
    values: tuple[Any, ...]
    uid: str

    def row(self, cluster: str, number: int) -> tuple[Any, ...]:
        uid = f"{self.number:08x}-0000-4000-8000-{number:012x}"
        return tuple(
            value.replace(TEMPLATE, cluster).replace(self.uid, uid) if isinstance(value, str) else value
            for value in self.values
        )


@dataclass(frozen=True)
class Template:
    """``metadata``: of cluster and lease, what a document made elsewhere has to have too."""

    copied: Sequence[Copied]
    metadata: dict[Kind, Doc]

    @classmethod
    def let_in(cls) -> Self:
        """A cluster that the hub accepts; its objects are read, and taken away again."""
        spec = {"hubAcceptsClient": True, "leaseDurationSeconds": 60}
        verbs.create(ROOT, MANAGED_CLUSTER, {"metadata": {"name": TEMPLATE}, "spec": spec})
        workqueue.drain()
        rows = [(kind, row) for kind in kinds.all_kinds() for row in _objects(kind)]
        kept = {
            kind: {
                part: value
                for part, value in row.doc["metadata"].items()
                if part in {"generation", "finalizers", "managedFields"}
            }
            for kind, row in rows
            if kind in {MANAGED_CLUSTER, LEASE}
        }
        numbers = count(1)
        kept[LEASE]["managedFields"] = _renewed(kept[LEASE]["managedFields"])
        copied = [_copied(next(numbers), row) for kind, row in rows if kind not in kept]
        with transaction.atomic(), writing():
            for _, row in rows:
                row.delete()
        return cls(copied, kept)

    def insert(self, clusters: Sequence[tuple[int, str]]) -> None:
        for each in self.copied:
            insert(each.table, each.columns, (each.row(name, number) for number, name in clusters))


def _renewed(fields: list[Doc]) -> list[Doc]:
    """Of a lease that its agent has renewed before, as every lease of a fleet that is there."""
    left = [{**entry, "fieldsV1": entry["fieldsV1"] | {"f:spec": {**entry["fieldsV1"]["f:spec"]}}} for entry in fields]
    for entry in left:
        entry["fieldsV1"]["f:spec"].pop("f:renewTime")
    agent = {**left[0], "manager": RENEWER, "fieldsV1": {"f:spec": {"f:renewTime": {}}}}
    return [*left, agent]


def _objects(kind: Kind) -> Iterator[Resource]:
    """Those that belong to the template: itself, what is in its namespace, and what has its name in theirs."""
    rows = kind.model.objects.filter(namespace=TEMPLATE) | kind.model.objects.filter(name__contains=TEMPLATE)
    yield from rows if kind.parts else [row for row in rows if not kind.resource.startswith("events")]


def _copied(number: int, row: Resource) -> Copied:
    fields = row._meta.concrete_fields
    values = [
        orjson.dumps(value).decode()
        if isinstance(value := getattr(row, field.attname), dict)
        else field.get_db_prep_save(value, connection)
        for field in fields
    ]
    return Copied(number, row._meta.db_table, tuple(str(field.column) for field in fields), tuple(values), row.uid)


def insert(table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Rows as the database takes them, at its own speed."""
    named = ", ".join(connection.ops.quote_name(column) for column in columns)
    into = f"{connection.ops.quote_name(table)} ({named})"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {into} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        else:
            places = ", ".join(["%s"] * len(columns))
            cursor.executemany(f"INSERT INTO {into} VALUES ({places})", list(rows))  # noqa: S608 - names of models


# ---------------------------------------------------------------------------------------------------- certificates


class Issuer:
    """Issues agents' certificates; the file ``listed`` gets a line of JSON for each: name, certificate and key."""

    def __init__(self, listed: Path) -> None:
        self._authority = ca.client_authority(Path(settings.OCMCONSOLE_HOME))
        self._listed = listed
        self._lines = count(1 + (KeyLine.objects.order_by("-pk").values_list("pk", flat=True).first() or 0))
        listed.touch(mode=0o600)

    def issue(
        self, lifetimes: Mapping[str, timedelta], listed: Collection[str], now: datetime
    ) -> dict[str, ca.Certificate]:
        """By cluster, all of them in the register; those of ``listed`` with their keys in the file."""
        found: dict[str, ca.Certificate] = {}
        with self._listed.open("ab") as file:
            for name, lifetime in lifetimes.items():
                group = agent_names.group_of(name)
                groups = sorted([group, agent_names.MANAGED_CLUSTERS])
                chain, key = self._authority.issue_client(f"{group}:{AGENT}", groups, lifetime, now)
                found[name] = ca.parse_certificate(chain)
                if name in listed:
                    line = {"name": name, "certificate": chain.decode(), "key": key.decode()}
                    file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self._register(found, now)
        return found

    def _register(self, found: dict[str, ca.Certificate], now: datetime) -> None:
        lines = {name: KeyLine(pk=next(self._lines), cluster=name, begun_at=now) for name in found}
        KeyLine.objects.bulk_create(lines.values())
        IssuedCertificate.objects.bulk_create(
            IssuedCertificate(
                fingerprint=each.fingerprint, common_name=each.common_name, cluster=name, serial=each.serial,
                key_fingerprint=each.key_fingerprint, not_before=each.not_before, not_after=each.not_after,
                authority=self._authority.key_fingerprint,
            )
            for name, each in found.items()
        )  # fmt: skip
        through = IssuedCertificate.lines.through
        through.objects.bulk_create(
            through(issuedcertificate_id=each.fingerprint, keyline=lines[name]) for name, each in found.items()
        )
        AcceptedKey.objects.bulk_create(
            AcceptedKey(
                cluster=name, fingerprint=each.key_fingerprint, key="EC 256", how=AcceptedKey.How.ACCEPT,
                line=lines[name], accepted_by="ana", accepted_at=now, request="", request_uid="",
            )
            for name, each in found.items()
        )  # fmt: skip

    @staticmethod
    def end() -> None:
        """The next line of keys is numbered after those that were numbered here."""
        if connection.vendor == "postgresql":
            table = KeyLine._meta.db_table
            with connection.cursor() as cursor:
                cursor.execute(
                    f"SELECT setval(pg_get_serial_sequence(%s, 'id'), coalesce(max(id), 1)) FROM {table}",  # noqa: S608 - as above
                    [table],
                )


def row_of(kind: Kind, doc: Doc) -> Resource:
    metadata = doc["metadata"]
    key = Key(metadata.get("namespace", ""), metadata["name"])
    return reader.row_of(kind, key, doc, orjson.dumps(doc).decode(), int(metadata["resourceVersion"]))
