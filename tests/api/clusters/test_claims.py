"""What clusters say of themselves: kept as rows beside the document, found by name and value, shown with their cluster."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from clusters import claims, queries
from clusters.claims import ClaimFilter
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ReportedClaim
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import reader
from tests import factories as make
from tests.actors import grant, rule

pytestmark = pytest.mark.django_db

GROUP = "cluster.open-cluster-management.io"
PLATFORM = "platform.open-cluster-management.io"
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


def report(name: str, *said: tuple[str, str]) -> None:
    """As an agent does: the whole list (G34)."""
    entries = [{"name": claim, "value": value} for claim, value in said]
    make.edit(
        MANAGED_CLUSTER,
        name,
        lambda doc: doc.setdefault("status", {}).update(clusterClaims=entries),
        subresource="status",
    )


def kept(name: str) -> list[tuple[str, str]]:
    return list(ReportedClaim.objects.filter(cluster__name=name).order_by("pk").values_list("name", "value"))


def names(found: Any) -> list[str]:
    return [row.name for row in found]


# ---------------------------------------------------------------- rows


@pytest.mark.contract("S24", "S26", "G34")
def test_what_an_agent_reports_is_kept_in_its_order_and_replaced_as_a_whole() -> None:
    make.cluster("c1")
    report("c1", (PLATFORM, "AWS"), ("region", "eu"))
    assert kept("c1") == [(PLATFORM, "AWS"), ("region", "eu")]
    report("c1", (PLATFORM, "GCP"))
    assert kept("c1") == [(PLATFORM, "GCP")]
    make.label("c1", {"env": "prod"})
    assert kept("c1") == [(PLATFORM, "GCP")]
    report("c1")
    assert kept("c1") == []


@pytest.mark.contract("S24")
def test_claims_go_with_their_cluster_and_its_name_inherits_none() -> None:
    make.cluster("c1")
    report("c1", (PLATFORM, "AWS"))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    assert not ReportedClaim.objects.exists()
    make.cluster("c1")
    assert kept("c1") == []


def test_an_unchanged_list_costs_no_row() -> None:
    make.cluster("c1")
    report("c1", (PLATFORM, "AWS"))
    before = ReportedClaim.objects.get().pk
    make.available("c1")
    assert ReportedClaim.objects.get().pk == before


@pytest.mark.contract("P6")
def test_of_two_claims_of_one_name_the_later_counts() -> None:
    make.cluster("c1")
    report("c1", ("region", "eu"), ("region", "us"))
    assert kept("c1") == [("region", "us")]


@pytest.mark.contract("S24")
@pytest.mark.parametrize(
    "claim",
    [("", "x"), ("n" * 254, "x"), ("region", ""), ("region", "v" * 1025)],
    ids=["unnamed", "long", "empty", "big"],
)
def test_the_schema_limits_names_and_values(claim: tuple[str, str]) -> None:
    make.cluster("c1")
    with pytest.raises(errors.Invalid, match=r"status\.clusterClaims\[0\]"):
        report("c1", claim)
    report("c1", ("n" * 253, "ü" * 512))
    assert len(kept("c1")) == 1


def test_an_entry_without_name_is_kept_in_the_document_alone() -> None:
    make.cluster("c1")
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc.update(status={"clusterClaims": [{}]}), subresource="status")
    assert make.stored("c1").doc["status"]["clusterClaims"] == [{}]
    assert kept("c1") == []


@pytest.mark.contract("G34")
def test_the_hub_cuts_no_list() -> None:
    """The limit of 20 and the label that hides a claim are the agent's."""
    make.cluster("c1")
    report("c1", *((f"claim{number:02}", "x") for number in range(40)))
    assert len(kept("c1")) == 40


def test_check_wire_sees_a_claim_that_is_missing_changed_or_too_much() -> None:
    make.cluster("c1")
    report("c1", (PLATFORM, "AWS"), ("region", "eu"))
    assert reader.check_wire()[1] == []
    complaint = ["managedclusters.cluster.open-cluster-management.io c1: rows of reportedclaim differ"]
    ReportedClaim.objects.filter(name="region").update(value="us")
    assert reader.check_wire()[1] == complaint
    ReportedClaim.objects.filter(name="region").delete()
    assert reader.check_wire()[1] == complaint
    report("c1")
    ReportedClaim.objects.create(cluster=make.stored("c1"), name="region", value="eu")
    assert reader.check_wire()[1] == complaint


class RowsFollowTheDocument(TestCase):
    @settings(max_examples=25)
    @given(st.lists(st.lists(st.tuples(NAMES, NAMES), max_size=4), max_size=4))
    def test_whatever_is_reported_in_turn(self, reports: list[list[tuple[str, str]]]) -> None:
        make.cluster("c1")
        for said in reports:
            report("c1", *said)
            assert kept("c1") == list(claims.reported(make.stored("c1").doc).items()) == list(dict(said).items())
        assert reader.check_wire()[1] == []


# ---------------------------------------------------------------- queries


@pytest.fixture
def fleet(db: None) -> None:
    for name, said in {
        "c1": [(PLATFORM, "AWS")],
        "c2": [(PLATFORM, "AWS"), ("a", "b=c")],
        "c3": [(PLATFORM, "GCP")],
    }.items():
        make.cluster(name)
        report(name, *said)
    make.cluster("c4")


@pytest.mark.contract("D16", "S24")
def test_clusters_are_found_by_a_claim_among_those_that_may_be_seen(fleet: None) -> None:
    li = Actor(user="li", groups=(AUTHENTICATED,))
    assert names(queries.with_claims(queries.clusters_for(make.ADMIN), ClaimFilter(PLATFORM))) == ["c1", "c2", "c3"]
    assert names(queries.with_claims(queries.clusters_for(make.ADMIN), ClaimFilter(PLATFORM, "AWS"))) == ["c1", "c2"]
    assert names(queries.with_claims(queries.clusters_for(make.ADMIN), ClaimFilter(PLATFORM, "aws"))) == []
    assert names(queries.with_claims(queries.clusters_for(li), ClaimFilter(PLATFORM, "AWS"))) == []
    grant(li, rule("get", "managedclusters", groups=GROUP, names="c2 c3"))
    assert names(queries.with_claims(queries.clusters_for(li), ClaimFilter(PLATFORM, "AWS"))) == ["c2"]


def test_every_claim_must_be_made(fleet: None) -> None:
    everything = queries.clusters_for(make.ADMIN)
    assert names(queries.with_claims(everything, ClaimFilter(PLATFORM, "AWS"), ClaimFilter("a"))) == ["c2"]
    assert names(queries.with_claims(everything, ClaimFilter(PLATFORM, "AWS"), ClaimFilter(PLATFORM, "GCP"))) == []
    assert len(queries.with_claims(everything)) == 4


@pytest.mark.parametrize("text", ["\0", "a\0", "a=\0", "=x", "="])
def test_what_no_cluster_can_say_is_found_nowhere(fleet: None, text: str) -> None:
    assert names(queries.with_claims(queries.clusters_for(make.ADMIN), ClaimFilter.read(text))) == []


@given(
    NAMES.filter(lambda name: "=" not in name and name.strip() == name),
    st.none() | NAMES.filter(lambda text: text.strip() == text),
)
def test_a_wanted_claim_is_read_as_it_is_written(name: str, value: str | None) -> None:
    assert ClaimFilter.read(str(ClaimFilter(name, value))) == ClaimFilter(name, value)


# ---------------------------------------------------------------- pages


@pytest.fixture
def browser(fleet: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("boss"), "django.contrib.auth.backends.ModelBackend")
    return client


def listed(browser: Client, query: str) -> list[str]:
    return [cluster["name"] for cluster in browser.get(f"/clusters/{query}").context["clusters"]]


@pytest.mark.contract("S24")
def test_the_list_is_filtered_by_claims(browser: Client) -> None:
    assert listed(browser, f"?claim={PLATFORM}=AWS") == ["c1", "c2"]
    assert listed(browser, f"?claim={PLATFORM}") == ["c1", "c2", "c3"]
    assert listed(browser, f"?claim={PLATFORM}%3DAWS&claim=a%3Db%3Dc") == ["c2"]
    assert listed(browser, f"?claim={PLATFORM}=AWS&q=c1") == ["c1"]
    assert listed(browser, "?claim=nobody") == []
    assert listed(browser, "?claim=") == ["c1", "c2", "c3", "c4"]


def test_a_claim_filter_can_be_cleared_and_survives_a_search(browser: Client) -> None:
    page = browser.get(f"/clusters/?claim={PLATFORM}=AWS&claim=a&page=0")
    assert [chip["clear_url"] for chip in page.context["chips"]] == ["?claim=a", f"?claim={PLATFORM}%3DAWS"]
    assert f'<input type="hidden" name="claim" value="{PLATFORM}=AWS">' in page.content.decode()


@pytest.mark.contract("S26")
def test_the_page_of_a_cluster_shows_its_claims_and_who_says_the_same(browser: Client) -> None:
    page = browser.get("/clusters/c2/claims/")
    shown = {claim["name"]: (claim["label"], claim["value"]) for claim in page.context["claims"]}
    assert shown == {PLATFORM: ("Platform", "AWS"), "a": ("", "b=c")}
    for claim, found in zip(page.context["claims"], (["c1", "c2"], ["c2"]), strict=True):
        assert listed(browser, claim["url"].removeprefix("/clusters/")) == found


def test_the_page_stands_an_entry_without_name(browser: Client) -> None:
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc.update(status={"clusterClaims": [{}]}), subresource="status")
    assert browser.get("/clusters/c1/claims/").status_code == 200
