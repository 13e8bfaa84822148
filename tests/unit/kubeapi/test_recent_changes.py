"""What the follower keeps of the log in memory: everything after a floor, within bounds."""

from __future__ import annotations

import pytest

from ocmconsole.kubeapi.watch import recent_changes
from ocmconsole.kubeapi.watch.change_log import ChangeEntry
from ocmconsole.kubeapi.watch.follower import Topic
from ocmconsole.kubeapi.watch.recent_changes import RecentChanges


def entry(
    revision: int, namespace: str = "a", name: str = "x", *, resource: str = "maps", size: int = 10
) -> ChangeEntry:
    return ChangeEntry(revision, resource, "MODIFIED", namespace, name, "w" * size, "")


def kept(recent: RecentChanges, after: int, *topic: str) -> list[int] | None:
    found = recent.after(Topic("maps", *topic), after)
    return found if found is None else [each.revision for each in found]


def test_what_came_since_the_beginning_is_there_and_what_was_before_is_not_known() -> None:
    recent = RecentChanges()
    recent.add([entry(4)])  # before anybody asked for it
    recent.begin("maps", 5)
    recent.add([entry(6), entry(7, resource="other"), entry(8)])
    assert kept(recent, 5) == [6, 8]
    assert (kept(recent, 6), kept(recent, 8), kept(recent, 90)) == ([8], [], [])
    assert kept(recent, 4) is None
    recent.begin("maps", 8)  # a second watch
    assert kept(recent, 5) == [6, 8]
    recent.end("maps")
    assert (kept(recent, 8), recent.size) == (None, 0)


def test_a_topic_gets_its_namespace_and_its_name_alone_as_they_were_written() -> None:
    recent = RecentChanges()
    recent.begin("maps", 0)
    written = [entry(1), entry(2, "b"), entry(3, "b", "y"), entry(4, "c", "y")]
    recent.add(written)
    assert [kept(recent, 0, *topic) for topic in (("b",), ("b", "y"), ("", "y"), ("d",))] == [[2, 3], [3], [3, 4], []]
    assert recent.after(Topic("maps"), 0) == written


def test_the_oldest_go_where_entries_or_bytes_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_changes, "MOST_ENTRIES", 10)
    recent = RecentChanges()
    for resource in ("maps", "other"):
        recent.begin(resource, 0)
    recent.add(entry(number) for number in range(1, 12))
    assert kept(recent, 1) is None
    floor = next(number for number in range(12) if kept(recent, number) is not None)
    assert kept(recent, floor) == list(range(floor + 1, 12))
    monkeypatch.setattr(recent_changes, "MOST_BYTES", 100_000)
    recent.add(entry(number, resource="other", size=30_000) for number in range(12, 20))
    assert 0 < recent.size <= recent_changes.MOST_BYTES
    assert kept(recent, floor) == list(range(floor + 1, 12))  # the resource that takes the most room pays
    recent.add([entry(20, size=200_000)])  # larger than all that may be kept
    assert (kept(recent, 19), kept(recent, 20)) == (None, [])
    assert recent.size <= recent_changes.MOST_BYTES


def test_after_a_gap_only_what_follows_it_counts() -> None:
    recent = RecentChanges()
    recent.begin("maps", 0)
    recent.add([entry(1), entry(2)])
    recent.begin_again("maps", 5)
    recent.add([entry(4), entry(6)])
    assert (kept(recent, 2), kept(recent, 5)) == (None, [6])
