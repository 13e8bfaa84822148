"""What somebody asks of the cluster list: filters, order and place, as the parameters of a URL say them. Pure.

Several values of one parameter: any of them for states, sets, versions and certificates, all of them for claims, labels
and taints. A value that means nothing matches nothing, and is shown so that it can be taken off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from clusters.claims import ClaimFilter
from clusters.health.certificate_expiry import ExpiryBucket
from clusters.health.status import Word
from clusters.health.status_sql import RANKS, TROUBLED
from ocmconsole.environment.durations import parse_duration

if TYPE_CHECKING:
    from django.http import QueryDict

MOST_VALUES = 30  # values of one filter; bounds the SQL of an address
LONGEST_VALUE = 1300  # a claim's name and value
ATTENTION = "attention"  # every state that somebody should look at
ENDING_CREDENTIALS = "ending"  # those that "needs you" counts
NO_SET = "-"  # no set can have this name


WORDS = {word.value: word for word in Word}
# The shortest time in the present state, as the filter ``for`` spells it.
SPANS = {
    text: (f"over {words}", parse_duration(text))
    for text, words in {"10m": "10 min", "1h": "1 h", "1d": "1 day", "7d": "7 days"}.items()
}
BUCKETS = {bucket.value: bucket for bucket in ExpiryBucket}
NAMES = {
    "q": "Name",
    "status": "Status",
    "for": "Time in state",
    "set": "Set",
    "version": "Version",
    "certificate": "Certificate",
    "claim": "Claim",
    "label": "Label",
    "taint": "Taint",
    "credentials": "Credentials",
    "accepted": "Accepted",
}
# Those that the list's columns say by themselves; the others are asked of the database one by one.
FACETS = ("status", "set", "version", "certificate")


@dataclass(frozen=True, slots=True)
class Chip:
    """One value of one filter that is on."""

    name: str
    value: str
    text: str


@dataclass(frozen=True, slots=True)
class Filters:
    """Values by parameter; a parameter without values is not there."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, parameters: QueryDict) -> Filters:
        found = {name: tuple(_cleaned(parameters.getlist(name))) for name in NAMES}
        return cls({name: values for name, values in found.items() if values})

    def __bool__(self) -> bool:
        return bool(self.values)

    def of(self, name: str) -> tuple[str, ...]:
        return self.values.get(name, ())

    def has(self, name: str, value: str) -> bool:
        return value in self.of(name)

    def without(self, name: str, value: str | None = None) -> Filters:
        """Less one value, or all values of a parameter."""
        kept = tuple(each for each in self.of(name) if value is not None and each != value)
        rest = {each: values for each, values in self.values.items() if each != name}
        return Filters({**rest, name: kept} if kept else rest)

    def toggled(self, name: str, value: str) -> Filters:
        if self.has(name, value):
            return self.without(name, value)
        return Filters({**self.values, name: (*self.of(name), value)})

    def query(self, **more: str) -> str:
        """As parameters of a URL, in one order however they came."""
        pairs = [(name, value) for name in NAMES for value in self.of(name)]
        return urlencode([*pairs, *((name, value) for name, value in more.items() if value)])

    def chips(self) -> list[Chip]:
        return [
            Chip(name, value, f"{NAMES[name]}: {_value_label(name, value)}")
            for name in NAMES
            for value in self.of(name)
        ]

    def ranks(self) -> set[int]:
        """The states asked for; words that are none are left out, so that nothing may be left."""
        found = {RANKS[WORDS[value]] for value in self.of("status") if value in WORDS}
        return found | ({RANKS[word] for word in TROUBLED} if self.has("status", ATTENTION) else set())

    def wanted(self, name: str) -> list[ClaimFilter]:
        return [ClaimFilter.read(value) for value in self.of(name)]


def _cleaned(values: Iterable[str]) -> list[str]:
    """What no database takes can be in no row: it stays to match nothing, without the character."""
    stripped = (value.strip().replace("\0", "\N{REPLACEMENT CHARACTER}")[:LONGEST_VALUE] for value in values)
    return list(dict.fromkeys(value for value in stripped if value))[:MOST_VALUES]


def _value_label(name: str, value: str) -> str:
    if name == "status":
        return "Needs attention" if value == ATTENTION else WORDS[value].label if value in WORDS else value
    if name == "certificate":
        return BUCKETS[value].label.lower() if value in BUCKETS else value
    if name == "for":
        return SPANS[value][0] if value in SPANS else value
    if (name, value) == ("credentials", ENDING_CREDENTIALS):
        return "ending, ended or revoked"
    return "none" if (name, value) == ("set", NO_SET) else value
