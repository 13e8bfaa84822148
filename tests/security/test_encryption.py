"""Secrets in rows and in the change log: encrypted, bound to their object, read as before, and encrypted anew."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection

from clusters.addons.addon_kinds import MANIFEST_WORK
from clusters.models import ManifestWork
from ocmconsole.backup import databases, taking
from ocmconsole.backup.encryption import BackupKey
from ocmconsole.console import checkup
from ocmconsole.core import kinds
from ocmconsole.core.models import ConfigMap, Namespace, Secret
from ocmconsole.environment.encryption_keys import NAME, KeyFile
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, Change
from ocmconsole.kubeapi.storage import incarnations, reader
from ocmconsole.kubeapi.watch import change_log
from ocmconsole.kubeapi.writes import reencryption
from ocmconsole.models import Session
from ocmconsole.signin import factor_texts
from ocmconsole.signin.adapters import SecondFactors
from ocmconsole.signin.sessions import SessionStore
from tests import factories as make
from tests import tools
from tests.actors import ROOT

pytestmark = pytest.mark.django_db
VALUE = "c2VjcmV0LXZhbHVl"
PREFIX = stored_text.PREFIX


@pytest.fixture
def keys() -> KeyFile:
    """Those of this process; what the test adds stays behind, and does no harm."""
    return KeyFile(settings.OCMCONSOLE_HOME)


@pytest.fixture
def empty_home(tmp_path: Path) -> Iterator[Path]:
    """The process takes its keys from a home without any."""
    before = list(stored_text._sources)
    stored_text.use(KeyFile(tmp_path))
    yield tmp_path
    stored_text._sources[:] = before


def secret(name: str, value: str = VALUE, **metadata: Any) -> None:
    if not Namespace.objects.filter(name="team").exists():
        make.namespace("team")
    doc = {"metadata": {"name": name, **metadata}, "data": {"key": value}}
    verbs.create(ROOT, kinds.SECRET, doc, namespace="team")


def rows() -> list[tuple[Any, ...]]:
    """As the database has them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT wire FROM corekinds_secret UNION ALL SELECT wire FROM kubeapi_change "
                       "WHERE resource IN ('secrets', 'manifestworks.work.open-cluster-management.io') "
                       "UNION ALL SELECT before FROM kubeapi_change WHERE before <> '' AND resource = 'secrets' "
                       "UNION ALL SELECT wire FROM clusters_manifestwork")  # fmt: skip
        return list(cursor.fetchall())


def put_in_clear() -> None:
    """As a hub from before there were keys has left them."""
    with connection.cursor() as cursor:
        for row in Secret.objects.all():
            cursor.execute("UPDATE corekinds_secret SET wire = %s WHERE uid = %s", [row.text, row.uid])
        for each in Change.objects.filter(resource="secrets"):
            before = stored_text.decrypt(each.before, each.revision, each.namespace, each.name, change_log.BEFORE)
            cursor.execute(
                "UPDATE kubeapi_change SET wire = %s, before = %s WHERE revision = %s",
                [each.text, before, each.revision],
            )


def read_all() -> list[Any]:
    """Everything that a reader may be given of Secrets."""
    page = reader.read_page(kinds.SECRET)
    everything, _ = reader.read_everything(kinds.SECRET)
    entries, _ = change_log.since(["secrets"], 0)
    return [page.texts, everything, [(each.verb, each.text, each.doc_before) for each in entries]]


def test_rows_and_change_log_hold_no_document_of_secrets_and_works_and_readers_see_them_whole() -> None:
    secret("one", labels={"a": "b"})
    make.edit(kinds.SECRET, "one", lambda doc: doc["metadata"].update(labels={"a": "c"}), namespace="team")
    secret("two")
    verbs.delete(ROOT, kinds.SECRET, Key("team", "two"))
    make.namespace("c1")
    spec = {"workload": {"manifests": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m"}, "data": {}}]}}
    make.create(MANIFEST_WORK, make.document(MANIFEST_WORK, "work", spec=spec), namespace="c1")
    assert len(rows()) == 1 + 5 + 1 + 1
    assert all(text.startswith(PREFIX) for [text] in rows())
    texts, everything, log = read_all()
    assert [orjson.loads(text)["data"] for text in texts] == [{"key": VALUE}]
    assert everything[0].decode() == texts[0]
    assert [verb for verb, *_ in log] == ["ADDED", "MODIFIED", "ADDED", "DELETED"]
    assert log[1][2]["metadata"]["labels"] == {"a": "b"}
    assert ManifestWork.objects.get().doc["spec"] == spec
    assert reader.check_wire()[1] == []


def test_other_kinds_are_stored_as_they_were() -> None:
    make.namespace("team")
    verbs.create(ROOT, kinds.CONFIG_MAP, {"metadata": {"name": "c"}, "data": {"a": "b"}}, namespace="team")
    assert ConfigMap.objects.get(name="c").wire.startswith("{")


def test_documents_that_changed_places_are_refused() -> None:
    secret("one")
    secret("two")
    first, second = Secret.objects.order_by("name")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE corekinds_secret SET wire = %s WHERE uid = %s", [second.wire, first.uid])
    with pytest.raises(stored_text.Unreadable, match="put there from elsewhere") as refused:
        verbs.get(ROOT, kinds.SECRET, Key("team", "one"))
    assert refused.value.code == 500
    with pytest.raises(stored_text.Unreadable):
        reader.read_page(kinds.SECRET)
    [wrong] = reader.check_wire()[1]
    assert "secrets team/one" in wrong


def test_rows_from_before_are_read_and_encrypted_by_the_command_and_answers_stay_the_same() -> None:
    secret("one", labels={"a": "b"})
    make.edit(kinds.SECRET, "one", lambda doc: doc["metadata"].update(labels={}), namespace="team")
    before = read_all()
    put_in_clear()
    assert all(text.startswith("{") for [text] in rows())
    assert read_all() == before
    assert "4 texts are not encrypted" in checkup.hub_warnings()["encryption"]
    output = StringIO()
    call_command("encryption", "apply", stdout=output)
    assert "4 texts were encrypted" in output.getvalue()
    assert all(text.startswith(PREFIX) for [text] in rows())
    assert read_all() == before
    assert "encryption" not in checkup.hub_warnings()


def test_a_rotation_encrypts_everything_anew_and_the_old_key_goes_when_nothing_needs_it(keys: KeyFile) -> None:
    secret("one")
    person = User.objects.create_user("ana")
    TOTP.activate(person, "JBSWY3DPEHPK3PXP")
    RecoveryCodes.activate(person)
    codes = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()
    session = SessionStore()
    session["mfa.totp.secret"] = "JBSWY3DPEHPK3PXQ"
    session.save()
    before, old = read_all(), stored_text.newest().id
    output = StringIO()
    call_command("encryption", "rotate", stdout=output)
    new = stored_text.newest().id
    assert old != new
    assert f"5 texts were encrypted with key {new}" in output.getvalue()
    assert read_all() == before
    kept = Authenticator.objects.get(type="totp").data["secret"]
    assert kept.startswith(f"{PREFIX}{new}")
    assert stored_text.decrypt(kept, factor_texts.FACTOR, person.pk) == "JBSWY3DPEHPK3PXP"
    assert Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes() == codes
    assert SessionStore(session.session_key)["mfa.totp.secret"] == "JBSWY3DPEHPK3PXQ"
    assert Session.objects.get().session_data.startswith(f"{PREFIX}{new}")
    with pytest.raises(CommandError, match="or the new key is not 10 minutes old"):
        call_command("encryption", "retire")
    age(new)
    call_command("encryption", "retire", stdout=output)
    assert old in output.getvalue().partition("forgotten: ")[2]
    assert old not in {key.id for key in stored_text.known_keys()}
    assert read_all() == before
    acts = AuditEvent.objects.filter(act__in=[reencryption.ADDED, reencryption.RETIRED]).order_by("id")
    assert [entry.act for entry in acts] == [reencryption.ADDED, reencryption.RETIRED]
    assert acts[0].name == new


@pytest.fixture
def person() -> User:
    person = User.objects.create_user("ana")
    TOTP.activate(person, "JBSWY3DPEHPK3PXP")
    RecoveryCodes.activate(person)
    return person


@pytest.fixture
def settled() -> Iterator[None]:
    """Everything was encrypted once, as this process comes to know."""
    call_command("encryption", "apply", stdout=StringIO())
    yield
    incarnations._asked.at = float("-inf")


def app() -> Authenticator:
    return Authenticator.objects.get(type="totp")


def secret_of(row: Authenticator) -> str:
    return SecondFactors().decrypt(row.data["secret"])


@pytest.mark.contract("D22")
def test_a_second_factor_in_the_row_of_another_person_is_refused(person: User) -> None:
    assert secret_of(app()) == "JBSWY3DPEHPK3PXP"
    codes = Authenticator.objects.get(type="recovery_codes").wrap()
    assert codes.validate_code(codes.get_unused_codes()[0])
    assert len(Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()) == 9
    Authenticator.objects.update(user=User.objects.create_user("mallory"))
    with pytest.raises(stored_text.Unreadable, match="put there from elsewhere"):
        secret_of(app())
    with pytest.raises(stored_text.Unreadable, match="put there from elsewhere"):
        Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()


@pytest.mark.contract("D22")
def test_second_factors_from_before_are_bound_to_their_person_by_the_command(person: User) -> None:
    for row in Authenticator.objects.all():
        data = factor_texts.changed(
            row.data, lambda text: stored_text.encrypt(factor_texts.read(text), factor_texts.FACTOR)
        )
        Authenticator.objects.filter(pk=row.pk).update(data=data)
    before = app().data["secret"]
    assert secret_of(app()) == "JBSWY3DPEHPK3PXP"
    assert "2 texts are not encrypted" in checkup.hub_warnings()["encryption"]
    output = StringIO()
    call_command("encryption", "apply", stdout=output)
    assert "2 texts were encrypted" in output.getvalue()
    assert "no text in clear is believed from now on" in output.getvalue()
    assert secret_of(app()) == "JBSWY3DPEHPK3PXP"
    Authenticator.objects.filter(type="totp").update(data={"secret": before})
    with pytest.raises(stored_text.Unreadable, match="put there from elsewhere"):
        secret_of(app())
    assert "1 of authenticators" in checkup.hub_problems()["encryption"][0]
    incarnations._asked.at = float("-inf")


@pytest.mark.contract("D22")
def test_texts_in_clear_are_refused_once_everything_was_encrypted(person: User, settled: None) -> None:
    secret("one", labels={"a": "b"})
    make.edit(kinds.SECRET, "one", lambda doc: doc["metadata"].update(labels={}), namespace="team")
    verbs.create(ROOT, kinds.CONFIG_MAP, {"metadata": {"name": "c"}, "data": {"a": "b"}}, namespace="team")
    session = SessionStore()
    session["a"] = "b"
    session.save()
    assert AuditEvent.objects.filter(act=reencryption.SETTLED).count() == 1
    read_all()
    put_in_clear()
    Authenticator.objects.filter(type="totp").update(data={"secret": "JBSWY3DPEHPK3PXQ"})
    with connection.cursor() as cursor:
        clear = super(SessionStore, session).encode({"a": "c"})
        cursor.execute("UPDATE ocmconsole_session SET session_data = %s", [clear])
    incarnations._asked.at = float("-inf")
    sentence = "is not encrypted, although everything was once: it was put there from elsewhere and is not believed"
    entries = change_log.since(["secrets"], 0)[0]
    for act in (
        lambda: verbs.get(ROOT, kinds.SECRET, Key("team", "one")),
        lambda: reader.read_page(kinds.SECRET),
        lambda: reader.read_everything(kinds.SECRET),
        lambda: entries[0].text,
        lambda: entries[1].doc_before,
        lambda: secret_of(app()),
    ):
        with pytest.raises(stored_text.Unreadable, match=sentence):
            act()
    assert "a" not in SessionStore(session.session_key)
    assert reader.read_page(kinds.CONFIG_MAP).texts
    [problem] = checkup.hub_problems()["encryption"]
    assert sentence in problem
    assert "1 of secrets" in problem
    with pytest.raises(CommandError, match=sentence):
        call_command("encryption", "apply")


@pytest.mark.django_db(transaction=True)
@pytest.mark.contract("D22")
def test_no_key_is_forgotten_while_a_backup_runs(
    keys: KeyFile, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step between the copy of the database and that of the home is held."""
    if connection.vendor == "postgresql":
        programs = tools.postgres_of_machine() or tools.postgres_of_wheel()
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    secret("one")
    old = stored_text.newest().id
    call_command("encryption", "rotate", stdout=StringIO())
    age(stored_text.newest().id)
    for name in taking.NEEDED:
        if not (settings.OCMCONSOLE_HOME / name).exists():
            make.hub(settings.OCMCONSOLE_HOME, settings)
    packed: list[str] = []
    copy = databases.copy

    def held(target: Path) -> databases.CopyFacts:
        facts = copy(target)
        with pytest.raises(CommandError, match="a backup of this hub is under way: wait until it has ended"):
            call_command("encryption", "retire")
        packed.append((settings.OCMCONSOLE_HOME / NAME).read_text())
        return facts

    monkeypatch.setattr(databases, "copy", held)
    taking.take_backup(tmp_path / "hub.backup", BackupKey.chosen("correct horse battery", ""))
    assert old in packed[0]
    call_command("encryption", "retire", stdout=StringIO())
    assert old not in (settings.OCMCONSOLE_HOME / NAME).read_text()


def age(name: str) -> None:
    """As if the key had been made long ago."""
    path = settings.OCMCONSOLE_HOME / NAME
    path.write_text(re.sub(rf"({name} \S+) \S+", r"\1 2020-01-01T00:00:00Z", path.read_text()))


def test_a_rotation_does_not_begin_over_another(keys: KeyFile) -> None:
    secret("one")
    keys.add()
    count = len(keys.keys())
    with pytest.raises(CommandError, match="encryption apply goes on first"):
        call_command("encryption", "rotate")
    assert len(keys.keys()) == count
    age(stored_text.newest().id)
    with pytest.raises(CommandError, match=r"stays: \d+ texts are left"):
        call_command("encryption", "retire")


def test_a_lost_key_is_one_sentence_and_nothing_takes_its_place(empty_home: Path) -> None:
    source = stored_text._sources[0]
    make.namespace("team")
    source.make_first()
    verbs.create(ROOT, kinds.SECRET, {"metadata": {"name": "one"}, "data": {"key": VALUE}}, namespace="team")
    (empty_home / NAME).unlink()
    stored_text.use(KeyFile(empty_home))
    sentence = "missing in the hub's home, and what the database holds encrypted cannot be read"
    for act in (
        lambda: verbs.get(ROOT, kinds.SECRET, Key("team", "one")),
        lambda: reader.read_page(kinds.SECRET),
        lambda: verbs.create(ROOT, kinds.SECRET, {"metadata": {"name": "two"}}, namespace="team"),
    ):
        with pytest.raises(stored_text.Unreadable, match=sentence):
            act()
    assert not (empty_home / NAME).exists()
    assert not Secret.objects.filter(name="two").exists()
    assert sentence in checkup.hub_problems()["encryption"][0]
    for step in ("status", "apply", "rotate", "retire"):
        with pytest.raises(CommandError, match=sentence):
            call_command("encryption", step)
    assert not (empty_home / NAME).exists()


def test_a_session_that_cannot_be_read_signs_nobody_in(empty_home: Path) -> None:
    stored_text._sources[0].make_first()
    session = SessionStore()
    session["a"] = "b"
    session.save()
    assert SessionStore(session.session_key)["a"] == "b"
    KeyFile(empty_home).add()
    KeyFile(empty_home).forget([stored_text.key_of(Session.objects.get().session_data)])
    assert "a" not in SessionStore(session.session_key)


@pytest.mark.django_db(transaction=True)
def test_scrub_writes_the_tables_anew(settings: Any) -> None:
    secret("one")
    call_command("encryption", "scrub", stdout=StringIO())
    assert verbs.get(ROOT, kinds.SECRET, Key("team", "one"))
