"""Bars of a funnel as SVG: what entered a step, what went on, and a wedge that says that the next bar is magnified.

No style attribute; fills are classes, so that themes and forced colours apply. Used by templates only.
"""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

WIDTH = 1000  # units of a whole bar, which is 216 pixels wide at most
LEAST = 10  # units that one cluster or more takes: two pixels
MOST_BOXES = 48  # clusters that are drawn one by one, so that three look like three
GAP = 8  # units between boxes
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
