"""What a page weighs and reads of the requests that wait: only what it shows, however many others there are.

Nothing here is timed: what is counted are requests weighed and statements sent, which are the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clusters.models import ClusterFacts, FleetMinute, ManagedCluster
from ocmconsole.console import overview
from ocmconsole.core.models import BootstrapToken, BootstrapTokenUse
from ocmconsole.kubeapi import models
from ocmconsole.kubeapi.access.actor import Actor
from registration import queries
from registration.approvals import inbox, services, snooze, stale_decision
from registration.evidence import evidence_queries, risk_checks
from tests import factories as make
from tests.actors import ROOT, signed_in
from tests.pages.registration.test_approvals import _hub, asks, asks_again, bearer, names, text

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
    weigh = risk_checks.checked

    def counted(evidence: Any, gathered: Any) -> Any:
        found[evidence.name] += 1
        return weigh(evidence, gathered)

    monkeypatch.setattr(risk_checks, "checked", counted)
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
        assert snooze.put_off(li(), name, stale_decision.present_versions(row, waiting), None)


def li() -> Actor:
    return Actor(user="li", groups=ROOT.groups)


@pytest.mark.usefixtures("browser")
def test_what_is_put_off_is_read_together(token: Actor) -> None:
    for name in web(1, 2, 3, 4):
        asks(name, token)
        asks_again(name, token)
    put_off("web-1")
    with CaptureQueriesContext(connection) as one:
        assert snooze.in_sight(li()) == web(2, 3, 4)
    put_off("web-2", "web-3")
    with CaptureQueriesContext(connection) as three:
        assert snooze.in_sight(li()) == web(4)
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
    found = inbox.oldest_first(li())
    assert sorted(found) == web(0, 1, 2, 3)
    for number, name in enumerate(found, start=1):
        page = browser.get(f"{INBOX}{name}/")
        assert f"{number} of 4, the oldest first" in text(page)
        around = page.context["place"]
        assert [around["previous"], name, around["next"]] == ["", *found, ""][number - 1 : number + 2]


# ---------------------------------------------------------------- statements of the page of one request


def queries_of(browser: Client, path: str) -> list[str]:
    browser.get(path)
    with CaptureQueriesContext(connection) as found:
        assert browser.get(path).status_code == 200
    return [each["sql"] for each in found]


def test_the_page_of_a_request_takes_few_statements(browser: Client, token: Actor) -> None:
    """Frame, evidence, effects and place together: what an admin reads of a usual request."""
    for name in web(1, 2, 3):
        asks(name, token)
    found = queries_of(browser, f"{INBOX}web-2/")
    assert len(found) <= 20, "\n".join(found)


def test_an_approver_reads_the_page_of_a_request_with_few_more_for_rights(token: Actor) -> None:
    """Who holds two permissions and is no admin: rights are read as well, those of RBAC, of Django and of sets."""
    for name in web(1, 2, 3):
        asks(name, token)
    ana = signed_in("ana")
    held = Permission.objects.filter(codename__in=("view_managedcluster", "accept_managedcluster"))
    User.objects.get(username="ana").user_permissions.set(held)
    page = ana.get(f"{INBOX}web-2/")
    assert page.context["can_accept"]
    found = queries_of(ana, f"{INBOX}web-2/")
    assert len(found) <= 25, "\n".join(found)


def test_the_frame_asks_one_statement_what_needs_the_person(browser: Client) -> None:
    """Nothing needs anybody: of all tables that could hold something, one statement asks."""
    browser.get("/help/")
    assert len(queries_of(browser, "/help/")) <= 10
    for name in web(1, 2):
        make.cluster(name, accepted=True)
    ClusterFacts.objects.update_or_create(cluster="web-1", defaults={"certificate_not_after": timezone.now()})
    assert browser.get("/help/").context["needs_you"]["attention"] == 1
    assert "Credentials ending" in text(browser.get("/attention/"))


# ---------------------------------------------------------------- more than one page can weigh


def flood(count: int, *, begin: int = 0) -> list[str]:
    """Names that wait, by rows alone: nothing of the machinery is asked."""
    doc = make.cluster("pattern")
    old = timezone.now() - timedelta(days=2)
    found = [f"flood-{number:04}" for number in range(begin, begin + count)]
    with models.writing():
        ManagedCluster.objects.bulk_create(
            ManagedCluster(
                uid=f"uid-{name}", name=name, resource_version=1, created=old, wire=orjson.dumps(doc).decode()
            )
            for name in found
        )
        ManagedCluster.objects.filter(name="pattern").delete()
    return found


class TestMoreThanOnePageCanWeigh:
    def test_headline_tab_and_badge_count_all_and_the_page_says_what_is_weighed(
        self, browser: Client, token: Actor, monkeypatch: pytest.MonkeyPatch, weighed: Counter[str]
    ) -> None:
        flood(1_030)
        asks("zz-last", token)
        monkeypatch.setattr(inbox, "MOST_WEIGHED", 60)
        page = browser.get(INBOX)
        assert counted(page) == {"badge": 1_031, "tab": 1_031}
        assert page.context["total"] == page.context["verdicts"][0][2] == 1_031
        assert sum(weighed.values()) == 60
        assert "1,031 clusters ask to join. Of the 60 that have waited longest, 60 need a look." in text(page)
        assert "971 more wait than one page can weigh" in text(page)

    def test_a_filter_reaches_every_name_before_anything_is_weighed(
        self, browser: Client, token: Actor, monkeypatch: pytest.MonkeyPatch, weighed: Counter[str]
    ) -> None:
        flood(1_030)
        for name in ("zz-1", "zz-2"):
            asks(name, token)
        other = bearer("10.9.0.1")
        asks("zz-3", other)
        monkeypatch.setattr(inbox, "MOST_WEIGHED", 60)
        for query, expected in (
            ("q=zz-", ["zz-1", "zz-2", "zz-3"]),
            (f"token={token.credential.partition(':')[2]}", ["zz-1", "zz-2"]),
            ("source=10.9.0.0/16", ["zz-3"]),
            ("age=hour", ["zz-1", "zz-2", "zz-3"]),
            ("age=hour&verdict=safe&q=zz-3", ["zz-3"]),
        ):
            weighed.clear()
            page = browser.get(f"{INBOX}?{query}")
            assert names(page) == expected, query
            assert set(weighed) == set(expected), query
            assert f"{len(expected)} of 1,033 match{'es' * (len(expected) == 1)} the filter." in text(page), query
            assert counted(page) == {"badge": 1_033, "tab": 1_033}
        page = browser.get(f"{INBOX}?age=older-day")
        assert "1,030 of 1,033 match the filter." in text(page)
        assert "970 more match than one page can weigh" in text(page)
        assert "60 of the 60 weighed match the filter." in text(browser.get(f"{INBOX}?age=older-day&verdict=check"))

    def test_all_safe_ones_of_a_filter_are_selected_whatever_waits_beside_them(
        self, browser: Client, token: Actor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flood(70)
        asks("zz-1", token)
        monkeypatch.setattr(inbox, "MOST_WEIGHED", 60)
        assert "Select all 1 safe" in text(browser.get(f"{INBOX}?q=zz"))
        answer = browser.post(f"{INBOX}-/select/", {"all": "safe", "act": "accept", "query": "q=zz"}, follow=True)
        assert answer.context["plan"].possible == ["zz-1"]


# ---------------------------------------------------------------- the past of tokens


class TestUsesOfTokens:
    def test_ranges_leave_out_the_widest_gaps_and_are_bounded(self) -> None:
        day = datetime(2026, 11, 1, tzinfo=UTC)
        minute, reach = timedelta(minutes=1), timedelta(minutes=1)
        moments = [day, day + minute, day + timedelta(days=9), day + timedelta(days=9, hours=1)]
        around = evidence_queries.ranges_around
        assert around(moments[:1], reach, most=5) == [(day - reach, day + reach)]
        assert around(moments, reach, most=5) == [
            (day - reach, day + minute + reach),
            (moments[2] - reach, moments[2] + reach),
            (moments[3] - reach, moments[3] + reach),
        ]
        assert around(moments[::-1], reach, most=2) == [
            (day - reach, day + minute + reach),
            (moments[2] - reach, moments[3] + reach),
        ]
        assert around(moments, reach, most=1) == [(day - reach, moments[3] + reach)]

    def test_what_a_token_brought_between_two_far_moments_is_not_read(self, token: Actor) -> None:
        for name in web(1, 2, 3):
            asks(name, token)
        long_ago = timezone.now() - timedelta(days=30)
        own = BootstrapToken.objects.get(pk=token.credential.partition(":")[2])
        between = (long_ago + timedelta(hours=hour) for hour in range(100))
        BootstrapTokenUse.objects.bulk_create(
            BootstrapTokenUse(token=own, cluster=f"old-{number}", since=at) for number, at in enumerate(between)
        )
        with connection.cursor() as cursor:  # the audit is append-only
            cursor.execute("UPDATE kubeapi_auditevent SET time = %s WHERE name LIKE %s", [long_ago, "web-1%"])
        BootstrapTokenUse.objects.filter(cluster="web-1").update(since=long_ago)
        found = evidence_queries.gather_evidence(web(1, 2, 3)).brought[token.credential]
        assert len(found) == 4  # its own three, and the one that came with the first
        assert found == sorted(found)

    def test_uses_before_a_moment_are_as_counting_them_one_by_one(self) -> None:
        day = datetime(2026, 11, 1, tzinfo=UTC)
        hour = timedelta(hours=1)
        rows = [("10.3.0.1", day, day + 9 * hour), ("10.4.0.1", day + 2 * hour, day + 3 * hour), ("?", day, day)]
        uses = evidence_queries.Uses(rows)
        for moment in (day, day + hour, day + 2 * hour, day + 3 * hour, day + 20 * hour):
            before = [row for row in rows if row[1] < moment]
            known = {evidence_queries.network_of(address) for address, _, _ in before} - {""}
            assert uses.networks_before(moment) == known
            lasts = [min(last, moment) for _, _, last in before]
            assert uses.last_before(moment) == max(lasts, default=None)


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
