"""What a process asks of an agent that it remembers, after rights have changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clusters.renewals import known_agents
from clusters.renewals.known_agents import KnownAgent
from ocmconsole.accounts import people
from ocmconsole.core.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, SECRET, SERVICE_ACCOUNT
from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Revision
from ocmconsole.kubeapi.watch import change_log
from registration.approvals import services
from registration.models import IssuedCertificate
from tests import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D26")]

CLUSTER = "remembered"
GROUP = "rbac.authorization.k8s.io"
GET_PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]


@pytest.fixture
def agent(tmp_path: Path, settings: Any) -> KnownAgent:
    """One that may renew its lease."""
    make.hub(tmp_path, settings)
    make.cluster(CLUSTER, accepted=True)
    make.settle()
    who, now = make.agent(CLUSTER), timezone.now()
    begins, ends = now - timedelta(hours=1), now + timedelta(hours=1)
    make.certificate(CLUSTER, "f" * 64, begins=begins, ends=ends, common_name=who.user, authority="k")
    found = KnownAgent("f" * 64, actor=who)
    assert asked(found) == (True, "register")
    assert asked(found) == (True, "memory")
    return found


def asked(agent: KnownAgent) -> tuple[bool, str]:
    """Whether it may renew its lease now, and what was asked for that: the register of certificates, rules, memory."""
    ended = change_log.rights_counts().ended_rights
    with CaptureQueriesContext(connection) as queries:
        (may,) = known_agents.may([(agent, CLUSTER)], "update", ended)
    if any(IssuedCertificate._meta.db_table in query["sql"] for query in queries):
        return may, "register"
    return may, "rules" if len(queries) else "memory"


def test_nothing_is_asked_after_a_cluster_has_joined(agent: KnownAgent) -> None:
    before = change_log.rights_counts()
    make.joined("newcomer")
    after = change_log.rights_counts()
    assert after.changes > before.changes
    assert after[1:] == before[1:]
    assert asked(agent) == (True, "memory")


def test_the_register_is_not_asked_after_a_change_of_roles_alone(agent: KnownAgent) -> None:
    make.cluster("newcomer", accepted=True)
    make.settle()
    make.accept("newcomer", accepts=False)
    assert asked(agent) == (True, "rules")


def test_a_role_that_is_gone_counts_though_the_register_is_not_asked(agent: KnownAgent) -> None:
    make.accept(CLUSTER, accepts=False)
    make.settle()
    assert asked(agent) == (False, "rules")
    make.accept(CLUSTER)
    make.settle()
    assert asked(agent) == (True, "rules")


def role_and_less() -> None:
    """Both in one commit."""
    with verbs.batch(make.ADMIN) as both:
        both.create(CLUSTER_ROLE, make.document(CLUSTER_ROLE, "more") | {"rules": GET_PODS})
        both.edit(CLUSTER_ROLE, Key("", "any"), lambda doc: doc.update(rules=[]))


def bound(name: str) -> Doc:
    who = {"kind": "User", "apiGroup": GROUP, "name": "ana"}
    of = {"kind": "ClusterRole", "apiGroup": GROUP, "name": name}
    return make.document(CLUSTER_ROLE_BINDING, name) | {"subjects": [who], "roleRef": of}


def person(**now: bool) -> None:
    user, _ = User.objects.get_or_create(username="ana")
    for field, value in now.items():
        setattr(user, field, value)
    people.save_user(make.ADMIN, user)


# Each after the one before it, and whether a right or a credential may end by it.
ACTS: dict[str, tuple[Callable[[], object], bool]] = {
    "a role is made": (
        lambda: make.create(CLUSTER_ROLE, make.document(CLUSTER_ROLE, "any") | {"rules": GET_PODS}),
        False,
    ),
    "a role is bound": (lambda: make.create(CLUSTER_ROLE_BINDING, bound("any")), False),
    "a service account is made": (
        lambda: make.create(SERVICE_ACCOUNT, make.document(SERVICE_ACCOUNT, "bot"), namespace="default"),
        False,
    ),
    "a secret is made": (
        lambda: make.create(SECRET, make.document(SECRET, "any") | {"stringData": {"a": "b"}}, namespace="default"),
        False,
    ),
    "a cluster joins": (lambda: make.joined("one"), False),
    "a role is made in the commit in which another loses its rules": (role_and_less, True),
    "a binding is deleted": (lambda: verbs.delete(make.ADMIN, CLUSTER_ROLE_BINDING, Key("", "any")), True),
    "a service account is deleted": (lambda: verbs.delete(make.ADMIN, SERVICE_ACCOUNT, Key("default", "bot")), True),
    "a secret is deleted": (lambda: verbs.delete(make.ADMIN, SECRET, Key("default", "any")), True),
    "a cluster is sent away": (lambda: make.accept("one", accepts=False), True),
    "a person becomes an admin": (lambda: person(is_superuser=True), True),
    "a person is deactivated": (lambda: person(is_active=False), True),
}


def test_what_only_gives_rights_is_no_end_of_any(tmp_path: Path, settings: Any) -> None:
    make.hub(tmp_path, settings)
    for act, (do, ends) in ACTS.items():
        before = change_log.rights_counts()
        do()
        after = change_log.rights_counts()
        assert after.changes > before.changes, act
        assert (after.ended_rights > before.ended_rights) is ends, act


def test_a_revoked_certificate_is_found_at_once(agent: KnownAgent) -> None:
    services.revoke_certificate(make.ADMIN, agent.fingerprint, reason="Stolen.")
    assert asked(agent) == (False, "register")
    assert asked(agent) == (False, "register")


def test_the_certificate_of_another_asks_the_register_once(agent: KnownAgent) -> None:
    now = timezone.now()
    make.certificate("other", "e" * 64, begins=now, ends=now + timedelta(hours=1))
    services.revoke_certificate(make.ADMIN, "e" * 64, reason="Stolen.")
    assert asked(agent) == (True, "register")
    assert asked(agent) == (True, "memory")


def test_what_a_server_of_the_release_before_revokes_is_found_too(agent: KnownAgent) -> None:
    """It knows nothing of the other counts."""
    IssuedCertificate.objects.filter(pk=agent.fingerprint).update(revoked_at=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE kubeapi_revision SET rights = rights + 1 WHERE id = 1")
    assert asked(agent) == (False, "register")


def test_the_release_before_can_make_the_counter() -> None:
    Revision.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO kubeapi_revision (id, value, rights) VALUES (1, 1, 0)")
    assert change_log.rights_counts() == (0, 0, 0)


def test_what_a_late_thread_has_found_permits_nothing(agent: KnownAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lease and watches of an agent are examined on threads of their own, which write to what all remember of it."""
    before, as_of = (agent.honoured, agent.until), rule_index.RuleIndex.as_of

    def overtaken(index: rule_index.RuleIndex, rights: int) -> rule_index.Tables:
        agent.honoured, agent.until = before
        return as_of(index, rights)

    services.revoke_certificate(make.ADMIN, agent.fingerprint, reason="Stolen.")
    monkeypatch.setattr(rule_index.RuleIndex, "as_of", overtaken)
    assert asked(agent) == (False, "register")
    assert asked(agent) == (False, "register")


def test_one_that_has_run_out_is_permitted_nothing(agent: KnownAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: timezone.now() + timedelta(hours=2))
    assert asked(agent) == (False, "memory")
