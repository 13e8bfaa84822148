"""Where messages come from: what is recorded already, read onwards from a position. Nothing is recorded for them alone.

Audit entries and transitions are numbered under the counter of commits, so that a reader of "greater than my last"
misses none. What no write says, an end that comes near, is what lies between the time of the last look and now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Q

from clusters.health.certificate_expiry import WEEK, is_short_lived
from clusters.kinds import CLUSTERSET_LABEL
from clusters.models import ManagedCluster, Transition
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import AuditEvent, OutboundPosition
from ocmconsole.kubeapi.outbound import backlog, outlets
from ocmconsole.notifications.message_kinds import BEHIND, ENDING, OF_ACTS, RECOVERED, SILENT, WAITS, MessageKind

AT_ONCE = 1_000  # entries of one look
LOOK = timedelta(minutes=1)  # between two looks at what ends soon
CREATE, DELETE = "managedcluster:create", "managedcluster:delete"
UNKNOWN = "certificate:unknown"  # the one refusal among them
TURNS = {Transition.Turn.SILENT: SILENT, Transition.Turn.RECOVERED: RECOVERED}


@dataclass(frozen=True, slots=True)
class Happening:
    kind: MessageKind
    name: str
    clusterset: str
    at: datetime
    detail: str = ""


@dataclass(frozen=True, slots=True)
class MessageSource:
    """``outlet`` is what its position is kept by. ``after`` gives what is behind one, and the next."""

    outlet: str
    newest: Callable[[], int]
    after: Callable[[int], tuple[list[Happening], int]]


# ---------------------------------------------------------------- the audit


def _entries_after(position: int) -> tuple[list[Happening], int]:
    rows = AuditEvent.objects.filter(pk__gt=position).order_by("pk")
    found = list(rows.values("pk", "time", "act", "name", "reason", "outcome")[:AT_ONCE])
    wanted = [row for row in found if _is_message(row)]
    sets = _sets_of(row["name"] for row in wanted)
    waiting = _waiting(row["name"] for row in wanted if row["act"] == CREATE)
    deleted = {row["pk"] for row in wanted if row["act"] == DELETE}
    labels = dict(AuditEvent.objects.filter(pk__in=deleted).values_list("pk", "diff")) if deleted else {}
    happenings = [
        Happening(
            OF_ACTS.get(row["act"], WAITS),
            row["name"],
            sets.get(row["name"]) or _set_in(labels.get(row["pk"], ())),
            row["time"],
            row["reason"],
        )
        for row in wanted
        if row["act"] != CREATE or row["name"] in waiting
    ]
    return happenings, found[-1]["pk"] if found else position


def _is_message(row: dict[str, Any]) -> bool:
    is_allowed = row["outcome"] == AuditEvent.Outcome.ALLOWED
    return row["act"] == UNKNOWN or (is_allowed and (row["act"] in OF_ACTS or row["act"] == CREATE))


def _waiting(names: Iterable[str]) -> set[str]:
    wanted = set(names)
    rows = ManagedCluster.objects.filter(name__in=wanted, hub_accepts_client=False, deleted_at=None)
    return set(rows.values_list("name", flat=True)) if wanted else set()


def _sets_of(names: Iterable[str]) -> dict[str, str]:
    wanted = set(names)
    rows = ManagedCluster.objects.filter(name__in=wanted)
    return dict(rows.values_list("name", "clusterset")) if wanted else {}


def _set_in(diff: Sequence[dict[str, Any]]) -> str:
    """Of a cluster that is gone, where its entry says it."""
    for change in diff:
        old = change.get("old")
        labels = old.get("labels") if change.get("path") == "metadata" and isinstance(old, dict) else None
        if isinstance(labels, dict):
            return str(labels.get(CLUSTERSET_LABEL, ""))
    return ""


# ---------------------------------------------------------------- what clusters became


def _turns_after(position: int) -> tuple[list[Happening], int]:
    rows = Transition.objects.filter(pk__gt=position).order_by("pk")
    found = list(rows.values_list("pk", "cluster", "at", "turn")[:AT_ONCE])
    wanted = [row for row in found if row[3] in TURNS]
    sets = _sets_of(cluster for _, cluster, _, _ in wanted)
    happenings = [
        Happening(TURNS[Transition.Turn(turn)], cluster, sets.get(cluster, ""), at) for _, cluster, at, turn in wanted
    ]
    return happenings, found[-1][0] if found else position


# ---------------------------------------------------------------- times that are passed


def _now() -> int:
    return int(clock.now().timestamp())


def _passed_after(position: int) -> tuple[list[Happening], int]:
    """Each is passed once, whenever the hub looks; what was renewed in time never is."""
    now = _now()
    since, until = (datetime.fromtimestamp(each, UTC) for each in (position, now))
    if until - since < LOOK:
        return [], position
    return [*_ending(since, until), *_behind(since, until)], now


def _ending(since: datetime, until: datetime) -> Iterator[Happening]:
    between = Q(facts__certificate_not_after__gt=since + WEEK, facts__certificate_not_after__lte=until + WEEK)
    rows = ManagedCluster.objects.filter(
        between, hub_accepts_client=True, deleted_at=None, facts__certificate_revoked_at=None
    ).order_by("name")
    columns = ("name", "clusterset", "facts__certificate_not_before", "facts__certificate_not_after")
    for name, clusterset, begins, ends in rows.values_list(*columns):
        if not is_short_lived(begins, ends):
            yield Happening(ENDING, name, clusterset, ends - WEEK, f"ends {ends:%Y-%m-%d %H:%M} UTC")


def _behind(since: datetime, until: datetime) -> Iterator[Happening]:
    names = [each.name for each in outlets.configured()]
    rows = OutboundPosition.objects.filter(
        pk__in=names, failing_since__gt=since - backlog.LATE, failing_since__lte=until - backlog.LATE
    )
    for row in rows if names else ():
        assert row.failing_since is not None
        yield Happening(BEHIND, row.outlet, "", row.failing_since + backlog.LATE, row.problem)


def _last(rows: Any) -> int:
    return rows.order_by("-pk").values_list("pk", flat=True).first() or 0


SOURCES = (
    MessageSource("notify-audit", lambda: _last(AuditEvent.objects), _entries_after),
    MessageSource("notify-turns", lambda: _last(Transition.objects), _turns_after),
    MessageSource("notify-times", _now, _passed_after),
)
