"""What the longest flows cost: queries, commits and runs of reconcilers, each with an upper bound.

A savepoint is the test's own: a hub has the transaction itself there. A commit is one that takes numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters.acceptance import agent_roles
from clusters.kinds import LEASE, LEASE_NAME, MANAGED_CLUSTER
from clusters.models import ManagedCluster
from ocmconsole.access import services as access
from ocmconsole.core import kinds
from ocmconsole.core.rbac import known_rights
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.session import actor_for, actor_of_present
from ocmconsole.kubeapi.control import controllers
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Change, WorkItem
from registration import queries
from registration.approvals import services, stale_decision
from registration.policies import policy_services
from registration.policies.policy_matching import PolicyInput
from tests import factories as make
from tests import requests
from tests.kept import kept

pytestmark = pytest.mark.django_db

TAKEN = re.compile(r"kubeapi_revision\.value \+ (\d+)")


@dataclass
class Cost:
    queries: int = 0
    commits: int = 0
    ran: list[str] = field(default_factory=list)


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    ran: list[str] = []
    find = controllers.find_reconciler

    def noted(name: str) -> Any:
        ran.append(name)
        return find(name)

    monkeypatch.setattr(controllers, "find_reconciler", noted)

    @contextmanager
    def measured() -> Iterator[Cost]:
        found = Cost()
        ran.clear()
        with CaptureQueriesContext(connection) as asked:
            yield found
        statements = [each["sql"] for each in asked if "SAVEPOINT" not in each["sql"]]
        found.queries = len(statements)
        found.commits = sum(int(count) > 0 for sql in statements for count in TAKEN.findall(sql))
        found.ran = sorted(ran)

    return measured


@kept
def first() -> None:
    """With it come the roles that all clusters share."""
    make.cluster("first")
    make.settle()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> None:
    make.hub(tmp_path, settings)
    first()


def person(*permissions: str) -> Actor:
    """A superuser, or somebody who holds only these."""
    user = User.objects.create_user("ana", is_superuser=not permissions)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return actor_of_present(user.pk)


def arrive(name: str, *, settle: bool = True) -> None:
    minter = actor_for(User.objects.get_or_create(username="minter", is_superuser=True)[0])
    token = tokens.issue_bootstrap_token(minter, ttl=timedelta(hours=1)).partition(".")[0]
    agent = replace(requests.BOOTSTRAP, user=f"system:bootstrap:{token}", credential=f"bootstrap:{token}")
    make.cluster(name, by=agent)
    requests.ask(f"{name}-a", requests.agent_pem(name), cluster=name, by=agent)
    if settle:
        make.settle()


def accept(actor: Actor, name: str) -> None:
    seen = stale_decision.present_versions(make.stored(name), queries.waiting_requests(name))
    services.accept_cluster(actor, name, seen=seen)


@pytest.mark.parametrize(
    ("permissions", "own", "most"),
    [((), (), 21), (("accept_managedcluster",), (), 25), (("view_managedcluster",), ("accept_managedcluster",), 25)],
)
def test_the_decision_is_one_commit(cost: Any, permissions: tuple[str, ...], own: tuple[str, ...], most: int) -> None:
    """By a superuser, by somebody who may accept every cluster, and by somebody who may accept this one."""
    ana = person(*permissions)
    arrive("c1")
    for each in own:
        assign_perm(each, User.objects.get(username="ana"), ManagedCluster.objects.get(name="c1"))
    seen = stale_decision.present_versions(make.stored("c1"), queries.waiting_requests("c1"))
    with cost() as found:
        services.accept_cluster(ana, "c1", seen=seen)
    assert found.commits == 1
    assert found.queries <= most
    assert make.stored("c1").hub_accepts_client


@pytest.mark.contract("H4", "H5", "H15", "W27")
def test_all_that_follows_is_one_commit_beside_the_signature(cost: Any) -> None:
    arrive("c1")
    accept(person(), "c1")
    before = Change.objects.latest("revision").revision
    with cost() as found:
        make.settle()
    made = Change.objects.filter(revision__gt=before).exclude(name="c1-a").order_by("revision")
    assert [f"{each.verb} {each.resource.partition('.')[0]} {each.name.rpartition(':')[2]}" for each in made] == [
        "ADDED namespaces c1",
        "MODIFIED managedclusters c1",
        "ADDED clusterroles c1",
        "ADDED clusterrolebindings c1",
        "ADDED rolebindings registration",
        "ADDED rolebindings work",
        "MODIFIED managedclusters c1",
        f"ADDED leases {LEASE_NAME}",
        "ADDED configmaps kube-root-ca.crt",
        "ADDED serviceaccounts default",
    ]
    assert len({each.time for each in made}) == 1
    assert requests.state("c1-a") == "Issued"
    assert found.commits == 2
    assert found.ran == ["acceptance", "request_signing"]
    assert found.queries <= 60
    assert not WorkItem.objects.exists()


@pytest.mark.contract("H4", "H8", "H15")
@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (kinds.NAMESPACE, Key("", "c1")),
        (kinds.CLUSTER_ROLE, Key("", agent_roles.role_name("c1"))),
        (kinds.CLUSTER_ROLE_BINDING, Key("", agent_roles.role_name("c1"))),
        (kinds.ROLE_BINDING, Key("c1", agent_roles.work_binding_name("c1"))),
        (LEASE, Key("c1", LEASE_NAME)),
    ],
)
def test_what_acceptance_made_is_made_again_when_somebody_deletes_it(kind: Any, key: Key) -> None:
    arrive("c1")
    accept(person(), "c1")
    make.settle()
    uid = (verbs.find(kind, key) or {})["metadata"]["uid"]
    verbs.delete(make.ADMIN, kind, key)
    WorkItem.objects.update(due=timezone.now())
    for _ in range(5):  # a namespace is emptied first
        make.settle()
        WorkItem.objects.update(due=timezone.now())
    assert (verbs.find(kind, key) or {})["metadata"]["uid"] != uid


@pytest.mark.contract("K9", "H9")
def test_no_policy_is_asked_about_where_there_is_none(cost: Any) -> None:
    with cost() as found:
        arrive("c1")
    assert {"auto_acceptance", "policy_acceptance"}.isdisjoint(found.ran)
    with cost() as found:
        make.label("c1", team="edge")
        make.settle()
    assert found.ran == ["managed_namespaces"]  # a label may move it into another set


def test_a_cluster_that_comes_wakes_only_those_who_have_something_to_do(cost: Any) -> None:
    """No shared role is missing, no token has a wish, no request has a rival."""
    with cost() as found:
        arrive("c1")
    assert found.ran == ["managed_namespaces", "taints"]


@pytest.mark.contract("K4", "K11", "H13")
def test_who_has_something_to_do_is_woken(cost: Any) -> None:
    minter = actor_for(User.objects.create_user("lena", is_superuser=True))
    token = tokens.issue_bootstrap_token(minter, ttl=timedelta(hours=1), labels={"team": "edge"}).partition(".")[0]
    agent = replace(requests.BOOTSTRAP, user=f"system:bootstrap:{token}", credential=f"bootstrap:{token}")
    verbs.delete(make.ADMIN, kinds.CLUSTER_ROLE, Key("", agent_roles.WORK_ROLE))
    WorkItem.objects.all().delete()
    with cost() as found:
        make.cluster("c1", by=agent)
        requests.ask("c1-a", requests.agent_pem("c1"), cluster="c1", by=agent)
        requests.ask("c1-b", requests.agent_pem("c1"), cluster="c1", by=agent)
        make.settle()
    assert {"token_wish", "shared_roles", "superseded_requests"} <= set(found.ran)
    assert make.stored("c1").labels["team"] == "edge"
    assert verbs.find(kinds.CLUSTER_ROLE, Key("", agent_roles.WORK_ROLE)) is not None
    assert [row.name for row in queries.requests_of("c1")] == ["c1-b"]


@pytest.mark.contract("K9")
def test_a_policy_is_asked_about_who_waits_and_about_nobody_else(cost: Any) -> None:
    ana = person()
    soon = timezone.now() + timedelta(days=1)
    policy_services.create_policy(ana, PolicyInput("eu", soon, "a wave", pattern="eu-*"))
    with cost() as found:
        arrive("c1")
    assert "policy_acceptance" in found.ran
    accept(ana, "c1")
    make.settle()
    with cost() as found:
        make.label("c1", team="edge")
        make.available("c1")
        make.settle()
    assert "policy_acceptance" not in found.ran
    policy_services.disable_policy(ana, "eu")
    with cost() as found:
        arrive("eu-1")
    assert "policy_acceptance" not in found.ran


@pytest.mark.contract("H9", "K9")
def test_the_gate_of_automatic_acceptance_wakes_it(cost: Any, settings: Any) -> None:
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "ManagedClusterAutoApproval": True}
    with cost() as found:
        arrive("c1")
    assert "auto_acceptance" in found.ran


def test_what_needs_nothing_else_wakes_nobody(cost: Any) -> None:
    """An agent that says each minute how much room it has."""
    arrive("c1")
    accept(person(), "c1")
    make.available("c1")
    make.settle()
    with cost() as found:
        make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["status"].update(capacity={"cpu": "4"}), subresource="status")
        make.settle()
    assert found.ran == []
    assert found.commits == 1


def test_giving_access_is_one_commit(cost: Any) -> None:
    ana, boss = person("view_managedcluster"), make.ADMIN
    row = access.request_access(ana, known_rights.question("list", "secrets"), "for the audit")
    with cost() as found:
        access.grant_request(boss, row)
    assert found.commits == 1
    assert found.queries <= 16
