"""What a process asks of an agent that it remembers, after rights have changed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clusters.renewals import known_agents
from clusters.renewals.known_agents import KnownAgent
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import Revision
from ocmconsole.kubeapi.watch import change_log
from registration.approvals import services
from registration.models import IssuedCertificate
from tests import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D26")]

CLUSTER = "remembered"


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
    assert asked(found) == (True, 1)
    return found


def asked(agent: KnownAgent) -> tuple[bool, int]:
    """Whether it may renew its lease now, and how often the register was asked for that."""
    with CaptureQueriesContext(connection) as queries:
        (may,) = known_agents.may([(agent, CLUSTER)], "update", change_log.rights())
    return may, sum(IssuedCertificate._meta.db_table in query["sql"] for query in queries)


def test_the_register_is_not_asked_after_a_change_of_roles_alone(agent: KnownAgent) -> None:
    before = change_log.rights()
    make.cluster("newcomer", accepted=True)
    make.settle()
    assert change_log.rights() > before
    assert asked(agent) == (True, 0)


def test_a_role_that_is_gone_counts_though_the_register_is_not_asked(agent: KnownAgent) -> None:
    make.accept(CLUSTER, accepts=False)
    make.settle()
    assert asked(agent) == (False, 0)
    make.accept(CLUSTER)
    make.settle()
    assert asked(agent) == (True, 0)


def test_a_revoked_certificate_is_found_at_once(agent: KnownAgent) -> None:
    services.revoke_certificate(make.ADMIN, agent.fingerprint, reason="Stolen.")
    assert asked(agent) == (False, 1)
    assert asked(agent) == (False, 1)


def test_the_certificate_of_another_asks_the_register_once(agent: KnownAgent) -> None:
    now = timezone.now()
    make.certificate("other", "e" * 64, begins=now, ends=now + timedelta(hours=1))
    services.revoke_certificate(make.ADMIN, "e" * 64, reason="Stolen.")
    assert asked(agent) == (True, 1)
    assert asked(agent) == (True, 0)


def test_what_a_server_of_the_release_before_revokes_is_found_too(agent: KnownAgent) -> None:
    """It knows nothing of the second count."""
    IssuedCertificate.objects.filter(pk=agent.fingerprint).update(revoked_at=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE kubeapi_revision SET rights = rights + 1 WHERE id = 1")
    assert asked(agent) == (False, 1)


def test_the_release_before_can_make_the_counter() -> None:
    Revision.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO kubeapi_revision (id, value, rights) VALUES (1, 1, 0)")
    assert change_log.ended_credentials() == 0


def test_one_that_has_run_out_is_permitted_nothing(agent: KnownAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: timezone.now() + timedelta(hours=2))
    assert asked(agent) == (False, 0)
