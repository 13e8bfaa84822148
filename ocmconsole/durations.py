"""Durations as people write them in settings and options: ``365d``, ``24h``, ``40m``, ``90s``."""

from __future__ import annotations

import re
from datetime import timedelta

from django.core.exceptions import ImproperlyConfigured

SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
LONGEST = timedelta(days=3_650)


def parse_duration(text: str) -> timedelta:
    """Raises ImproperlyConfigured for anything but a positive whole number with its unit, up to ten years."""
    found = re.fullmatch(r"(\d{1,9})([dhms])", text)
    value = timedelta(seconds=int(found[1]) * SECONDS[found[2]]) if found else timedelta()
    if not timedelta() < value <= LONGEST:
        msg = f"{text!r} is not a duration such as 365d, 24h or 90s"
        raise ImproperlyConfigured(msg)
    return value
