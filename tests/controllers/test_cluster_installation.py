"""What exists on a fresh hub for clusters that are to come (H1 to H3), and what of upstream's hub does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.kinds import GROUP, MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET
from ocmconsole.core import kinds
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.models import AuditEvent
from registration import hub_setup
from tests import factories as make
from tests import requests
from tests.actors import rule

pytestmark = pytest.mark.django_db

ROLE = "open-cluster-management:bootstrap"
ACCOUNT = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"


@pytest.fixture(autouse=True)
def first_start(tmp_path: Path, settings: Any) -> None:
    settings.OCMCONSOLE_HOME = tmp_path
    hub_setup.ensure_hub()
    make.settle()


def found(kind: Kind, name: str, namespace: str = "") -> dict[str, Any]:
    doc = verbs.find(kind, Key(namespace, name))
    assert doc is not None
    return doc


@pytest.mark.contract("H1")
def test_namespaces_and_the_account_of_bootstrapping_agents_exist() -> None:
    for name in ("open-cluster-management", "open-cluster-management-hub"):
        assert found(kinds.NAMESPACE, name)["status"] == {"phase": "Active"}
    assert found(kinds.SERVICE_ACCOUNT, "agent-registration-bootstrap", "open-cluster-management")


@pytest.mark.contract("H2")
def test_the_bootstrap_role_is_exactly_upstreams() -> None:
    assert found(kinds.CLUSTER_ROLE, ROLE)["rules"] == [
        rule("get", "configmaps"),
        rule("create get list watch", "certificatesigningrequests", groups="certificates.k8s.io"),
        rule("get create list watch", "managedclusters", groups=GROUP),
        rule("create", "managedclustersets/join", groups=GROUP),
    ]
    group = found(kinds.CLUSTER_ROLE_BINDING, f"{ROLE}:managedcluster")
    assert group["roleRef"]["name"] == ROLE
    assert [(each["kind"], each["name"]) for each in group["subjects"]] == [
        ("Group", "system:bootstrappers:managedcluster")
    ]
    account = found(kinds.CLUSTER_ROLE_BINDING, f"{ROLE}:agent-registration")
    assert account["roleRef"]["name"] == ROLE
    assert [(each["kind"], each["namespace"], each["name"]) for each in account["subjects"]] == [
        ("ServiceAccount", "open-cluster-management", "agent-registration-bootstrap")
    ]


@pytest.mark.contract("H2", "G11")
@pytest.mark.parametrize(
    "actor",
    [
        Actor(user="system:bootstrap:abcdef", groups=("system:bootstrappers:managedcluster", AUTHENTICATED)),
        Actor(user=ACCOUNT, groups=("system:serviceaccounts", AUTHENTICATED)),
    ],
    ids=["token", "account"],
)
def test_who_bootstraps_may_ask_and_no_more(actor: Actor) -> None:
    def may(verb: str, resource: str, group: str = GROUP) -> bool:
        resource, _, subresource = resource.partition("/")
        return authorization.authorize(actor, Attributes(verb, group, resource, subresource)).allowed

    assert all(may(verb, "managedclusters") for verb in ("get", "create", "list", "watch"))
    assert may("create", "managedclustersets/join")
    assert not any(may(verb, "managedclusters") for verb in ("update", "patch", "delete"))
    assert not may("patch", "managedclusters/status")
    assert not may("update", "certificatesigningrequests/approval", "certificates.k8s.io")
    assert not may("get", "secrets", "")


@pytest.mark.contract("H2", "K4")
def test_a_bootstrap_token_is_in_the_group_that_the_role_is_bound_to() -> None:
    token = tokens.issue_bootstrap_token(make.ADMIN, ttl=hub_setup.ADMIN_LIFETIME)
    actor = tokens.bootstrap_actor(token)
    assert actor is not None
    assert "system:bootstrappers:managedcluster" in actor.groups


@pytest.mark.contract("H3")
def test_no_role_of_registration_gathers_rules_of_others() -> None:
    make.cluster("c1", accepted=True)
    make.settle()
    named = kinds.CLUSTER_ROLE.model.objects.filter(name__startswith="open-cluster-management")
    assert {row.name.rpartition(":")[2] for row in named} == {"bootstrap", "c1", "registration", "work"}
    assert not any("aggregationRule" in row.doc for row in named)


@pytest.mark.contract("H23")
def test_the_two_standing_sets_do_not_wait_for_the_clock() -> None:
    for name in ("default", "global"):
        assert found(MANAGED_CLUSTER_SET, name)


@pytest.mark.contract("H2", "H23")
def test_a_second_start_writes_nothing() -> None:
    make.settle()
    assert make.writes_of(hub_setup.ensure_hub) == []
    assert make.writes_of(make.settle) == []


@pytest.mark.contract("H39")
def test_requests_for_signers_of_drivers_that_are_not_built_stay_as_they_are() -> None:
    make.cluster("c1", accepted=True)
    make.settle()
    signer = "open-cluster-management.io/grpc"
    requests.ask("c1-a", requests.agent_pem("c1"), cluster="c1", by=requests.agent("c1"), signerName=signer)
    make.settle()
    assert requests.state("c1-a") == "Pending"


@pytest.mark.contract("H46", "K43", "D11")
def test_what_upstream_neither_measures_nor_remembers_is_in_the_audit() -> None:
    """Registration has no metrics of its own to be compatible with; who did what to a cluster is told by name."""
    make.cluster("c1")
    make.settle()
    make.accept("c1")
    make.settle()
    make.accept("c1", accepts=False)
    make.settle()
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    told = AuditEvent.objects.filter(resource=MANAGED_CLUSTER.resource, name="c1").order_by("pk")
    by_people = [event.act for event in told if event.user == make.ADMIN.user]
    assert by_people == [
        "managedcluster:create",
        "managedcluster:accept",
        "managedcluster:disconnect",
        "managedcluster:delete",
    ]
    assert {event.entry_point for event in told} == {"api", "controller"}
