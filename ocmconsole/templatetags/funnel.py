"""Bars of a funnel as SVG: what entered a step, what went on, a wedge to the magnified next bar; and of scores.

No style attribute; fills are classes, so that themes and forced colours apply. Used by templates only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

WIDTH = 1000  # units of a whole bar, which is 216 pixels wide at most
LEAST = 10  # units that one cluster or more takes: two pixels
MOST_BOXES = 48  # clusters that are drawn one by one, so that three look like three
GAP = 8  # units between boxes
BAR_HEIGHT = 72  # pixels of the highest bar of scores
WIDEST = 111  # units of a box: 24 pixels


@register.simple_tag
def funnel_bar(entered: int, left: int, kind: str = "kept") -> SafeString:
    """``kind``: class of the part that went on, ``got`` at the last step. Words and numbers stand beside it."""
    if not entered:
        return _svg(format_html('<rect class="oc-frame" x="1" y="1" width="{}" height="14"/>', WIDTH - 2))
    if entered <= MOST_BOXES:
        width = min(WIDTH / entered, WIDEST)
        boxes = ((index, f"{index * width:.1f}", f"{width - GAP:.1f}") for index in range(entered))
        return _svg(
            format_html_join(
                "",
                '<rect class="oc-{}"{} x="{}" width="{}" height="16"/>',
                ((kind if index < left else "fell", _hatch(index >= left), at, size) for index, at, size in boxes),
            )
        )
    split = _split(entered, left)
    return _svg(
        format_html(
            '<rect class="oc-fell"{} width="{}" height="16"/><rect class="oc-{}" width="{}" height="16"/>',
            _hatch(split < WIDTH),
            WIDTH,
            kind,
            split,
        )
    )


@register.simple_tag
def funnel_wedge(entered: int, left: int) -> SafeString:
    """From what went on to the whole next bar."""
    if not left:
        return SafeString("")
    return format_html(
        '<svg class="oc-wedge" viewBox="0 0 {} 100" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<path d="M0 0H{}L{} 100H0Z"/></svg>',
        WIDTH,
        _split(entered, left),
        WIDTH,
    )


def _split(entered: int, left: int) -> int:
    """Units of the part that went on; neither part is drawn narrower than ``LEAST`` unless it is nothing."""
    if left in {0, entered}:
        return WIDTH if left else 0
    return min(max(round(left / entered * WIDTH), LEAST), WIDTH - LEAST)


def _hatch(is_needed: object) -> SafeString:
    """The pattern is in the page: a style sheet cannot name it."""
    return SafeString(' fill="url(#oc-hatch)"' if is_needed else "")


def _svg(inner: SafeString) -> SafeString:
    return format_html(
        '<svg class="oc-funbar" viewBox="0 0 {} 16" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        "{}</svg>",
        WIDTH,
        inner,
    )


@register.simple_tag
def score_bars(bars: Sequence[Mapping[str, Any]]) -> SafeString:
    """Standing bars: how many clusters have so much, the part that is not chosen hatched on top."""
    top = max((bar["count"] for bar in bars), default=0) or 1
    items = format_html_join(
        "", "<li><div><b>{}</b>{}</div><span>{}</span></li>", (_score_bar(bar, top) for bar in bars)
    )
    return format_html('<ul class="oc-scores" role="list" aria-label="Clusters by total">{}</ul>', items)


def _score_bar(bar: Mapping[str, Any], top: int) -> tuple[str, SafeString, str]:
    height = max(round(bar["count"] / top * BAR_HEIGHT), 2) if bar["count"] else 1
    left = round((bar["count"] - bar["chosen"]) / (bar["count"] or 1) * height)
    words = f"{bar['count']:,}" if bar["count"] else ""
    drawn = format_html(
        '<svg viewBox="0 0 60 {0}" height="{0}" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<rect class="oc-kept" y="{1}" width="60" height="{2}"/>'
        '<rect class="oc-fell" width="60" height="{1}" fill="url(#oc-hatch)"/></svg>',
        height,
        left,
        height - left,
    )
    return words, drawn, str(bar["label"])
