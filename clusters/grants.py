"""Django permissions on clusters as an authorizer, and as what a page may show (D2, D16).

A permission may be held for every object or, through guardian, for one. RBAC says the same in its own words and is
asked by its own authorizer; nothing is copied between the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet, Value
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from clusters.kinds import ACCEPT_KEY, ACCEPTS_CLIENT_PATH, MANAGED_CLUSTER
from clusters.models import ClusterPermission, ManagedClusterGroupPermission, ManagedClusterUserPermission
from ocmconsole.core.rbac import backends, known_rights, rule_index
from ocmconsole.core.rbac.known_rights import Right
from ocmconsole.kubeapi import request_cache
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.authorization import AccessDecision, Attributes
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.storage.selector_sql import EVERYTHING, NOTHING

WORDS = (("see", "get"), ("change", "update"), ("remove", "delete"))
CODENAMES = {"see": "view", "change": "change", "remove": "delete"}
READ = frozenset({"get", "list", "watch"})
CHANGE = READ | {"update", "patch"}
DELETE = READ | {"delete"}
MOST_SENT = 1_000  # names in one statement, twice: SQLite takes 32,766 values
# What accepting a cluster changes. D9: the right to accept includes the annotation of an override.
ACCEPTS = frozenset({ACCEPTS_CLIENT_PATH, f"metadata.annotations.{ACCEPT_KEY}"})


@dataclass(frozen=True, slots=True)
class Grants:
    """What the permissions on one cluster-scoped kind allow. ``limits`` are the only fields that one may change.

    Up to ``few`` permissions on single objects are read once a page, and are short lists of keys in its conditions:
    for a kind that a page asks for again and again.
    """

    kind: Kind
    app: str
    users: type[UserObjectPermissionBase]
    groups: type[GroupObjectPermissionBase]
    verbs: Mapping[str, frozenset[str]]
    limits: Mapping[str, frozenset[str]] = field(default_factory=dict)
    few: int = 0

    def decide(self, actor: Actor, asked: Attributes) -> AccessDecision | None:
        """D2, D16: authorizer: Django permissions grant the rights that they spell, and seeing. None is no grant."""
        if asked.resource != self.kind.plural or asked.group != self.kind.group or asked.subresource:
            return None
        fitting = {codename for codename, verbs in self.verbs.items() if asked.verb in verbs}
        person = _person(actor) if fitting else None
        if person is None:
            return None
        held = fitting & self._held(person, asked.name)
        for codename in sorted(held, key=lambda codename: codename in self.limits):
            fields = None if asked.verb in READ else self.limits.get(codename)
            return AccessDecision(
                allowed=True, reason=f"{self._label(codename)} granted to {actor.user}", fields=fields
            )
        return None

    def visible(self, actor: Actor) -> Q:
        """Rows that the actor may get by name; a condition, so that the database does the work (D16)."""
        question = Attributes("get", self.kind.group, self.kind.plural)
        if authorization.authorize(actor, question).allowed:
            return EVERYTHING
        return Q(name__in=self._named_in_rules(actor)) | self.holding(actor, *self.verbs)

    def holding(self, actor: Actor, *codenames: str) -> Q:
        """Rows on which the actor holds one of the Django permissions, for all or for one."""
        person = _person(actor)
        if person is None:
            return NOTHING
        everywhere = authorization.permissions_of(person)
        if any(self._label(codename) in everywhere for codename in codenames):
            return EVERYTHING
        if (held := self._few(person)) is not None:
            return Q(pk__in={key for codename in codenames for key in held[codename].values()})
        own, shared = self._granted(person, permission__codename__in=codenames)
        return Q(pk__in=own.values("content_object")) | Q(pk__in=shared.values("content_object"))

    def column(self, actor: Actor, codename: str) -> Value | ExpressionWrapper[Any]:
        """``holding`` as a column of the rows."""
        held = self.holding(actor, codename)
        if held in {EVERYTHING, NOTHING}:
            return Value(held == EVERYTHING, output_field=BooleanField())
        return ExpressionWrapper(held, output_field=BooleanField())

    def held_on(self, actor: Actor, name: str) -> set[str]:
        """Codenames of the Django permissions that the actor holds on the object of that name, or on all."""
        person = _person(actor)
        return self._held(person, name) if person is not None else set()

    def held_among(self, actor: Actor, codename: str, names: Collection[str]) -> set[str]:
        """Those of the names of objects on which the actor holds the Django permission.

        One query at most, which a page asks once for these names, whatever the permissions.
        """
        if len(names) == 1:
            return {name for name in names if codename in self.held_on(actor, name)}
        person = _person(actor)
        if person is None or not names:
            return set()
        if self._label(codename) in authorization.permissions_of(person):
            return set(names)
        wanted = frozenset(names)
        question = ("held among", person.pk, self.kind.resource, wanted)
        return request_cache.cached(question, lambda: self._held_among(person, wanted))[codename] & wanted

    def _few(self, person: Any) -> dict[str, dict[str, Any]] | None:
        """By codename the names and keys of all objects on which the person holds it. None if too many, or no page."""

        def read() -> dict[str, dict[str, Any]] | None:
            columns = ("permission__codename", "content_object__name", "content_object")
            own, shared = (rows.values_list(*columns) for rows in self._granted(person))
            rows = list(own.union(shared)[: self.few + 1])
            found: dict[str, dict[str, Any]] = defaultdict(dict)
            for codename, name, key in rows:
                found[codename][name] = key
            return found if len(rows) <= self.few else None

        if not self.few or not request_cache.is_remembering():
            return None
        return request_cache.cached(("few", person.pk, self.kind.resource), read)

    def _held_among(self, person: Any, names: frozenset[str]) -> dict[str, set[str]]:
        """By codename the names of objects on which the person holds it; very many names are not sent."""
        if (held := self._few(person)) is not None:
            return defaultdict(set, {codename: set(keys) for codename, keys in held.items()})
        narrowed = {"content_object__name__in": names} if len(names) <= MOST_SENT else {}
        columns = ("permission__codename", "content_object__name")
        own, shared = (rows.values_list(*columns) for rows in self._granted(person, **narrowed))
        found: dict[str, set[str]] = defaultdict(set)
        for codename, name in own.union(shared):
            found[codename].add(name)
        return found

    def labels_for(self, asked: Attributes) -> frozenset[str]:
        """The permissions of which any one, held for all objects or for that one, answers the question with yes."""
        if (asked.group, asked.resource, asked.subresource) != (self.kind.group, self.kind.plural, ""):
            return frozenset()
        return frozenset(self._label(codename) for codename, verbs in self.verbs.items() if asked.verb in verbs)

    def words(self, noun: str) -> list[Right]:
        """The rights to see, change and remove an object. Who may change some fields only is not said to change it."""
        return [self._right(word, verb, noun) for word, verb in WORDS]

    def _right(self, word: str, verb: str, noun: str) -> Right:
        def asked(name: str) -> list[Attributes]:
            return [Attributes(verb, self.kind.group, self.kind.plural, name=name)]

        narrow = frozenset(self._label(codename) for codename in self.limits) if verb not in READ else frozenset()
        label = self._label(f"{CODENAMES[word]}_{self.kind.model._meta.model_name}")  # noqa: SLF001 - Django's documented name
        labels = self.labels_for(asked("")[0]) - narrow
        return Right(word, self.kind.group, self.kind.plural, f"{word} {{}}", noun, label, asked, labels)

    def _named_in_rules(self, actor: Actor) -> set[str]:
        return rule_index.names_allowed(
            actor, lambda name: [Attributes("get", self.kind.group, self.kind.plural, name=name)]
        )

    def _held(self, person: Any, name: str) -> set[str]:
        everywhere = authorization.permissions_of(person)
        held = {codename for codename in self.verbs if self._label(codename) in everywhere}
        return held | backends.held_on(person, self.kind.model, Key("", name), self._on(person, name)) if name else held

    def _on(self, person: Any, name: str) -> Callable[[], set[str]]:
        """Reads the person's codenames on one object."""

        def read() -> set[str]:
            if (held := self._few(person)) is not None:
                return {codename for codename, keys in held.items() if name in keys}
            own, shared = self._granted(person, content_object__name=name)
            codename = "permission__codename"
            return set(own.values_list(codename, flat=True).union(shared.values_list(codename, flat=True)))

        return read

    def _granted(self, person: Any, **narrowed: Any) -> tuple[QuerySet[Any], QuerySet[Any]]:
        """Object permissions of guardian: the user's own and those of the user's groups."""
        return (
            self.users.objects.filter(user=person, **narrowed),
            self.groups.objects.filter(group__user=person, **narrowed),
        )

    def _label(self, codename: str) -> str:
        return f"{self.app}.{codename}"


def _person(actor: Actor) -> Any:
    """A superuser counts as one only through the group ``system:masters``, which not every credential carries."""
    person = authorization.person_of(actor)
    return None if person is None or person.is_superuser else person


CLUSTERS = Grants(
    MANAGED_CLUSTER,
    "clusters",
    ManagedClusterUserPermission,
    ManagedClusterGroupPermission,
    verbs={
        ClusterPermission.VIEW.codename: READ,
        ClusterPermission.CHANGE.codename: CHANGE,
        ClusterPermission.DELETE.codename: DELETE,
        ClusterPermission.ACCEPT.codename: CHANGE,
    },
    limits={
        ClusterPermission.ACCEPT.codename: ACCEPTS,
    },
    few=200,
)
authorization.authorizer(CLUSTERS.decide)
known_rights.carries(CLUSTERS.labels_for)
known_rights.register(*CLUSTERS.words("cluster"))
