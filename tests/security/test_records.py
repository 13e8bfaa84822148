"""What the hub writes down: no secrets, not without bounds, and nothing lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client

from clusters import services as clusters
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterFacts
from ocmconsole.accounts import people
from ocmconsole.core import kinds
from ocmconsole.core.kinds import CLUSTER_ROLE
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import reader
from ocmconsole.kubeapi.writes import store
from tests import factories as make
from tests.actors import ROOT, grant, person, rule
from tests.security.callers import Caller

pytestmark = pytest.mark.usefixtures("fresh_hub")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def applied(password: str) -> dict[str, Any]:
    """A Secret as ``kubectl apply`` sends it: the values twice."""
    doc: dict[str, Any] = {"metadata": {"name": "login"}, "stringData": {"password": password}}
    return doc | {"metadata": {"name": "login", "annotations": {LAST_APPLIED: json.dumps(doc)}}}


@pytest.mark.contract("D11")
def test_the_audit_never_shows_what_a_secret_holds() -> None:
    verbs.create(ROOT, kinds.SECRET, applied("hunter-1"), namespace="default")
    key = Key("default", "login")
    verbs.update(ROOT, kinds.SECRET, key, applied("hunter-2"))
    verbs.edit(ROOT, kinds.SECRET, key, lambda doc: doc["metadata"].pop("annotations"))
    verbs.update(ROOT, kinds.SECRET, key, applied("hunter-3"))
    verbs.delete(ROOT, kinds.SECRET, key)
    events = AuditEvent.objects.filter(resource="secrets", name="login")
    assert events.count() == 5
    assert "hunter" not in json.dumps([event.diff for event in events])


@pytest.mark.contract("D11")
def test_who_shows_no_credential_cannot_fill_the_audit() -> None:
    for number in range(20):
        assert Caller().get(f"/api/v1/namespaces/n{number}/secrets/s{number}").code == 403
        assert Caller().get(f"/apis/g{number}/v1/things{number}/x").code == 403
        assert Caller().get(f"/nothing/{number}").code == 403
    rows = AuditEvent.objects.filter(outcome="denied", user="system:anonymous")
    assert rows.count() <= 2  # one a minute
    assert sum(row.count for row in rows) == 60


@pytest.mark.contract("D5")
def test_two_facts_about_one_cluster_do_not_overwrite_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second commit was prepared before the first one ended."""
    make.cluster("c1", accepted=True)
    make.settle()
    prepare = store._prepare

    def withhold_meanwhile(write: store.Write, now: Any) -> None:
        monkeypatch.setattr(store, "_prepare", prepare)
        role = Key("", "open-cluster-management:managedcluster:c1")
        verbs.edit(ROOT, CLUSTER_ROLE, role, lambda doc: doc.update(rules=[]))
        prepare(write, now)

    monkeypatch.setattr(store, "_prepare", withhold_meanwhile)
    make.accept("c1", accepts=False)
    facts = ClusterFacts.objects.get(cluster="c1")
    assert (facts.decision, facts.renewal_withheld) == ("disconnected", True)


def test_a_batch_refuses_what_moved_between_two_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = make.cluster("c1")["metadata"]["resourceVersion"]
    read = reader.read_row
    reads: list[Key] = []

    def read_late(kind: Any, key: Key) -> Any:
        """Somebody writes between any two looks at the row."""
        found = read(kind, key)
        if kind is MANAGED_CLUSTER and not reads:
            reads.append(key)
            make.label("c1", moved="yes")
        return found

    monkeypatch.setattr(reader, "read_row", read_late)
    with pytest.raises(errors.Conflict), verbs.batch(ROOT) as batch:
        batch.edit(MANAGED_CLUSTER, Key("", "c1"), lambda doc: doc["spec"].update(hubAcceptsClient=True), expect=seen)
    assert not make.stored("c1").hub_accepts_client


@pytest.mark.contract("D11")
def test_a_persons_change_of_their_own_password_is_recorded_without_it() -> None:
    sam = get_user_model().objects.create_user("sam", password="the old words", is_staff=True)
    browser = Client()
    browser.force_login(sam)
    wanted = {"oldpassword": "the old words", "password1": "seven new words", "password2": "seven new words"}
    place = browser.get("/admin/password_change/")["Location"]  # as Django admin calls it
    refused = browser.post(place, wanted | {"oldpassword": "a guess"})
    assert refused.status_code == 400
    assert not AuditEvent.objects.filter(act="user:update", name="sam").exists()
    assert browser.post(place, wanted, follow=True).status_code == 200
    sam.refresh_from_db()
    assert sam.check_password("seven new words")
    event = AuditEvent.objects.get(act="user:update", name="sam")
    assert (event.user, event.entry_point, event.diff) == ("sam", "web", [{"path": "password"}])
    assert browser.get("/admin/").status_code == 200  # still signed in


@pytest.mark.contract("D11")
def test_nobody_changes_more_than_their_own_password_in_that_way() -> None:
    sam = get_user_model().objects.create_user("sam", password="the old words")
    sam.set_password("seven new words")
    with pytest.raises(errors.Forbidden, match="own password"):
        people.change_own_password(person("mallory"), sam)
    sam.is_superuser = True
    with pytest.raises(errors.Forbidden, match="own password"):
        people.change_own_password(person("sam"), sam)
    sam.refresh_from_db()
    assert sam.check_password("the old words")


@pytest.mark.contract("D11")
def test_a_certificate_for_a_person_is_recorded() -> None:
    call_command("user_kubeconfig", "zoe", "--group", "system:masters")
    event = AuditEvent.objects.get(act="certificate:issue", name="zoe")
    assert (event.user, event.entry_point) == ("admin", "cli")
    assert {"path": "groups", "new": ["system:masters"]} in event.diff


@pytest.mark.contract("D11")
def test_who_may_only_read_a_cluster_writes_nothing_about_it_into_the_audit() -> None:
    make.cluster("c1", accepted=True)
    make.settle()
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["metadata"]["finalizers"].append("example.com/mine"))
    verbs.delete(ROOT, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    li = person("li")
    grant(li, rule("get", "managedclusters", groups=MANAGED_CLUSTER.group))
    assert clusters.detach_cluster(li, "c1", reason="whatever li wants to be read there") == []
    assert not AuditEvent.objects.filter(act="managedcluster:detach").exists()
