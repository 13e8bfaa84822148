"""Django permissions on clusters as an authorizer, and as what a page may show (D2, D16).

A permission may be held for every object or, through guardian, for one. RBAC says the same in its own words and is
asked by its own authorizer; nothing is copied between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.db.models import Q, QuerySet
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from clusters.kinds import ACCEPT_KEY, ACCEPTS_CLIENT_PATH, MANAGED_CLUSTER
from clusters.models import ClusterPermission, ManagedClusterGroupPermission, ManagedClusterUserPermission
from ocmconsole.core.rbac import known_rights, rule_index
from ocmconsole.core.rbac.known_rights import Right
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.authorization import AccessDecision, Attributes
from ocmconsole.kubeapi.kinds import Kind
from ocmconsole.kubeapi.storage.selector_sql import EVERYTHING, NOTHING

WORDS = (("see", "get"), ("change", "update"), ("remove", "delete"))
CODENAMES = {"see": "view", "change": "change", "remove": "delete"}
READ = frozenset({"get", "list", "watch"})
CHANGE = READ | {"update", "patch"}
DELETE = READ | {"delete"}
# What accepting a cluster changes. D9: the right to accept includes the annotation of an override.
ACCEPTS = frozenset({ACCEPTS_CLIENT_PATH, f"metadata.annotations.{ACCEPT_KEY}"})


@dataclass(frozen=True, slots=True)
class Grants:
    """What the permissions on one cluster-scoped kind allow. ``limits`` are the only fields that one may change."""

    kind: Kind
    app: str
    users: type[UserObjectPermissionBase]
    groups: type[GroupObjectPermissionBase]
    verbs: Mapping[str, frozenset[str]]
    limits: Mapping[str, frozenset[str]] = field(default_factory=dict)

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
        everywhere = ModelBackend().get_all_permissions(person)
        if any(self._label(codename) in everywhere for codename in codenames):
            return EVERYTHING
        own, shared = self._granted(person, permission__codename__in=codenames)
        return Q(pk__in=own.values("content_object")) | Q(pk__in=shared.values("content_object"))

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
        return {
            name
            for rule in rule_index.index.rules_for(actor)
            for name in rule.names
            if rule.allows(Attributes("get", self.kind.group, self.kind.plural, name=name))
        }

    def _held(self, person: Any, name: str) -> set[str]:
        everywhere = ModelBackend().get_all_permissions(person)
        held = {codename for codename in self.verbs if self._label(codename) in everywhere}
        if name:
            own, shared = self._granted(person, content_object__name=name)
            codename = "permission__codename"
            held.update(own.values_list(codename, flat=True).union(shared.values_list(codename, flat=True)))
        return held

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
)
authorization.authorizer(CLUSTERS.decide)
known_rights.carries(CLUSTERS.labels_for)
known_rights.register(*CLUSTERS.words("cluster"))
