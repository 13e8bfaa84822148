"""Charts as SVG that the server draws: no script, no style attribute, text as HTML so that it never scales.

Each says in words what it shows (`aria-label`) and has its numbers as a table beside it. Fills are classes, so that
themes and forced colours apply. Used by templates only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import template
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

WIDTH, HEIGHT = 600, 160  # of a chart, in units of its viewBox, which the page scales
SPARK_WIDTH, SPARK_HEIGHT = 120, 34  # of a line in a card, in the same units
BAR_HEIGHT = 120  # of the tallest bar, in the same units
LINES = 4  # between the lines of the grid, so that quarters can be read
FEWEST_POINTS = 2  # that make a line


def points(values: Sequence[float], low: float, high: float, *, width: float, height: float) -> str:
    """The values as a polyline, evenly spread; the highest at the top."""
    step = width / max(len(values) - 1, 1)
    span = (high - low) or 1
    return " ".join(
        f"{index * step:.1f},{height - (value - low) / span * height:.1f}" for index, value in enumerate(values)
    )


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> SafeString:
    """The chart's numbers, folded away beneath it."""
    context = {"caption": caption, "heads": heads, "rows": list(rows)}
    return SafeString(render_to_string("components/chart_table.html", context))


@register.simple_tag
def sparkline(values: Sequence[int]) -> SafeString:
    """A small line without axes; the number stands beside it."""
    top = max(values, default=0)
    drawn = points(values, 0, top or 1, width=SPARK_WIDTH, height=SPARK_HEIGHT - 4)
    return format_html(
        '<svg class="oc-spark" viewBox="0 -2 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<polyline points="{}"/></svg>',
        SPARK_WIDTH,
        SPARK_HEIGHT,
        f"Hour by hour, at most {top} in one hour",
        drawn,
    )


@register.simple_tag
def stacked(parts: Iterable[tuple[str, float]]) -> SafeString:
    """Shares of a whole as one bar: tone and size of each. The words and numbers stand beside it."""
    found = [(tone, size) for tone, size in parts if size > 0]
    whole = sum(size for _, size in found) or 1
    drawn, at = [], 0.0
    for tone, size in found:
        width = size / whole * WIDTH
        drawn.append((tone, f"{at:.2f}", f"{max(width - 1.5, 1.5):.2f}"))
        at += width
    bars = format_html_join("", '<rect class="oc-t-{}" x="{}" width="{}" height="18"/>', drawn)
    return format_html(
        '<svg class="oc-stack" viewBox="0 0 {} 18" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        "{}</svg>",
        WIDTH,
        bars,
    )


@register.simple_tag
def composition(healthy: int, states: Sequence[Mapping[str, Any]]) -> SafeString:
    """The healthy among all, and beneath it what the others are: too few to be seen in the same bar."""
    others = sum(state["count"] for state in states)
    whole = stacked([("ok", healthy), ("quiet", others)])
    if not others:
        return whole
    start = healthy / (healthy + others) * WIDTH
    funnel = format_html(
        '<svg class="oc-funnel" viewBox="0 0 {} 14" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<path d="M{} 0 H{} V14 H0 Z"/></svg>',
        WIDTH,
        f"{start:.1f}",
        WIDTH,
    )
    return format_html("{}{}{}", whole, funnel, stacked((state["word"].tone, state["count"]) for state in states))


@register.simple_tag
def histogram(bars: Sequence[Mapping[str, Any]], caption: str) -> SafeString:
    """Bars with their number above and their label beneath; each may have a tone."""
    top = max((bar["count"] for bar in bars), default=0) or 1
    items = format_html_join(
        "",
        '<li><div><b>{}</b><svg viewBox="0 0 1 1" height="{}" preserveAspectRatio="none" aria-hidden="true"'
        ' focusable="false"><rect class="oc-t-{}" width="1" height="1"/></svg></div><span>{}</span></li>',
        (
            (f"{bar['count']:,}", height, bar.get("tone", "accent"), bar["label"])
            for bar in bars
            for height in [max(round(bar["count"] / top * BAR_HEIGHT), 2)]
        ),
    )
    return format_html('<ul class="oc-hist" role="list" aria-label="{}">{}</ul>', caption, items)


@register.simple_tag
def ranking(bars: Sequence[Mapping[str, Any]], caption: str) -> SafeString:
    """Lying bars, one a line: label, bar, number; a bar with a ``url`` leads to what it counts."""
    top = max((bar["count"] for bar in bars), default=0) or 1
    items = format_html_join(
        "",
        '<li><span>{}</span><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<rect class="oc-t-{}" width="{}" height="10"/></svg><b>{}</b></li>',
        (
            (
                format_html('<a href="{}">{}</a>', bar["url"], bar["label"]) if bar.get("url") else bar["label"],
                bar.get("tone", "accent"),
                f"{max(bar['count'] / top * 100, 0.5):.1f}",
                f"{bar['count']:,}",
            )
            for bar in bars
        ),
    )
    return format_html('<ul class="oc-rank" role="list" aria-label="{}">{}</ul>', caption, items)


@register.simple_tag
def day_bars(days: Sequence[Mapping[str, Any]], caption: str) -> SafeString:
    """A bar for each day, from nought; first and last day named."""
    top = max((day["count"] for day in days), default=0)
    total = sum(day["count"] for day in days)
    heights = [(day["count"] / (top or 1) * 60, "accent") for day in days]
    summary = f"{caption}: {total:,} in {len(days)} days, at most {top:,} in one"
    return _days(
        days, heights, summary, table(caption, ("Day", "Clusters"), ((day["label"], day["count"]) for day in days))
    )


@register.simple_tag
def availability_bars(
    days: Sequence[Mapping[str, Any]], mean: str = "", counted: str = "Heartbeats that came"
) -> SafeString:
    """Per cent for each day; the axis begins at 90, and says so. A day without a look has no bar.

    ``mean`` is what the whole time comes to, where the caller knows it better than the mean of its days.
    ``counted``: of what a day's share is.
    """
    known = [day["share"] for day in days if day["share"] is not None]
    mean = mean or (_per_cent(sum(known) / len(known)) if known else "unknown")
    heights = [
        (0.0, "quiet") if share is None else (max((share - 90) * 6, 3.0), _tone(share))
        for share in (day["share"] for day in days)
    ]
    rows = ((day["label"], "not looked" if day["share"] is None else _per_cent(day["share"])) for day in days)
    twin = table("Availability by day", ("Day", counted), rows)
    drawn = _days(days, heights, f"Availability over {len(days)} days: {mean} on average", twin)
    return format_html(
        '<p class="oc-split-line"><span class="oc-xs">bars begin at 90 %</span><b>{}</b></p>{}', mean, drawn
    )


def _per_cent(share: float) -> str:
    """Never 100.00 where something is missing."""
    return f"{share if share >= 100 else min(share, 99.99):.2f} %"  # noqa: PLR2004 - per cent


def _tone(share: float) -> str:
    return "ok" if share >= 99 else "caution" if share >= 95 else "danger"  # noqa: PLR2004 - per cent


def _days(
    days: Sequence[Mapping[str, Any]], heights: Iterable[tuple[float, str]], summary: str, twin: SafeString
) -> SafeString:
    width = WIDTH / max(len(days), 1)
    bars = format_html_join(
        "",
        '<rect class="oc-t-{}" x="{}" y="{}" width="{}" height="{}"/>',
        (
            (tone, f"{index * width:.1f}", f"{60 - height:.1f}", f"{width - 3:.1f}", f"{height:.1f}")
            for index, (height, tone) in enumerate(heights)
        ),
    )
    return format_html(
        '<svg class="oc-days" viewBox="0 0 {} 60" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
        '<div class="oc-axis"><span>{}</span><span>{}</span></div>{}',
        WIDTH,
        summary,
        bars,
        days[0]["label"] if days else "",
        days[-1]["label"] if days else "",
        twin,
    )


@register.simple_tag
def heartbeat_plot(minutes: Sequence[Mapping[str, Any]]) -> SafeString:
    """Heard as a line, expected as a dashed one, the difference filled."""
    if len(minutes) < FEWEST_POINTS:
        return SafeString('<p class="oc-sub">The hub has not looked for long enough to draw a line.</p>')
    heard, expected = ([minute[name] for minute in minutes] for name in ("heard", "expected"))
    low, high = _scale(min(*heard, *expected), max(*heard, *expected))
    line, dashes = (points(each, low, high, width=WIDTH, height=HEIGHT) for each in (heard, expected))
    ticks = [low + (high - low) * index / LINES for index in range(LINES, -1, -1)]
    grid = format_html_join(
        "",
        '<path class="oc-gridline" d="M0 {} H{}"/>',
        ((f"{HEIGHT * index / LINES:.0f}", WIDTH) for index in range(LINES + 1)),
    )
    shown = minutes[:: max(len(minutes) // 4, 1)]
    worst = min(minutes, key=lambda minute: minute["heard"] - minute["expected"])
    summary = (
        f"From {heard[0]:,} to {heard[-1]:,} of {expected[-1]:,}; at worst {worst['heard']:,} at {worst['at']:%H:%M}"
    )
    rows = ((f"{each['at']:%H:%M}", f"{each['heard']:,}", f"{each['expected']:,}") for each in minutes[::5])
    return format_html(
        '<div class="oc-plot"><div class="y" aria-hidden="true">{}</div>'
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}'
        '<polygon class="oc-gap" points="{} {}"/><polyline class="oc-expected" points="{}"/>'
        '<polyline class="oc-heard" points="{}"/></svg>'
        '<div class="x" aria-hidden="true">{}</div></div>'
        '<p class="oc-keys" aria-hidden="true"><span class="is-heard">Heard</span>'
        '<span class="is-expected">Expected, 1 per agent</span></p>{}',
        format_html_join("", "<span>{}</span>", ((f"{tick:,.0f}",) for tick in ticks)),
        WIDTH,
        HEIGHT,
        summary,
        grid,
        line,
        " ".join(reversed(dashes.split(" "))),
        dashes,
        line,
        format_html_join("", "<span>{}</span>", ((f"{each['at']:%H:%M}",) for each in shown)),
        table("Heartbeats per minute", ("Time", "Heard", "Expected"), rows),
    )


def _scale(low: float, high: float) -> tuple[float, float]:
    """An axis that need not begin at nought; its ends are whole numbers that four steps divide."""
    room = max((high - low) * 0.15, 1)
    low, high = max(0, int(low - room)), int(high + room) + 1
    return low, high + (-(high - low)) % LINES
