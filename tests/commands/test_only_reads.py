"""D28: no command, page or request of a hub of which a newer incarnation has begun changes its database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, get_commands, load_command_class
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from ocmconsole.backup import only_reads as commands
from ocmconsole.backup import succession
from ocmconsole.core.kinds import CONFIG_MAP
from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.health import limit_records, outages
from ocmconsole.kubeapi.models import Incarnation
from ocmconsole.kubeapi.storage import audit, incarnations, only_reads
from ocmconsole.models import Preferences, Session
from ocmconsole.signin.lifetime import ACTIVE
from tests import factories as make
from tests import preloaded
from tests.actors import ROOT
from tests.hub import prepare
from tests.security.callers import CLUSTERS, bearer

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D28")]
ROOT_FOLDER = Path(__file__).parents[2]
MANAGED = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"}
ONLY_READS = "this hub only reads, because it was restored from a backup"

# Each command of docs/commands.md as it would write; TMP is a folder.
WRITE = {
    "work": "work",
    "compact": "compact --keep 0",
    "demo": "demo --clusters 3 --force",
    "simulate_fleet --clusters N": "simulate_fleet --clusters 1",
    "encryption apply": "encryption apply",
    "encryption rotate": "encryption rotate",
    "encryption retire": "encryption retire",
    "encryption scrub": "encryption scrub",
    "activate": "activate",
    "read_only on": "read_only on",
    "read_only off": "read_only off",
    "bootstrap_token create": "bootstrap_token create",
    "bootstrap_token revoke ID": "bootstrap_token revoke {token}",
    "accept NAME…": "accept c1",
    "revoke_certificate FINGERPRINT --reason R": f"revoke_certificate {'ab' * 32} --reason R",
    "decline NAME --reason R": "decline c1 --reason R",
    "repair NAME": "repair c1",
    "repair --not-given FOLDER": "repair --not-given {tmp}/given",
    "ca rotate client": "ca rotate client",
    "ca rotate serving": "ca rotate serving",
    "ca rotate client --stolen": "ca rotate client --stolen --yes",
    "ca rotate serving --stolen": "ca rotate serving --stolen --yes",
    "ca retire client": "ca retire client --force",
    "ca retire serving": "ca retire serving --force",
    "detach NAME --reason R": "detach c1 --reason R",
    "proposals list": "proposals list",
    "proposals show NUMBER": "proposals show 1",
    "proposals approve NUMBER --digest D": "proposals approve 1 --digest D",
    "proposals decline NUMBER --reason R": "proposals decline 1 --reason R",
    "proposals carry-out NUMBER --digest D": "proposals carry-out 1 --digest D",
    "user_kubeconfig USER": "user_kubeconfig admin",
    "createsuperuser": "createsuperuser --noinput --username root --email root@example.com",
    "changepassword USER": "changepassword admin",
    "forget_passkeys USER": "forget_passkeys admin",
}
READ = {
    "check_wire": "check_wire",
    "audit verify": "audit verify",
    "audit export": "audit export",
    "audit report FILE": "audit report {tmp}/report.html --from 2026-01-01 --to 2026-01-31",
    "encryption status": "encryption status",
    "backup FILE": "backup {tmp}/hub.backup",
    "support-bundle FILE": "support-bundle {tmp}/bundle.tar.gz",
    "doctor": "doctor",
    "bootstrap_token list": "bootstrap_token list",
    "ca status": "ca status",
    "read_only status": "read_only status",
}
ELSEWHERE = {"serve", "restore FILE"}  # below, and tests of restores


@pytest.fixture
def token(tmp_path: Path, settings: Any) -> Iterator[str]:
    """An id and secret in a hub that met a newer incarnation in its database."""
    make.hub(tmp_path / "home", settings)
    admin = make.staff("admin")
    admin.is_superuser = True
    admin.save()
    incarnations.ensure_first()
    succession.look()
    make.cluster("c1")
    text = tokens.issue_bootstrap_token(ROOT, ttl=timedelta(hours=1))
    own = Incarnation.objects.get()
    Incarnation.objects.create(number=own.number + 1, uid="two", begun_at=timezone.now(), backup_at=timezone.now())
    yield text
    outages.state.superseded = ""


def contents() -> dict[str, list[str]]:
    """Every row of every table."""
    found = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - names of the database
            found[table] = sorted(map(str, cursor.fetchall()))
    return found


def files(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file() and "sqlite3" not in path.name}


def run(line: str) -> None:
    name, *arguments = line.split()
    command = commands.guard(load_command_class(get_commands()[name], name), name)
    options = vars(command.create_parser("manage.py", name).parse_args(arguments))
    command.execute(*options.pop("args", ()), **options, stdout=StringIO(), stderr=StringIO())


def documented() -> set[str]:
    rows = re.findall(r"^\| (`.*?`) \|", (ROOT_FOLDER / "docs/commands.md").read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_command_of_the_documents_is_here() -> None:
    assert documented() == {*WRITE, *READ, *ELSEWHERE}


def test_no_command_of_a_superseded_hub_changes_its_database_or_its_home(
    token: str, tmp_path: Path, settings: Any
) -> None:
    values = {"tmp": tmp_path, "token": token.partition(".")[0]}
    before, kept = contents(), files(settings.OCMCONSOLE_HOME)
    for line in WRITE.values():
        with pytest.raises(CommandError, match=ONLY_READS):
            run(line.format(**values))
    for line in READ.values():
        with suppress(CommandError, SystemExit):  # this hub may be unwell; what counts is what it leaves
            run(line.format(**values))
        assert contents() == before, line
    assert contents() == before
    assert files(settings.OCMCONSOLE_HOME) == kept


def test_the_command_line_asks_before_a_command_begins(tmp_path: Path) -> None:
    """No database is there: the mark at the backup place is enough."""
    own = succession.IncarnationMark(1, timezone.now().isoformat(), "one", "one")
    hub = prepare(tmp_path / "home", BACKUP_PLACE=str(tmp_path))
    succession.write(hub.home, own)
    succession.write(tmp_path, replace(own, number=2, uid="two"))
    done = preloaded.run(
        [*hub.program, "compact"],
        cwd=ROOT_FOLDER,
        env=dict(hub.environment),
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"CommandError: {ONLY_READS}")


def test_what_is_written_beside_a_read_is_left_out(token: str, client: Client) -> None:
    """Denials, times of last use, held back callers; sessions go on, and pages are still read."""
    admin = User.objects.get(username="admin")
    client.force_login(admin)
    session = client.session
    session[ACTIVE] = session[ACTIVE] - 100
    session.save()
    outages.state.superseded = succession.found()
    before = contents()
    assert client.get("/clusters/c1/").status_code == 200
    assert client.get("/attention/").status_code == 200
    caller = bearer(token)
    assert caller.get(CLUSTERS).code in {200, 403}
    assert caller.post(CLUSTERS, {**MANAGED, "metadata": {"name": "c2"}}).code == 503
    audit.record_denial(ROOT, Attributes("get", resource="secrets"), "no")
    limit_records.record(ROOT, "requests")
    assert client.post("/login/", {"login": "admin", "password": "x"}).status_code == 503
    assert contents() == before
    assert BootstrapToken.objects.get().last_used is None


def test_whatever_else_writes_is_refused_by_the_connection(token: str) -> None:
    outages.state.superseded = succession.found()
    before = contents()
    admin = User.objects.get(username="admin")
    writes = (
        workqueue.say_alive,
        workqueue.release,
        admin.save,
        lambda: Preferences.objects.update_or_create(user=admin, defaults={"values": {}}),
        Session.objects.all().delete,
        lambda: User.objects.bulk_create([User(username="x")]),
        lambda: CONFIG_MAP.model._base_manager.raw("DELETE FROM kubeapi_change")[0],
    )
    for write in writes:
        with (
            pytest.raises((only_reads.OnlyReads, errors.ServiceUnavailable), match=ONLY_READS),
            transaction.atomic(),
        ):
            write()
    assert contents() == before


@pytest.mark.parametrize(
    ("statement", "reads"),
    [
        ("SELECT 1", True),
        ("  (SELECT 1) UNION (SELECT 2)", True),
        ("SELECT 1 FROM a FOR UPDATE SKIP LOCKED", True),
        ("WITH a AS (SELECT 1) SELECT * FROM a FOR UPDATE SKIP LOCKED", True),
        ("WITH a AS (SELECT 1) UPDATE b SET c = 1", False),
        ("with a as (delete from b returning c) select * from a", False),
        ("INSERT INTO a VALUES (1)", False),
        ("TRUNCATE a", False),
        ("-- said\nDELETE FROM a", False),
        ("", False),
    ],
)
def test_what_a_statement_does_is_seen_by_its_words(statement: str, reads: bool) -> None:
    assert only_reads._only_reads(statement) is reads
