"""Bootstrap tokens with terms: so many clusters, from these networks. Anyone who steals one gets no more than that."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi.models import AuditEvent
from tests import requests
from tests.actors import ROOT
from tests.security.callers import CLUSTERS, REQUESTS, Answer, Caller, bearer

pytestmark = pytest.mark.usefixtures("fresh_hub")


def minted(**terms: Any) -> tuple[Caller, BootstrapToken]:
    token = tokens.issue_bootstrap_token(ROOT, ttl=timedelta(hours=1), **terms)
    return bearer(token), BootstrapToken.objects.get(pk=token.partition(".")[0])


def register(caller: Caller, name: str) -> Answer:
    return caller.post(CLUSTERS, {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
                                  "metadata": {"name": name}})  # fmt: skip


def ask(caller: Caller, cluster: str, *, named: str = "") -> Answer:
    return caller.post(
        REQUESTS, requests.document(named or f"{cluster}-a", requests.agent_pem(cluster), cluster=cluster)
    )


def brought(token: BootstrapToken) -> list[str]:
    return list(token.brought.order_by("cluster").values_list("cluster", flat=True))


@pytest.mark.contract("K4")
def test_a_use_is_a_cluster_however_many_requests_it_takes() -> None:
    caller, token = minted(max_uses=2)
    assert [register(caller, "c1").code, ask(caller, "c1").code, ask(caller, "c1", named="c1-b").code] == [201] * 3
    assert (brought(token), token.uses_text) == (["c1"], "1 of 2 uses")


@pytest.mark.contract("K4")
def test_an_exhausted_token_registers_no_further_cluster() -> None:
    caller, token = minted(max_uses=1)
    assert register(caller, "c1").code == 201
    refused = register(caller, "c2")
    assert refused.code == 403
    assert f"the bootstrap token {token.pk} was minted for 1 cluster and has brought 1" in refused.message
    assert brought(token) == ["c1"]
    assert AuditEvent.objects.get(outcome="denied").credential == f"bootstrap:{token.pk}"


@pytest.mark.contract("K4")
def test_an_exhausted_token_asks_for_no_other_certificate() -> None:
    caller, _ = minted(max_uses=1)
    assert register(caller, "c1").code == 201
    assert ask(caller, "c2").code == 403
    assert "was minted for 1 cluster" in AuditEvent.objects.get(outcome="denied").reason


@pytest.mark.contract("K4")
def test_the_cluster_that_is_joining_goes_on_with_its_exhausted_token() -> None:
    caller, _ = minted(max_uses=1)
    assert register(caller, "c1").code == 201
    assert ask(caller, "c1").code == 201
    assert caller.get(f"{REQUESTS}/c1-a").code == 200


@pytest.mark.contract("K4")
def test_asking_for_a_certificate_alone_is_a_use() -> None:
    caller, token = minted(max_uses=1)
    assert ask(caller, "c1").code == 201
    assert register(caller, "c2").code == 403
    assert brought(token) == ["c1"]


@pytest.mark.contract("K4", "W21")
@pytest.mark.parametrize(("address", "code"), [("10.3.0.17", 201), ("::ffff:10.3.9.9", 201), ("10.4.0.1", 403)])
def test_a_token_works_from_its_networks_only(address: str, code: int) -> None:
    caller, token = minted(addresses=["10.3.0.0/16"])
    caller.environ["REMOTE_ADDR"] = address
    assert register(caller, "c1").code == code
    denied = AuditEvent.objects.filter(outcome="denied")
    assert [(each.address, each.name) for each in denied] == ([] if code == 201 else [(address, token.pk)])


@pytest.mark.contract("K4")
def test_from_elsewhere_a_right_and_a_wrong_secret_look_different_only_to_one_who_has_it() -> None:
    caller, token = minted(addresses=["10.3.0.0/16"])
    assert caller.get("/version").code == 403
    assert bearer(f"{token.pk}.{'0' * 16}").get("/version").code == 401
