"""Lists of Django admin: searched, filtered by date, and fast with many rows. Their SQL differs by database."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ocmconsole.kubeapi.models import BulkJob
from tests import factories as make
from tests.pages.access.admin_site import CLUSTERS, LISTS, text

pytestmark = pytest.mark.django_db

MOST_QUESTIONS = 16  # of a page with a list


def test_lists_can_be_searched_and_followed_through_time(root: Client, records: None) -> None:
    now, begun = timezone.now(), 0
    for model, model_admin in admin.site._registry.items():
        path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        assert model_admin.search_fields or model._meta.model_name in {"auditseal", "pulse"}, path
        text(root, f"{path}?q=web")
        if date := model_admin.date_hierarchy:
            begun += 1
            year, month, day = f"{date}__year={now.year}", f"&{date}__month={now.month}", f"&{date}__day={now.day}"
            for query in (year, year + month, year + month + day):
                text(root, f"{path}?{query}")
    assert begun > 10


def test_a_list_asks_as_much_for_one_row_as_for_many(root: Client, records: None) -> None:
    few = {path: questions(root, path) for path in LISTS}
    assert {path: count for path, count in few.items() if count > MOST_QUESTIONS} == {}
    for number in range(4):
        make.cluster(f"more-{number}")
        make.namespace(f"space-{number}")
        make.certificate(f"more-{number}", f"{number}" * 64, begins=timezone.now(), ends=timezone.now(), serial="1")
        BulkJob.objects.create(person=User.objects.get(username="boss"), act="clusters.label", created=timezone.now())
        User.objects.create_user(f"person-{number}")
    make.settle()
    many = {path: questions(root, path) for path in LISTS}
    assert {path: (few[path], many[path]) for path in LISTS if many[path] > few[path]} == {}


def questions(client: Client, path: str) -> int:
    text(client, path)
    with CaptureQueriesContext(connection) as asked:
        text(client, path)
    return len(asked)


def test_no_list_sorts_its_table(root: Client, records: None) -> None:
    """Ties of an index may be put in order; the table as a whole may not."""
    for path in LISTS:
        listing = root.get(path).context["cl"]
        name, rows = listing.date_hierarchy, listing.root_queryset
        ends = [rows.order_by(order).values(name)[:1] for order in (name, f"-{name}")] if name else []
        for asked in (listing.queryset[:50], *ends):
            plan = explained(asked)
            assert not sorts(plan), f"{path}: {plan}"


def explained(rows: Any) -> str:
    if connection.vendor == "sqlite":
        return str(rows.explain())
    with connection.cursor() as cursor:  # a small table is read as a whole, and sorted, unless that costs too much
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
    return str(rows.explain())


def sorts(plan: str) -> bool:
    if connection.vendor == "sqlite":
        return "TEMP B-TREE FOR ORDER BY" in plan
    return bool(re.search(r"(?<!Incremental )Sort  \(", plan))


def test_a_list_counts_no_further_than_it_can_be_turned(
    root: Client, fleet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ocmconsole.djangoadmin.lists.COUNTED", 2)
    assert "more than 2 managed clusters" in text(root, CLUSTERS)
