"""Pages of bootstrap tokens: who sees which, what is shown once, what revoking means."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.models import ManagedCluster
from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi.models import AuditEvent, writing
from tests import factories as make
from tests import requests
from tests.actors import person as actor
from tests.pages.joining import hub, page, person

pytestmark = pytest.mark.django_db

MINT = {"lifetime": "1h", "name": "web-eu", "uses": "20", "addresses": "10.3.0.0/16", "cluster": "", "set": ""}


@pytest.fixture(autouse=True)
def ready(tmp_path: Path, settings: Any) -> None:
    hub(tmp_path, settings)


def minted(by: str = "ana", **terms: Any) -> BootstrapToken:
    secret = tokens.issue_bootstrap_token(actor(by), ttl=timedelta(hours=1), **terms)
    return BootstrapToken.objects.get(pk=secret.partition(".")[0])


def bring(token: BootstrapToken, *names: str) -> None:
    bearer = replace(requests.BOOTSTRAP, user=f"system:bootstrap:{token.pk}", credential=f"bootstrap:{token.pk}")
    for name in names:
        make.cluster(name, by=bearer)
        requests.ask(f"{name}-a", requests.agent_pem(name), cluster=name, by=bearer)
    make.settle()


def test_people_see_the_tokens_that_they_minted_and_no_others() -> None:
    minted("ana", name="web-eu")
    minted("raj", name="stores")
    text = page(person("ana", "add_bootstraptoken").get("/tokens/"))
    assert "web-eu" in text
    assert "stores" not in text
    everything = page(person("li", "view_bootstraptoken").get("/tokens/"))
    assert "web-eu" in everything
    assert "stores" in everything


def test_who_may_neither_mint_nor_see_has_no_such_page() -> None:
    assert person("mallory").get("/tokens/").status_code == 404
    assert person("vera").get("/tokens/mint/").status_code == 404


def test_the_list_says_who_when_how_often_and_what_came() -> None:
    token = minted("ana", name="web-eu", max_uses=20, addresses=["10.3.0.0/16"])
    bring(token, "eu-1", "eu-2")
    text = page(person("ana", "add_bootstraptoken", "view_managedcluster").get("/tokens/"))
    for shown in ("web-eu", token.pk, "by ana", "2 of 20 uses", "10.3.0.0/16", "/clusters/eu-1/", "Usable"):
        assert shown in text


def test_clusters_that_the_person_may_not_see_are_not_named() -> None:
    bring(minted("ana", max_uses=20), "eu-1")
    text = page(person("ana", "add_bootstraptoken").get("/tokens/"))
    assert "1 of 20 uses" in text
    assert "eu-1" not in text


def test_the_number_of_queries_does_not_grow_with_the_tokens(django_assert_max_num_queries: Any) -> None:
    ana = person("ana", "add_bootstraptoken", "view_managedcluster")
    bring(minted("ana", max_uses=5), "eu", "us")
    ana.get("/tokens/")
    with CaptureQueriesContext(connection) as captured:
        ana.get("/tokens/")
    with_one = len(captured)
    for number in range(4):
        bring(minted("ana", max_uses=5), f"eu-{number}", f"us-{number}")
    ana.get("/tokens/")
    with django_assert_max_num_queries(with_one):
        ana.get("/tokens/")


# ---------------------------------------------------------------- minting


@pytest.mark.contract("K4", "D11")
def test_a_minted_secret_is_on_its_page_and_nowhere_else() -> None:
    ana = person("ana", "add_bootstraptoken")
    answer = ana.post("/tokens/mint/", MINT)
    token = BootstrapToken.objects.get()
    found = re.search(rf"{token.pk}\.[a-z0-9]{{16}}", page(answer))
    assert answer.status_code == 200
    assert found is not None
    assert "no-store" in answer["Cache-Control"]
    assert (token.name, token.max_uses, token.addresses, token.created_by) == ("web-eu", 20, ["10.3.0.0/16"], "ana")
    assert found[0] not in page(ana.get("/tokens/"))
    assert found[0].partition(".")[2] not in str(AuditEvent.objects.values())


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("addresses", "10.3.0.0/99", "is not a network"),
        ("uses", "0", "greater than"),
        ("uses", "9" * 5_000, "whole number"),
        ("cluster", "No Name", "cannot"),
    ],
)
def test_what_makes_no_sense_is_said_beside_its_field(field: str, value: str, told: str) -> None:
    answer = person("ana", "add_bootstraptoken").post("/tokens/mint/", MINT | {field: value})
    assert answer.status_code == 400
    assert told in page(answer)
    assert not BootstrapToken.objects.exists()


@pytest.mark.contract("D2")
def test_without_the_right_the_button_says_why_and_the_service_refuses() -> None:
    li = person("li", "view_bootstraptoken")
    assert "corekinds.add_bootstraptoken" in page(li.get("/tokens/mint/"))
    assert li.post("/tokens/mint/", MINT).status_code == 403
    assert not BootstrapToken.objects.exists()
    assert AuditEvent.objects.filter(outcome="denied", user="li").exists()


# ---------------------------------------------------------------- revoking


def test_revoking_says_what_waits_and_what_stays_then_does_it() -> None:
    token = minted("ana")
    bring(token, "eu-1", "eu-2")
    make.accept("eu-2")
    ana = person("ana", "add_bootstraptoken", "view_managedcluster")
    text = page(ana.get(f"/tokens/{token.pk}/revoke/"))
    assert "came with it wait on" in text
    assert "/approvals/eu-1/" in text
    answer = ana.post(f"/tokens/{token.pk}/revoke/")
    assert (answer.status_code, answer["Location"]) == (302, "/tokens/")
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert "Revoked" in page(ana.get("/tokens/"))


def test_requests_of_clusters_that_one_may_not_see_are_counted_before_a_token_is_revoked() -> None:
    token = minted("ana")
    bring(token, "eu-1", "eu-2")
    blind = page(person("ana", "add_bootstraptoken").get(f"/tokens/{token.pk}/revoke/"))
    assert "2 requests that came with it wait on" in blind
    assert "<p>2 of clusters that you may not see. Their agents" in blind
    assert "eu-1" not in blind


def test_a_request_without_a_cluster_is_not_said_to_be_of_one_that_is_hidden() -> None:
    token = minted("ana")
    bring(token, "eu-1", "eu-2")
    with writing():
        ManagedCluster.objects.filter(name="eu-2").delete()
    text = page(person("ana", "add_bootstraptoken", "view_managedcluster").get(f"/tokens/{token.pk}/revoke/"))
    assert "eu-1</a>, and 1 that names no cluster of this hub. Their agents" in text
    assert "may not see" not in text


def test_a_token_of_somebody_else_is_not_there() -> None:
    token = minted("raj")
    assert person("ana", "add_bootstraptoken").post(f"/tokens/{token.pk}/revoke/").status_code == 404
    assert person("li", "view_bootstraptoken").post(f"/tokens/{token.pk}/revoke/").status_code == 403
    token.refresh_from_db()
    assert token.revoked_at is None
