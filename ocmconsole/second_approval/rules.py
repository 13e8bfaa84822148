"""Which acts take more than one person, how many, and of which group: as the setting says. Pure; settings read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

ALL = "all"
MOST_PEOPLE = 9  # behind one act: more would never come together within a day
WORD = re.compile(r"(?P<act>[a-z-]+)(=(?P<people>[0-9]+))?(@(?P<team>[^@=]+))?")


class ActName(StrEnum):
    """The acts that can take more than one person."""

    KEY_OVERRIDE = "key-override"
    REPAIR = "repair"
    POLICY = "approval-policy"
    TOKEN = "unlimited-token"  # noqa: S105 - an act
    CA = "ca"
    SUPERUSER = "superuser"


@dataclass(frozen=True, slots=True)
class Rule:
    """``people`` stand behind the act, who proposes it included; the others are of ``team``, if that is set."""

    people: int = 2
    team: str = ""


def parse_rules(words: Iterable[str]) -> dict[str, Rule]:
    """``key-override``, ``repair=3@security``, ``all``; of two words for an act the later holds. Raises ValueError."""
    found: dict[str, Rule] = {}
    for word in words:
        match = WORD.fullmatch(word)
        people = int(match["people"] or 2) if match else 0
        if match is None or not 2 <= people <= MOST_PEOPLE:  # noqa: PLR2004 - one person needs no rule
            msg = f"{word!r} is not an act, or act=people from 2 to {MOST_PEOPLE}, with @group behind it if need be"
            raise ValueError(msg)
        if match["act"] not in {ALL, *ActName}:
            msg = f"{match['act']!r} is none of {', '.join([ALL, *ActName])}"
            raise ValueError(msg)
        named = list(ActName) if match["act"] == ALL else [ActName(match["act"])]
        found |= dict.fromkeys(named, Rule(people, match["team"] or ""))
    if any(rule.team for rule in found.values()) and ActName.SUPERUSER not in found:
        msg = f"a group is worth what joining it takes: name {ActName.SUPERUSER} as well, or one person joins it alone"
        raise ValueError(msg)
    return found


def teams_of(rules: Mapping[str, Rule]) -> set[str]:
    """The groups whose members are asked."""
    return {rule.team for rule in rules.values() if rule.team}
