"""Pages of approval policies: who keeps them, what is tried before it is kept, what is written down."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi.models import AuditEvent
from registration.approvals import services
from registration.models import ApprovalPolicy
from registration.policies import policy_history
from tests import factories as make
from tests import requests
from tests.actors import person as actor
from tests.pages.joining import hub, page, person

pytestmark = pytest.mark.django_db

KEEPING = ("add_approvalpolicy", "view_approvalpolicy", "change_approvalpolicy", "delete_approvalpolicy")
ALL = (*KEEPING, "view_managedcluster", "change_managedcluster", "accept_managedcluster")


@pytest.fixture(autouse=True)
def ready(tmp_path: Path, settings: Any) -> None:
    hub(tmp_path, settings)


def wanted(**more: Any) -> dict[str, Any]:
    ends = (timezone.now() + timedelta(days=7)).date().isoformat()
    return {"name": "web", "pattern": "eu-*", "addresses": "", "set": "", "max_accepts": "5", "ends": ends,
            "reason": "A wave of shops.", "act": "keep", **more}  # fmt: skip


def arrive(*names: str) -> None:
    token = tokens.issue_bootstrap_token(actor("ana"), ttl=timedelta(hours=1)).partition(".")[0]
    bearer = replace(requests.BOOTSTRAP, user=f"system:bootstrap:{token}", credential=f"bootstrap:{token}")
    for name in names:
        make.cluster(name, by=bearer)
        requests.ask(f"{name}-a", requests.agent_pem(name), cluster=name, by=bearer)
    make.settle()


def test_who_may_not_see_policies_has_no_such_page() -> None:
    mallory = person("mallory")
    for path in ("/policies/", "/policies/-/new/", "/policies/web/"):
        assert mallory.get(path).status_code == 404


@pytest.mark.contract("K9", "D11")
def test_a_policy_is_kept_with_its_author_and_in_the_audit() -> None:
    ana = person("ana", *ALL)
    answer = ana.post("/policies/-/new/", wanted())
    assert answer["Location"] == "/policies/web/"
    policy = ApprovalPolicy.objects.get()
    assert (policy.acts_as, policy.pattern, policy.max_accepts) == ("ana", "eu-*", 5)
    event = AuditEvent.objects.get(act="approvalpolicy:create")
    assert (event.user, event.resource, event.name) == ("ana", "approvalpolicies", "web")
    text = page(ana.get("/policies/web/"))
    for shown in ("Working", "eu-*", "A wave of shops.", "0 of 5"):
        assert shown in text
    assert "web" in page(ana.get("/policies/"))


def test_without_a_default_set_a_policy_joins_none(settings: Any) -> None:
    ana = person("ana", *ALL)
    ana.post("/policies/-/new/", wanted())
    assert "<dd>the hub\u2019s default</dd>" in page(ana.get("/policies/web/"))
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "DefaultClusterSet": False}
    assert "<dt>Joins set</dt><dd>none</dd>" in page(ana.get("/policies/web/"))


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("pattern", "*", "must narrow it"),
        ("pattern", "eu[0-9]", "stands for anything"),
        ("ends", "2020-01-01", "in the future"),
        ("name", "No Name", "lowercase RFC 1123"),
        ("reason", " ", "required"),
        ("addresses", "10.0.0.0/99", "is not a network"),
    ],
)
def test_a_rule_that_makes_no_sense_is_said_beside_its_field(field: str, value: str, told: str) -> None:
    answer = person("ana", *ALL).post("/policies/-/new/", wanted(**{field: value}))
    assert answer.status_code == 400
    assert told in page(answer)
    assert not ApprovalPolicy.objects.exists()


def test_a_name_is_given_once() -> None:
    ana = person("ana", *ALL)
    ana.post("/policies/-/new/", wanted())
    answer = ana.post("/policies/-/new/", wanted())
    assert answer.status_code == 409
    assert "already exists" in page(answer)


@pytest.mark.contract("K9")
def test_trying_stores_nothing_and_warns_of_what_people_declined() -> None:
    arrive("eu-1", "eu-2", "us-1")
    services.decline_cluster(make.ADMIN, "eu-1", reason="Wrong token.")
    ana = person("ana", *ALL)
    text = page(ana.post("/policies/-/new/", wanted(act="try")))
    assert not ApprovalPolicy.objects.exists()
    for shown in ("2 fit", "People declined what fits", "Wrong token.", "1 would be let in at once"):
        assert shown in text
    assert "us-1" not in text


def test_trying_says_when_it_did_not_look_at_all_that_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    arrive("eu-1", "eu-2", "us-1")
    ana = person("ana", *ALL)
    cut = "only the newest 1 in 30 days were looked at"
    assert cut not in page(ana.post("/policies/-/new/", wanted(act="try")))
    monkeypatch.setattr(policy_history, "MOST", 1)
    text = page(ana.post("/policies/-/new/", wanted(act="try")))
    assert "1 fits:" in text
    assert cut in text
    ana.post("/policies/-/new/", wanted())
    assert cut in page(ana.get("/policies/web/"))


def test_a_pattern_of_many_stars_is_tried_as_fast_as_any() -> None:
    """A regular expression that a database makes of it would take days."""
    arrive(f"prod-{'a' * 20}", "prod-x")
    tried = page(person("ana", *ALL).post("/policies/-/new/", wanted(act="try", pattern=f"prod{'*' * 20}x")))
    assert "1 fits:" in tried


@pytest.mark.contract("D16")
def test_trying_names_no_cluster_that_the_person_may_not_see() -> None:
    arrive("eu-1")
    text = page(person("ana", *KEEPING).post("/policies/-/new/", wanted(act="try")))
    assert "eu-1" not in text


def test_a_kept_policy_lets_in_what_waits_and_lists_it() -> None:
    arrive("eu-1")
    ana = person("ana", *ALL)
    ana.post("/policies/-/new/", wanted())
    make.settle()
    assert make.stored("eu-1").hub_accepts_client
    assert "/clusters/eu-1/" in page(ana.get("/policies/web/"))


def test_changing_disabling_and_deleting() -> None:
    ana, raj = person("ana", *ALL), person("raj", *ALL)
    ana.post("/policies/-/new/", wanted())
    assert raj.post("/policies/web/edit/", wanted(pattern="us-*"))["Location"] == "/policies/web/"
    policy = ApprovalPolicy.objects.get()
    assert (policy.acts_as, policy.created_by, policy.pattern) == ("raj", "ana", "us-*")
    ana.post("/policies/web/switch/", {"to": "off"})
    assert "Disabled" in page(ana.get("/policies/web/"))
    ana.post("/policies/web/switch/", {"to": "on"})
    assert ApprovalPolicy.objects.get().acts_as == "ana"
    assert "stay" in page(ana.get("/policies/web/delete/"))
    assert ana.post("/policies/web/delete/")["Location"] == "/policies/"
    assert not ApprovalPolicy.objects.exists()
    acts = list(AuditEvent.objects.filter(resource="approvalpolicies").order_by("pk").values_list("act", flat=True))
    assert acts == [f"approvalpolicy:{act}" for act in ("create", "update", "disable", "enable", "delete")]


@pytest.mark.contract("D2")
def test_who_may_look_may_change_nothing() -> None:
    person("ana", *ALL).post("/policies/-/new/", wanted())
    li = person("li", "view_approvalpolicy")
    assert "registration.add_approvalpolicy" in page(li.get("/policies/")).replace("Registration", "registration")
    attempts = [
        li.post("/policies/-/new/", wanted(name="mine")),
        li.post("/policies/web/edit/", wanted(pattern="us-*")),
        li.post("/policies/web/switch/", {"to": "off"}),
        li.post("/policies/web/delete/"),
    ]
    assert [answer.status_code for answer in attempts] == [403] * 4
    assert ApprovalPolicy.objects.get().pattern == "eu-*"
    assert sum(AuditEvent.objects.filter(outcome="denied", user="li").values_list("count", flat=True)) == 4


def test_a_failing_policy_says_why() -> None:
    ana = person("ana", *ALL)
    ana.post("/policies/-/new/", wanted())
    ApprovalPolicy.objects.update(acts_as="gone")
    arrive("eu-1")
    for path in ("/policies/", "/policies/web/"):
        text = page(ana.get(path))
        assert "Failing" in text
        assert "gone is no active user" in text


def test_the_number_of_queries_does_not_grow_with_the_policies(django_assert_max_num_queries: Any) -> None:
    ana = person("ana", *ALL)
    ana.post("/policies/-/new/", wanted())
    ana.get("/policies/")
    with CaptureQueriesContext(connection) as captured:
        ana.get("/policies/")
    with_one = len(captured)
    for number in range(6):
        ana.post("/policies/-/new/", wanted(name=f"web-{number}"))
    ana.get("/policies/")
    with django_assert_max_num_queries(with_one):
        ana.get("/policies/")
