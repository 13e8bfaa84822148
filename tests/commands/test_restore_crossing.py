"""A hub on SQLite goes on on PostgreSQL: restored from its backup there, with all that it had."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyrage
import pytest

from tests import hub as hubs
from tests import tools
from tests.conftest import StartHub

pytestmark = [pytest.mark.slow, pytest.mark.contract("D22")]
SMALL = """
from datetime import timedelta
from django.contrib.auth.models import User
from django.core.management import call_command
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.accounts import permissions
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import Actor, MASTERS
from registration import hub_setup
hub_setup.ensure_hub()
setup = Actor(user="setup", groups=(MASTERS,))
doc = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
       "metadata": {"name": "c1", "annotations": {"note": "häßlich 'quoted' 🚢"}}, "spec": {"hubAcceptsClient": True}}
verbs.create(setup, MANAGED_CLUSTER, doc)
permissions.grant_permission(setup, "clusters.accept_managedcluster", to=User.objects.create_user("ana"))
tokens.issue_bootstrap_token(setup, ttl=timedelta(hours=1))
call_command("work")
"""
TABLES = (
    "kubeapi_auditevent",
    "corekinds_clusterrole",
    "auth_permission",
    "auth_user_user_permissions",
    "clusters_lease",
)


def test_a_hub_is_restored_from_sqlite_onto_postgresql_and_back_with_every_row(
    start_hub: StartHub, tmp_path: Path
) -> None:
    if "TEST_DATABASE_URL" not in os.environ:
        pytest.skip("PostgreSQL is where it goes")
    key, backup = tmp_path / "key.txt", tmp_path / "hub.backup"
    key.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    small = hubs.prepare(tmp_path / "small")
    small.manage("migrate", "--verbosity=0")
    small.manage("shell", "-c", SMALL)
    small.manage("backup", str(backup), "--key", str(key))
    with small.reading() as ask:
        before = {table: ask(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}  # noqa: S608 - names from above
    programs = tools.postgres_of_machine() or tools.postgres_of_wheel()
    with start_hub() as started:
        hub = replace(started, environment={**started.environment, "PATH": f"{programs}:{started.environment['PATH']}"})
        for name in reversed([*hub.processes]):
            hub.stop(name)
        assert "what was revoked is known up to" in hub.manage("restore", str(backup), "--key", str(key), "--replace")
        with hub.reading() as ask:
            after = {table: ask(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}  # noqa: S608 - as above
        assert after.pop("kubeapi_auditevent") > before.pop("kubeapi_auditevent"), "the restore and ended tokens"
        assert after == before
        assert not (hub.home / "hub.sqlite3").exists()
        hub.manage("backup", str(tmp_path / "back.backup"), "--key", str(key))
        again = hubs.prepare(tmp_path / "again")
        again = replace(again, environment={**again.environment, "PATH": hub.environment["PATH"]})
        again.manage("restore", str(tmp_path / "back.backup"), "--key", str(key))
        with again.reading() as ask:
            assert {table: ask(f"SELECT count(*) FROM {table}")[0][0] for table in after} == after  # noqa: S608 - as above
            assert "häßlich 'quoted' 🚢" in ask("SELECT wire FROM clusters_managedcluster")[0][0]
        for name in hub.commands:
            hub.start(name)
        with hub.admin() as client:
            path = "/apis/cluster.open-cluster-management.io/v1/managedclusters/c1"
            assert client.get(path).json()["metadata"]["annotations"] == {"note": "häßlich 'quoted' 🚢"}
            client.delete(path).raise_for_status()  # a write with new numbers of rows
