"""The first page: what needs a person, what changed in a day, and how the fleet is.

Everything is counted among the clusters that the person may see, in one statement; what is known of the fleet as a
whole only (heartbeats by the minute) is shown to who sees it whole.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import Case, Count, DateField, Exists, Func, Min, OuterRef, SmallIntegerField, Sum, Value, When
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from clusters import queries as clusters
from clusters.health import fleet_counts, status_sql
from clusters.health.status import Word, clock_time
from clusters.models import ClusterFacts, FleetMinute, ManagedCluster, Transition
from ocmconsole.console import attention, first_steps
from ocmconsole.core.models import Event
from ocmconsole.core.tokens import tokens
from ocmconsole.demo import reconcilers
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.session import actor_of
from placements.pages import list_pages as placements
from placements.queries import may_create_somewhere

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor

RECENT = 6  # decisions and events beside the charts, about as high as these
VERSIONS = 6  # minor versions with a bar; Kubernetes supports three
HOURS = 24  # of joins and losses, a column each: one day
HEARTBEATS = timedelta(hours=2)  # of the chart of heartbeats: 120 points, one for each minute
MONTH = timedelta(days=30)  # of the charts by day: as long as the history of heartbeats is kept
MOST_PLACEMENTS = 8  # on the page of a person who sees no cluster: one screen
# Upper limits in days of the bars of the histogram; the last bar has none, the first is what has ended.
LIMITS = (0, 7, 30, 60, 90, 120, 180, 240, 300)
BUCKET_TONES = ("danger", "warn", "caution")
TURNS = (
    (Transition.Turn.JOINED, "joined"),
    (Transition.Turn.LEFT, "left"),
    (Transition.Turn.SILENT, "went silent"),
    (Transition.Turn.RECOVERED, "recovered"),
)


@login_required
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    actor, now = actor_of(request), clock.now()
    fleet = FleetCounts.of(actor, now)
    needs = attention.attention_items(request)
    context: dict[str, Any] = {
        "fleet": fleet,
        "needs": needs,
        "news": _news(fleet, needs, now),
        "changes": _changes(fleet, now),
        "certificates": fleet.by_bucket(),
        "overdue": sum(bar["count"] for bar in fleet.by_bucket()[:3]),
        "versions": fleet.by_version(),
        "decisions": _decisions(fleet.visible),
        "events": _events(fleet.visible),
        "joins": _joins(fleet, now),
        "may_mint": tokens.may_mint(actor).allowed,
    }
    if not fleet.total:
        context |= {
            "placements": placements.rows_for(actor, MOST_PLACEMENTS, now),
            "may_place": may_create_somewhere(actor),
            "first_steps": first_steps.setup_steps(request),
            "put_away": first_steps.put_away(request),
            "demo_is_offered": reconcilers.is_offered(actor),
        }
    if fleet.sees_all:
        looked = looks(now)
        context |= {"heartbeats": heartbeats(now), "availability": availability(looked, now), "came": came(looked)}
    return render(request, "console/overview.html", context)


# ---------------------------------------------------------------- the fleet in one statement


@dataclass
class FleetCounts:
    """Counts of the clusters that the person may see, by state, set, version and days left of the certificate."""

    visible: QuerySet[Any]
    sees_all: bool
    states: Counter[Word] = field(default_factory=Counter)
    buckets: Counter[int] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    silent: Counter[str] = field(default_factory=Counter)
    silent_since: dict[str, datetime] = field(default_factory=dict)

    @classmethod
    def of(cls, actor: Actor, now: datetime) -> FleetCounts:
        found = cls(clusters.clusters_for(actor), clusters.sees_all(actor))
        for (rank, version), count in fleet_counts.counted(found.visible, now, "kubernetes_version").items():
            found.states[status_sql.WORST_FIRST[rank]] += count
            found.versions[version] += count
        found.buckets = found._days_left(now)
        if found.states[Word.SILENT]:
            found._find_silent(now)
        return found

    def _days_left(self, now: datetime) -> Counter[int]:
        """Certificates that count; where all are seen, those of an index less those of no cluster and the revoked."""
        ends = "certificate_not_after__lt"
        bucket = Case(
            *(When(**{ends: now + timedelta(days=limit)}, then=Value(index)) for index, limit in enumerate(LIMITS)),
            default=Value(len(LIMITS)),
            output_field=SmallIntegerField(),
        )
        issued = ClusterFacts.objects.filter(certificate_not_after__isnull=False)
        names = ManagedCluster.objects.filter(name=OuterRef("cluster"))
        if self.sees_all:
            revoked = issued.filter(Exists(names), certificate_revoked_at__isnull=False)
            parts = [(1, issued), (-1, issued.filter(~Exists(names))), (-1, revoked)]
        else:
            visible = self.visible.order_by().values("name")
            parts = [(1, issued.filter(cluster__in=visible, certificate_revoked_at=None))]
        first, *others = [
            rows.annotate(bucket=bucket, sign=Value(sign))
            .order_by()
            .values_list("bucket", "sign")
            .annotate(n=Count("pk"))
            for sign, rows in parts
        ]
        found: Counter[int] = Counter()
        for index, sign, count in first.union(*others, all=True) if others else first:
            found[index] += sign * count
        return found

    def _find_silent(self, now: datetime) -> None:
        rows = status_sql.with_word(self.visible.filter(available="Unknown"), now).order_by()
        silent = rows.filter(rank=status_sql.RANKS[Word.SILENT]).values_list("clusterset")
        for clusterset, count, since in silent.annotate(n=Count("pk"), at=Min("since")):
            self.silent[clusterset], self.silent_since[clusterset] = count, since

    @property
    def total(self) -> int:
        return self.states.total()

    @property
    def healthy(self) -> int:
        return self.states[Word.HEALTHY]

    @property
    def in_service(self) -> int:
        """Clusters that are let in, have joined and are not in maintenance: those that should be healthy."""
        return self.total - self.out_of_service

    @property
    def out_of_service(self) -> int:
        return sum(self.states[word] for word in status_sql.OUT_OF_SERVICE)

    @property
    def share(self) -> float:
        """Of the healthy among those in service, in per cent, rounded down: 100 only when all are healthy."""
        return math.floor(1000 * self.healthy / self.in_service) / 10 if self.in_service else 0.0

    def by_state(self) -> list[dict[str, Any]]:
        """What is not healthy, worst first."""
        listed = reverse("clusters:list")
        return [
            {"word": word, "count": self.states[word], "url": f"{listed}?{urlencode({'status': word.value})}"}
            for word in status_sql.WORST_FIRST
            if self.states[word] and word is not Word.HEALTHY
        ]

    def by_bucket(self) -> list[dict[str, Any]]:
        """Clusters by days that their certificate has left."""
        edges = [f"{low}\N{EN DASH}{high - 1}" for low, high in pairwise(LIMITS)]
        labels = ["ended", *edges, f"{LIMITS[-1]} +"]
        tones = [*BUCKET_TONES, *["accent"] * len(labels)]
        return [
            {"label": label, "count": self.buckets[index], "tone": tones[index]} for index, label in enumerate(labels)
        ]

    def by_version(self) -> list[dict[str, Any]]:
        """Minor versions, the most frequent first; the rest together."""
        minors: Counter[str] = Counter()
        for version, count in self.versions.items():
            minors[".".join(version.removeprefix("v").split(".")[:2]) or "not reported"] += count
        rows = [{"label": label, "count": count} for label, count in minors.most_common(VERSIONS)]
        rest = minors.total() - sum(int(str(row["count"])) for row in rows)
        return [*rows, {"label": "others", "count": rest}] if rest else rows


def _news(fleet: FleetCounts, needs: list[attention.Item], now: datetime) -> str:
    """What the page says after the share of the healthy: who is silent now, what waits, or that nothing does."""
    if not fleet.total:
        return ""
    parts = []
    if count := fleet.silent.total():
        first = clock_time(min(fleet.silent_since.values()), now)
        clusterset, most = fleet.silent.most_common(1)[0]
        among = f", {most:,} of them of set {clusterset}" if clusterset and most < count else ""
        of = f" of set {clusterset}" if clusterset and most == count else ""
        since = f"since {first}" if count == 1 else f"the first since {first}"
        whom = f"{count:,} cluster{of} is" if count == 1 else f"{count:,} clusters{of} are"
        parts.append(f"{whom} silent{among}, {since}.")
    waiting = next((item for item in needs if item.key == "approvals"), None)
    if waiting:
        parts.append(f"{waiting.count} approval{'s wait' if waiting.count != 1 else ' waits'}.")
    return " ".join(parts) or ("" if needs else "Nothing needs you.")


# ---------------------------------------------------------------- time


def _changes(fleet: FleetCounts, now: datetime) -> list[dict[str, Any]]:
    """How many clusters turned in 24 hours, each counted once, and their turns for each hour, the present one last."""
    found = _turns(fleet).filter(at__gt=now - timedelta(hours=HOURS))
    series: dict[str, list[int]] = {turn: [0] * HOURS for turn, _ in TURNS}
    names: dict[str, set[str]] = {turn: set() for turn, _ in TURNS}
    for turn, at, cluster in found.filter(turn__in=series).values_list("turn", "at", "cluster"):
        ago = int((now - at) / timedelta(hours=1))
        series[turn][HOURS - 1 - min(max(ago, 0), HOURS - 1)] += 1
        names[turn].add(cluster)
    return [{"label": label, "count": len(names[turn]), "series": series[turn]} for turn, label in TURNS]


def _turns(fleet: FleetCounts) -> QuerySet[Any]:
    """For users who see every cluster, also those that are gone."""
    if fleet.sees_all:
        return Transition.objects.all()
    return Transition.objects.filter(cluster__in=fleet.visible.order_by().values("name"))


def _joins(fleet: FleetCounts, now: datetime) -> list[dict[str, Any]]:
    """Clusters that joined, a bar for each of 30 days; one that joined twice on a day is one."""
    found = _turns(fleet).filter(turn=Transition.Turn.JOINED, at__gt=now - MONTH)
    grouped = found.annotate(day=UTCDay("at")).order_by().values_list("day")
    counts = dict(grouped.annotate(n=Count("cluster", distinct=True)))
    return [{"label": f"{day.day} {day:%b}", "count": counts.get(day, 0)} for day in _month(now)]


class UTCDay(Func):
    """The day of a moment in UTC, the time zone of each connection to PostgreSQL (``settings.TIME_ZONE``).

    By the database itself: ``TruncDate`` is Python on SQLite, and takes 0.2 s for the 43,200 minutes of 30 days.
    """

    function = "DATE"
    output_field = DateField()


def looks(now: datetime) -> dict[date, tuple[int, int]]:
    """How many heartbeats came and were expected, for each day of 30 on which the hub looked."""
    rows = FleetMinute.objects.filter(minute__gt=now - MONTH).annotate(day=UTCDay("minute")).order_by()
    sums = rows.values_list("day").annotate(came=Sum("heard"), due=Sum("expected"))
    return {day: (came, due) for day, came, due in sums}


def came(looked: Mapping[date, tuple[int, int]]) -> str:
    """The share of all heartbeats expected in 30 days that came, as text; empty where the hub never looked."""
    heard, due = (sum(each) for each in zip(*looked.values(), strict=True)) if looked else (0, 0)
    return f"{math.floor(10_000 * heard / due) / 100:.2f} %" if due else ""


def _month(now: datetime) -> list[Any]:
    return [(now - timedelta(days=days)).date() for days in range(MONTH.days - 1, -1, -1)]


def heartbeats(now: datetime) -> list[dict[str, Any]]:
    """Clusters heard and expected, minute by minute; the present minute is not over."""
    rows = FleetMinute.objects.filter(minute__gt=now - HEARTBEATS).order_by("minute")
    return [{"at": row.minute, "heard": row.heard, "expected": row.expected} for row in rows]


def availability(looked: Mapping[date, tuple[int, int]], now: datetime) -> list[dict[str, Any]]:
    """The share of expected heartbeats that came, in per cent for each of 30 days; None for a day without a look."""
    shares = {day: 100 * heard / due for day, (heard, due) in looked.items() if due}
    return [{"label": f"{day.day} {day:%b}", "share": shares.get(day)} for day in _month(now)]


# ---------------------------------------------------------------- what happened last


def _decisions(visible: QuerySet[Any]) -> QuerySet[Any]:
    decided = ClusterFacts.objects.exclude(decision="").exclude(decided_at=None).order_by("-decided_at")
    return decided.filter(Exists(visible.order_by().filter(name=OuterRef("cluster"))))[:RECENT]  # of each until enough


def _events(visible: QuerySet[Any]) -> list[dict[str, Any]]:
    there = Exists(visible.order_by().filter(name=OuterRef("regarding_name")))
    rows = Event.objects.filter(there, regarding_kind="ManagedCluster").order_by("-created")
    return [
        {"cluster": row.regarding_name, "at": row.created, "reason": doc.get("reason", ""), "text": _text(doc)}
        for row in rows[:RECENT]
        if (doc := row.doc)
    ]


def _text(doc: dict[str, Any]) -> str:
    return str(doc.get("message") or doc.get("note") or "")
