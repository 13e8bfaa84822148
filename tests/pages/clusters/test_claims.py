"""What visible clusters claim and are labelled, counted (P6, G34)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from guardian.shortcuts import assign_perm

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ManagedCluster
from tests import factories as make
from tests.actors import signed_in

pytestmark = pytest.mark.django_db

REGION = "region.example.com"
VERSION = "kubeversion.open-cluster-management.io"


def reports(name: str, **claims: str) -> None:
    """The agent's words; a name that Python cannot spell is REGION or VERSION."""
    named = [
        {"name": {"region": REGION, "version": VERSION}.get(key, key), "value": value} for key, value in claims.items()
    ]
    make.edit(MANAGED_CLUSTER, name, lambda doc: doc.update(status={"clusterClaims": named}), subresource="status")


@pytest.fixture
def fleet() -> None:
    """Four say where they are, and one nothing."""
    for name, region in (("a", "eu"), ("b", "eu"), ("c", "eu"), ("d", "us")):
        make.cluster(name, labels={"env": "prod" if region == "eu" else "test", "only-" + name: "x"})
        reports(name, region=region, version="v1.34.2")
    make.cluster("mute", labels={})


@pytest.fixture
def admin(fleet: None) -> Client:
    return signed_in("root", is_superuser=True)


def bars(client: Client, **query: str) -> dict[str, int]:
    return {bar["label"]: bar["count"] for bar in client.get("/claims/", query).context["bars"]}


def test_values_are_counted_and_who_says_nothing_is_named(admin: Client) -> None:
    assert bars(admin, claim=REGION) == {"eu": 3, "us": 1, "says nothing": 1}
    assert admin.get("/claims/", {"claim": REGION}).context["missing"] == ["mute"]


def test_labels_are_counted_like_claims(admin: Client) -> None:
    assert bars(admin, label="env") == {"prod": 3, "test": 1, "not set": 1}
    names = {each["name"]: each["clusters"] for each in admin.get("/claims/").context["groups"][1]["names"]}
    assert names["env"] == 4
    assert names["only-a"] == 1


def test_a_bar_leads_to_the_clusters_that_it_counts(admin: Client) -> None:
    for kind, name, value in (("claim", REGION, "us"), ("label", "env", "test")):
        bar = next(bar for bar in admin.get("/claims/", {kind: name}).context["bars"] if bar["label"] == value)
        assert bar["url"] == f"/clusters/?{kind}={name}%3D{value}"
        shown = admin.get(bar["url"]).content.decode()
        assert "/clusters/d/" in shown
        assert "/clusters/a/" not in shown


def test_a_rare_value_is_an_outlier(admin: Client) -> None:
    for number in range(60):
        make.cluster(f"more-{number}", labels={"env": "prod"})
    found = admin.get("/claims/?label=env").context
    assert [each["value"] for each in found["outliers"]] == ["test"]


def test_an_identifier_has_no_outliers(admin: Client) -> None:
    for number in range(10):
        make.cluster(f"more-{number}", labels={"id": str(number)})
    found = admin.get("/claims/?label=id").context["found"]
    assert found.is_identifier
    assert found.outliers == ()


@pytest.mark.parametrize(("clusters", "values"), [(3, 2), (3, 3), (9, 9), (20, 17)])
def test_values_that_few_have_or_some_share_are_no_identifier(admin: Client, clusters: int, values: int) -> None:
    for number in range(clusters):
        make.cluster(f"more-{number}", labels={"version": f"v{number % values}"})
    page = admin.get("/claims/?label=version")
    assert page.context["found"].distinct == values
    assert "as with an identifier" not in page.content.decode()


@pytest.mark.contract("D16")
def test_only_visible_clusters_are_counted(fleet: None) -> None:
    client = signed_in("li")
    assign_perm("clusters.view_managedcluster", User.objects.get(username="li"), ManagedCluster.objects.get(name="d"))
    assert bars(client, claim=REGION) == {"us": 1}
    names = [each["name"] for each in client.get("/claims/").context["groups"][1]["names"]]
    assert "only-d" in names
    assert "only-a" not in names


def test_who_sees_no_cluster_reads_so(fleet: None) -> None:
    assert "You can see 0 of the hub" in signed_in("mallory").get("/claims/").content.decode()


@pytest.mark.parametrize("query", ["claim=nobody-says", "label=1", 'label=a"b', "claim=", "label=%25s"])
def test_odd_names_find_nothing(admin: Client, query: str) -> None:
    assert admin.get(f"/claims/?{query}").status_code == 200


@pytest.mark.parametrize("query", ["claim=region.example.com", "label=env"])
def test_the_number_of_queries_does_not_grow(
    admin: Client, django_assert_max_num_queries: Callable[..., Any], query: str
) -> None:
    path = f"/claims/?{query}"
    admin.get(path)
    with django_assert_max_num_queries(30) as few:
        admin.get(path)
    for number in range(8):
        make.cluster(f"more-{number}", labels={"env": str(number), f"key-{number}": "x"})
    with django_assert_max_num_queries(len(few)):
        admin.get(path)
