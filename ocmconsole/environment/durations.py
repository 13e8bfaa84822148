"""Durations as people write them in settings and options (``365d``, ``24h``, ``40m``, ``90s``) and as pages show them.

Pure. What is shown is rounded down to whole units, and never to nothing while a smaller unit still says something:
``5 h`` and not ``0 d``. ``exactly`` alone loses no second.
"""

from __future__ import annotations

import re
from datetime import timedelta

from django.core.exceptions import ImproperlyConfigured

SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
LONGEST = timedelta(days=3_650)  # ten years: more is a mistake


def parse_duration(text: str) -> timedelta:
    """Raises ImproperlyConfigured for anything but a positive whole number with its unit, up to ten years."""
    found = re.fullmatch(r"(\d{1,9})([dhms])", text)
    value = timedelta(seconds=int(found[1]) * SECONDS[found[2]]) if found else timedelta()
    if not timedelta() < value <= LONGEST:
        msg = f"{text!r} is not a duration such as 365d, 24h or 90s"
        raise ImproperlyConfigured(msg)
    return value


# Seconds of a unit, its sign on pages, its word; the largest first. Months and years differ in length.
UNITS = ((86_400, "d", "day"), (3_600, "h", "hour"), (60, "min", "minute"), (1, "s", "second"))


def span(length: timedelta, *, units: int = 2) -> str:
    """The largest units that say something: ``11 min``, ``2 min 10 s``, ``3 d 4 h``; ``0 s`` below a second."""
    return " ".join(f"{count} {sign}" for count, sign, _ in _parts(length, units)) or "0 s"


def in_words(length: timedelta) -> str:
    """The same for a sentence: ``365 days``, ``12 hours``, ``1 hour 30 minutes``."""
    return _worded(length, 2)


def exactly(length: timedelta) -> str:
    """As ``in_words``, of every unit: where two lengths must not read the same. ``1 day 59 minutes``."""
    return _worded(length, len(UNITS))


def _worded(length: timedelta, most: int) -> str:
    parts = (f"{count} {word}{'s' if count != 1 else ''}" for count, _, word in _parts(length, most))
    return " ".join(parts) or "0 seconds"


def _parts(length: timedelta, most: int) -> list[tuple[int, str, str]]:
    """Up to ``most`` neighbouring units from the largest that is not zero; a zero among them is left out."""
    seconds = max(0, int(length.total_seconds()))
    first = next((place for place, (size, _, _) in enumerate(UNITS) if seconds >= size), len(UNITS))
    parts = []
    for size, sign, word in UNITS[first : first + most]:
        count, seconds = divmod(seconds, size)
        parts += [(count, sign, word)] if count else []
    return parts
