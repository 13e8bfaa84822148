"""A head that was noted outside: it shows what the chain alone does not, to who has the database and the key (D11)."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from ocmconsole.kubeapi.models import AuditEvent, AuditSeal
from ocmconsole.kubeapi.outbound import outlets
from ocmconsole.kubeapi.storage import audit_chain
from tests.security.test_audit_outside import send
from tests.security.test_audit_seals import TABLE, changed, execute, note

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D11")]


@pytest.fixture
def anchored(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[AuditEvent]:
    """Nine entries in three seals, of which an anchor has the heads."""
    monkeypatch.setattr(audit_chain, "SEGMENT", 3)
    settings.OCMCONSOLE_AUDIT_ANCHOR = tmp_path / "heads.jsonl"
    entries = note(9)
    assert audit_chain.seal_entries() == 3
    assert [outlet.name for outlet in outlets.configured()] == [outlets.ANCHOR_FILE]
    send()
    return entries


def verify(*heads: str) -> str:
    out = io.StringIO()
    call_command("audit", "verify", *(part for head in heads for part in ("--head", head)), stdout=out)
    return out.getvalue()


def test_a_chain_that_contains_what_was_noted_is_vouched_for(anchored: list[AuditEvent], tmp_path: Path) -> None:
    seals = list(AuditSeal.objects.order_by("number"))
    said = f"vouched for from outside: entries up to {anchored[5].pk}, of {seals[1].newest:%Y-%m-%d %H:%M:%S} UTC, by seal 2"
    assert said in verify(seals[1].digest)
    assert f"entries up to {anchored[8].pk}" in verify(f"@{tmp_path / 'heads.jsonl'}")
    assert "vouched" not in verify()


def cut_off(entries: list[AuditEvent]) -> None:
    execute(f"DELETE FROM {TABLE} WHERE id > %s", entries[5].pk)  # noqa: S608 - our own table
    AuditSeal.objects.filter(number=3).delete()


def made_anew(entries: list[AuditEvent]) -> None:
    """By somebody who has the key of the home too."""
    changed("reason", "because")(entries)
    AuditSeal.objects.filter(number__gte=2).delete()
    audit_chain.seal_entries()


def emptied(_: list[AuditEvent]) -> None:
    execute(f"DELETE FROM {TABLE}")  # noqa: S608 - our own table
    AuditSeal.objects.all().delete()


@pytest.mark.parametrize("tamper", [cut_off, made_anew, emptied])
def test_what_the_chain_alone_does_not_show_is_one_sentence_with_a_head(
    tamper: Callable[[list[AuditEvent]], None], anchored: list[AuditEvent], tmp_path: Path
) -> None:
    digest = AuditSeal.objects.get(number=3).digest
    tamper(anchored)
    verify()
    for head in (digest, f"@{tmp_path / 'heads.jsonl'}"):
        with pytest.raises(CommandError, match=r"^the chain does not contain (a )?seal [^\n]+$") as refused:
            verify(head)
        assert refused.value.returncode == 1


def test_a_newer_head_of_a_chain_made_anew_does_not_hide_the_older_ones(
    anchored: list[AuditEvent], tmp_path: Path
) -> None:
    """The hub goes on and notes the heads of the forged chain in the same file."""
    made_anew(anchored)
    note(3)
    audit_chain.seal_entries()
    send()
    assert verify(AuditSeal.objects.get(number=4).digest)
    with pytest.raises(CommandError, match=r"seal 2 \([0-9a-f]{64}\) and 1 more"):
        verify(f"@{tmp_path / 'heads.jsonl'}")


def test_a_head_of_another_number_is_not_in_the_chain(anchored: list[AuditEvent], tmp_path: Path) -> None:
    path = tmp_path / "moved.jsonl"
    path.write_text((tmp_path / "heads.jsonl").read_text().replace('"number":2', '"number":7'))
    with pytest.raises(CommandError, match="seal 7"):
        verify(f"@{path}")


FORMS = {
    "a digest": "{digest}",
    "lines of the log": "12:00:01 INFO audit sealed up to entry 9: seal 3 is {digest}\nother\n",
    "a body of a webhook": '{{"type":"audit.anchor","timestamp":"t","data":[\n{line}\n]}}',
    "lines of a stream": '{{"type":"audit.entry","id":"1","data":{{"reason":"%s"}}}}\n{line}\n' % ("0" * 64),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_head_is_read_from_wherever_it_was_kept(form: str, anchored: list[AuditEvent], tmp_path: Path) -> None:
    line = (tmp_path / "heads.jsonl").read_text().splitlines()[-1]
    digest = AuditSeal.objects.get(number=3).digest
    path = tmp_path / "kept"
    path.write_text(form.format(digest=digest, line=line))
    assert "by seal 3 (1 noted)" in verify(f"@{path}")


@pytest.mark.parametrize("head", ["", "abc", '{"data":[1]}', "@", "@/nowhere/heads", "@EMPTY", "@BYTES"])
def test_what_holds_no_head_is_refused_and_proves_nothing(head: str, db: None, tmp_path: Path) -> None:
    (tmp_path / "EMPTY").touch()
    (tmp_path / "BYTES").write_bytes(b"\xff\xfe" * 40)
    named = f"@{tmp_path / head[1:]}" if head in {"@EMPTY", "@BYTES"} else head
    with pytest.raises(CommandError, match=r"cannot be read|holds no digest"):
        verify(named)
