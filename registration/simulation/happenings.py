"""What is to happen to a simulated fleet, as it is written on a command line: ``50%@60s+30s``."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FORM = re.compile(r"(\d{1,3})%@(\d+)s\+(\d+)s")
_SKEW = re.compile(r"(\d{1,3})%=(-?\d+)s")
_ALL = 100  # percent


@dataclass(frozen=True, slots=True)
class FleetOutage:
    """A share of the agents is gone from ``begin`` on for some seconds, and then comes back at once."""

    share: float
    begin: int
    seconds: int


@dataclass(frozen=True, slots=True)
class FleetSkew:
    """The clocks of this share of the agents are so many seconds ahead."""

    share: float
    seconds: int


def parse_outage(text: str) -> FleetOutage:
    """``50%@60s+30s``: half of them, after a minute, for thirty seconds. ValueError for anything else."""
    found = _FORM.fullmatch(text)
    if not found or not 0 < int(found[1]) <= _ALL or not int(found[3]):
        raise ValueError(f"{text!r} is no outage such as 50%@60s+30s")
    return FleetOutage(int(found[1]) / _ALL, int(found[2]), int(found[3]))


def parse_skew(text: str) -> FleetSkew:
    """``10%=300s``: the clocks of a tenth are five minutes ahead. ValueError for anything else."""
    found = _SKEW.fullmatch(text)
    if not found or not 0 < int(found[1]) <= _ALL:
        raise ValueError(f"{text!r} is no skew such as 10%=300s")
    return FleetSkew(int(found[1]) / _ALL, int(found[2]))
