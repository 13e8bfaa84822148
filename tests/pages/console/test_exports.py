"""Exports of a fleet that is larger than a chunk: complete on both databases, and a failure shows in the file."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import Client

from clusters.fleet import export_pages
from clusters.models import ManagedCluster
from ocmconsole.components import downloads
from tests.actors import signed_in
from tests.bench import crowd
from tests.selection import FULL

pytestmark = [pytest.mark.django_db]

MANY = 20_000 if FULL else 2_500


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


def sent(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


def test_an_export_holds_every_cluster(admin: Client) -> None:
    crowd.fill(MANY)
    names = set(ManagedCluster.objects.values_list("name", flat=True))
    assert len(names) == MANY
    table = list(csv.DictReader(io.StringIO(sent(admin.get("/clusters/_export/csv/")).decode())))
    assert len(table) == MANY
    assert {row["name"] for row in table} == names
    assert {row["name"] for row in json.loads(sent(admin.get("/clusters/_export/json/")))} == names


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_export_that_fails_says_so_in_its_last_line(form: str, admin: Client) -> None:
    crowd.fill(1_500)
    sending = iter(admin.get(f"/clusters/_export/{form}/").streaming_content)  # type: ignore[attr-defined] # a stream
    received = [next(sending) for _ in range(10)]
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE clusters_clusterfacts RENAME TO clusters_elsewhere")
    with pytest.raises(DatabaseError):
        received.extend(sending)
    assert received[-1].decode().strip() == downloads.INCOMPLETE.strip()
    assert len(received) < 1_500


@pytest.mark.parametrize(
    ("written", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("\uff1d1+1", "'\uff1d1+1"),  # full-width
        ("\uff20SUM(A1)", "'\uff20SUM(A1)"),
        ("\ufe62cmd", "'\ufe62cmd"),  # small form of +
        ("\n=1+1", "' =1+1"),
        ("\t=1+1", "'\t=1+1"),
        ("fine\r\n=1+1\u2028-2", "fine =1+1 -2"),
        ("fine;=1+1; -2;3", "fine;'=1+1;' -2;3"),  # a separator of cells in half of Europe
        ("v1.30.2", "v1.30.2"),
        ("", ""),
    ],
)
def test_no_cell_is_a_formula_or_a_second_line(admin: Client, written: str, cell: str) -> None:
    assert export_pages.safe(written) == cell
