"""Sending away: a request is declined, an accepted cluster is disconnected; the same from each way that offers it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from django.test import Client

from clusters.fleet.bulk_acts import BulkPlan, BulkStep
from clusters.models import ClusterFacts
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.models import AuditEvent, BulkItem
from registration.approvals import bulk_decisions, stale_decision
from registration.approvals.forms import packed_requests
from registration.evidence import assessment
from tests import factories as make
from tests.actors import grant, person, rule
from tests.entry_points import rights, scene
from tests.entry_points.scene import Waiting
from tests.entry_points.ways import AdminAction, AdminForm, Api, Command, Page, Refused

pytestmark = pytest.mark.django_db

PERMISSION = "clusters.accept_managedcluster"
REASON = "Wrong token: this is a laptop of the lab."
DISCONNECTING = {"page": Page(), "admin": AdminAction(), "admin-form": AdminForm()}
disconnecting = pytest.mark.parametrize("way", DISCONNECTING.values(), ids=DISCONNECTING)


def connected(name: str) -> Waiting:
    waiting = scene.ask(name)
    make.accept(name)
    make.settle()
    return waiting


@pytest.mark.contract("D10")
def test_a_declined_request_is_the_same_from_page_and_command(ana: Any) -> None:
    by_page, by_command = scene.ask("site-one"), scene.ask("site-two")
    rights.by_guardian(ana, by_page, by_command)
    Page().decline(ana, by_page, REASON)
    Command().decline(ana, by_command, REASON)
    make.settle()
    found = scene.records()
    assert scene.rows_of(by_page, found) == scene.rows_of(by_command, found)
    assert scene.audit_of(by_page, found) == scene.audit_of(by_command, found)
    facts = ClusterFacts.objects.get(cluster="site-one")
    assert (facts.decision, facts.decided_by, facts.decision_reason) == ("declined", "ana", REASON)
    assert (scene.is_accepted(by_page), scene.state_of(by_page)) == (False, "Denied")


@pytest.mark.contract("D2", "D10")
def test_declining_needs_the_permission(ana: Any) -> None:
    waiting = scene.ask("site-one")
    rights.but_accept(ana, waiting)
    before = scene.everything_but_audit()
    for way in (Page(), Command()):
        with pytest.raises(Refused, match=PERMISSION):
            way.decline(ana, waiting, REASON)
    assert scene.everything_but_audit() == before


@pytest.mark.contract("D10", "D15")
def test_what_the_person_may_not_deny_is_refused_with_the_reason_and_nothing_is_declined(ana: Any) -> None:
    """One of the waiting requests speaks for another cluster: to deny it takes the right on its signer (W23)."""
    waiting = scene.ask("site-one")
    scene.ask_again(Waiting("site-one", "site-one-00002"), speaks_for="another")
    rights.by_guardian(ana, waiting)
    before = scene.everything_but_audit()
    for way in (Page(), Command()):
        with pytest.raises(Refused, match=r"site-one-00002 does not speak for site-one alone.*right to update"):
            way.decline(ana, waiting, REASON)
    seen = stale_decision.seen_of(assessment.evidence_of("site-one"))
    form = {"preset": "", "reason": REASON, "scope": "asker", "cluster_rv": seen.cluster,
            "csr_rvs": packed_requests(seen)}  # fmt: skip
    client = Client()
    client.force_login(ana, "django.contrib.auth.backends.ModelBackend")
    assert client.post("/approvals/site-one/decline/", form).status_code == 403  # a page from before
    with pytest.raises(Refused, match="is forbidden"):
        Api().decide(ana, "site-one-00002", "Denied")
    assert scene.everything_but_audit() == before
    actor, act, items = actor_for(ana), bulk_decisions.ACTS["decline"], {"site-one": asdict(seen)}
    assert "blocked" in bulk_decisions.plan_requests(actor, act, items).steps[0].obstacle
    before_it = BulkPlan([BulkStep("site-one")])  # of a moment at which it was permitted
    (item,) = bulk_decisions.start_requests(actor, act, before_it, items, {"reason": REASON}).items.all()
    assert (item.state, "Nothing was declined" in item.text) == (BulkItem.State.FAILED, True)
    assert scene.state_of(waiting) == "Pending"
    denied = AuditEvent.objects.filter(outcome=AuditEvent.Outcome.DENIED, verb="approve", user="ana")
    assert denied.filter(reason__contains="Nothing was declined").exists()


@pytest.mark.contract("D10", "W23")
def test_who_may_deny_all_that_waits_declines_all_of_it(ana: Any) -> None:
    waiting = scene.ask("site-one")
    scene.ask_again(Waiting("site-one", "site-one-00002"), speaks_for="another")
    rights.by_guardian(ana, waiting)
    api = "certificates.k8s.io"
    mine = rule("get update", "certificatesigningrequests certificatesigningrequests/approval", groups=api)
    grant(person("ana"), mine, rule("approve", "signers", groups=api))
    Page().decline(ana, waiting, REASON)
    assert [scene.state_of(Waiting("site-one", name)) for name in ("site-one-00001", "site-one-00002")] == [
        "Denied"
    ] * 2


@pytest.mark.contract("D10")
def test_an_accepted_cluster_is_not_declined(ana: Any) -> None:
    waiting = connected("site-one")
    rights.by_guardian(ana, waiting)
    Command().decline(ana, waiting, REASON)  # its request still waited
    assert scene.state_of(waiting) == "Denied"
    with pytest.raises(Refused, match="disconnect it instead"):
        Command().decline(ana, waiting, REASON)
    assert scene.is_accepted(waiting)
    assert ClusterFacts.objects.get(cluster="site-one").decision == "accepted"


@disconnecting
@pytest.mark.contract("A5", "D3", "H7")
def test_a_disconnected_cluster_is_the_same_from_every_way(ana: Any, way: Any) -> None:
    by_kubectl, by_way = connected("site-one"), connected("site-two")
    rights.by_guardian(ana, by_kubectl, by_way)
    Api().disconnect(ana, by_kubectl)
    way.disconnect(ana, by_way)
    make.settle()
    assert not scene.is_accepted(by_way)
    found = scene.records()
    assert scene.rows_of(by_kubectl, found) == scene.rows_of(by_way, found)
    assert scene.audit_of(by_kubectl, found) == scene.audit_of(by_way, found)


@disconnecting
@pytest.mark.contract("A5", "D3")
def test_disconnecting_needs_the_permission(ana: Any, way: Any) -> None:
    waiting = connected("site-one")
    rights.but_accept(ana, waiting)
    before = scene.everything_but_audit()
    with pytest.raises(Refused) as refusal:
        way.disconnect(ana, waiting)
    assert way is DISCONNECTING["page"] or PERMISSION in str(refusal.value)
    with pytest.raises(Refused, match="cannot update the HubAcceptsClient field"):
        Api().disconnect(ana, waiting)
    assert scene.everything_but_audit() == before
