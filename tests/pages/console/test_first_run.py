"""A hub without clusters: what it still lacks, and the demonstration fleet that it offers, makes, keeps and removes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import FleetMinute, HeartbeatDay, Lease, ManagedCluster, Transition
from clustersets.models import ManagedClusterSet
from ocmconsole.backup import scheduled
from ocmconsole.console import first_steps
from ocmconsole.core.models import BootstrapToken, Namespace
from ocmconsole.demo import building, live
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, WorkItem
from ocmconsole.models import DemoFleet
from registration import hub_setup
from registration.certificates import issued_certificates
from registration.models import CertificateSigningRequest, HubAddress
from registration.pki import ca
from tests import factories as make
from tests.pages.joining import WEB, hub, page, person

pytestmark = pytest.mark.django_db

FEW = {"healthy": 2, "unwell": 1, "silent": 1, "maintenance": 1, "waiting": 1}
OFFER = "Look around with a demo fleet"


@pytest.fixture(autouse=True)
def ready(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hub(tmp_path, settings)
    monkeypatch.setattr(live, "STATES", FEW)


@pytest.fixture
def admin() -> Client:
    return person("root")


def work(rounds: int = 40) -> None:
    """Reconcilers, until the fleet is complete or gone; a slice does not wait for its pause."""
    for _ in range(rounds):
        make.settle()
        if not DemoFleet.objects.exclude(state=DemoFleet.State.COMPLETE).exists():
            return
        WorkItem.objects.update(due=timezone.now())
    raise AssertionError(DemoFleet.objects.get().problem)


# ---------------------------------------------------------------- the checklist


def steps(client: Client) -> dict[str, bool | None]:
    return {step.key: step.is_done for step in client.get("/").context["first_steps"]}


def test_each_step_is_computed_from_the_state_of_the_hub(admin: Client, settings: Any) -> None:
    settings.OCMCONSOLE_API_URL = "https://127.0.0.1:6443"
    settings.OCMCONSOLE_API_ADDRESS = ("127.0.0.1", 6443)
    assert steps(admin) == {"address": False, "admin": False, "passkey": False, "copy": None}
    text = page(admin.get("/"))
    assert "127.0.0.1 leads to the hub only from the hub" in text
    assert "root is the only one" in text
    assert 'href="/admin/auth/user/add/"' in text
    settings.OCMCONSOLE_API_ADDRESS = ("0.0.0.0", 6443)  # noqa: S104 - nothing is bound
    hub_setup.add_address(make.ADMIN, "https://hub.corp:6443")
    User.objects.create_user("raj", is_superuser=True)
    Authenticator.objects.create(
        user=User.objects.get(username="root"), type=Authenticator.Type.WEBAUTHN, data={"name": "key"}
    )
    assert steps(admin) == {"address": True, "admin": True, "passkey": True, "copy": None}
    User.objects.filter(username="raj").update(is_active=False)
    assert steps(admin)["admin"] is False


def test_a_hub_that_makes_copies_by_the_clock_says_so(admin: Client, settings: Any, tmp_path: Path) -> None:
    assert "The hub makes none" in page(admin.get("/"))
    settings.OCMCONSOLE_BACKUP_EVERY, settings.OCMCONSOLE_BACKUP_PLACE = timedelta(hours=6), tmp_path
    assert steps(admin)["copy"] is False
    assert f"The hub makes one every 6 h, but there is no backup in {tmp_path} yet." in page(admin.get("/"))
    (tmp_path / timezone.now().strftime(scheduled.NAME)).write_bytes(b"")
    assert steps(admin)["copy"] is True
    assert f"The hub makes one every 6 h, in {tmp_path}." in page(admin.get("/"))


@pytest.mark.parametrize("host", ["*", "*.corp", "a..b", "-a", "a" * 64, "x\x01y", "0.0.0.0", "[::]", "224.0.0.1"])  # noqa: S104 - nothing is bound
def test_only_hosts_that_clients_could_reach_are_named_in_the_certificate(admin: Client, host: str) -> None:
    """Agents read every name of the certificate, and no name is taken out again."""
    with pytest.raises(ca.AuthorityError):
        hub_setup.add_address(make.ADMIN, f"https://{host}:6443")
    assert not HubAddress.objects.exists()


def test_a_step_is_put_away_and_brought_back_by_each_admin_for_himself(admin: Client) -> None:
    admin.post("/first-steps/", {"step": "copy"})
    admin.post("/first-steps/", {"step": "no such step"})
    assert "copy" not in steps(admin)
    assert "Show 1 put away" in page(admin.get("/"))
    other = Client(**WEB)
    other.force_login(User.objects.create_user("raj", is_superuser=True))
    assert "copy" in steps(other)
    admin.post("/first-steps/")
    assert "copy" in steps(admin)


def test_only_admins_of_an_empty_hub_see_the_steps(admin: Client) -> None:
    ana = person("ana", "view_managedcluster", "add_bootstraptoken")
    assert (ana.get("/").context["first_steps"], ana.get("/").context["demo_is_offered"]) == ([], False)
    make.cluster("eu-1")
    assert "first_steps" not in admin.get("/").context


def test_a_passkey_under_an_ip_address_is_not_promised(admin: Client, settings: Any) -> None:
    settings.OCMCONSOLE_CONSOLE_URL = "http://127.0.0.1:8000"
    assert "OCMCONSOLE_CONSOLE_URL=http://localhost:8000" in first_steps._why_a_passkey()
    settings.OCMCONSOLE_CONSOLE_URL = "https://hub.corp"
    assert "OCMCONSOLE" not in first_steps._why_a_passkey()


# ---------------------------------------------------------------- the demonstration fleet


@pytest.mark.contract("D11")
def test_a_fleet_is_made_in_the_background_by_the_acts_of_agents_and_of_the_person_who_asked(admin: Client) -> None:
    assert OFFER in page(admin.get("/"))
    said = page(admin.get("/demo/"))
    assert "6 clusters, called demo-" in said
    assert "Removed in one act" in said
    assert not ManagedCluster.objects.exists()
    admin.post("/demo/make/")
    assert DemoFleet.objects.get().state == DemoFleet.State.MAKING
    assert "0 of 6 made-up clusters are here" in page(admin.get("/demo/"))
    work()

    rows = ManagedCluster.objects.filter(labels__has_key="demo.ocmconsole.io/fleet")
    assert rows.count() == ManagedCluster.objects.count() == 6
    assert all(row.name.startswith("demo-") for row in rows)
    assert sorted(row.available for row in rows) == ["", "False", "True", "True", "True", "True"]
    assert (rows.filter(in_maintenance=True).count(), rows.filter(hub_accepts_client=False).count()) == (1, 1)
    assert AuditEvent.objects.filter(act="managedcluster:accept", user="root").count() == 5
    assert AuditEvent.objects.filter(act="demofleet:create", user="root").count() == 1
    assert BootstrapToken.objects.get().max_uses == 6
    assert set(User.objects.values_list("username", flat=True)) == {"root"}

    text = page(admin.get("/"))
    assert "<b>Demo fleet</b>" in text  # in the masthead of every page
    assert "the hub itself sends their heartbeats" in text
    assert "<b>Demo fleet</b>" in page(admin.get("/clusters/"))


def test_the_fleet_does_not_fall_silent_but_for_those_that_are_meant_to(admin: Client) -> None:
    admin.post("/demo/make/")
    work()
    before = dict(Lease.objects.exclude(renew_time=None).values_list("namespace", "renew_time"))
    assert len(before) == 5
    with time_machine.travel(timezone.now() + timedelta(minutes=2)):
        assert building.beat() == 4
        after = dict(Lease.objects.exclude(renew_time=None).values_list("namespace", "renew_time"))
        assert sum(after[name] > before[name] for name in before) == 4


def test_the_fleet_is_removed_in_one_act_and_never_offered_again(admin: Client) -> None:
    make.clusterset("web")  # somebody's own, which the fleet may use
    admin.post("/demo/make/")
    work()
    mine = make.cluster("mine")
    namespaces = set(Namespace.objects.values_list("name", flat=True))
    assert "Remove the demonstration fleet" in page(admin.get("/demo/"))
    admin.post("/demo/remove/")
    work()

    assert not DemoFleet.objects.exists()
    assert list(ManagedCluster.objects.values_list("name", flat=True)) == ["mine"]
    assert not CertificateSigningRequest.objects.filter(cluster__startswith="demo-").exists()
    assert not any(issued_certificates.valid_of(name, timezone.now()) for name in live.planned())
    assert not HeartbeatDay.objects.exists()
    assert not Transition.objects.exclude(cluster="mine").exists()
    assert set(ManagedClusterSet.objects.values_list("name", flat=True)) == {"web"}
    assert BootstrapToken.objects.get().revoked_at is not None
    assert {name for name in namespaces if name.startswith("demo-")}.isdisjoint(
        Namespace.objects.filter(deleted_at=None).values_list("name", flat=True)
    )
    assert mine is not None
    assert AuditEvent.objects.filter(act="demofleet:delete", user="root").count() == 1

    assert "makes none" in page(admin.get("/demo/"))
    admin.post("/demo/make/")
    assert not DemoFleet.objects.exists()


def test_a_cluster_that_came_and_went_ends_the_offer(admin: Client) -> None:
    make.cluster("eu-1")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "eu-1"))
    make.settle()
    assert not ManagedCluster.objects.exists()
    assert OFFER not in page(admin.get("/"))
    admin.post("/demo/make/")
    assert not DemoFleet.objects.exists()


def test_a_fleet_that_is_half_made_can_be_removed(admin: Client) -> None:
    admin.post("/demo/make/")
    make.settle()
    there = ManagedCluster.objects.count()
    assert there
    said = page(admin.get("/demo/"))
    assert f"All {there} that are here" in said
    assert ("in the background" in said) is (DemoFleet.objects.get().state == DemoFleet.State.MAKING)
    admin.post("/demo/remove/")
    work()
    assert not ManagedCluster.objects.exists()
    assert not FleetMinute.objects.exists()


@pytest.mark.contract("D2")
def test_only_admins_make_and_remove_it() -> None:
    ana = person("ana", "view_managedcluster", "add_bootstraptoken", "accept_managedcluster")
    for method, path in (("get", ""), ("post", "make/"), ("post", "remove/")):
        assert getattr(ana, method)(f"/demo/{path}").status_code == 403
    assert not DemoFleet.objects.exists()


def test_rights_that_are_lost_meanwhile_stop_it_with_the_reason(admin: Client) -> None:
    admin.post("/demo/make/")
    User.objects.filter(username="root").update(is_superuser=False)
    make.settle()
    problem = DemoFleet.objects.get().problem
    assert problem
    assert not ManagedCluster.objects.exists()
    boss = Client(**WEB)
    boss.force_login(User.objects.create_user("boss", is_superuser=True))
    said = page(boss.get("/demo/"))
    assert "It stands still" in said
    assert "in the background" not in said
    assert "None is here now." in said
    boss.post("/demo/remove/")
    work()
    assert not DemoFleet.objects.exists()
