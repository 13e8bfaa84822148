"""The audit outside of the hub: whole, in order, and taken before the hub believes that it was (D11, D28)."""

from __future__ import annotations

import fcntl
import re
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.test import Client
from django.utils import timezone

from ocmconsole.console import checkup
from ocmconsole.environment import readers
from ocmconsole.kubeapi import clock, tasks
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.health import metrics
from ocmconsole.kubeapi.models import AuditEvent, AuditSeal, Incarnation, OutboundPosition
from ocmconsole.kubeapi.outbound import (
    backlog,
    batches,
    http_client,
    lines,
    outlets,
    positions,
    sending,
    signatures,
    syslog,
)
from ocmconsole.kubeapi.storage import audit, audit_chain
from tests import receivers
from tests.actors import signed_in
from tests.security.test_audit_seals import note

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D11")]

MALLORY = Actor(user="mallory", entry_point=EntryPoint.API)


@pytest.fixture
def stream(settings: Any, tmp_path: Path) -> Path:
    settings.OCMCONSOLE_AUDIT_STREAM = tmp_path / "audit.jsonl"
    return tmp_path / "audit.jsonl"


@pytest.fixture
def webhook(settings: Any) -> Iterator[receivers.HttpReceiver]:
    with receivers.http_receiver() as receiver:
        settings.OCMCONSOLE_AUDIT_WEBHOOK = f"http://127.0.0.1:{receiver.port}/audit?of=hub"
        settings.OCMCONSOLE_AUDIT_WEBHOOK_SECRET = (signatures.secret_of(receivers.SECRET),)
        settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES = (ip_network("127.0.0.1"),)
        yield receiver


@pytest.fixture
def root() -> Client:
    return signed_in("root", is_superuser=True)


def send() -> int:
    """Until no outlet takes anything; returns the number of batches that were taken."""
    taken = 0
    for outlet in outlets.configured():
        while sending.send_next(outlet, "this process"):
            taken += 1
    return taken


def try_now() -> int:
    """As if the pause after a failure were over."""
    OutboundPosition.objects.update(due=None)
    return send()


def read(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def denied(times: int) -> None:
    for _ in range(times):
        audit.record_denial(MALLORY, Attributes("delete", "", "secrets", name="keys"), "no")


# ---------------------------------------------------------------- what leaves, and in which order


def test_every_entry_and_seal_leaves_once_and_each_seal_follows_what_it_holds(
    stream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_chain, "SEGMENT", 3)
    monkeypatch.setattr(batches, "MOST_LINES", 4)
    entries = note(7)
    audit_chain.seal_entries()
    entries += note(2)
    assert send() == 3
    found = read(stream)
    assert "".join(each["type"].removeprefix("audit.")[0] for each in found) == "eeeseeesesee"
    assert [each["data"]["id"] for each in found if each["type"] == lines.ENTRY] == [entry.pk for entry in entries]
    assert [each["data"]["digest"] for each in found if each["type"] == lines.SEAL] == list(
        AuditSeal.objects.order_by("number").values_list("digest", flat=True)
    )
    for position, each in enumerate(found):
        if each["type"] == lines.SEAL:
            assert found[position - 1]["data"]["id"] == each["data"]["last"]
            held = [
                line for line in found if each["data"]["first"] <= line["data"].get("id", -1) <= each["data"]["last"]
            ]
            assert len(held) == each["data"]["count"], "by which a receiver knows that it has all"
    assert len({each["id"] for each in found}) == len(found)
    assert send() == 0


def test_an_entry_is_outside_as_the_export_has_it(stream: Path) -> None:
    entry = note(1)[0]
    send()
    (found,) = read(stream)
    assert found["data"] == orjson.loads(audit_chain.line(entry))
    assert set(found) == {"type", "id", "timestamp", "hub", "data"}


def test_a_denial_that_is_counted_on_is_told_once_and_its_count_with_the_seal(stream: Path) -> None:
    denied(2)
    send()
    denied(3)
    send()
    AuditEvent.objects.update(time=timezone.now() - timedelta(minutes=5))
    audit_chain.seal_entries()
    send()
    entry, seal = read(stream)
    assert (entry["data"]["count"], entry["data"]["outcome"]) == (2, "denied")
    assert [(each["id"], each["count"]) for each in seal["data"]["counted"]] == [(entry["data"]["id"], 5)]


def test_an_id_is_of_its_content_so_that_a_restored_hub_repeats_none() -> None:
    """A restore gives numbers of entries anew."""
    first, second = note(2)
    ids = lines.entry_line(first, "hub").id, lines.entry_line(second, "hub").id
    second.pk = first.pk
    assert lines.entry_line(second, "hub").id not in ids
    assert lines.entry_line(first, "hub").id == ids[0]


def test_an_entry_that_is_too_long_for_any_receiver_goes_without_its_difference(stream: Path) -> None:
    entry = audit.entry_of(
        MALLORY,
        "managedcluster:update",
        resource="tests",
        diff=[{"path": f"p{n}", "new": "x" * 2000} for n in range(200)],
    )
    entry.save()
    note(1)
    send()
    cut, after = read(stream)
    assert (cut["cut"], cut["data"]["diff"], cut["data"]["user"]) == (True, [], "mallory")
    assert "cut" not in after


def test_groups_with_long_names_fit_into_a_datagram_too(settings: Any) -> None:
    audit.entry_of(
        Actor(user="mallory", groups=tuple(f"{n}{'x' * 2000}" for n in range(50)), entry_point=EntryPoint.API),
        "managedcluster:update",
        resource="tests",
        diff=[],
    ).save()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        settings.OCMCONSOLE_AUDIT_SYSLOG = syslog.SyslogTarget("udp", *receiver.getsockname())
        assert send() == 1
        assert b'"cut":true' in receiver.recv(65_535)


# ---------------------------------------------------------------- a file


def test_what_a_killed_process_wrote_is_not_written_twice(stream: Path) -> None:
    note(3)
    send()
    OutboundPosition.objects.update(entry=0)  # it died between the file and the position
    note(1)
    send()
    assert len(read(stream)) == 4


def test_half_a_line_at_the_end_is_written_anew(stream: Path) -> None:
    note(2)
    send()
    whole = stream.read_bytes()
    stream.write_bytes(whole[:-40])
    OutboundPosition.objects.update(entry=0)
    send()
    assert stream.read_bytes() == whole
    assert stream.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_moved_away_begins_anew(stream: Path) -> None:
    note(2)
    send()
    stream.rename(stream.with_suffix(".1"))
    note(1)
    send()
    assert (len(read(stream.with_suffix(".1"))), len(read(stream))) == (2, 1)


def test_a_file_that_cannot_be_written_loses_nothing(stream: Path) -> None:
    stream.mkdir()
    note(2)
    assert send() == 0
    assert "cannot be written" in OutboundPosition.objects.get().problem
    stream.rmdir()
    assert send() == 0, "it waits for the pause"
    positions.try_at_once("file")  # as a process that starts does
    assert send() == 1
    assert len(read(stream)) == 2


def test_what_another_writer_is_writing_is_not_cut_off(stream: Path) -> None:
    """Such as one that stood still in the midst of a line until its claim was over."""
    note(1)
    with stream.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b'{"type":"audit.entry","id":"')
        other.flush()
        assert send() == 0
        assert "another process or outlet writes it" in OutboundPosition.objects.get().problem
        other.write(b'0-half"}\n')
    assert try_now() == 1
    assert next(each["id"] for each in read(stream)) == "0-half"


# ---------------------------------------------------------------- syslog

RFC_5424 = re.compile(rb"<(\d+)>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (\S+) ocmconsole - (audit\.\w+) - (\{.*\})")


@pytest.mark.parametrize("way", ["unix", "udp", "tcp"])
def test_syslog_gets_rfc_5424(way: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.OCMCONSOLE_HUB_NAME = "höb one"
    with receivers.syslog_listener(way, tmp_path) as listener:
        monkeypatch.setenv("OCMCONSOLE_X", listener.target)
        settings.OCMCONSOLE_AUDIT_SYSLOG = readers.syslog("OCMCONSOLE_X")
        entry = note(2)[0]
        denied(1)
        assert send() == 1
        for _ in range(3_000):
            if len(listener.raw) == 3:
                break
            threading.Event().wait(0.02)
        parsed = [RFC_5424.fullmatch(raw) for raw in listener.raw]
    assert all(parsed)
    assert [int(each[1]) for each in parsed if each] == [13 * 8 + 6, 13 * 8 + 6, 13 * 8 + 4]
    first = parsed[0]
    assert first
    assert (first[3], first[4]) == (b"h-b-one", b"audit.entry")
    assert orjson.loads(first[5])["data"] == orjson.loads(audit_chain.line(entry))


def test_a_tcp_receiver_that_ends_the_connection_unread_has_taken_nothing(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system takes the bytes from the hub all the same."""
    with receivers.syslog_listener("tcp", tmp_path) as listener:
        monkeypatch.setenv("OCMCONSOLE_X", listener.target)
        settings.OCMCONSOLE_AUDIT_SYSLOG = readers.syslog("OCMCONSOLE_X")
        note(200)
        listener.drops = True
        assert send() == 0
        assert OutboundPosition.objects.get().entry == 0
        listener.drops = False
        assert try_now() == 1
        assert len(listener.raw) == 200


def test_a_tcp_receiver_that_says_nothing_is_given_up(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syslog, "SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.OCMCONSOLE_AUDIT_SYSLOG = syslog.SyslogTarget("tcp", "127.0.0.1", silent.getsockname()[1])
        note(1)
        assert send() == 0
    assert "did not end the connection" in OutboundPosition.objects.get().problem


# ---------------------------------------------------------------- a webhook


def test_a_webhook_that_was_away_gets_the_same_message_again(webhook: receivers.HttpReceiver) -> None:
    note(3)
    webhook.answer = 503
    webhook.headers = {"Retry-After": "120"}
    assert send() == 0
    row = OutboundPosition.objects.get()
    assert (row.entry, row.failures, row.problem) == (0, 1, "it answered 503")
    assert row.due
    assert timedelta(seconds=110) < row.due - timezone.now() <= timedelta(seconds=120)
    webhook.answer = 200
    assert send() == 0
    assert try_now() == 1
    assert len(webhook.lines) == 3
    assert len(set(webhook.messages)) == 1
    assert OutboundPosition.objects.get().problem == ""


def test_pauses_become_longer_and_end_at_five_minutes(webhook: receivers.HttpReceiver) -> None:
    webhook.answer = 500
    note(1)
    pauses = []
    for _ in range(12):
        assert try_now() == 0
        due = OutboundPosition.objects.get().due
        assert due
        pauses.append((due - timezone.now()).total_seconds())
    assert pauses[0] <= 1
    assert pauses[4] > pauses[0] * 4
    assert 200 < max(pauses) <= 300


@pytest.mark.parametrize("answer", [301, 302, 307, 400, 410, 500])
def test_only_success_is_an_acknowledgement_and_no_redirect_is_followed(
    answer: int, webhook: receivers.HttpReceiver
) -> None:
    with receivers.http_receiver() as other:
        webhook.answer, webhook.headers = answer, {"Location": f"http://127.0.0.1:{other.port}/"}
        note(1)
        assert send() == 0
        assert (len(webhook.messages), other.messages) == (1, [])


def test_no_private_address_is_asked_unless_it_is_allowed(webhook: receivers.HttpReceiver, settings: Any) -> None:
    note(1)
    for allowed in ((), (ip_network("10.0.0.0/8"),)):
        settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES = allowed
        for host in ("127.0.0.1", "localhost"):
            settings.OCMCONSOLE_AUDIT_WEBHOOK = f"http://{host}:{webhook.port}/"
            assert try_now() == 0
            assert "its address is private" in OutboundPosition.objects.get().problem
    assert webhook.messages == []


def test_an_answer_that_is_late_is_given_up(webhook: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "SECONDS", 0.5)
    given_up = threading.Event()
    webhook.before = lambda: given_up.wait(60)
    note(1)
    assert send() == 0
    given_up.set()
    assert "no answer within" in OutboundPosition.objects.get().problem


# ---------------------------------------------------------------- who sends, and when


def test_one_process_sends_at_a_time_and_another_goes_on_for_one_that_died(stream: Path) -> None:
    note(2)
    outlet = outlets.configured()[0]
    assert positions.claim(positions.position_of(outlet.name), "another process")
    assert send() == 0
    OutboundPosition.objects.update(busy_until=timezone.now() - timedelta(seconds=1))
    assert send() == 1
    assert len(read(stream)) == 2


def test_the_claim_of_a_process_whose_clock_is_ahead_of_ours_counts(stream: Path) -> None:
    """By microseconds, when another looked at the same moment; by half a minute, when another machine's differs."""
    note(1)
    row = positions.position_of("file")
    for ahead in (timedelta(milliseconds=1), timedelta(seconds=30)):
        with clock.at(timezone.now() + ahead):
            assert positions.claim(row, "ahead")
        assert not positions.claim(row, "this process")
        assert send() == 0
        OutboundPosition.objects.update(busy_until=None)
    assert not stream.exists()


def test_who_lost_its_claim_moves_nothing(stream: Path) -> None:
    note(1)
    row = positions.position_of("file")
    assert positions.claim(row, "slow")
    OutboundPosition.objects.update(sender="fast")
    positions.advance(row, "slow", batches.next_batch(row, seals_only=False))
    assert OutboundPosition.objects.get().entry == 0


def test_a_clock_that_is_put_back_holds_up_nothing(stream: Path) -> None:
    """Neither a pause nor the claim of a process that was killed then lasts longer than it would have."""
    note(2)
    row = positions.position_of("file")
    with clock.at(timezone.now() + timedelta(days=30)):
        assert positions.claim(row, "killed")
    assert send() == 1
    note(1)
    with clock.at(timezone.now() + timedelta(days=30)):
        positions.put_off(positions.position_of("file"), "this process", "away", None)
    assert send() == 1
    assert len(read(stream)) == 3


@pytest.mark.contract("D28")
def test_a_restored_hub_sends_nothing_until_it_is_activated(stream: Path, settings: Any, tmp_path: Path) -> None:
    settings.OCMCONSOLE_AUDIT_ANCHOR = tmp_path / "heads.jsonl"
    Incarnation.objects.all().delete()
    Incarnation.objects.create(number=2, uid="u2", begun_at=timezone.now())
    note(2)
    audit_chain.seal_entries()
    assert send() == 0
    assert not stream.exists()
    assert "activate" in checkup.hub_warnings()["audit outside"]
    Incarnation.objects.update(activated_at=timezone.now())
    assert send() == 2
    assert len(read(stream)) == 3


def test_what_is_not_outside_is_not_cut_by_the_retention(stream: Path, settings: Any) -> None:
    settings.OCMCONSOLE_AUDIT_RETENTION = timedelta(days=40)
    note(2, ago=timedelta(days=41))
    tasks.seal()
    assert AuditEvent.objects.count() == 2
    send()
    tasks.seal()
    assert AuditEvent.objects.count() == 0
    assert len(read(stream)) == 3


def test_heads_go_to_their_anchors_and_entries_do_not(
    webhook: receivers.HttpReceiver, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OCMCONSOLE_AUDIT_ANCHOR = tmp_path / "heads.jsonl"
    settings.OCMCONSOLE_AUDIT_ANCHOR_WEBHOOK, settings.OCMCONSOLE_AUDIT_WEBHOOK = settings.OCMCONSOLE_AUDIT_WEBHOOK, ""
    monkeypatch.setattr(audit_chain, "SEGMENT", 3)
    note(6)
    audit_chain.seal_entries()
    send()
    digests = list(AuditSeal.objects.order_by("number").values_list("digest", flat=True))
    assert [each["data"]["digest"] for each in read(tmp_path / "heads.jsonl")] == digests
    assert [each["data"]["digest"] for each in webhook.lines] == digests
    assert orjson.loads(webhook.bodies[0])["type"] == "audit.anchor"


# ---------------------------------------------------------------- how it is seen


def test_how_far_behind_a_receiver_is_is_on_hub_health_in_metrics_and_in_doctor(
    webhook: receivers.HttpReceiver, root: Any
) -> None:
    webhook.answer = 500
    note(2, ago=timedelta(minutes=1))
    send()
    assert "it answered 500" in checkup.hub_warnings()["audit outside"]
    assert checkup.hub_problems()["audit outside"] == []
    note(1, ago=timedelta(minutes=30))
    AuditEvent.objects.filter(pk=AuditEvent.objects.order_by("pk").values("pk")[:1]).update(
        time=timezone.now() - timedelta(minutes=30)
    )
    waiting = AuditEvent.objects.count()
    (problem,) = checkup.hub_problems()["audit outside"]
    assert problem.startswith(f"webhook: {waiting} entries and seals wait, the oldest for 30 min")
    assert f'ocmconsole_audit_outlet_waiting{{outlet="webhook"}} {waiting}.0'.encode() in metrics.exposition()
    page = root.get("/hub/").content.decode()
    assert "Audit outside: webhook" in page
    assert "it answered 500" in page
    webhook.answer = 200
    try_now()
    assert checkup.hub_problems()["audit outside"] == []
    assert [each.waiting for each in backlog.backlogs()] == [0]


def test_a_receiver_that_is_new_and_catches_up_is_not_said_to_be_sent_nothing(
    stream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST_LINES", 1)
    note(2, ago=timedelta(days=1))
    (before,) = checkup.hub_problems()["audit outside"]
    assert before.endswith("no process of the hub sends it")
    assert sending.send_next(outlets.configured()[0], "this process")
    (problem,) = checkup.hub_problems()["audit outside"]
    assert re.search(r"1 entries and seals wait, .*: its receiver has taken some \S+ s ago$", problem)


def test_a_hub_that_keeps_its_audit_to_itself_has_no_outlet(root: Any) -> None:
    assert outlets.configured() == []
    assert "audit outside" in checkup.unused_checks()
    assert positions.lowest_entry(outlets.streaming()) is None
