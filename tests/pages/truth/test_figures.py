"""Figures and sentences of the overview and of what needs a person, computed again from the rows."""

from __future__ import annotations

import html
import re
from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters.kinds import MAINTENANCE_TAINT
from clusters.models import ClusterFacts, Lease, ManagedCluster, Transition
from clustersets.models import ManagedClusterSet
from tests import factories as make
from tests.actors import signed_in
from tests.bench import crowd

pytestmark = pytest.mark.django_db

COUNT = 300


@pytest.fixture
def fleet() -> None:
    crowd.fill(COUNT, troubled=20)


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


@pytest.fixture
def owner(fleet: None) -> Client:
    """Sees the clusters of set web."""
    client = signed_in("raj")
    user, clusterset = User.objects.get(username="raj"), ManagedClusterSet.objects.get(name="web")
    assign_perm("clustersets.view_managedclusterset", user, clusterset)
    return client


def text_of(client: Client, path: str) -> str:
    """The text of a page's content, without tags and with single spaces."""
    page = client.get(path).content.decode()
    page = page[page.index('id="main"') :]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


# ---------------------------------------------------------------- the rows themselves


def conditions(doc: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in doc.get("status", {}).get("conditions", [])}


def joined(row: ManagedCluster) -> bool:
    """Let in, joined and not going, by the document alone."""
    doc = row.doc
    return (
        bool(doc["spec"].get("hubAcceptsClient"))
        and conditions(doc).get("ManagedClusterJoined") == "True"
        and "deletionTimestamp" not in doc["metadata"]
    )


def maintained(row: ManagedCluster) -> bool:
    return MAINTENANCE_TAINT in [taint["key"] for taint in row.doc["spec"].get("taints") or []]


def well(row: ManagedCluster, now: datetime) -> bool:
    """Certified, heard in two leases, and well by its own word."""
    facts = ClusterFacts.objects.get(cluster=row.name)
    lease = Lease.objects.get(namespace=row.name)
    said = conditions(row.doc)
    return (
        (facts.certificate_not_after is None or facts.certificate_not_after > now)
        and lease.renew_time is not None
        and lease.renew_time / 1e6 >= now.timestamp() - 120
        and said.get("ManagedClusterConditionAvailable") == "True"
        and said.get("ManagedClusterConditionClockSynced") != "False"
    )


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found, (pattern, text[:2000])
    return int(found[1].replace(",", ""))


# ---------------------------------------------------------------- the overview


@pytest.mark.usefixtures("fleet")
def test_the_share_of_the_healthy_is_of_those_in_service(admin: Client) -> None:
    rows, now = list(ManagedCluster.objects.all()), timezone.now()
    # Trouble comes before maintenance: a silent cluster in maintenance is silent.
    serving = [row for row in rows if joined(row) and not (maintained(row) and well(row, now))]
    healthy = [row for row in serving if well(row, now)]
    text = text_of(admin, "/")
    found = re.search(r"([\d,]+) of ([\d,]+) clusters in service are healthy, ([\d.]+) %", text)
    assert found
    assert (int(found[1]), int(found[2])) == (len(healthy), len(serving))
    assert float(found[3]) <= 100 * len(healthy) / len(serving) < float(found[3]) + 0.1
    assert number(r"([\d,]+) not in service", text) == len(rows) - len(serving)


def test_a_first_cluster_that_joins_is_not_ill(admin: Client) -> None:
    make.cluster("first", accepted=True)
    make.settle()
    text = text_of(admin, "/")
    assert "1 cluster, none in service." in text
    assert "0.0 %" not in text


@pytest.mark.usefixtures("fleet")
def test_the_silent_are_counted_now_with_the_day_of_the_first(admin: Client) -> None:
    rows = ManagedCluster.objects.filter(available="Unknown", joined="True", hub_accepts_client=True)
    accepted = [row for row in rows if not _expired(row.name)]
    first = min(row.available_since for row in accepted if row.available_since)
    sentence = re.search(
        r"([\d,]+) clusters are silent, ([\d,]+) of them of set (\S+), the first since ([^.]+)\.", text_of(admin, "/")
    )
    assert sentence
    by_set = Counter(row.clusterset for row in accepted)
    assert int(sentence[1]) == len(accepted)
    assert int(sentence[2]) == by_set[sentence[3]] == max(by_set.values())
    today = first.date() == timezone.now().date()
    assert sentence[4] == (f"{first:%H:%M}" if today else f"{first.day} {first:%b %H:%M}")


def _expired(name: str) -> bool:
    return ClusterFacts.objects.filter(cluster=name, certificate_not_after__lte=timezone.now()).exists()


def test_a_cluster_that_turned_often_is_counted_once(admin: Client) -> None:
    now = timezone.now()
    turns = [("a-1", "silent", 1), ("a-1", "silent", 2), ("a-2", "silent", 3), ("a-3", "silent", 30)]
    Transition.objects.bulk_create(
        Transition(cluster=name, at=now - timedelta(hours=hours), turn=turn) for name, turn, hours in turns
    )
    make.cluster("a-1")
    assert number(r"(\d+) clusters? went silent in 24 h", text_of(admin, "/")) == 2


def test_a_cluster_that_joined_twice_on_a_day_is_one_of_that_day(admin: Client) -> None:
    noon = timezone.now().replace(hour=12) - timedelta(days=3)
    Transition.objects.bulk_create(
        Transition(cluster=name, at=noon + timedelta(minutes=place), turn="joined")
        for place, name in enumerate(("a-1", "a-1", "a-2"))
    )
    make.cluster("a-1")
    assert number(rf"\b{noon.day} {noon:%b} (\d+)", text_of(admin, "/").partition("Joins per day")[2]) == 2


@pytest.mark.contract("H16")
def test_a_cluster_that_never_spoke_does_not_fall_silent() -> None:
    make.cluster("mute", accepted=True)
    make.settle()
    make.said("mute", "ManagedClusterConditionAvailable", "Unknown")
    make.cluster("heard", accepted=True)
    make.settle()
    make.available("heard")
    make.said("heard", "ManagedClusterConditionAvailable", "Unknown")
    silent = Transition.objects.filter(turn=Transition.Turn.SILENT)
    assert set(silent.values_list("cluster", flat=True)) == {"heard"}


# ---------------------------------------------------------------- see which


def shown(client: Client, url: str) -> list[str]:
    """Names on every page of the cluster list that the address leads to."""
    assert urlsplit(url).path == "/clusters/", url
    names, query = [], url
    while query:
        page = client.get(query)
        names += [row["name"] for row in page.context["clusters"]]
        onward = page.context["pager"]["next"] if "pager" in page.context else ""
        query = f"/clusters/{onward}" if onward else ""
    return names


@pytest.mark.usefixtures("fleet")
def test_see_which_shows_exactly_what_was_counted(admin: Client) -> None:
    make.cluster("going", finalizers=["example.com/hold"])
    items = {item.key: item for item in admin.get("/").context["needs"]}
    assert {"credentials", "silent"} <= items.keys()
    for key in ("credentials", "removals"):
        if key in items:
            assert len(shown(admin, items[key].url)) == items[key].count, key
    stated = number(r"See the (\d+) together", items["silent"].act)
    assert len(shown(admin, items["silent"].url)) == stated


@pytest.mark.usefixtures("fleet")
def test_the_certificates_that_end_soon_are_those_that_the_link_shows(admin: Client) -> None:
    ends = timezone.now() + timedelta(days=30)
    rows = ClusterFacts.objects.filter(
        certificate_not_after__lte=ends, cluster__in=ManagedCluster.objects.values("name")
    )
    page = admin.get("/").content.decode()
    link = re.search(r'<a href="([^"]+)">([\d,]+) ha(?:s|ve) ended or ends? within 30 days', page)
    assert link
    assert int(link[2]) == rows.count()
    assert set(shown(admin, html.unescape(link[1]))) == set(rows.values_list("cluster", flat=True))


@pytest.mark.parametrize("text", ["lyon", "edge-lyon", "01"])
def test_the_filter_finds_a_part_of_a_name(text: str, admin: Client) -> None:
    make.cluster("edge-lyon-01")
    make.cluster("edge-paris-02")
    assert shown(admin, f"/clusters/?q={text}") == ["edge-lyon-01"]


# ---------------------------------------------------------------- who sees a part, and who sees none


@pytest.mark.contract("D16")
def test_who_sees_a_part_reads_that_it_is_a_part(owner: Client) -> None:
    mine = ManagedCluster.objects.filter(clusterset="web").count()
    assert "Only clusters that you may see are counted" in text_of(owner, "/")
    assert f"Status of the {mine} clusters that you may see" in text_of(owner, "/")
    for path, sentence in (
        ("/approvals/", "No cluster that you may see is waiting."),
        ("/certificates/", "client certificates in use that you may see."),
        ("/approvals/-/superseded/", "No request that you may see gave way"),
    ):
        assert sentence in text_of(owner, path), path


@pytest.mark.contract("D16")
@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    "path", ["/", "/clusters/", "/approvals/", "/approvals/-/decided/", "/approvals/-/superseded/", "/certificates/"]
)
def test_who_sees_none_reads_so_and_whom_to_ask(path: str, admin: Client) -> None:
    text = text_of(signed_in("mallory"), path)
    assert "You can see 0 of the hub" in text
    assert "Ask an admin: root" in text
    for untrue in ("No cluster has joined", "without clusters", "is waiting.", "0 client certificates", "0 in use"):
        assert untrue not in text, untrue
