"""What a page weighs and reads of the requests that wait: only what it shows, however many others there are.

Nothing here is timed: what is counted are requests weighed and statements sent, which are the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clusters.models import ClusterFacts, FleetMinute
from ocmconsole import overview
from ocmconsole.kubeapi.actor import Actor
from registration import inbox, later, queries, services, staleness, weighing
from tests import factories as make
from tests.actors import ROOT, signed_in
from tests.api.console.test_approvals import _hub, asks, asks_again, bearer, names, text

__all__ = ["_hub"]  # a fixture of every test

pytestmark = pytest.mark.django_db

INBOX = "/approvals/"


@pytest.fixture
def token() -> Actor:
    return bearer()


@pytest.fixture
def browser() -> Client:
    return signed_in("li", is_superuser=True)


@pytest.fixture
def weighed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each name was weighed."""
    found: Counter[str] = Counter()
    weigh = weighing.checked

    def counted(evidence: Any, gathered: Any) -> Any:
        found[evidence.name] += 1
        return weigh(evidence, gathered)

    monkeypatch.setattr(weighing, "checked", counted)
    return found


def web(*numbers: int) -> list[str]:
    return [f"web-{number}" for number in numbers]


def statements(browser: Client, path: str) -> int:
    browser.get(path)
    with CaptureQueriesContext(connection) as found:
        assert browser.get(path).status_code == 200
    return len(found)


PAGES = (
    ("/", ()),
    ("/attention/", ()),
    ("/clusters/", ()),
    ("/clusters/web-2/", ()),
    ("/help/", ()),
    (f"{INBOX}-/decided/", ()),
    (f"{INBOX}-/superseded/", ()),
    (f"{INBOX}web-2/", (2,)),
    (f"{INBOX}web-2/effects/", (2,)),
    (INBOX, (1, 2, 3, 4)),
)


@pytest.mark.parametrize(("path", "numbers"), PAGES)
def test_a_page_weighs_the_requests_that_it_shows_and_each_once(
    browser: Client, token: Actor, weighed: Counter[str], path: str, numbers: tuple[int, ...]
) -> None:
    for name in web(1, 2, 3, 4):
        asks(name, token)
    weighed.clear()
    assert browser.get(path).status_code == 200
    assert weighed == Counter(web(*numbers))


@pytest.mark.parametrize("path", [INBOX, f"{INBOX}web-2/", f"{INBOX}-/decided/", "/"])
def test_a_page_reads_as_often_whether_few_wait_or_many(browser: Client, token: Actor, path: str) -> None:
    for name in web(1, 2):
        asks(name, token)
    few = statements(browser, path)
    for name in web(3, 4, 5, 6):
        asks(name, token)
    assert statements(browser, path) == few


def put_off(*names: str) -> None:
    for name in names:
        row, waiting = make.stored(name), queries.waiting_requests(name)
        assert later.put_off(li(), name, staleness.present(row, waiting), None)


def li() -> Actor:
    return Actor(user="li", groups=ROOT.groups)


@pytest.mark.usefixtures("browser")
def test_what_is_put_off_is_read_together(token: Actor) -> None:
    for name in web(1, 2, 3, 4):
        asks(name, token)
        asks_again(name, token)
    put_off("web-1")
    with CaptureQueriesContext(connection) as one:
        assert later.in_sight(li()) == web(2, 3, 4)
    put_off("web-2", "web-3")
    with CaptureQueriesContext(connection) as three:
        assert later.in_sight(li()) == web(4)
    assert len(one) == len(three)


def test_accepted_clusters_whose_agents_ask_again_are_read_together(token: Actor) -> None:
    def ask(*clusters: str) -> list[str]:
        for name in clusters:
            asks(name, token)
            services.accept_cluster(ROOT, name)
            make.settle()
            ClusterFacts.objects.filter(cluster=name).update(certificate_not_after=timezone.now())
            asks_again(name, bearer())
        return queries.waiting_names(ROOT)

    assert ask("web-1") == web(1)
    with CaptureQueriesContext(connection) as one:
        queries.waiting_names(ROOT)
    assert ask("web-2", "web-3") == web(1, 2, 3)
    with CaptureQueriesContext(connection) as three:
        queries.waiting_names(ROOT)
    assert len(one) == len(three)


# ---------------------------------------------------------------- what badge, tab and pages count


def counted(page: Any) -> dict[str, Any]:
    return {
        "badge": page.context["needs_you"]["waiting"],
        "tab": next(tab["count"] for tab in page.context["tabs"] if tab["label"] == "Waiting"),
    }


@pytest.mark.parametrize("path", [INBOX, f"{INBOX}-/decided/", f"{INBOX}-/superseded/"])
def test_badge_and_tab_count_alike_what_one_has_not_put_off(browser: Client, token: Actor, path: str) -> None:
    for name in web(1, 2, 3):
        asks(name, token)
    assert counted(browser.get(path)) == {"badge": 3, "tab": 3}
    put_off("web-2")
    assert counted(browser.get(path)) == {"badge": 2, "tab": 2}
    assert names(browser.get(INBOX)) == web(1, 3)
    assert "1 of 2, the oldest first" in text(browser.get(f"{INBOX}web-1/"))
    asks_again("web-2", token)  # it has changed, so it is back
    assert counted(browser.get(path)) == {"badge": 3, "tab": 3}
    other = signed_in("ana", is_superuser=True)
    assert counted(other.get(path)) == {"badge": 3, "tab": 3}


def test_the_place_of_a_request_is_by_the_time_of_its_newest_and_its_neighbours_follow(
    browser: Client, token: Actor
) -> None:
    for name in web(1, 2, 3):
        asks(name, token)
    make.cluster("web-0", by=token)  # it has not asked for a certificate
    found = inbox.oldest_first(web(0, 1, 2, 3))
    assert sorted(found) == web(0, 1, 2, 3)
    for number, name in enumerate(found, start=1):
        page = browser.get(f"{INBOX}{name}/")
        assert f"{number} of 4, the oldest first" in text(page)
        around = page.context["place"]
        assert [around["previous"], name, around["next"]] == ["", *found, ""][number - 1 : number + 2]


# ---------------------------------------------------------------- the fleet's minutes


def test_the_overviews_month_is_counted_by_the_database_itself(browser: Client) -> None:
    now = timezone.now().replace(hour=12, minute=0, second=0, microsecond=0)
    rows = [
        FleetMinute(minute=now - timedelta(days=days, minutes=minutes), heard=90 + days, expected=100)
        for days in (0, 1, 29)
        for minutes in (0, 1, 719)
    ]
    FleetMinute.objects.bulk_create([*rows, FleetMinute(minute=now - timedelta(days=40), heard=0, expected=100)])
    looked = overview.looks(now)
    expected: Counter[Any] = Counter()
    for row in rows:
        expected[row.minute.date()] += row.heard
    assert {day: came for day, (came, _) in looked.items()} == dict(expected)
    assert overview.came(looked) == "100.00 %"
    shares = [day["share"] for day in overview.availability(looked, now)]
    assert (shares[0], shares[1], shares[-2:]) == (119.0, None, [91.0, 90.0])
    with CaptureQueriesContext(connection) as found:
        browser.get("/")
    assert [each["sql"] for each in found if "django_datetime" in each["sql"]] == []  # Python for each row on SQLite
