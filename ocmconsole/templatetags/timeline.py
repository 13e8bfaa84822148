"""The heartbeats of one cluster as SVG: the strip of a day, the marks above it, the line of its clock.

As in ``charts``: no script, no style attribute, text that never scales, and words for those who do not see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from clusters.health.heartbeat_history import BOUND
from ocmconsole.environment.durations import span
from ocmconsole.kubeapi import clock as hub_clock
from ocmconsole.templatetags import charts

if TYPE_CHECKING:
    from clusters.cluster.timeline import TimelineChange
    from clusters.health.heartbeat_history import Cell

register = template.Library()

PITCH, BAR, HEIGHT = 4, 3, 44  # units of the viewBox: from cell to cell, of a cell, of the drawing
# Tone and height of each level: it is shown by more than its colour.
BARS = {0: ("none", 40), 1: ("ok", 40), 2: ("caution", 24), 3: ("danger", 8)}
ROWS = 4  # in which a narrow window shows the day
LABELS = 6  # of times below it: every four hours of a day
MARK = 2.2  # per cent of the width: a mark at 900 pixels
CLOCK_WIDTH, CLOCK_HEIGHT = 230, 40  # of the line of clock differences, in units of its viewBox
LEAST_RANGE = 5.0  # seconds: what is less is no difference


def _bars(cells: Sequence[Cell]) -> SafeString:
    """One rectangle for each run of equal bars would be smaller and would not look like beats."""
    return format_html_join(
        "",
        '<rect class="oc-t-{}" x="{}" y="{}" width="{}" height="{}"/>',
        (
            (tone, index * PITCH, HEIGHT - height, BAR, height)
            for index, (tone, height) in enumerate(BARS[cell.level] for cell in cells)
        ),
    )


def _strip(cells: Sequence[Cell], label: str) -> SafeString:
    return format_html(
        '<svg class="oc-strip" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>',
        len(cells) * PITCH,
        HEIGHT,
        label,
        _bars(cells),
    )


def _summary(cells: Sequence[Cell]) -> str:
    counts = [sum(cell.level == level for cell in cells) * 5 for level in range(4)]
    names = ("without data", "heard in full", "late", "silent")
    parts = [
        f"{minutes // 60} h {minutes % 60} min {name}" for minutes, name in zip(counts, names, strict=True) if minutes
    ]
    return f"Heartbeats, one bar is 5 minutes: {', '.join(parts)}"


@register.simple_tag
def heartbeat_strip(cells: Sequence[Cell]) -> SafeString:
    """A day in one row, and for small screens in four."""
    if not cells:
        return SafeString("")
    wide = format_html(
        '<div class="oc-wide">{}<div class="oc-axis">{}</div></div>', _strip(cells, _summary(cells)), _axis(cells)
    )
    size = len(cells) // ROWS
    rows = [cells[at : at + size] for at in range(0, size * ROWS, size)]
    narrow = format_html_join(
        "", "<div><span>{}</span>{}</div>", ((f"{row[0].start:%H:%M}", _strip(row, _summary(row))) for row in rows)
    )
    return format_html('{}<div class="oc-narrow">{}</div>', wide, narrow)


def _axis(cells: Sequence[Cell]) -> SafeString:
    return format_html_join("", "<span>{}</span>", ((text,) for text in _labels(cells)))


def _labels(cells: Sequence[Cell]) -> Iterator[str]:
    """Every four hours; the day where it changes."""
    today = cells[-1].start.date()
    before = None
    for index in range(LABELS + 1):
        at = cells[min(index * len(cells) // LABELS, len(cells) - 1)].start
        if index == LABELS:
            at += timedelta(minutes=5)
        named = "" if at.date() == before else " today" if at.date() == today else " yesterday"
        before = at.date()
        yield f"{at:%H:%M}{named}"


@register.simple_tag
def heartbeat_marks(changes: Sequence[TimelineChange], cells: Sequence[Cell]) -> SafeString:
    """Numbers above the strip, where something changed; the list beside it says what."""
    if not changes or not cells:
        return SafeString("")
    places = [_place(change.at, cells) for change in changes]
    marks = format_html_join(
        "",
        '<line x1="{0}%" x2="{1}%" y1="18" y2="26"/><circle cx="{0}%" cy="11" r="9"/><text x="{0}%" y="15">{2}</text>',
        (
            (f"{shown:.2f}", f"{place:.2f}", change.number)
            for shown, place, change in zip(_spread(places), places, changes, strict=True)
        ),
    )
    return format_html('<svg class="oc-marks oc-wide" aria-hidden="true" focusable="false" height="26">{}</svg>', marks)


def _place(moment: datetime, cells: Sequence[Cell]) -> float:
    """Per cent of the strip."""
    return min(max((moment - cells[0].start) / (timedelta(minutes=5) * len(cells)) * 100, 0.0), 100.0)


def _spread(places: Sequence[float]) -> list[float]:
    """The same places so far apart that no mark hides another, and none is cut at an end."""
    apart = min(MARK, (100 - MARK) / len(places))
    shown: list[float] = []
    for place in places:
        shown.append(max(place, shown[-1] + apart if shown else MARK / 2))
    limit = 100 - MARK / 2
    for index in range(len(shown) - 1, -1, -1):
        shown[index] = min(shown[index], limit)
        limit = shown[index] - apart
    return shown


@register.simple_tag
def clock_line(skews: Sequence[float | None]) -> SafeString:
    """Seconds behind the hub, hour by hour; a straight line is nought. Hours without a sample are left out."""
    known = [skew for skew in skews if skew is not None]
    if not known:
        return SafeString("")
    low, high = min(0.0, *known), max(0.0, *known)
    if high - low < LEAST_RANGE:
        low, high = -LEAST_RANGE, LEAST_RANGE
    step = CLOCK_WIDTH / max(len(skews) - 1, 1)
    lines = format_html_join("", '<polyline points="{}"/>', ((points,) for points in _runs(skews, step, low, high)))
    return format_html(
        '<svg class="oc-clock" viewBox="0 -2 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path d="M0 {} H{}"/>{}</svg>',
        CLOCK_WIDTH,
        CLOCK_HEIGHT + 4,
        f"Clock against the hub in {len(skews)} hours: between {_sample(min(known))} and {_sample(max(known))} behind",
        f"{_height(0, low, high):.1f}",
        CLOCK_WIDTH,
        lines,
    )


def _height(value: float, low: float, high: float) -> float:
    return CLOCK_HEIGHT - (value - low) / (high - low) * CLOCK_HEIGHT


def _runs(skews: Sequence[float | None], step: float, low: float, high: float) -> Iterator[str]:
    run: list[str] = []
    for index, skew in enumerate([*skews, None]):
        if skew is not None:
            run.append(f"{index * step:.1f},{_height(skew, low, high):.1f}")
        elif run:
            yield " ".join(
                run if len(run) > 1 else [run[0], f"{(index - 1) * step + step / 3:.1f},{run[0].partition(',')[2]}"]
            )
            run = []


def _sample(skew: float, sign: str = "") -> str:
    """What is as far off as a sample can say may have been further."""
    bound = BOUND.total_seconds()
    if abs(skew) < bound:
        return f"{skew:{sign}.1f} s"
    return f"{int(skew / 60):{sign}} min or more"


@register.filter
def behind(skew: Any) -> str:
    """``1 min 27 s behind``, ``in step``."""
    if not isinstance(skew, int | float) or abs(skew) < 1:
        return "in step"
    return f"{span(timedelta(seconds=abs(skew)))} {'behind' if skew > 0 else 'ahead'}"


@register.filter
def clock(value: datetime) -> SafeString:
    """The time of day, with the date if that is another."""
    text = f"{value:%H:%M}" if value.date() == hub_clock.now().date() else f"{value:%d %b, %H:%M}".lstrip("0")
    written = value.strftime("%Y-%m-%dT%H:%M:%SZ")
    title = f"{value:%d %b %Y, %H:%M} UTC".lstrip("0")
    return format_html('<time datetime="{}" title="{}">{}</time>', written, title, text)


@register.simple_tag
def clock_table(skews: Sequence[float | None]) -> SafeString:
    """The numbers of the line."""
    count = len(skews)
    rows = [(f"{count - 1 - index} h ago", _sample(skew, "+")) for index, skew in enumerate(skews) if skew is not None]
    return charts.table("Clock by hour", ("Hour", "Behind the hub"), rows)
