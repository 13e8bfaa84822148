"""Lists of Django admin: searched, filtered by date, and in the order of an index. Their SQL differs by database."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.utils import timezone

from tests.pages.access.admin_site import CLUSTERS, LISTS, text

pytestmark = pytest.mark.django_db


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
