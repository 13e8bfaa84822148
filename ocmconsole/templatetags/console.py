"""Presentation tags of the console: icons, times, key pictures and the comparison of certificate requests.

Everything here turns values the server already computed into safe markup; nothing reads the database or decides
anything. Every value that came from outside is escaped. Used by templates only.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import Any

import yaml
from django import template
from django.templatetags.static import static
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ocmconsole.environment.durations import span
from ocmconsole.kubeapi import clock

register = template.Library()

NOTHING = "\N{EN DASH}"
BARS = 16  # of the picture of a key, one for a byte of its digest: 128 bits tell keys apart
BAR_HEIGHT = 18  # in units of the picture: a line of text


@register.simple_tag
@cache
def icon(name: str) -> SafeString:
    """One symbol of the sprite; decorative, so the words beside it must say the same. A page may have hundreds."""
    return format_html(
        '<svg class="oc-i" aria-hidden="true" focusable="false"><use href="{}#{}"/></svg>',
        static("vendor/icons.svg"),
        name,
    )


# --- times ---


def _moment(value: object) -> datetime | None:
    """A datetime, or the wire's text for one, in UTC; None for anything else."""
    if isinstance(value, str):
        try:
            value = parse_datetime(value)
        except ValueError:  # well formed, but no such day
            return None
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _largest(length: timedelta) -> str:
    """A length of time in the largest unit that says something, as `kubectl get` does it: 4 min, 3 h, 12 d."""
    return span(length, units=1)


@register.filter
def left(value: object) -> str:
    """How long until then, for columns: 47 d, 3 h, 20 min; 0 s when it is over."""
    found = _moment(value)
    return NOTHING if found is None else _largest(found - clock.now())


def _time(moment: datetime, text: str, counts: str = "") -> SafeString:
    """``counts`` says how times.js goes on counting: ``data-age`` or ``data-ago``."""
    return format_html(
        '<time datetime="{}" title="{}"{}>{}</time>',
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        moment.strftime("%d %b %Y, %H:%M:%S UTC").lstrip("0"),
        format_html(" {}", counts) if counts else "",
        text,
    )


@register.filter
def age(value: object) -> SafeString | str:
    """How long ago, without "ago": the form for columns."""
    found = _moment(value)
    return NOTHING if found is None else _time(found, _largest(clock.now() - found), "data-age")


@register.filter
def ago(value: object) -> SafeString | str:
    """How long ago or ahead, in words that fit a sentence."""
    found = _moment(value)
    if found is None:
        return NOTHING
    passed = clock.now() - found
    if abs(passed) < timedelta(seconds=1):
        return _time(found, "just now", "data-ago")
    return _time(found, f"{_largest(passed)} ago" if passed > timedelta() else f"in {_largest(-passed)}", "data-ago")


@register.filter
def day(value: object) -> SafeString | str:
    """The date, for things years apart: 21 Nov 2026."""
    found = _moment(value)
    return NOTHING if found is None else _time(found, found.strftime("%d %b %Y").lstrip("0"))


@register.filter
def moment(value: object) -> SafeString | str:
    """Date and time: 21 Nov 2026, 14:33 UTC."""
    found = _moment(value)
    return NOTHING if found is None else _time(found, found.strftime("%d %b %Y, %H:%M UTC").lstrip("0"))


@register.filter
def brief_moment(value: object) -> SafeString | str:
    """For columns, in UTC: 14:33 of today, 21 Nov 14:33 of this year, 21 Nov 2025 of another."""
    found, now = _moment(value), clock.now()
    if found is None:
        return NOTHING
    form = "%d %b %Y" if found.year != now.year else "%H:%M" if found.date() == now.date() else "%d %b %H:%M"
    return _time(found, re.sub(r"^0(?=\d )", "", found.strftime(form)))


@register.filter
def readable(value: object) -> object:
    """A fact's value: times as ages, nothing as a dash, the rest as it is."""
    if isinstance(value, datetime):
        return ago(value)
    return NOTHING if value is None or value == "" else value


@register.simple_tag
def lifetime(issued: object, ends: object) -> SafeString:
    """A bar of how much of a certificate's life is left; the words beside it give the days."""
    start, end = _moment(issued), _moment(ends)
    left = 0.0
    if start is not None and end is not None and end > start:
        left = min(max((end - clock.now()) / (end - start), 0.0), 1.0)
    return format_html(
        '<svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<rect width="{}" height="6"/></svg>',
        round(left * 100),
    )


# --- names, numbers and keys ---


@register.filter
def grouped(value: object) -> str:
    """9,581; a text such as "about 10,000" stays as it is."""
    return f"{value:,}" if isinstance(value, int) else str(value)


@register.filter
def breakable(value: object) -> SafeString:
    """A qualified name that prefers to break after its separators."""
    parts = re.findall(r"[^:/.@-]*[:/.@-]+|[^:/.@-]+", str(value))
    return format_html_join(SafeString("<wbr>"), "{}", ((part,) for part in parts))


@register.filter
def as_command(value: object) -> SafeString:
    """A command that never breaks after the hyphen of a short option such as `-p`."""
    parts = re.split(r"(?<=\s)(-\S{1,20})(?=\s)", str(value))
    forms = itertools.cycle(("{}", '<span class="oc-nowrap">{}</span>'))
    return SafeString("".join(map(format_html, forms, parts)))


@register.filter
def glued(value: object) -> str:
    """A sentence that never breaks between a number and its unit."""
    return re.sub(r"(?<=\d) (?=(?:s|min|h|d)\b)", "\N{NO-BREAK SPACE}", str(value))


@register.filter
def last_segment(value: object) -> str:
    """The part of a qualified name that people read: `unreachable` of `cluster.…io/unreachable`."""
    return str(value).rstrip("/").rpartition("/")[2]


@register.filter
def who(value: object) -> str:
    """A user of the audit in words: the hub itself, the agent of a cluster, or the user's name."""
    text = str(value)
    if text.startswith("system:ocmconsole:"):
        return "the hub"
    if text.startswith("system:bootstrap:"):
        return f"token {text.removeprefix('system:bootstrap:')}"
    cluster, _, agent = text.removeprefix("system:open-cluster-management:").partition(":")
    return f"agent of {cluster}" if text.startswith("system:open-cluster-management:") and agent else text


@register.filter
def pretty(value: object) -> str:
    """A value of a document as YAML writes it, for comparing before and after."""
    text = value if isinstance(value, str) else yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


@register.filter
def initials(value: object) -> str:
    return str(value)[:2]


@register.filter
def short_fingerprint(value: object) -> str:
    """The first eight characters in two groups: enough to tell two keys apart, not to prove one."""
    digits = str(value or "").removeprefix("SHA256:").replace(":", "")
    return f"{digits[:4]} {digits[4:8]}".strip() or NOTHING


@register.simple_tag
def key_picture(fingerprint: object) -> SafeString:
    """Sixteen bars drawn from the fingerprint: two keys that differ look different at a glance."""
    digest = sha256(str(fingerprint).encode("utf-8", "backslashreplace")).digest()
    heights = [1 + byte % BAR_HEIGHT for byte in digest[:BARS]]
    bars = format_html_join(
        "",
        '<rect x="{}" y="{}" width="3" height="{}"/>',
        ((index * 4, BAR_HEIGHT - height, height) for index, height in enumerate(heights)),
    )
    return format_html(
        '<span class="oc-key"><svg viewBox="0 0 63 {}" aria-hidden="true" focusable="false">{}</svg>'
        '<span class="oc-mono">{}</span></span>',
        BAR_HEIGHT,
        bars,
        short_fingerprint(fingerprint),
    )


# --- evidence ---


@dataclass(frozen=True)
class Compared:
    """One line of the comparison: what each request says, and whether they disagree."""

    label: str
    shape: str
    cells: list[Any]
    differs: bool


# label, attribute, how the cell is drawn
COMPARED = (
    ("Key", "fingerprint", "key"),
    ("Key type", "key", "text"),
    ("Key is", "history", "text"),
    ("Asked", "asked", "time"),
    ("Credential", "credential", "text"),
    ("From", "source", "code"),
    ("Client", "client", "text"),
    ("Requester", "requester", "code"),
    ("Groups", "groups", "codes"),
    ("CN", "cn", "code"),
    ("Organizations", "organizations", "codes"),
    ("Signer", "signer", "code"),
    ("Usages", "usages", "list"),
    ("Expires", "expires", "text"),
    ("State", "state", "state"),
    ("Reason", "reason", "text"),
    ("Problems", "problems", "problems"),
)


@register.simple_tag
def comparison(requests: Iterable[Any] | None) -> list[Compared]:
    """Certificate requests turned by ninety degrees: one line per fact, one cell per request.

    A mapping is a column of which only some facts are known: what it lacks is None, and differs from nothing.
    """
    columns = list(requests or ())
    lines = (
        Compared(label, shape, cells, differs=_differ(cells))
        for label, attribute, shape in COMPARED
        if any(cells := [_read(column, attribute) for column in columns])
    )
    return list(lines)


def _differ(cells: list[Any]) -> bool:
    known = [cell for cell in cells if cell is not None]
    return any(cell != known[0] for cell in known)


def _read(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
