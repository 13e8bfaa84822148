"""``manage.py ca rotate … --stolen``: nothing of the old CA is trusted or valid, and people are told what to do."""

from __future__ import annotations

import io
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import audit_chain
from registration.certificates import ca_rotation, stolen_ca
from registration.models import IssuedCertificate
from registration.pki import ca, kubeconfigs
from tests import factories as make
from tests.actors import ROOT
from tests.commands.test_ca import CLIENT, SERVING, bundle, join

pytestmark = pytest.mark.contract("D22", "D26", "D29")


@pytest.fixture(autouse=True)
def _hub(tmp_path: Path, settings: Any, db: None) -> None:
    make.hub(tmp_path / "home", settings)
    if not User.objects.filter(username="admin").exists():
        admin = make.staff("admin")
        admin.is_superuser = True
        admin.save()


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, stderr=out)
    return out.getvalue()


def keys(stem: str) -> tuple[bytes, bytes]:
    home = settings.OCMCONSOLE_HOME
    return (home / f"{stem}.crt").read_bytes(), (home / f"{stem}.key").read_bytes()


def test_every_client_certificate_of_a_stolen_ca_ends_at_once_shown_or_not(tmp_path: Path) -> None:
    shown, unshown = join("shown"), join("unshown").renews()
    kubeconfigs.of_user(ROOT, "raj", groups=(), lifetime=timedelta(hours=1))
    old = ca.client_authority(settings.OCMCONSOLE_HOME).key_fingerprint
    said = run("ca", "rotate", "client", "--stolen", "--yes")
    assert [shown.speaks(), unshown.speaks()] == [401, 401]
    present = ca.client_authority(settings.OCMCONSOLE_HOME)
    assert (present.key_fingerprint != old, present.others) == (True, ())
    assert b"".join(keys("client-ca")).count(b"PRIVATE KEY-----") == 2, "the stolen key is forgotten"
    valid = IssuedCertificate.objects.filter(revoked_at=None, not_after__gt=timezone.now())
    assert {row.common_name for row in valid} <= {"admin"}
    [entry] = AuditEvent.objects.filter(act=ca_rotation.STOLEN)
    assert "certificates revoked" in entry.reason
    assert [change["path"] for change in entry.diff] == ["signs", "trusted"]
    audit_chain.seal_entries(timezone.now() + timedelta(hours=1))
    seal = audit_chain.newest_seal()
    assert seal is not None
    assert seal.last >= entry.pk
    lines = said.splitlines()
    assert "1. the same key signs serving certificates" in said
    assert "2 clusters lost the hub" in said
    assert "raj" in next(line for line in lines if "user_kubeconfig" in line)
    assert stolen_ca.fallen() == ["shown", "unshown"]
    run("repair", "--not-given", str(tmp_path), "--ttl", "24h")
    assert sorted(path.name for path in tmp_path.glob("*.yaml")) == ["repair-shown.yaml", "repair-unshown.yaml"]


def test_a_stolen_serving_ca_is_vouched_for_by_nobody_and_is_replaced_after_that_of_clients(tmp_path: Path) -> None:
    agent = join("c1")
    with pytest.raises(CommandError, match="the stolen key signs clients too: take `ca rotate client --stolen` first"):
        run("ca", "rotate", "serving", "--stolen", "--yes")
    run("ca", "rotate", "client", "--stolen", "--yes")
    make.settle()
    again = join("c2")
    before = bundle()
    said = run("ca", "rotate", "serving", "--stolen", "--yes")
    assert before.split() != bundle().split()
    assert bundle().count(b"BEGIN CERTIFICATE") == 1
    assert not ca.serving_authority(settings.OCMCONSOLE_HOME).others
    served = (settings.OCMCONSOLE_HOME / "serving.crt").read_bytes()
    assert before not in served, "no cross-signature is in the chain"
    assert "behind a proxy: copy serving.crt, serving.key and ca.crt" in said
    assert "the same key" not in said
    assert (agent.speaks(), again.speaks()) == (401, 200), "certificates of clients stay"


def test_both_cas_of_a_rotation_go_when_a_key_is_stolen_in_its_midst() -> None:
    agent = join("c1")
    ca_rotation.rotate(ROOT, CLIENT)
    make.settle()
    renewed = agent.renews()
    assert renewed.speaks() == 200
    run("ca", "rotate", "client", "--stolen", "--yes")
    assert [agent.speaks(), renewed.speaks()] == [401, 401]
    assert ca.phase_of(ca.client_authority(settings.OCMCONSOLE_HOME)) is ca.Phase.STEADY


@pytest.mark.parametrize("typed", ["", "serving\n", "yes\n"])
def test_nothing_happens_until_somebody_has_typed_which_ca(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, before = join("c1"), keys("ca")
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    with pytest.raises(CommandError, match="client was not typed, nor --yes given: nothing is changed"):
        run("ca", "rotate", "client", "--stolen")
    assert (agent.speaks(), keys("ca")) == (200, before)
    monkeypatch.setattr(sys, "stdin", io.StringIO("client\n"))
    assert "To be done by hand" in run("ca", "rotate", "client", "--stolen")
    assert agent.speaks() == 401


def test_only_admins_replace_a_ca_and_it_is_not_rolled_back() -> None:
    make.staff("raj")
    with pytest.raises(CommandError, match="rotated by its admins"):
        run("ca", "rotate", "client", "--stolen", "--yes", "--as", "raj")
    run("ca", "rotate", "client", "--stolen", "--yes")
    with pytest.raises(CommandError, match="there is nothing to roll back"):
        run("ca", "rotate", "client", "--back")
    with pytest.raises(CommandError, match="leave out --key and --stolen"):
        run("ca", "rotate", "client", "--back", "--stolen")
    assert ca.authority_of(settings.OCMCONSOLE_HOME, SERVING).others == ()
