"""``manage.py doctor`` tells what is missing, and fails when something is; so does the start of a hub."""

from __future__ import annotations

import base64
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

from ocmconsole.kubeapi.health import outages
from registration import hub_setup
from registration.models import IssuedCertificate
from registration.pki import ca, kubeconfigs
from tests import hub as hubs
from tests import preloaded

pytestmark = pytest.mark.django_db


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    settings.OCMCONSOLE_HOME = tmp_path
    return tmp_path


def doctor() -> str:
    out = StringIO()
    call_command("doctor", stdout=out)
    return out.getvalue()


def test_a_hub_in_order_passes(home: Path) -> None:
    ca.ensure_authority(home, hub_setup.serving_names())
    redis = "ok" if settings.OCMCONSOLE_REDIS_URL else "not used"
    assert [line.split(": ")[1] for line in doctor().splitlines()] == ["ok"] * 5 + ["not used", "not used", redis]


def test_a_home_without_a_ca_fails(home: Path) -> None:
    with pytest.raises(CommandError, match="1 of 8 checks failed"):
        doctor()


def test_a_serving_certificate_for_another_name_fails(home: Path) -> None:
    ca.ensure_authority(home, ["elsewhere.example.com"])
    with pytest.raises(CommandError):
        doctor()


def test_a_redis_that_is_away_fails(home: Path, settings: Any) -> None:
    ca.ensure_authority(home, hub_setup.serving_names())
    settings.OCMCONSOLE_REDIS_URL = "redis://127.0.0.1:1/0"
    with pytest.raises(CommandError):
        doctor()


# ---------------------------------------------------------------- damage and clocks


def test_a_file_that_is_no_database_is_one_line_with_the_way_back(tmp_path: Path) -> None:
    hub = hubs.prepare(tmp_path / "hub")
    (hub.home / "hub.sqlite3").write_bytes(b"not a database" * 1_000)
    done = preloaded.run(hub.commands["server"], cwd=hubs.ROOT, env=dict(hub.environment))
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if "level=warning" not in line]
    assert len(said) == 1
    assert said[0].startswith("CommandError: the database is damaged: file is not a database. Stop whatever uses ")
    assert f"sqlite3 {hub.home / 'hub.sqlite3'} .recover" in said[0]


def test_damage_inside_a_database_is_shown_with_the_way_back(tmp_path: Path) -> None:
    path = tmp_path / "damaged.sqlite3"
    with closing(sqlite3.connect(path)) as written:
        written.execute("CREATE TABLE t (x)")
        written.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 200)
        written.commit()
    whole = path.read_bytes()
    path.write_bytes(whole[:4_096] + b"\xff" * 20_000 + whole[24_096:])
    with closing(sqlite3.connect(path)) as damaged, pytest.raises(sqlite3.DatabaseError) as raised:
        damaged.execute("SELECT * FROM t").fetchall()
    assert outages.cause_of(raised.value) == outages.DAMAGED
    assert outages.operator_line(raised.value).startswith(
        "the database is damaged: database disk image is malformed. Stop "
    )


@pytest.mark.parametrize(("days", "kept"), [(0, True), (400, False), (-340, False)])
def test_a_kubeconfig_of_another_time_is_made_anew_at_the_start(home: Path, days: int, kept: bool) -> None:
    """As a clock leaves it that was ahead by more than a year, and a hub that nobody has started for a year."""
    authority = ca.ensure_authority(home, hub_setup.serving_names())
    hub_setup._ensure_admin(home)  # a certificate from before its account would not speak for it (D24)
    then = datetime.now(UTC) + timedelta(days=days)
    certificate, key = authority.issue_client("admin", ("system:masters",), hub_setup.ADMIN_LIFETIME, then)
    IssuedCertificate.of(ca.parse_certificate(certificate)).save()  # a hub knows what it has issued (D26)
    pair = {"client-certificate-data": certificate, "client-key-data": key}
    credential = {name: base64.b64encode(value).decode() for name, value in pair.items()}
    path = home / "admin.kubeconfig"
    path.write_text(kubeconfigs.kubeconfig(settings.OCMCONSOLE_API_URL, user="admin", credential=credential))
    before = path.read_text()
    hub_setup._ensure_admin(home)
    assert (path.read_text() == before) == kept
    assert kubeconfigs.is_usable(path.read_text(), home)
