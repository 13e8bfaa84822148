"""A day of a Placement as SVG: how many clusters it had, how many entered and left, and when each was chosen.

As in ``charts``: no script, no style attribute, fills are classes. Places are per cent of the width, so that text keeps
its size. Words stand beside each drawing, and ``chosen_table`` has the numbers. Used by templates only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ocmconsole.templatetags import charts

if TYPE_CHECKING:
    from placements.pages.chosen_timeline import Stretch

register = template.Library()

Axis = tuple[datetime, datetime]
HEIGHT = 28  # pixels of a row
PARTS = {"is-wide": 12, "is-narrow": 6}  # of the day, in which moves are added up, by the width of the window
PIXELS = {"is-wide": 560, "is-narrow": 280}  # that a row has at least, to know which numbers fit
TICKS = {"is-wide": 4, "is-narrow": 8}  # hours between two
DIGIT, PADDING = 8, 14  # pixels of a character, and around a number
LEAST = 0.35  # per cent: two pixels, so that what was short is seen
EDGE = 7.0  # per cent: a label needs so much room at the end of the axis


@register.simple_tag
def chosen_counts(stretches: Sequence[Stretch], axis: Axis) -> SafeString:
    """A block for each stretch with its number where that fits; hatched where it is unknown."""
    return _row(axis, format_html_join("", "{}", ((_block(each, axis),) for each in stretches)))


def _block(each: Stretch, axis: Axis) -> SafeString:
    at, width = _span(each, axis)
    if each.chosen is None:
        return _hatched(at, width)
    text = f"{each.chosen:,}"
    room = len(text) * DIGIT + PADDING
    fits = [name for name, pixels in PIXELS.items() if width / 100 * pixels >= room]
    kind = "oc-block" if each.chosen else "oc-block is-none"
    box = format_html('<rect class="{}" x="{}%" width="{}%" y="3" height="22" rx="3"/>', kind, _two(at), _two(width))
    if not fits:
        return box
    only = fits[0] if len(fits) == 1 else ""
    return box + format_html('<text class="{}" x="{}%" dx="7" y="18">{}</text>', only, _two(at), text)


@register.simple_tag
def chosen_moves(moves: Sequence[tuple[datetime, int]], axis: Axis, sign: str, tone: str) -> SafeString:
    """The sums of parts of the day as numbers in a box as wide as the part; a box says nothing by its size."""
    drawn = (
        (name, tone, format_html_join("", "{}", ((_box(*each, parts, sign),) for each in _sums(moves, axis, parts))))
        for name, parts in PARTS.items()
    )
    return _row(axis, format_html_join("", '<g class="{} oc-t-{}">{}</g>', drawn))


def _sums(moves: Sequence[tuple[datetime, int]], axis: Axis, parts: int) -> Iterator[tuple[int, int]]:
    """Number of the part and its sum, where that is not nothing."""
    found = [0] * parts
    for time, count in moves:
        found[min(int(_place(time, axis) / 100 * parts), parts - 1)] += count
    return ((index, count) for index, count in enumerate(found) if count)


def _box(index: int, count: int, parts: int, sign: str) -> SafeString:
    return format_html(
        '<svg x="{}%" width="{}%" height="{}"><rect class="oc-moves" x="1" y="3" width="98%" height="22" rx="3"/>'
        '<text x="50%" y="18" text-anchor="middle">{}{}</text></svg>',
        _two(index * 100 / parts),
        _two(100 / parts),
        HEIGHT,
        sign,
        count,
    )


@register.simple_tag
def chosen_when(stretches: Sequence[Stretch], axis: Axis) -> SafeString:
    """Of one cluster: a bar where it was chosen, a line where not, hatched where that is unknown."""
    return _row(axis, format_html_join("", "{}", ((_bar(each, axis),) for each in stretches)))


def _bar(each: Stretch, axis: Axis) -> SafeString:
    at, width = _span(each, axis)
    if each.chosen is None:
        return _hatched(at, width)
    kind, top, height = ("oc-got", 8, 12) if each.chosen else ("oc-away", 13, 2)
    return format_html(
        '<rect class="{}" x="{}%" width="{}%" y="{}" height="{}"/>', kind, _two(at), _two(width), top, height
    )


@register.simple_tag
def chosen_held(since: datetime, axis: Axis, count: int) -> SafeString:
    """From when on evictions wait; dashed, since they have not left."""
    at = _place(since, axis)
    return _row(
        axis,
        format_html(
            '<g class="oc-t-caution"><rect class="oc-moves is-held" x="{}%" width="{}%" y="3" height="22" rx="3"/>'
            '<text x="100%" dx="-7" y="18" text-anchor="end">{}</text></g>',
            _two(min(at, 100 - EDGE)),
            _two(max(100 - at, EDGE)),
            f"{count:,}",
        ),
    )


def _hatched(at: float, width: float) -> SafeString:
    return format_html('<rect x="{}%" width="{}%" y="8" height="12" fill="url(#oc-hatch)"/>', _two(at), _two(width))


def _row(axis: Axis, inner: SafeString) -> SafeString:
    lines = ((name, _two(place)) for name in TICKS for _, place in _ticks(axis, TICKS[name]))
    return format_html(
        '<svg class="oc-chosen__row" height="{}" aria-hidden="true" focusable="false">{}{}</svg>',
        HEIGHT,
        format_html_join("", '<line class="oc-gridline {0}" x1="{1}%" x2="{1}%" y1="0" y2="28"/>', lines),
        inner,
    )


@register.simple_tag
def chosen_axis(axis: Axis) -> SafeString:
    """Whole hours, with the date at midnight, and the present at the end."""
    ticks = (
        (name, _two(place), f"{time:%H:%M}" if time.hour else f"{time:%d %b}".lstrip("0"))
        for name, hours in TICKS.items()
        for time, place in _ticks(axis, hours)
        if EDGE / 2 < place < 100 - EDGE * (2 if name == "is-narrow" else 1)
    )
    return format_html(
        '<svg class="oc-chosen__row oc-chosen__axis" height="18" aria-hidden="true" focusable="false">{}'
        '<text x="100%" y="13" text-anchor="end">now</text></svg>',
        format_html_join("", '<text class="{}" x="{}%" y="13" text-anchor="middle">{}</text>', ticks),
    )


def _ticks(axis: Axis, hours: int) -> Iterator[tuple[datetime, float]]:
    time = axis[0].replace(hour=0, minute=0, second=0, microsecond=0)
    while time < axis[1]:
        if time > axis[0]:
            yield time, _place(time, axis)
        time += timedelta(hours=hours)


@register.simple_tag
def chosen_table(shown: Mapping[str, Any]) -> SafeString:
    """The numbers of the rows, by the parts of the day, the newest first."""
    axis: Axis = shown["axis"]
    parts = PARTS["is-wide"]
    entered, left = (dict(_sums(shown[each], axis, parts)) for each in ("entered", "left"))
    rows = []
    for index in reversed(range(parts)):
        start, end = (axis[0] + (axis[1] - axis[0]) * part / parts for part in (index, index + 1))
        last = next((each.chosen for each in shown["counts"] if each.start < end <= each.end), None)
        chosen = "not known" if last is None else f"{last:,}"
        rows.append((f"{start:%H:%M} to {end:%H:%M}", f"{entered.get(index, 0):,}", f"{left.get(index, 0):,}", chosen))
    return charts.table("Chosen clusters by time", ("Time, UTC", "Entered", "Left", "Chosen at its end"), rows)


def _place(moment: datetime, axis: Axis) -> float:
    """Per cent of the row."""
    return min(max((moment - axis[0]) / (axis[1] - axis[0]) * 100, 0.0), 100.0)


def _span(each: Stretch, axis: Axis) -> tuple[float, float]:
    at = _place(each.start, axis)
    return at, max(_place(each.end, axis) - at, LEAST)


def _two(value: float) -> str:
    return f"{value:.2f}"
