"""The status vocabulary as a table: facts in, word and sentence out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.health.status import Facts, Status, Word, status_of
from ocmconsole.environment.durations import span

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


# Facts of a cluster that is well, and those of one that has only asked.
WELL: dict[str, Any] = {
    "created": ago(days=9),
    "hub_accepts": True,
    "accepted": "True",
    "accepted_since": ago(days=8),
    "joined": "True",
    "available": "True",
    "available_since": ago(days=7),
    "clock_synced": "True",
    "last_heard": ago(seconds=12),
    "certificate_not_before": ago(days=8),
    "certificate_not_after": ago(days=-300),
}
ASKING: dict[str, Any] = {"created": ago(minutes=4)}

TABLE: list[tuple[str, dict[str, Any], Word, str]] = [
    ("well", WELL, Word.HEALTHY, "Heard 12 s ago."),
    ("asking", ASKING, Word.NEEDS_REVIEW, "Asked to join 4 min ago."),
    (
        "deleted",
        {**WELL, "deleted_at": ago(minutes=6), "deleting_message": "Waiting."},
        Word.REMOVING,
        "Removing for 6 min. Waiting.",
    ),
    ("deleted while asking", {**ASKING, "deleted_at": ago(seconds=0)}, Word.REMOVING, "Removing for 0 s."),
    (
        "declined",
        {
            **ASKING,
            "decision": "declined",
            "decided_by": "ana",
            "decided_at": ago(days=3),
            "decision_reason": "wrong token.",
        },
        Word.DECLINED,
        "Declined by ana, 3 d ago: wrong token.",
    ),
    (
        "declined, later let in and sent away from elsewhere",
        {
            **WELL,
            "hub_accepts": False,
            "accepted": "False",
            "accepted_since": ago(hours=1),
            "decision": "declined",
            "decided_by": "ana",
            "decided_at": ago(days=3),
        },
        Word.DISCONNECTED,
        "Disconnected 1 h ago. Agent rights withdrawn.",
    ),
    (
        "sent away",
        {
            **WELL,
            "hub_accepts": False,
            "accepted": "False",
            "accepted_since": ago(minutes=2),
            "decision": "disconnected",
            "decided_by": "raj",
            "decided_at": ago(minutes=2),
            "decision_reason": "rebuilt",
        },
        Word.DISCONNECTED,
        "Disconnected by raj 2 min ago. Agent rights withdrawn. Reason: rebuilt",
    ),
    (
        "asking under the name of a cluster that was let in long ago",
        {**ASKING, "decision": "accepted", "decided_by": "ana", "decided_at": ago(days=90)},
        Word.NEEDS_REVIEW,
        "Asked to join 4 min ago.",
    ),
    (
        "let in without a certificate",
        {**ASKING, "hub_accepts": True, "accepted": "True", "accepted_since": ago(seconds=5)},
        Word.WAITING,
        "Accepted; its certificate request has not arrived or is not approved.",
    ),
    (
        "let in with a certificate of an earlier life that has ended",
        {**ASKING, "hub_accepts": True, "accepted": "True", "certificate_not_after": ago(days=1)},
        Word.WAITING,
        "Accepted; its certificate request has not arrived or is not approved.",
    ),
    (
        "certificate issued",
        {**WELL, "joined": "", "available": ""},
        Word.JOINING,
        "The certificate is issued; the agent has not reported yet.",
    ),
    (
        "certificate ended",
        {**WELL, "certificate_not_after": ago(days=2), "available": "Unknown"},
        Word.EXPIRED,
        "Its certificate ended 2 d ago; the agent cannot speak.",
    ),
    (
        "certificate revoked",
        {
            **WELL,
            "certificate_revoked_at": ago(minutes=3),
            "certificate_revoked_by": "ana",
            "certificate_revocation_reason": "The key leaked.",
        },
        Word.REVOKED,
        "Its certificate was revoked by ana 3 min ago: The key leaked. The agent cannot speak.",
    ),
    (
        "certificate revoked long before its end, and silent since",
        {**WELL, "certificate_revoked_at": ago(days=3), "certificate_not_after": ago(days=1), "available": "Unknown"},
        Word.REVOKED,
        "Its certificate was revoked 3 d ago. The agent cannot speak.",
    ),
    (
        "silent",
        {**WELL, "available": "Unknown", "last_heard": ago(minutes=11)},
        Word.SILENT,
        "Last heard 11 min ago (limit 5 min).",
    ),
    ("never heard", {**WELL, "available": "Unknown", "last_heard": None}, Word.SILENT, "Never heard (limit 5 min)."),
    (
        "late",
        {**WELL, "last_heard": ago(minutes=2, seconds=10)},
        Word.LATE,
        "Last heard 2 min 10 s ago; Unknown in 2 min 50 s.",
    ),
    (
        "overdue on a hub that was down",
        {**WELL, "last_heard": ago(minutes=30)},
        Word.LATE,
        "Last heard 30 min ago; Unknown soon.",
    ),
    (
        "overdue on a hub that serves again",
        {**WELL, "last_heard": ago(minutes=30), "grace_left": timedelta(minutes=4)},
        Word.LATE,
        "Last heard 30 min ago; Unknown in 4 min.",
    ),
    ("two intervals are not late", {**WELL, "last_heard": ago(minutes=2)}, Word.HEALTHY, "Heard 2 min ago."),
    (
        "clock behind",
        {**WELL, "clock_synced": "False", "clock_skew": timedelta(seconds=387)},
        Word.CLOCK_SKEW,
        "Agent clock 6 min 27 s behind hub. Time zones do not matter.",
    ),
    (
        "clock ahead",
        {**WELL, "clock_synced": "False", "clock_skew": timedelta(seconds=-301)},
        Word.CLOCK_SKEW,
        "Agent clock 5 min 1 s ahead of hub. Time zones do not matter.",
    ),
    (
        "API server down",
        {**WELL, "available": "False", "available_message": "The kube-apiserver is not ok"},
        Word.UNHEALTHY,
        "The kube-apiserver is not ok",
    ),
    ("maintenance", {**WELL, "in_maintenance": True}, Word.MAINTENANCE, "In maintenance."),
    ("no word yet", {**WELL, "available": ""}, Word.UNKNOWN, "The agent has not reported its health yet."),
]


@pytest.mark.parametrize(("facts", "expected", "sentence"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_facts_have_one_word_and_one_sentence(facts: dict[str, Any], expected: Word, sentence: str) -> None:
    found = status_of(Facts(**facts), NOW)
    assert (found.word, found.sentence) == (expected, sentence)


def test_a_late_one_says_when_it_will_be_silent_while_that_lies_ahead() -> None:
    late = Facts(**{**WELL, "last_heard": ago(minutes=3)})
    assert status_of(late, NOW).silent_at == NOW + timedelta(minutes=2)
    assert status_of(replace(late, grace_left=timedelta(minutes=4)), NOW).silent_at == NOW + timedelta(minutes=4)
    assert status_of(replace(late, last_heard=ago(minutes=5)), NOW).silent_at is None


def test_every_word_is_in_the_table_and_has_looks_of_its_own() -> None:
    assert {row[2] for row in TABLE} == set(Word)
    assert len({each.label for each in Word}) == len({each.icon for each in Word}) == len(Word)
    assert {each.tone for each in Word} <= {"ok", "info", "accent", "caution", "warn", "danger", "quiet"}


def test_trouble_says_since_when_why_and_what_next() -> None:
    for _, facts, expected, _ in TABLE:
        found = status_of(Facts(**facts), NOW)
        assert found.why
        assert expected is Word.HEALTHY or (found.next and (found.next.page or found.next.command))
        assert facts.get("available_message", "-") not in found.why
        assert found.tone == expected.tone


STATUSES = st.sampled_from(["", "True", "False", "Unknown"])
MOMENTS = st.none() | st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - the zone is added


@given(
    facts=st.builds(
        Facts,
        created=MOMENTS.filter(lambda moment: moment is not None),
        deleted_at=MOMENTS,
        hub_accepts=st.booleans(),
        accepted=STATUSES,
        accepted_since=MOMENTS,
        joined=STATUSES,
        available=STATUSES,
        available_since=MOMENTS,
        clock_synced=STATUSES,
        lease_seconds=st.integers(1, 2**31),
        last_heard=MOMENTS,
        decision=st.sampled_from(["", "accepted", "declined", "disconnected"]),
        decided_at=MOMENTS,
        certificate_not_before=MOMENTS,
        certificate_not_after=MOMENTS,
        certificate_revoked_at=MOMENTS,
        in_maintenance=st.booleans(),
    )
)
def test_any_facts_have_a_status(facts: Facts) -> None:
    """And one that nobody has let in is never said to be well."""
    found = status_of(facts, NOW)
    assert isinstance(found, Status)
    assert found.sentence
    if not facts.hub_accepts:
        assert found.word in {Word.REMOVING, Word.DECLINED, Word.NEEDS_REVIEW, Word.DISCONNECTED}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0, "0 s"), (59, "59 s"), (60, "1 min"), (130, "2 min 10 s"), (3605, "1 h"), (90_061, "1 d 1 h")],
)
def test_lengths_of_time_have_at_most_two_units(seconds: int, text: str) -> None:
    assert span(timedelta(seconds=seconds)) == text
