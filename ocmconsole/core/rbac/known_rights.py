"""What people may do, in words: accept, join, bind, see. Each knows how RBAC is asked and which permissions carry it.

Apps register their words when Django starts; ``explain``, ``who_can`` and the access pages know no kind of theirs. A
question is a word or a verb about a resource, as people and links write it. Pure but for the registry of kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ocmconsole.kubeapi import errors, kinds, request_cache
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.schema.values import quoted

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.kinds import Kind
    from ocmconsole.kubeapi.models import Resource

# In the order of sentences: rights that decide before rights that read.
ORDER = ("accept", "join", "move", "bind", "mint", "change", "remove", "see")
ALL = "*"  # in a sentence: every object there is
RESOURCE = re.compile(r"[a-z0-9*][a-z0-9.*-]*(/[a-z0-9*][a-z0-9.*-]*)?", re.ASCII)
VERB = re.compile(r"[a-z]{1,20}|\*", re.ASCII)
LONGEST = 253  # characters of a name, as of a DNS subdomain


@dataclass(frozen=True, slots=True)
class Right:
    """``phrase`` has a place for the objects, called ``noun``. ``asked`` says what RBAC is asked; any yes will do.

    ``permission`` is the Django permission that means exactly this; ``labels`` are all that carry it.
    """

    word: str
    group: str
    plural: str
    phrase: str
    noun: str
    permission: str
    asked: Callable[[str], list[Attributes]]
    labels: frozenset[str]

    @property
    def resource(self) -> str:
        return errors.qualified(self.group, self.plural)

    def sentence(self, names: Iterable[str] = (ALL,)) -> str:
        """``accept clusters eu-1 and eu-2``, ``accept all clusters``."""
        listed = sorted(set(names))
        if ALL in listed:
            return self.phrase.format(f"all {self.noun}s")
        if not listed:
            return self.phrase.format(f"no {self.noun}")
        return self.phrase.format(f"{self.noun}{'s' if len(listed) > 1 else ''} {_joined(listed)}")


def _joined(words: list[str], most: int = 4) -> str:
    if len(words) > most:
        return f"{', '.join(words[: most - 1])} and {len(words) - most + 1} more"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


Sight = Callable[["Actor"], "QuerySet[Any]"]
Carrier = Callable[[Attributes], frozenset[str]]
_rights: dict[tuple[str, str, str], Right] = {}
_carriers: list[Carrier] = []
_sights: dict[str, tuple[str, Sight]] = {}


def register(*rights: Right) -> None:
    for right in rights:
        _rights[right.word, right.group, right.plural] = right


def carries(carrier: Carrier) -> Carrier:
    """Add to what says which Django permissions answer a question about an object or, without a name, about all."""
    _carriers.append(carrier)
    return carrier


def sees(noun: str, resource: str) -> Callable[[Sight], Sight]:
    """Say which objects of the resource, each called ``noun``, somebody sees in the console."""

    def add(sight: Sight) -> Sight:
        _sights[resource] = (noun, sight)
        return sight

    return add


def seen_by(actor: Actor) -> dict[str, int]:
    """How many of each noun the actor sees (D16)."""
    return {noun: sight(actor).count() for _, (noun, sight) in sorted(_sights.items())}


def names_seen(actor: Actor, group: str, plural: str, *, most: int) -> list[str]:
    """Names that a form may offer the actor: those that they see (D16), or all of a kind that they may list."""
    kind = kind_of(group, plural)
    _, sight = _sights.get(errors.qualified(group, plural), ("", None))
    if sight:
        rows = sight(actor)
    elif kind and authorization.authorize(actor, Attributes("list", group, plural)).allowed:
        rows = kind.model.objects.order_by("name")
    else:
        return []
    return list(rows.values_list("name", flat=True)[:most])


def all_rights() -> list[Right]:
    """The widest first."""
    return sorted(_rights.values(), key=lambda right: (ORDER.index(right.word), right.plural))


def find_right(word: str, group: str, plural: str) -> Right | None:
    return _rights.get((word, group, plural))


def rights_on(group: str, plural: str) -> list[Right]:
    return [right for right in all_rights() if (right.group, right.plural) == (group, plural)]


def domain_right(word: str, permission: str, *, group: str, plural: str, phrase: str, noun: str) -> Right:
    """A right of the domain, which RBAC spells as ``authorization.spell`` says (D2)."""

    def asked(name: str) -> list[Attributes]:
        return authorization.spellings(permission, name)

    return Right(word, group, plural, phrase, noun, permission, asked, frozenset({permission}))


def labels_for(asked: Attributes) -> frozenset[str]:
    """Django permissions, each of which answers the question with yes."""
    spelt = authorization.permission_for(asked)
    return frozenset({spelt} if spelt else ()).union(*(carrier(asked) for carrier in _carriers))


# ---------------------------------------------------------------- questions


@dataclass(frozen=True, slots=True)
class Question:
    """May somebody do this? ``asked`` is what the chain of authorizers is asked; any yes will do."""

    verb: str
    group: str
    plural: str
    subresource: str
    name: str
    namespace: str
    asked: tuple[Attributes, ...]
    right: Right | None = None

    @property
    def resource(self) -> str:
        """As links and the audit write it."""
        return errors.qualified(self.group, f"{self.plural}/{self.subresource}" if self.subresource else self.plural)

    @property
    def sentence(self) -> str:
        if self.right:
            return self.right.sentence([self.name] if self.name else [ALL])
        what = f"{self.plural}/{self.subresource}" if self.subresource else self.plural
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{f' {self.name}' if self.name else ''}{where}"

    @property
    def labels(self) -> frozenset[str]:
        return frozenset().union(*(labels_for(each) for each in self.asked))

    @property
    def object(self) -> Resource | None:
        """The object in question, also where RBAC spells the right in a group that has none; None without one (D2)."""
        place = self.right or self
        return object_of(place.group, place.plural, self.name)

    def __str__(self) -> str:
        return self.sentence


def question(verb: str, resource: str, *, name: str = "", namespace: str = "") -> Question:
    """Read what a person or a link asks. Raises BadRequest; ``resource`` is ``plural[.group][/subresource]``."""
    verb, resource = verb.strip().lower(), resource.strip().lower()
    if not VERB.fullmatch(verb):
        raise errors.BadRequest(f"{quoted(verb)} is no verb")
    if not RESOURCE.fullmatch(resource) or len(resource) > LONGEST:
        raise errors.BadRequest(f"{quoted(resource)} is no resource; write it as plural.group/subresource")
    if max(len(name), len(namespace)) > LONGEST or not (name + namespace).isprintable():
        raise errors.BadRequest("a name has at most 253 printable characters")
    plural, group, subresource = _parts(resource)
    right = None if subresource else find_right(verb, group, plural)
    if right is None and not subresource:
        right = next((each for each in rights_on(group, plural) if _is_plainly(each, verb)), None)
    if right:
        return Question(verb, group, plural, subresource, name, "", tuple(right.asked(name)), right)
    as_asked = Attributes(verb, group, plural, subresource, namespace=namespace, name=name)
    spelt = authorization.permission_for(as_asked)
    meant = next((each for each in all_rights() if spelt and each.permission == spelt), None)
    # D2: a right that is held by another of its spellings allows this one too.
    others = [each for each in meant.asked(name) if each != as_asked] if meant else []
    return Question(verb, group, plural, subresource, name, namespace, (as_asked, *others), meant)


def _is_plainly(right: Right, verb: str) -> bool:
    """Whether the verb itself, asked of the resource, is what the word means."""
    return right.asked("") == [Attributes(verb, right.group, right.plural)]


def _parts(resource: str) -> tuple[str, str, str]:
    """Plural, group, subresource; the subresource stands before the group, as in an audit entry, or after it."""
    place, _, rest = resource.partition("/")
    plural, _, group = place.partition(".")
    subresource, _, later = rest.partition(".") if not group else (rest, "", "")
    group = group or later
    if not group and not any(kind.plural == plural and not kind.group for kind in kinds.all_kinds()):
        known = {kind.group for kind in kinds.all_kinds() if kind.plural == plural}
        group = known.pop() if len(known) == 1 else ""
    return plural, group, subresource


def kind_of(group: str, plural: str) -> Kind | None:
    return next((kind for kind in kinds.all_kinds() if (kind.group, kind.plural) == (group, plural)), None)


def object_of(group: str, plural: str, name: str) -> Resource | None:
    """The object itself, for permissions that are held on one; None where it does not exist yet (D2)."""
    kind = kind_of(group, plural) if name else None
    if kind is None or kind.namespaced:
        return None
    return request_cache.row_at(kind, kinds.Key("", name))


def meant_by(permission: str, name: str) -> Resource | None:
    """The object of that name that a right of the domain is about."""
    right = next((right for right in all_rights() if right.permission == permission), None)
    return object_of(right.group, right.plural, name) if right else None
