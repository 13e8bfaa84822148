"""What somebody has who stole the database, its files or a backup: none of the secrets that the hub was given."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pyrage
import pytest

from tests import hub as hubs
from tests import preloaded, servers, tools
from tests.conftest import StartHub
from tests.hub import ROOT, Hub

pytestmark = [pytest.mark.slow, pytest.mark.contract("D22"), pytest.mark.timeout(1_200)]
SECRETS = "/api/v1/namespaces/default/secrets"
WORKS = "/apis/work.open-cluster-management.io/v1/namespaces/default/manifestworks"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Second factors, and a session in which one is being added, as sign-in makes them.
PEOPLE = """
import json, sys
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP
from django.contrib.auth.models import User
from ocmconsole.signin.sessions import SessionStore
person = User.objects.get(username="admin")
TOTP.activate(person, {totp!r})
codes = RecoveryCodes.activate(person)
session = SessionStore()
session["mfa.totp.secret"] = {waiting!r}
session.save()
print(json.dumps(codes.get_unused_codes()))
"""
KEPT = """
from allauth.mfa.models import Authenticator
from ocmconsole.models import Session
texts = [row.session_data for row in Session.objects.all()]
texts += [row.data[name] for row in Authenticator.objects.all() for name in ("secret", "seed") if name in row.data]
print(len(texts), all(text.startswith("enc:v1:") for text in texts))
"""

MANY_SECRETS = 400
KILLED_AT = (9, 60, 30, 115, 25)  # statements about Secrets: 51 of them encrypt 50 texts in one transaction
MANY = """
from ocmconsole.core.kinds import SECRET
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import Actor, MASTERS
setup = Actor(user='setup', groups=(MASTERS,))
for n in range({count}):
    verbs.create(setup, SECRET, {{'metadata': {{'name': f's{{n}}'}}, 'stringData': {{'key': str(n)}}}}, namespace='default')
"""
KILLED = """
import itertools, os, signal
from django.core.management import call_command
from django.db import connection
statements = itertools.count(1)
def counted(execute, sql, params, many, context):
    if ' corekinds_secret ' in sql and next(statements) == {statement}:
        os.kill(os.getpid(), signal.SIGKILL)
    return execute(sql, params, many, context)
with connection.execute_wrapper(counted):
    call_command('encryption', '{step}')
"""


@contextmanager
def site(tmp_path: Path) -> Iterator[tuple[Hub, Path]]:
    """A hub, and the folder with all that its database writes, as in production: a server of its own for PostgreSQL."""
    programs = tools.postgres_of_machine() or tools.postgres_of_wheel()
    path = f"{programs}:{os.environ['PATH']}"
    if "TEST_DATABASE_URL" not in os.environ:
        with hubs.serve(tmp_path / "home") as hub:
            yield hub, hub.home
        return
    with (
        servers.postgres_program(durable=True) as (url, program),
        servers.redis_server() as redis_url,
        hubs.serve(tmp_path / "home", database_url=url, redis_url=f"{redis_url}/0") as hub,
    ):
        yield replace(hub, environment={**hub.environment, "PATH": path}), program.home


def encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def plant(hub: Hub, control: str) -> list[str]:
    """Secrets of each kind, changed and deleted ones too; returns their values. The control is none."""
    values = [secrets.token_urlsafe(24) for _ in range(6)]
    created, changed, text, applied, removed, inside = values

    def document(name: str, **more: Any) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **more}

    with hub.admin() as admin:

        def send(method: str, path: str, body: Any = None) -> Any:
            answer = admin.request(method, path, json=body)
            answer.raise_for_status()
            return answer.json()

        send("POST", SECRETS, document("one", data={"key": encoded(created)}))
        send("PUT", f"{SECRETS}/one", document("one", data={"key": encoded(changed)}) | {
            "metadata": {"name": "one", "labels": {"a": "b"}}})  # fmt: skip
        send("POST", SECRETS, document("two", stringData={"key": text}) | {
            "metadata": {"name": "two", "annotations": {LAST_APPLIED: json.dumps({"stringData": {"key": applied}})}}})  # fmt: skip
        send("POST", SECRETS, document("three", data={"key": encoded(removed)}))
        send("DELETE", f"{SECRETS}/three")
        account = {"kubernetes.io/service-account.name": "default"}
        send("POST", SECRETS, document("token", type="kubernetes.io/service-account-token") | {
            "metadata": {"name": "token", "annotations": account}})  # fmt: skip
        manifest = document("m", data={"key": encoded(inside)})
        work = {"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"}}
        send("POST", WORKS, work | {"spec": {"workload": {"manifests": [manifest]}}})
        send("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}, "data": {"key": control}})
        values.append(base64.b64decode(wait_for_token(admin)).decode())
        assert send("GET", f"{SECRETS}/one")["data"] == {"key": encoded(changed)}
        assert send("GET", f"{SECRETS}/two")["data"] == {"key": encoded(text)}
    totp, waiting = (base64.b32encode(secrets.token_bytes(20)).decode() for _ in range(2))
    codes = json.loads(hub.manage("shell", "-c", PEOPLE.format(totp=totp, waiting=waiting)).splitlines()[-1])
    token = hub.manage("bootstrap_token", "create", "--as", "admin").split()
    values += [totp, waiting, *filter(None, codes), *(each.partition(".")[2] for each in token if is_token(each))]
    values += [hub.admin_password]
    return values


def is_token(text: str) -> bool:
    first, dot, second = text.partition(".")
    return bool(dot) and len(first) == 6 and len(second) == 16


def wait_for_token(admin: httpx.Client) -> str:
    """Of the service account's Secret: a reconciler fills it in."""
    for _ in range(1_200):
        if token := (admin.get(f"{SECRETS}/token").json().get("data") or {}).get("token"):
            return str(token)
        time.sleep(0.1)
    raise AssertionError("the Secret of the account stays empty")


def forms(value: str) -> Iterator[str]:
    """As it is, and in base64 wherever in a longer text it begins; a recovery code's eight digits would be found by chance."""
    yield rf"(?<![0-9]){value}(?![0-9])" if value.isdecimal() else re.escape(value)
    for before in range(0 if value.isdecimal() else 3):
        text = base64.b64encode(bytes(before) + value.encode()).decode()
        yield re.escape(text[4 if before else 0 : -4])


def found_in(files: dict[str, bytes], value: str) -> list[str]:
    wanted = re.compile("|".join(forms(value)).encode())
    return [name for name, content in files.items() if wanted.search(content)]


def files_of(folder: Path, pattern: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob(pattern) if path.is_file()}


def test_a_stolen_database_its_files_and_a_backup_show_no_secret(tmp_path: Path) -> None:
    key, control = tmp_path / "key.txt", secrets.token_urlsafe(24)
    key.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    with site(tmp_path) as (hub, folder):
        values = plant(hub, control)
        kept = hub.manage("shell", "-c", KEPT).split()[-2:]
        assert kept[1] == "True"
        assert int(kept[0]) >= 3
        hub.manage("backup", str(tmp_path / "hub.backup"), "--key", str(key))
        if url := hub.environment.get("OCMCONSOLE_DATABASE_URL"):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CHECKPOINT")
            stolen = files_of(folder / "data", "*")
            assert any(name.startswith("pg_wal/") for name in stolen)
        else:
            stolen = files_of(folder, "hub.sqlite3*")
            assert {"hub.sqlite3", "hub.sqlite3-wal"} <= stolen.keys()
        stolen["log of the database"] = b"".join(files_of(folder, "log").values())
        stolen["backup"] = (tmp_path / "hub.backup").read_bytes()
        assert found_in(stolen, control), "what is not encrypted is found, so the search finds"
        assert {value: names for value in values if (names := found_in(stolen, value))} == {}
        assert len(values) >= 6 + 1 + 2 + 10 + 1 + 1
        lost_key_is_a_sentence(hub)


def lost_key_is_a_sentence(hub: Hub) -> None:
    """A hub that runs goes on; one that starts says what is missing and makes no other."""
    keys = hub.home / "encryption-keys"
    keys.rename(hub.home / "away")
    with hub.admin() as admin:
        assert admin.get(SECRETS).status_code == 200
    hub.stop("server")
    for command in ("serve", "doctor"):
        done = preloaded.run(
            [sys.executable, "manage.py", command], cwd=ROOT, env=dict(hub.environment), timeout=400
        )  # fmt: skip
        assert done.returncode == 1
        assert "missing in the hub's home" in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
    assert not keys.exists()
    (hub.home / "away").rename(keys)
    hub.start("server")


def test_documents_that_changed_places_are_a_status_and_end_a_watch_with_one(start_hub: StartHub) -> None:
    with start_hub() as hub, hub.admin() as admin:
        for name in ("one", "two"):
            admin.post(SECRETS, json={"metadata": {"name": name}, "data": {}}).raise_for_status()
        with writing(hub) as run:
            [[first], [second]] = run("SELECT wire FROM corekinds_secret WHERE name IN ('one', 'two') ORDER BY name")
            run(f"UPDATE corekinds_secret SET wire = '{second}' WHERE name = 'one'")  # noqa: S608 - base64
            run(f"UPDATE corekinds_secret SET wire = '{first}' WHERE name = 'two'")  # noqa: S608 - base64
        for path in (f"{SECRETS}/one", SECRETS):
            answer = admin.get(path)
            assert answer.status_code == 500
            assert "put there from elsewhere: it is not believed" in answer.json()["message"]
        watched = admin.get(SECRETS, params={"watch": "true", "timeoutSeconds": "5"}).text
        assert json.loads(watched.splitlines()[0])["object"]["code"] == 500
        assert "Traceback" not in hub.log("server")
        assert admin.get("/api/v1/namespaces").status_code == 200


@contextmanager
def writing(hub: Hub) -> Iterator[Any]:
    """Beside the hub, as somebody who has its database."""

    def asked(cursor: Any) -> list[Any]:
        return cursor.fetchall() if cursor.description else []

    if url := hub.environment.get("OCMCONSOLE_DATABASE_URL"):
        with psycopg.connect(url, autocommit=True) as postgres:
            yield lambda statement: asked(postgres.execute(statement.encode()))
    else:
        with closing(sqlite3.connect(hub.home / "hub.sqlite3", timeout=30, isolation_level=None)) as sqlite:
            yield lambda statement: asked(sqlite.execute(statement))


def test_a_rotation_that_is_killed_goes_on_and_nobody_reads_anything_else(start_hub: StartHub) -> None:
    """While the hub serves and somebody writes. Each is killed at a statement of its own, in a transaction or not."""
    with start_hub() as hub, hub.admin() as admin:
        hub.manage("shell", "-c", MANY.format(count=MANY_SECRETS))
        before = admin.get(SECRETS).json()["items"]
        assert len(before) == MANY_SECRETS
        lefts = []
        for number, statement in enumerate(KILLED_AT):
            step = "apply" if number else "rotate"
            hub.manage("shell", "-c", KILLED.format(step=step, statement=statement), check=False)
            lefts.append(left(hub))
            admin.post(SECRETS, json={"metadata": {"name": f"new{number}"}, "data": {}}).raise_for_status()
            now = admin.get(SECRETS).json()["items"]
            assert [each for each in now if not each["metadata"]["name"].startswith("new")] == before
        assert all(lefts), "each was killed in the middle"
        assert lefts == sorted(lefts, reverse=True)
        assert lefts[-1] < MANY_SECRETS - 100, "what was encrypted stays so"
        assert "texts were encrypted with key" in hub.manage("encryption", "apply")
        assert "nothing needs the older keys" in hub.manage("encryption", "status")
        assert "0 texts were encrypted" in hub.manage("encryption", "apply")
        hub.manage("check_wire")
        now = admin.get(SECRETS).json()["items"]
        assert [each for each in now if not each["metadata"]["name"].startswith("new")] == before


def left(hub: Hub) -> int:
    """Rows of Secrets that do not have the newest key yet."""
    newest = (hub.home / "encryption-keys").read_text().split()[0]
    with hub.reading() as ask:
        return int(ask(f"SELECT count(*) FROM corekinds_secret WHERE substr(wire, 8, 8) <> '{newest}'")[0][0])  # noqa: S608 - hexadecimal
