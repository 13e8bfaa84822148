"""PolicyRules of RBAC as values: what one allows, and whether some of them cover others (W22).

Pure. A rule is read once from its document and shared by every role that says the same, so a fleet of roles that
differ in one name costs one rule each. Called by ``rule_index``, ``escalation`` and ``access``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.authorization import Attributes
    from ocmconsole.kubeapi.errors import Doc

ANY = "*"
Words = tuple[str, ...]
# Single rights that one rule may stand for when it is compared; a larger one counts as not held.
MOST_RIGHTS = 20_000


class PolicyRule(NamedTuple):
    verbs: Words
    groups: Words = ()
    resources: Words = ()
    names: Words = ()
    paths: Words = ()

    @classmethod
    def read(cls, doc: Doc) -> PolicyRule:
        """Raises TypeError when the document is no rule."""
        return _shared(
            cls(
                *(
                    _words(doc, field)
                    for field in ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
                )
            )
        )

    def filled(self, gap: str, name: str) -> PolicyRule:
        """With the name in place of the gap in all words."""
        return PolicyRule(
            *(words and _shared_words(tuple([word.replace(gap, name) for word in words])) for words in self)
        )

    def allows(self, asked: Attributes) -> bool:
        if asked.verb not in self.verbs and ANY not in self.verbs:
            return False
        if asked.path:
            return any(_path_matches(pattern, asked.path) for pattern in self.paths)
        return (not self.names or asked.name in self.names) and self.speaks_of(asked)

    def speaks_of(self, asked: Attributes) -> bool:
        """Whether it is about that resource or subresource at all, whatever the verb and the name."""
        is_group = asked.group in self.groups or ANY in self.groups
        return is_group and _resource_matches(self.resources, asked.resource, asked.subresource)

    def covers(self, other: PolicyRule) -> bool:
        """Whether this rule alone allows everything that the other does."""
        return (
            _all_in(other.verbs, self.verbs)
            and _all_in(other.groups, self.groups)
            and all(_resource_matches(self.resources, *_split(resource)) for resource in other.resources)
            and (not self.names or (bool(other.names) and set(other.names) <= set(self.names)))
            and all(any(_path_matches(pattern, path) for pattern in self.paths) for path in other.paths)
        )

    def wire(self) -> Doc:
        doc = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.paths,
        }
        return {field: list(words) for field, words in doc.items() if words}

    def __str__(self) -> str:
        """As Kubernetes prints a rule in a refusal."""
        parts = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.paths,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{name}:{_quoted(words)}" for name, words in parts.items() if words) + "}"


EVERYTHING = (PolicyRule((ANY,), (ANY,), (ANY,)), PolicyRule((ANY,), paths=(ANY,)))


def uncovered_rules(owned: Iterable[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """What of the wanted rules the owned ones do not cover, single rights of the same place joined again."""
    owned = tuple(owned)
    lacking: list[PolicyRule] = []
    for rule in wanted:
        if any(mine.covers(rule) for mine in owned):
            continue
        if _size(rule) > MOST_RIGHTS:
            lacking.append(rule)
        else:
            lacking += (right for right in _single(rule) if not any(mine.covers(right) for mine in owned))
    return _joined(lacking)


def covers(owned: Iterable[PolicyRule], rule: PolicyRule) -> bool:
    return not uncovered_rules(owned, [rule])


def _single(rule: PolicyRule) -> Iterator[PolicyRule]:
    """The rule taken apart into rights on one verb, group, resource and name."""
    for group, resource, name, verb in product(rule.groups, rule.resources, rule.names or (None,), rule.verbs):
        yield PolicyRule((verb,), (group,), (resource,), () if name is None else (name,))
    for path, verb in product(rule.paths, rule.verbs):
        yield PolicyRule((verb,), paths=(path,))


def _size(rule: PolicyRule) -> int:
    return len(rule.verbs) * (len(rule.groups) * len(rule.resources) * max(len(rule.names), 1) + len(rule.paths))


def _joined(rights: Iterable[PolicyRule]) -> list[PolicyRule]:
    by_place: dict[PolicyRule, dict[str, None]] = {}
    for right in rights:
        by_place.setdefault(right._replace(verbs=()), {}).update(dict.fromkeys(right.verbs))
    return [place._replace(verbs=tuple(verbs)) for place, verbs in by_place.items()]


def _resource_matches(patterns: Words, resource: str, subresource: str) -> bool:
    """``res`` does not include ``res/sub``; ``*/sub`` is that subresource of everything."""
    if ANY in patterns:
        return True
    if not subresource:
        return resource in patterns
    return f"{resource}/{subresource}" in patterns or f"*/{subresource}" in patterns


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in {ANY, path} or (pattern.endswith(ANY) and path.startswith(pattern.rstrip(ANY)))


def _split(resource: str) -> tuple[str, str]:
    head, _, below = resource.partition("/")
    return head, below


def _all_in(wanted: Words, words: Words) -> bool:
    return ANY in words or set(wanted) <= set(words)


def _words(doc: Any, field: str) -> Words:
    """Raises TypeError when the field is no list of strings."""
    if not isinstance(doc, dict):
        raise TypeError("a rule must be an object")
    words = doc.get(field) or ()
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        msg = f"{field} must be a list of strings"
        raise TypeError(msg)
    return _shared_words(tuple(words))


@lru_cache(maxsize=1024)
def _shared(rule: PolicyRule) -> PolicyRule:
    return rule


@lru_cache(maxsize=1024)
def _shared_words(words: Words) -> Words:
    return words


def _quoted(words: Words) -> str:
    return "[" + " ".join(json.dumps(word, ensure_ascii=False) for word in words) + "]"
