"""The health timeline of a cluster: heartbeats of a day, gaps with their causes, availability of a month, the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.cluster import impact, page_frame
from clusters.cluster.page_frame import Opened, tab_url
from clusters.cluster.timeline import Explained, Timeline
from clusters.health import heartbeat_history
from clusters.health.heartbeat_history import DAY, KEPT, Level
from ocmconsole.environment.durations import span

if TYPE_CHECKING:
    from django.http import HttpRequest

MONTH = "30d"
LEVELS = {
    Level.UNKNOWN: ("quiet", "circle-dashed", "No data"),
    Level.LATE: ("caution", "clock", "Late"),
    Level.MISSED: ("danger", "wifi-off", "Silent"),
}


@page_frame.tab("health", "Health timeline", "clusters/cluster/health.html")
def health(request: HttpRequest, cluster: Opened) -> dict[str, Any]:
    timeline = Timeline(cluster.actor, cluster.row, cluster.known, cluster.now)
    is_month = request.GET.get("gaps") == MONTH
    cells = timeline.month if is_month else [cell for cell in timeline.strip if cell.start >= timeline.begin]
    gaps, all_gaps = timeline.gaps(cells)
    spans = [(each.gap.start, cluster.now if each.goes_on else each.gap.end) for each in reversed(gaps)]
    meanwhile = impact.meanwhile(cluster.actor, cluster.name, spans)[::-1]
    own = heartbeat_history.heartbeat_gaps(timeline.strip)
    longest = heartbeat_history.longest(own)
    return {
        "strip": timeline.strip,
        "heard": _percent(heartbeat_history.availability(timeline.strip)),
        "gap_count": sum(gap.worst is not Level.UNKNOWN for gap in own),
        "longest": span(longest.length) if longest else "",
        "changes": timeline.changes,
        "gaps": [_gap(each, did) for each, did in zip(gaps, meanwhile, strict=True)],
        "all_gaps": all_gaps,
        "is_month": is_month,
        "month_url": f"{tab_url(cluster.name, 'health')}?gaps={MONTH}",
        "day_url": tab_url(cluster.name, "health"),
        "kept_days": KEPT.days,
        "days": [
            {"label": f"{each.day:%d %b}".lstrip("0"), "share": None if each.share is None else each.share * 100}
            for each in timeline.share_by_day
        ],
        "availability": _percent(heartbeat_history.availability(timeline.month)),
        "flaps": heartbeat_history.flaps(timeline.month),
        "skews": timeline.skews,
        "has_samples": any(skew is not None for skew in timeline.skews),
        "skew": _skew(cluster),
        "skew_limit": page_frame.grace_of(cluster.row),
        "ignores_clock": cluster.row.ignores_clock,
    }


def _skew(cluster: Opened) -> float | None:
    """Seconds that its clock was behind by the last heartbeat, which came within a day."""
    if cluster.skew is None or cluster.last_heard is None or cluster.now - cluster.last_heard > DAY:
        return None
    return cluster.skew.total_seconds()


def _percent(share: float | None) -> str:
    """Never 100 % while something is missing."""
    return "" if share is None else "100 %" if share == 1 else f"{min(share * 100, 99.99):.2f} %"


def _gap(each: Explained, placements: list[str]) -> dict[str, Any]:
    tone, icon, label = LEVELS[each.gap.worst]
    return {
        "start": each.gap.start,
        "length": span(each.gap.length),
        "goes_on": each.goes_on,
        "tone": tone,
        "icon": icon,
        "label": label,
        "cause": each.cause,
        "placements": placements,
    }
