"""The audit's hash chain: whatever is done to what was sealed, verify says so (D11)."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from ocmconsole.console import checkup
from ocmconsole.kubeapi import clock, tasks
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.models import AuditEvent, AuditSeal
from ocmconsole.kubeapi.storage import audit, audit_chain
from ocmconsole.kubeapi.storage.audit_chain import Flaw
from ocmconsole.kubeapi.storage.audit_heads import NotedHead

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D11")]

ANA = Actor(user="ana", groups=("reviewers",), entry_point=EntryPoint.WEB)
TABLE = AuditEvent._meta.db_table


def note(count: int, *, ago: timedelta = timedelta(minutes=5)) -> list[AuditEvent]:
    entries = [
        audit.entry_of(
            ANA,
            "managedcluster:update",
            resource="tests",
            name=f"n{index}",
            time=timezone.now() - ago,
            diff=[{"path": "a", "new": index}],
        )
        for index in range(count)
    ]
    for entry in entries:
        entry.save()
    return entries


def execute(sql: str, *values: str | int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> list[AuditEvent]:
    """Nine entries in three seals."""
    monkeypatch.setattr(audit_chain, "SEGMENT", 3)
    entries = note(9)
    assert audit_chain.seal_entries() == 3
    return entries


def test_what_was_sealed_verifies(sealed: list[AuditEvent]) -> None:
    report = audit_chain.verify_chain()
    assert (report.entries, report.seals, report.unsealed, report.flaws) == (9, 3, 0, ())
    assert report.head == AuditSeal.objects.get(number=3).digest


def test_sealing_again_seals_nothing(sealed: list[AuditEvent]) -> None:
    assert audit_chain.seal_entries() == 0


def test_what_may_still_be_counted_is_not_sealed() -> None:
    note(2)
    note(2, ago=timedelta(seconds=30))
    assert audit_chain.seal_entries() == 1
    assert audit_chain.verify_chain().unsealed == 2


def changed(column: str, value: str | int) -> Callable[[list[AuditEvent]], None]:
    return lambda entries: execute(f"UPDATE {TABLE} SET {column} = %s WHERE id = %s", value, entries[4].pk)  # noqa: S608 - a column of ours


def swapped(entries: list[AuditEvent]) -> None:
    first, second = entries[3].pk, entries[4].pk
    for old, new in ((first, -1), (second, first), (-1, second)):
        execute(f"UPDATE {TABLE} SET id = %s WHERE id = %s", new, old)  # noqa: S608 - our own table


def removed(entries: list[AuditEvent]) -> None:
    execute(f"DELETE FROM {TABLE} WHERE id = %s", entries[4].pk)  # noqa: S608 - our own table


def seal_removed(_: list[AuditEvent]) -> None:
    AuditSeal.objects.filter(number=2).delete()


def seal_remade(_: list[AuditEvent]) -> None:
    AuditSeal.objects.filter(number=2).update(digest="0" * 64)


def segment_removed(entries: list[AuditEvent]) -> None:
    for entry in entries[3:6]:
        execute(f"DELETE FROM {TABLE} WHERE id = %s", entry.pk)  # noqa: S608 - our own table
    seal_removed(entries)


def put_in(entries: list[AuditEvent]) -> None:
    """An entry with a number before all that is sealed."""
    entry = audit.entry_of(ANA, "managedcluster:update", resource="tests")
    entry.pk = entries[0].pk - 1
    entry.save(force_insert=True)


CHANGES = {
    "user": changed('"user"', "mallory"),
    "outcome": changed("outcome", "denied"),
    "reason": changed("reason", "because"),
    "count": changed("count", 2),
    "address": changed("address", "10.0.0.9"),
    "name": changed("name", "other"),
    "diff": changed("diff", "[]"),
    "removed": removed,
    "swapped": swapped,
    "seal removed": seal_removed,
    "seal remade": seal_remade,
    "segment removed": segment_removed,
    "put in": put_in,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_change_of_what_was_sealed_goes_unnoticed(change: Callable[[Any], None], sealed: list[AuditEvent]) -> None:
    change(sealed)
    assert audit_chain.verify_chain().flaws


def test_a_chain_made_anew_without_the_key_does_not_fit(sealed: list[AuditEvent], settings: Any) -> None:
    """Anyone who writes the database alone cannot compute the seals."""
    changed("reason", "because")(sealed)
    right, settings.AUDIT_KEY = settings.AUDIT_KEY, "guessed"
    AuditSeal.objects.all().delete()
    assert audit_chain.seal_entries() == 3
    settings.AUDIT_KEY = right
    assert len(audit_chain.verify_chain().flaws) == 1  # that all are of another key
    for name in ("", audit_chain.key_name()):
        AuditSeal.objects.update(key=name)
        assert len(audit_chain.verify_chain().flaws) == 3


def test_a_home_that_lost_its_key_is_told_so(sealed: list[AuditEvent], settings: Any) -> None:
    """Not that somebody changed each entry; nor does it matter that later seals are of the new key."""
    right = settings.AUDIT_KEY
    assert checkup.hub_problems()["audit"] == []
    AuditSeal.objects.filter(number__lt=3).update(key="")  # of the release before, which noted none
    settings.AUDIT_KEY = "made anew"
    note(3)
    assert audit_chain.seal_entries() == 1
    [*before, flaw] = audit_chain.verify_chain().flaws
    assert [each.seal for each in before] == [1, 2]
    assert flaw == Flaw(3, f"from seal 3 on {audit_chain.OTHER_KEY}")
    [problem] = checkup.hub_problems()["audit"]
    assert problem.startswith("from seal 3 on")
    settings.AUDIT_KEY = right
    assert [each.seal for each in audit_chain.verify_chain().flaws] == [4]
    assert checkup.hub_problems()["audit"][0].startswith("from seal 4 on")


def test_a_chain_that_was_cut_off_at_the_end_lacks_the_head_that_was_noted(sealed: list[AuditEvent]) -> None:
    head = audit_chain.verify_chain().head
    execute(f"DELETE FROM {TABLE} WHERE id > %s", sealed[5].pk)  # noqa: S608 - our own table
    AuditSeal.objects.filter(number=3).delete()
    assert not audit_chain.verify_chain().flaws
    assert audit_chain.verify_chain(expected=[NotedHead(head)]).missing


def test_retention_removes_sealed_entries_and_leaves_their_seals(sealed: list[AuditEvent], settings: Any) -> None:
    settings.OCMCONSOLE_AUDIT_RETENTION = timedelta(days=40)
    assert audit_chain.delete_old_entries(timezone.now() + timedelta(days=39)) == 0
    young = note(1)
    assert audit_chain.delete_old_entries(timezone.now() + timedelta(days=41)) == 9
    assert list(AuditEvent.objects.all()) == young
    assert not audit_chain.verify_chain().flaws


def test_the_clock_seals_what_is_settled_and_cuts_what_is_too_old(settings: Any) -> None:
    settings.OCMCONSOLE_AUDIT_RETENTION = timedelta(days=40)
    note(2, ago=timedelta(days=41))
    tasks.seal()
    kept = note(2)
    tasks.seal()
    assert list(AuditEvent.objects.order_by("pk")) == kept
    report = audit_chain.verify_chain()
    assert (report.seals, report.unsealed, report.flaws) == (2, 0, ())


def test_a_cut_that_the_hub_did_not_make_is_a_flaw(sealed: list[AuditEvent]) -> None:
    changed("reason", "because")(sealed)
    AuditSeal.objects.filter(number=2).update(cut_at=timezone.now())
    assert [flaw.seal for flaw in audit_chain.verify_chain().flaws] == [2]


def test_entries_put_back_into_a_cut_segment_are_a_flaw(sealed: list[AuditEvent], settings: Any) -> None:
    settings.OCMCONSOLE_AUDIT_RETENTION = timedelta(days=40)
    entry = sealed[4]
    audit_chain.delete_old_entries(timezone.now() + timedelta(days=41))
    entry._state.adding = True
    entry.save(force_insert=True)
    assert [flaw.seal for flaw in audit_chain.verify_chain().flaws] == [2]


def test_everything_is_kept_unless_a_retention_is_set(sealed: list[AuditEvent]) -> None:
    assert audit_chain.delete_old_entries(timezone.now() + timedelta(days=4000)) == 0


@pytest.mark.parametrize("act", [lambda entry: entry.delete(), lambda entry: entry.save(), lambda _: AuditEvent.objects.all().delete(),
                                 lambda _: AuditEvent.objects.update(reason="")])  # fmt: skip
def test_the_hub_itself_cannot_change_an_entry(act: Callable[[AuditEvent], None]) -> None:
    entry = note(1)[0]
    with pytest.raises(RuntimeError, match="append-only"):
        act(entry)


def test_the_command_says_what_it_found(sealed: list[AuditEvent]) -> None:
    out = io.StringIO()
    call_command("audit", "verify", stdout=out)
    assert "entries as they were sealed: 9 (seals: 3)" in out.getvalue()
    removed(sealed)
    errors = io.StringIO()
    with pytest.raises(CommandError):
        call_command("audit", "verify", stderr=errors)
    assert "are 2, and 3 were sealed" in errors.getvalue()


def test_the_export_is_a_line_of_json_for_each_entry() -> None:
    note(2, ago=timedelta(days=2))
    note(1)
    out = io.StringIO()
    call_command("audit", "export", "--since", f"{timezone.now() - timedelta(days=1):%Y-%m-%d}", stdout=out)
    entries = [orjson.loads(line) for line in out.getvalue().splitlines()]
    assert [(entry["user"], entry["act"]) for entry in entries] == [("ana", "managedcluster:update")]


def test_a_time_that_is_none_is_refused() -> None:
    for text in ("yesterday", "2026-13-01", "2026-11-21T14:00:00"):
        with pytest.raises(CommandError, match="2026-1"):
            call_command("audit", "export", "--since", text)


def test_a_denial_of_a_minute_that_comes_again_leaves_what_is_sealed_alone() -> None:
    """The clock was put back."""
    then = timezone.now() - timedelta(hours=1)
    for _ in range(2):
        with clock.at(then):
            deny()
            deny()
        audit_chain.seal_entries()
        assert audit_chain.verify_chain().flaws == ()
    assert list(AuditEvent.objects.filter(outcome="denied").values_list("count", flat=True)) == [2, 2]


def deny() -> None:
    audit.record_denial(ANA, Attributes("delete", "", "secrets", name="keys"), "no")


def test_an_entry_of_a_clock_that_was_ahead_holds_up_no_seal() -> None:
    note(1, ago=-timedelta(days=30))
    note(2)
    assert audit_chain.seal_entries() == 1
    assert [seal.count for seal in AuditSeal.objects.all()] == [3]
    assert audit_chain.verify_chain().flaws == ()
