"""RBAC in memory: roles and bindings by subject, kept fresh from the change log (W13, W22).

Invariants: a decision reads dictionaries only; a yes and a no are as of the beginning of the request that asks, or of
the page (``request_cache``). Whether something has changed is said by one number, ``Revision.rights``, read with the
credential once a request (``Actor.as_of``): no time to wait for, no message that could be lost. A row that cannot be
read grants nothing and stops nobody else (D12).
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from django.db import connection
from django.db.models import Max

from ocmconsole.core.models import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from ocmconsole.core.rbac.alike_documents import GAP, AlikeDocuments
from ocmconsole.core.rbac.policy_rules import PolicyRule, uncovered_rules
from ocmconsole.kubeapi import request_cache
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import AccessDecision, Attributes
from ocmconsole.kubeapi.models import Change, Compaction
from ocmconsole.kubeapi.watch import change_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

log = logging.getLogger(__name__)

GROUP = "rbac.authorization.k8s.io"
SERVICE_ACCOUNT = "system:serviceaccount:"
MODELS = {
    f"clusterroles.{GROUP}": ClusterRole,
    f"roles.{GROUP}": Role,
    f"clusterrolebindings.{GROUP}": ClusterRoleBinding,
    f"rolebindings.{GROUP}": RoleBinding,
}

ROLES = ("roles.", "clusterroles.")  # how their resources begin

# Namespace ("" for the whole hub) and name.
Place = tuple[str, str]

Suspends = Callable[["Doc"], bool]
_suspending: list[Suspends] = []


def suspends(rule: Suspends) -> Suspends:
    """A binding for whose document the rule holds grants nothing; another authorizer may grant a part of it.

    It is asked only of bindings that are being deleted.
    """
    _suspending.append(rule)
    return rule


class Subject(NamedTuple):
    """Service accounts are users whose name says where they live."""

    kind: str
    name: str

    def __str__(self) -> str:
        if self.kind == "User" and self.name.startswith(SERVICE_ACCOUNT):
            namespace, _, name = self.name.removeprefix(SERVICE_ACCOUNT).partition(":")
            return f'ServiceAccount "{name}/{namespace}"'
        return f'{self.kind} "{self.name}"'


def subjects_of(actor: Actor) -> list[Subject]:
    return [Subject("User", actor.user), *(Subject("Group", group) for group in actor.groups)]


class Binding(NamedTuple):
    """``role`` is None when the reference cannot name a role."""

    place: Place
    role_kind: str
    role: Place | None
    subjects: tuple[Subject, ...]

    @classmethod
    def read(cls, place: Place, doc: Doc) -> Binding:
        kind, name = _text(doc["roleRef"], "kind"), _text(doc["roleRef"], "name")
        namespace = place[0]
        subjects = tuple(dict.fromkeys(_subjects(doc.get("subjects") or (), namespace)))
        if kind == "Role":
            return cls(place, kind, (namespace, name) if namespace else None, subjects)
        return cls(place, kind, ("", name) if kind == "ClusterRole" else None, subjects)

    def filled(self, place: Place, subjects: tuple[Subject, ...], name: str) -> Binding:
        """At its place, with the name where the role has a gap."""
        role = self.role
        if role is not None and (GAP in role[0] or GAP in role[1]):
            role = (role[0].replace(GAP, name), role[1].replace(GAP, name))
        return Binding(place, self.role_kind, role, subjects)

    def grant(self, subject: Subject) -> str:
        """The sentence that explains a decision."""
        namespace, name = self.place
        shown = f'RoleBinding "{name}/{namespace}"' if namespace else f'ClusterRoleBinding "{name}"'
        role = self.role[1] if self.role else ""
        return f'RBAC: allowed by {shown} of {self.role_kind} "{role}" to {subject}'


class Granted(NamedTuple):
    """One rule that a binding gives to a subject; None stands for a role that does not exist."""

    subject: Subject
    binding: Binding
    rule: PolicyRule | None


def _subjects(docs: Iterable[Doc], namespace: str) -> Iterator[Subject]:
    for doc in docs:
        kind, name = _text(doc, "kind"), _text(doc, "name")
        if kind == "ServiceAccount":
            yield Subject("User", f"{SERVICE_ACCOUNT}{doc.get('namespace') or namespace}:{name}")
        elif kind in {"User", "Group"}:
            yield Subject(kind, name)


def _rules_of(doc: Doc) -> tuple[PolicyRule, ...]:
    return tuple(PolicyRule.read(rule) for rule in doc.get("rules") or ())


def _is_deleting(doc: Doc) -> bool:
    return bool((doc.get("metadata") or {}).get("deletionTimestamp"))


def _text(doc: Doc, field: str) -> str:
    value = doc[field]
    if not isinstance(value, str):
        msg = f"{field} must be a string"
        raise TypeError(msg)
    return sys.intern(value)  # a cluster's groups are named by three bindings


class Tables:
    """What the rows say. Values are immutable, so readers need no lock while one writer replaces them."""

    def __init__(self) -> None:
        self._rules: dict[Place, tuple[PolicyRule, ...]] = {}
        self._bindings: dict[Place, Binding] = {}
        # By subject kind, subject name and namespace of the binding.
        self._bound: dict[tuple[str, str, str], tuple[Binding, ...]] = {}

    def put(self, resource: str, place: Place, doc: Doc) -> None:
        self.drop(resource, place)
        try:
            if resource.startswith(ROLES):
                self._rules[place] = _rules_of(doc)
            elif not (_is_deleting(doc) and any(suspended(doc) for suspended in _suspending)):
                self.bind(Binding.read(place, doc))
        except (TypeError, KeyError, AttributeError):
            log.exception("%s %s cannot be read and grants nothing", resource, "/".join(place))

    def put_rules(self, place: Place, rules: tuple[PolicyRule, ...]) -> None:
        """Of a role that is not there yet."""
        self._rules[place] = rules

    def drop(self, resource: str, place: Place) -> None:
        if resource.startswith(ROLES):
            self._rules.pop(place, None)
        elif binding := self._bindings.pop(place, None):
            for subject in binding.subjects:
                at = (*subject, place[0])
                self._bound[at] = tuple(other for other in self._bound[at] if other is not binding)
                if not self._bound[at]:
                    del self._bound[at]

    def bind(self, binding: Binding) -> None:
        """One that is not there yet."""
        self._bindings[binding.place] = binding
        for subject in binding.subjects:
            at = (*subject, binding.place[0])
            self._bound[at] = (*self._bound.get(at, ()), binding)

    def decide(self, actor: Actor, asked: Attributes) -> AccessDecision | None:
        for subject, binding in self._bindings_of(actor, "" if asked.path else asked.namespace):
            for rule in self._rules.get(binding.role, ()) if binding.role else ():
                if rule.allows(asked):
                    return AccessDecision(allowed=True, reason=binding.grant(subject))
        return None

    def rules_for(self, actor: Actor, namespace: str) -> list[PolicyRule]:
        bindings = self._bindings_of(actor, namespace)
        found = (rule for _, binding in bindings if binding.role for rule in self._rules.get(binding.role, ()))
        return list(dict.fromkeys(found))

    def namespaces_of(self, actor: Actor) -> set[str]:
        """Namespaces in which a role is bound to the actor."""
        subjects = {("User", actor.user), *(("Group", group) for group in actor.groups)}
        return {namespace for kind, name, namespace in self._bound if namespace and (kind, name) in subjects}

    def granted(self) -> Iterator[Granted]:
        """Everything that anybody is given, anywhere."""
        for binding in list(self._bindings.values()):
            for rule in (self._rules.get(binding.role) if binding.role else None) or (None,):
                for subject in binding.subjects:
                    yield Granted(subject, binding, rule)

    def granting(self, asked: Collection[Attributes]) -> Iterator[Granted]:
        """What anybody is given that answers one of the questions with yes; bindings elsewhere are skipped."""
        for binding in list(self._bindings.values()):
            namespace = binding.place[0]
            concerned = [each for each in asked if each.namespace == namespace] if namespace else asked
            for rule in self._rules.get(binding.role, ()) if binding.role and concerned else ():
                if any(rule.allows(each) for each in concerned):
                    for subject in binding.subjects:
                        yield Granted(subject, binding, rule)

    def _bindings_of(self, actor: Actor, namespace: str) -> Iterator[tuple[Subject, Binding]]:
        """Those of the whole hub, then those of the namespace."""
        subjects = subjects_of(actor)
        for scope in ("", namespace) if namespace else ("",):
            for subject in subjects:
                for binding in self._bound.get((*subject, scope), ()):
                    yield subject, binding


class RuleIndex:
    """The tables of this process and how current they are."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tables: Tables | None = None
        self._rights = 0  # the tables are of this many changes of rights (Revision.rights)
        self._revision = 0  # of the last change in them
        self._database = ""

    def decide(self, actor: Actor, asked: Attributes) -> AccessDecision | None:
        """What RBAC says; None is no grant."""
        return self._tables_for(actor).decide(actor, asked) or self.catch_up().decide(actor, asked)

    def rules_for(self, actor: Actor, namespace: str = "") -> list[PolicyRule]:
        """Every rule that the actor holds on the whole hub and in that namespace."""
        return self.catch_up().rules_for(actor, namespace)

    def granted(self) -> Iterator[Granted]:
        """Everything that RBAC gives to anybody, for pages that show it."""
        return self.catch_up().granted()

    def granting(self, asked: Collection[Attributes]) -> Iterator[Granted]:
        """What RBAC gives to anybody that answers one of the questions with yes."""
        return self.catch_up().granting(asked)

    def lacking(self, actor: Actor, rules: Iterable[PolicyRule], namespace: str = "") -> list[PolicyRule]:
        """What the actor would need in addition to grant these rules there."""
        return uncovered_rules(self.rules_for(actor, namespace), rules)

    def namespaces_of(self, actor: Actor) -> set[str]:
        """Where the actor holds more than on the whole hub."""
        return self.catch_up().namespaces_of(actor)

    def forget(self) -> None:
        """Start from the rows again; for tests that roll the database back."""
        with self._lock:
            self._tables = None

    def _tables_for(self, actor: Actor) -> Tables:
        return self.catch_up() if actor.as_of is None else self.as_of(actor.as_of)

    def as_of(self, rights: int) -> Tables:
        """The tables of so many changes of rights (``Revision.rights``), or of more."""
        # In this order: tables are replaced before the number is.
        is_fresh = rights <= self._rights and self._database == _database()
        tables = self._tables
        return tables if tables is not None and is_fresh else self.catch_up()

    def catch_up(self) -> Tables:
        """The tables as of now; a page looks once."""
        return request_cache.cached("rules", self._catch_up)

    def _catch_up(self) -> Tables:
        with self._lock:
            rights = change_log.rights()  # first: what is committed from now on is found by the next look
            is_elsewhere = rights < self._rights or self._database != _database()
            if self._tables is None or is_elsewhere or (rights > self._rights and not self._follow(self._tables)):
                self._revision = _newest()
                self._tables = _load()
            self._rights, self._database = rights, _database()
            return self._tables

    def _follow(self, tables: Tables) -> bool:
        """Whether the log had everything since the last look; where it was cut, the rows are read again."""
        while True:
            entries, cut = change_log.since(MODELS, self._revision)
            if cut is not None:
                return False
            for entry in entries:
                place = (entry.namespace, entry.name)
                if entry.verb == Change.Verb.DELETED:
                    tables.drop(entry.resource, place)
                else:
                    tables.put(entry.resource, place, entry.doc)
                self._revision = entry.revision
            if len(entries) < change_log.BATCH:
                return True


def _newest() -> int:
    """The last change of roles and bindings; all up to it are in the rows that are read afterwards."""
    logs = (Change.objects, Compaction.objects)
    found = [log.filter(resource__in=MODELS).aggregate(newest=Max("revision"))["newest"] for log in logs]
    return max((each for each in found if each is not None), default=0)


def _database() -> str:
    return str(connection.settings_dict["NAME"])


def _load() -> Tables:
    """Of all rows. Nearly all are those of clusters, which are alike."""
    tables, alike = Tables(), AlikeClusters()
    with _without_looks_for_garbage():
        for resource, model in MODELS.items():
            rows: Any = model.objects.values_list("namespace", "name", "wire")
            read = alike.put_role if resource.startswith(ROLES) else alike.put_binding
            for namespace, name, wire in rows.iterator(chunk_size=2_000):
                if not read(tables, (namespace, name), wire):
                    tables.put(resource, (namespace, name), orjson.loads(wire))
    return tables


@contextmanager
def _without_looks_for_garbage() -> Iterator[None]:
    """All that is made meanwhile stays, and to look at it again and again takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _rules_with_gaps(doc: Doc) -> list[tuple[PolicyRule, bool]]:
    return [(rule, any(GAP in word for words in rule for word in words)) for rule in _rules_of(doc)]


class AlikeClusters:
    """Roles and bindings in which nothing but the name of a cluster differs, and what of them can be shared."""

    def __init__(self) -> None:
        self._roles = AlikeDocuments("rules", "", _rules_with_gaps)
        self._bindings = AlikeDocuments("roleRef", "subjects", lambda doc: Binding.read(("", ""), doc))
        self._inside = AlikeDocuments("roleRef", "subjects", lambda doc: Binding.read((GAP, ""), doc))
        self._subjects: dict[tuple[tuple[Subject, ...], str], tuple[Subject, ...]] = {}

    def put_role(self, tables: Tables, place: Place, text: str) -> bool:
        """Whether it is such a role."""
        name = place[0] or place[1].rpartition(":")[2]
        rules = self._roles.find(name, text)
        if rules is None:
            return False
        tables.put_rules(place, tuple([rule.filled(GAP, name) if has_gap else rule for rule, has_gap in rules]))
        return True

    def put_binding(self, tables: Tables, place: Place, text: str) -> bool:
        """Whether it is such a binding."""
        name = place[0] or place[1].rpartition(":")[2]
        found = (self._inside if place[0] else self._bindings).find(name, text)
        if found is None:
            return False
        subjects = self._subjects.get((found.subjects, name))
        if subjects is None:
            subjects = tuple(Subject(each.kind, sys.intern(each.name.replace(GAP, name))) for each in found.subjects)
            subjects = self._subjects.setdefault((found.subjects, name), tuple(dict.fromkeys(subjects)))
        tables.bind(found.filled(place, subjects, name))
        return True


index = RuleIndex()


@authorization.authorizer
def by_rules(actor: Actor, asked: Attributes) -> AccessDecision | None:
    """W22: authorizer: a rule of a role that is bound to the actor allows it. None is no grant."""
    return index.decide(actor, asked)


def names_allowed(actor: Actor, asked: Callable[[str], Iterable[Attributes]]) -> set[str]:
    """Names of the objects for which a rule that is limited to names allows one of the questions about the name.

    Rules without names are not looked at: they allow the question without a name.
    """
    named = [rule for rule in index.rules_for(actor) if rule.names]
    return {name for rule in named for name in rule.names if any(rule.allows(each) for each in asked(name))}
