"""Pages of what was decided and what gave way: rows that share an instant are on one page each, and none is lost."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterFacts
from ocmconsole.kubeapi.storage import audit
from registration import queries
from registration.approvals import inbox_pages
from tests.actors import ROOT

pytestmark = pytest.mark.django_db
NAMES = [f"web-{number}" for number in range(5)]


@pytest.fixture
def browser(monkeypatch: Any) -> Client:
    monkeypatch.setattr(inbox_pages, "PAGE", 2)
    client = Client()
    client.force_login(User.objects.create_superuser("boss"), "django.contrib.auth.backends.ModelBackend")
    return client


def walk(client: Client, tab: str) -> list[str]:
    found, query = [], ""
    while True:
        page = client.get(f"/approvals/-/{tab}/{query}")
        found += [row["name"] if isinstance(row, dict) else row.name for row in page.context["rows"]]
        older = re.search(r'href="([^"]+)" rel="next"', page.content.decode())
        if not older:
            return found
        query = html.unescape(older[1])


def test_decisions_of_one_instant_are_all_shown(browser: Client) -> None:
    now = timezone.now()
    for name in NAMES:
        ClusterFacts.objects.create(cluster=name, decision="accepted", decided_by="li", decided_at=now)
    assert walk(browser, "decided") == NAMES


def test_requests_that_gave_way_in_one_instant_are_all_shown(browser: Client) -> None:
    now = timezone.now()
    for name in NAMES:
        audit.entry_of(ROOT, queries.SUPERSEDED, time=now, resource=MANAGED_CLUSTER.resource, name=name).save()
    assert walk(browser, "superseded") == NAMES[::-1]


@pytest.mark.parametrize("after", ["x", "2026-02-30T00:00:00Z~1", "2026-02-03T00:00:00~1", "2026-02-03T00:00:00Z~²"])
@pytest.mark.parametrize("tab", ["decided", "superseded"])
def test_what_is_no_cursor_is_no_error(browser: Client, tab: str, after: str) -> None:
    assert browser.get(f"/approvals/-/{tab}/", {"after": after}).status_code == 200
