"""Grants that are wider than they look, each with the reason and what to do instead. Pure.

Reads what ``who_can`` found.

Not wrong by themselves: they may be meant. What the system and clusters' agents hold is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ocmconsole.access.who_can import GrantSource, Source
from ocmconsole.core.rbac.known_rights import ALL
from ocmconsole.core.rbac.policy_rules import ANY
from ocmconsole.core.rbac.rule_index import Subject

HANDING_OUT = {
    "escalate": "write roles with more than they hold",
    "bind": "give roles that they do not hold",
    "impersonate": "act as somebody else",
}


@dataclass(frozen=True, slots=True)
class Risk:
    title: str
    source: Source
    why: str
    instead: str

    @property
    def is_grave(self) -> bool:
        return self.title in GRAVE


WILDCARD, HANDS_OUT = "Wildcard", "Can get more than it says"
EVERY_OBJECT, BLIND, PATTERN = "Changes every object", "Accepts without seeing", "A pattern that matches nothing"
GRAVE = frozenset({WILDCARD, HANDS_OUT})


def risks(held: Mapping[Subject, list[Source]], groups: Mapping[str, Iterable[str]]) -> list[Risk]:
    """``groups`` are those of each user: what a user has through them counts as the user's."""
    found = [risk for sources in held.values() for source in sources for check in CHECKS for risk in check(source)]
    for subject, sources in held.items():
        through = groups.get(subject.name, ()) if subject.kind == "User" else ()
        inherited = [source for group in through for source in held.get(Subject("Group", group), ())]
        found += _accepts_blindly(sources, [*sources, *inherited])
    return sorted(found, key=lambda risk: (not risk.is_grave, risk.title, risk.source.subject, risk.source.text))


def _has_wildcards(source: Source) -> Iterator[Risk]:
    rule = source.rule
    if source.given_by is GrantSource.BINDING and (ANY in rule.verbs or ANY in rule.resources):
        what = "verbs" if ANY in rule.verbs else "resources"
        if ANY in rule.verbs and ANY in rule.resources:
            what = "verbs and resources"
        why = f"All {what}, also those that a later version brings."
        yield Risk(WILDCARD, source, why, "Write down the verbs and resources that are needed.")


def _hands_out(source: Source) -> Iterator[Risk]:
    for verb in source.rule.verbs:
        if verb in HANDING_OUT:
            why = f"{verb} on {', '.join(source.rule.resources)} lets its holder {HANDING_OUT[verb]}."
            yield Risk(HANDS_OUT, source, why, "Name single roles, users or groups in resourceNames, or take it away.")


def _changes_every_object(source: Source) -> Iterator[Risk]:
    if ALL not in source.names or ANY in source.rule.verbs or source.given_by is GrantSource.SUPERUSER:
        return
    for right in source.rights:
        if right.word == "change":
            why = f"Anyone who changes every {right.noun} also changes the labels and taints that others rely on."
            fix = f"Give it on single {right.noun}s, as a Django permission or with resourceNames."
            yield Risk(EVERY_OBJECT, source, why, fix)


def _names_a_pattern(source: Source) -> Iterator[Risk]:
    if patterns := [name for name in source.rule.names if ANY in name]:
        why = f"RBAC takes {', '.join(patterns)} as a name, which no object can have."
        yield Risk(PATTERN, source, why, "List the names, or give the right on all objects or on a set.")


def _accepts_blindly(own: Iterable[Source], usable: Iterable[Source]) -> Iterator[Risk]:
    seen = {name for source in usable for right in source.rights if right.word == "see" for name in source.names}
    for source in own:
        words = {right.word for right in source.rights}
        if "accept" in words and ALL not in seen and not set(source.names) <= seen:
            why = "Without the right to get the cluster, its requests and their evidence stay hidden in the console."
            yield Risk(BLIND, source, why, "Give the right to see as well; the preset Approver does.")


CHECKS: tuple[Callable[[Source], Iterator[Risk]], ...] = (
    _has_wildcards,
    _hands_out,
    _changes_every_object,
    _names_a_pattern,
)
