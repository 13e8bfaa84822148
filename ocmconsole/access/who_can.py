"""Who holds what, and from where: bindings of RBAC, Django's permissions, those on single objects, superusers (D2).

Reads only. ``who_can`` answers for one right on one object, ``held_by`` for people and groups; both take a number of
queries that does not grow with what they find. Called by the access pages, ``explain``, and the pages of sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Q
from guardian.utils import get_group_obj_perms_model, get_user_obj_perms_model

from ocmconsole.core.rbac import known_rights, rule_index
from ocmconsole.core.rbac.known_rights import ALL, Question, Right
from ocmconsole.core.rbac.policy_rules import PolicyRule
from ocmconsole.core.rbac.rule_index import Binding, Granted, Place, Subject
from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.access.session import AGENTS
from ocmconsole.kubeapi.models import AuditEvent, Resource
from ocmconsole.kubeapi.schema.values import quoted

PERMISSIONS = (User.user_permissions.through, Group.permissions.through)
NO_RULE = PolicyRule(())


class GrantSource(StrEnum):
    """By which way a right was given."""

    BINDING = "binding"
    PERMISSION = "permission"
    SUPERUSER = "superuser"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Source:
    """One reason why somebody may do something. ``names`` are the objects that it is about, ``*`` for all.

    ``reach`` says how it comes to be about them, where that is not plain. ``by`` and ``at`` are the audit's.
    """

    subject: Subject
    given_by: GrantSource
    names: tuple[str, ...] = (ALL,)
    binding: Binding | None = None
    rule: PolicyRule = NO_RULE
    label: str = ""
    title: str = ""
    resource: str = ""
    reach: str = ""
    by: str = ""
    at: datetime | None = None

    @property
    def namespace(self) -> str:
        return self.binding.place[0] if self.binding else ""

    @property
    def rights(self) -> list[Right]:
        """The words that it is worth; none for what only RBAC has words for."""
        if self.given_by is GrantSource.PERMISSION:
            return [right for right in known_rights.all_rights() if self.label in right.labels]
        if self.given_by is GrantSource.SUPERUSER:
            return known_rights.all_rights()
        return [] if self.namespace else [right for right in known_rights.all_rights() if allows(self.rule, right)]

    @property
    def text(self) -> str:
        """The object that gives it, as its owner would look for it."""
        if self.binding:
            return text_of(self.binding)
        if self.given_by is GrantSource.PERMISSION:
            where = "on all objects" if ALL in self.names else f"on {', '.join(self.names)}"
            return f"Django permission {self.label} {where}"
        return "is a superuser" if self.given_by is GrantSource.SUPERUSER else self.reach

    @property
    def sentence(self) -> str:
        """What it lets its holder do."""
        if self.given_by is GrantSource.SUPERUSER or self.rule.covers(PolicyRule((ALL,), (ALL,), (ALL,))):
            return "do everything" + (f" in namespace {self.namespace}" if self.namespace else "")
        if words := self.rights:
            return ", ".join(right.sentence(self.names) for right in words)
        return self.title[:1].lower() + self.title[1:] if self.title else sentence_of(self.rule, self.namespace)


def text_of(binding: Binding) -> str:
    namespace, name = binding.place
    kind = f"RoleBinding {namespace}/{name}" if namespace else f"ClusterRoleBinding {name}"
    return f"{kind} of {binding.role_kind} {binding.role[1] if binding.role else '?'}"


def sentence_of(rule: PolicyRule, namespace: str = "") -> str:
    """A rule that no word is for."""
    verbs = "do anything with" if ALL in rule.verbs else ", ".join(rule.verbs)
    what = "everything" if ALL in rule.resources else ", ".join(rule.resources or rule.paths)
    if ALL not in rule.resources and ALL not in rule.groups and any(rule.groups):
        what += f" of {', '.join(group or 'the core' for group in rule.groups)}"
    named = f" called {', '.join(rule.names)}" if rule.names else ""
    return f"{verbs} {what}{named}{f' in namespace {namespace}' if namespace else ''}"


def allows(rule: PolicyRule, right: Right) -> bool:
    """Whether the rule gives the right, on all objects or on those that it names."""
    return any(rule.allows(asked) for name in rule.names or ("",) for asked in right.asked(name))


def is_person(subject: Subject) -> bool:
    """Neither a part of the system nor a cluster's agent."""
    return not subject.name.startswith(("system:", AGENTS))


# ---------------------------------------------------------------- one right, on one object


Reach = Callable[[str], Iterable[tuple[str, Resource, str]]]
_reaches: dict[tuple[str, str], list[Reach]] = {}


def reaches(word: str, resource: str) -> Callable[[Reach], Reach]:
    """Add a way to a right that goes through other objects: name -> (permission, object that it is held on, how)."""

    def add(reach: Reach) -> Reach:
        _reaches.setdefault((word, resource), []).append(reach)
        return reach

    return add


def containers(resource: str, name: str) -> dict[str, tuple[Resource, str]]:
    """Objects through which rights reach this one, by uid, each with how: sets, for a cluster."""
    reach_all = [reach for (_, reached), found in _reaches.items() if reached == resource for reach in found]
    return {through.uid: (through, how) for reach in reach_all for _, through, how in reach(name)}


def who_can(verb: str, resource: str, name: str = "", namespace: str = "") -> list[Source]:
    """Everybody who may, with where from: people and groups first by name. ``verb`` may be a word such as ``accept``.

    Without a name: on all objects. Raises BadRequest when nobody could understand the question.
    """
    return find_sources(known_rights.question(verb, resource, name=name, namespace=namespace))


def find_sources(asked: Question) -> list[Source]:
    found = [of_rule(grant) for grant in rule_index.index.granting(asked.asked)]
    found += permitting(asked, asked.right.labels if asked.right else asked.labels)
    return with_givers(sorted(found, key=_order))


def _order(source: Source) -> tuple[bool, str, str, str]:
    return source.subject.kind != "User", source.subject.name, source.given_by, source.text


def of_rule(grant: Granted) -> Source:
    """The source that a rule of a binding is."""
    rule = grant.rule or NO_RULE
    return Source(grant.subject, GrantSource.BINDING, rule.names or (ALL,), binding=grant.binding, rule=rule)


def permitting(asked: Question, labels: Iterable[str], *, only: User | None = None) -> list[Source]:
    """Which of these permissions are held on the object in question, by all users or by one with their groups."""
    found = list(_superusers(only)) + list(_everywhere(labels, only))
    obj = asked.object
    if obj is not None and type(obj) in governed():
        found += _on_objects(type(obj), Q(permission__codename__in=_codenames(labels), content_object=obj), only)
    word = asked.right.word if asked.right else asked.verb
    for reach in _reaches.get((word, asked.resource), ()) if asked.name else ():
        for label, through, how in reach(asked.name):
            rows = Q(permission__codename=label.partition(".")[2], content_object=through)
            held = [*_on_objects(type(through), rows, only), *_everywhere([label], only)]
            found += [replace(source, reach=how) for source in held]
    return found


def _codenames(labels: Iterable[str]) -> list[str]:
    return [label.partition(".")[2] for label in labels]


def _superusers(only: User | None) -> Iterator[Source]:
    rows = User.objects.filter(is_superuser=True, is_active=True)
    for name in (rows.filter(pk=only.pk) if only else rows).values_list("username", flat=True):
        yield Source(Subject("User", name), GrantSource.SUPERUSER)


def _everywhere(labels: Iterable[str] | None, only: User | None = None) -> Iterator[Source]:
    """Permissions on all objects; None is every permission."""
    for model, kind, path, mine in (
        (PERMISSIONS[0], "User", "user__username", "user"),
        (PERMISSIONS[1], "Group", "group__name", "group__user"),
    ):
        rows: Any = model._default_manager.all()  # noqa: SLF001 - Django's documented name
        if labels is not None:
            rows = rows.filter(_labelled(labels))
        if only is not None:
            rows = rows.filter(**{mine: only})
        columns = (path, "permission__content_type__app_label", "permission__codename", "permission__name")
        for name, app, codename, title in rows.values_list(*columns):
            yield Source(Subject(kind, name), GrantSource.PERMISSION, label=f"{app}.{codename}", title=title)


def _labelled(labels: Iterable[str]) -> Q:
    condition = Q(pk__in=())
    for label in labels:
        app, _, codename = label.partition(".")
        condition |= Q(permission__content_type__app_label=app, permission__codename=codename)
    return condition


def _on_objects(model: type[Resource], rows: Q, only: User | None = None) -> list[Source]:
    """Permissions on single objects of the model."""
    kind = next(kind for kind in kinds.all_kinds() if kind.model is model)
    found = []
    of_users, of_groups = _links(model)
    for links, subject, path, mine in (
        (of_users, "User", "user__username", "user"),
        (of_groups, "Group", "group__name", "group__user"),
    ):
        chosen = links.objects.filter(rows)
        if only is not None:
            chosen = chosen.filter(**{mine: only})
        columns = (path, "permission__content_type__app_label", "permission__codename", "permission__name")
        for name, app, codename, title, obj in chosen.values_list(*columns, "content_object__name"):
            who = Subject(subject, name)
            label = f"{app}.{codename}"
            found.append(Source(who, GrantSource.PERMISSION, (obj,), label=label, title=title, resource=kind.resource))
    return found


# ---------------------------------------------------------------- everything, of some


def held_by(subjects: Iterable[Subject] | None = None) -> dict[Subject, list[Source]]:
    """What each of these, or every person and group, holds in its own name; memberships are not followed."""
    wanted = None if subjects is None else set(subjects)
    found: dict[Subject, list[Source]] = {subject: [] for subject in wanted or ()}
    for source in _everything():
        if is_person(source.subject) if wanted is None else source.subject in wanted:
            found.setdefault(source.subject, []).append(source)
    return found


def _everything() -> Iterator[Source]:
    yield from _superusers(None)
    for grant in rule_index.index.granted():
        if grant.rule is not None:
            yield of_rule(grant)
    yield from _everywhere(None)
    for model in governed():
        yield from _on_objects(model, Q())


def held_by_person(person: User, model: type[Resource]) -> list[Source]:
    """Django permissions that the user or the user's groups hold on objects of the model, or on all of them."""
    about = ContentType.objects.get_for_model(model)
    everywhere = _everywhere([f"{about.app_label}.{each.codename}" for each in about.permission_set.all()], person)
    return [*everywhere, *_on_objects(model, Q(), person)]


def governed() -> list[type[Resource]]:
    """Models whose objects have permissions of their own."""
    return [kind.model for kind in kinds.all_kinds() if not _links(kind.model)[0].objects.is_generic()]


def _links(model: Any) -> tuple[Any, Any]:
    """Guardian's models of a person's and of a group's permissions on objects."""
    return get_user_obj_perms_model(model), get_group_obj_perms_model(model)


def sentences(sources: list[Source]) -> list[str]:
    """What they amount to: ``accept clusters eu-1 and eu-2``, ``add clusters to set web``, one sentence a right."""
    if any(source.sentence == "do everything" for source in sources):
        return ["do everything"]
    names = _names(sources)
    spoken = [right.sentence(names[right]) for right in known_rights.all_rights() if right in names]
    return list(dict.fromkeys([*spoken, *(source.sentence for source in sources if not source.rights)]))


def lost(taken: list[Source], kept: list[Source]) -> list[str]:
    """What goes with the one and does not stay with the other."""
    stays, spoken = _names(kept), sentences(kept)
    if spoken == ["do everything"]:
        return []
    left = {right: names - stays.get(right, set()) for right, names in _names(taken).items()}
    gone = [right.sentence(names) for right, names in left.items() if names and ALL not in stays.get(right, set())]
    return [*gone, *(each.sentence for each in taken if not each.rights and each.sentence not in spoken)]


def _names(sources: list[Source]) -> dict[Right, set[str]]:
    found: dict[Right, set[str]] = {}
    for source in sources:
        for right in source.rights:
            found.setdefault(right, set()).update(source.names)
    return found


# ---------------------------------------------------------------- who gave it, and when


def with_givers(sources: list[Source]) -> list[Source]:
    """The sources with the person who gave each, as far as the audit remembers."""
    bindings = {source.binding.place for source in sources if source.binding}
    given = _bound(bindings) if bindings else {}
    names = {name for source in sources if source.given_by is GrantSource.PERMISSION for name in _audited(source)}
    permitted = _permitted(names) if names else {}
    return [_given(source, given, permitted) for source in sources]


def _given(source: Source, bound: dict[Place, AuditEvent], permitted: dict[tuple[str, str, str], AuditEvent]) -> Source:
    if source.binding:
        event = bound.get(source.binding.place)
    else:
        whom = f"{source.subject.kind.lower()} {quoted(source.subject.name)}"
        event = next(
            (permitted[key] for name in _audited(source) if (key := (name, source.label, whom)) in permitted), None
        )
    return replace(source, by=event.user, at=event.time) if event else source


def _audited(source: Source) -> list[str]:
    """A right on all objects is found with its holder, one on an object with the object."""
    return [source.subject.name] if ALL in source.names else list(source.names)


def _bound(places: set[Place]) -> dict[Place, AuditEvent]:
    """The last entry of each binding that says to whom it goes."""
    resources = [f"{kind}.{rule_index.GROUP}" for kind in ("rolebindings", "clusterrolebindings")]
    rows = AuditEvent.objects.filter(
        resource__in=resources, outcome=AuditEvent.Outcome.ALLOWED, name__in={name for _, name in places}
    )
    return {
        (event.namespace, event.name): event
        for event in rows.order_by("time", "pk")
        if any(entry["path"].startswith("subjects") for entry in event.diff)
    }


def _permitted(names: set[str]) -> dict[tuple[str, str, str], AuditEvent]:
    rows = AuditEvent.objects.filter(act="permission:grant", outcome=AuditEvent.Outcome.ALLOWED, name__in=names)
    return {
        (event.name, entry["path"], str(entry.get("new", ""))): event
        for event in rows.order_by("time", "pk")
        for entry in event.diff
    }
