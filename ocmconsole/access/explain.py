"""Why somebody may, or may not: the answer of the chain of authorizers, with its sources or with what is nearest.

The answer is ``authorization.authorize``'s and nobody else's, so that a page, a SubjectAccessReview and a request
agree; what is added here explains it. Called by the page that explains, and by requests for access.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.db.models import Q

from ocmconsole.access import who_can
from ocmconsole.access.who_can import GrantSource, Source
from ocmconsole.accounts.permissions import PeoplePermission
from ocmconsole.core.rbac import known_rights, rule_index
from ocmconsole.core.rbac.known_rights import ALL, Question, Right
from ocmconsole.core.rbac.policy_rules import ANY, PolicyRule
from ocmconsole.core.rbac.rule_index import Granted, Subject
from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import AUTHENTICATED
from ocmconsole.kubeapi.access.authorization import AccessDecision, Attributes
from ocmconsole.kubeapi.access.session import actor_for

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor

MOST_NEAR = 3  # rules that nearly allow it, the nearest
MOST_GRANTERS = 8  # people who could give the right; one is enough
# Another resource is worth a mention only where nothing else is wrong, and for what was given to the person's own.
OTHER_RESOURCE, OTHER_PART = 4, 2
READ = frozenset({"see", "get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Near:
    """Something that the person holds, and what it lacks to allow what was asked."""

    source: str
    holds: str
    lacks: tuple[str, ...]
    distance: int


@dataclass(frozen=True, slots=True)
class Explanation:
    question: Question
    decision: AccessDecision
    sources: list[Source]
    near: list[Near]

    @property
    def allowed(self) -> bool:
        return self.decision.allowed


def explain(actor: Actor, asked: Question) -> Explanation:
    decision = decide(actor, asked)
    if decision.allowed:
        return Explanation(asked, decision, sources(actor, asked, decision), [])
    return Explanation(asked, decision, [], nearest(actor, asked))


def decide(actor: Actor, asked: Question) -> AccessDecision:
    """What the chain says to any of the spellings; an unlimited yes beats a limited one."""
    decisions = [authorization.authorize(actor, each) for each in asked.asked]
    allowed = sorted((each for each in decisions if each.allowed), key=lambda each: each.fields is not None)
    return allowed[0] if allowed else authorization.DENIED


# ---------------------------------------------------------------- yes


def sources(actor: Actor, asked: Question, decision: AccessDecision) -> list[Source]:
    """Everything that allows it. Rules of the hub's own (as D15) come in their own words."""
    subjects = set(rule_index.subjects_of(actor))
    found = [who_can.of_rule(grant) for grant in rule_index.index.granting(asked.asked) if grant.subject in subjects]
    person = authorization.person_of(actor)
    if person is not None and (actor.is_master or not person.is_superuser):
        found += [source for source in who_can.permitting(asked, asked.labels, only=person) if not source.reach]
    if not found:
        found = [Source(Subject("User", actor.user), GrantSource.RULE, reach=decision.reason)]
    return who_can.with_givers(found)


# ---------------------------------------------------------------- no


def nearest(actor: Actor, asked: Question) -> list[Near]:
    """The nearest of the actor's rules, each with what it lacks; the fewest shortcomings first."""
    subjects = set(rule_index.subjects_of(actor))
    found = [
        near
        for grant in rule_index.index.granted()
        if grant.subject in subjects
        for each in asked.asked
        if (near := _near_rule(grant, each))
    ]
    person = authorization.person_of(actor)
    if person is not None and not person.is_superuser:
        found += _near_permissions(person, asked)
    found += _near_through(actor, asked)
    best: dict[str, Near] = {}
    for near in sorted(found, key=lambda near: (near.distance, near.source, near.holds)):  # then as it was asked
        best.setdefault(near.source, near)
    return list(best.values())[:MOST_NEAR]


def _near_rule(grant: Granted, asked: Attributes) -> Near | None:
    rule, namespace = grant.rule, grant.binding.place[0]
    source = f"{who_can.text_of(grant.binding)}, to {grant.subject.kind.lower()} {grant.subject.name}"
    if rule is None:
        role = grant.binding.role
        lack = f"the {grant.binding.role_kind} {role[1] if role else ''} does not exist or has no rules"
        return Near(source, "nothing", (lack,), OTHER_PART)
    if rule.paths:
        return None
    lacks = list(_lacks(rule, namespace, asked))
    distance = sum(weight for weight, _ in lacks)
    is_other = any(weight >= OTHER_RESOURCE for weight, _ in lacks)
    if is_other and (distance > OTHER_RESOURCE or grant.subject.name == AUTHENTICATED):
        return None
    return Near(source, who_can.sentence_of(rule, namespace), tuple(text for _, text in lacks), distance)


def _lacks(rule: PolicyRule, namespace: str, asked: Attributes) -> Iterator[tuple[int, str]]:
    if not rule.speaks_of(asked):
        is_near = rule.speaks_of(Attributes("", asked.group, asked.resource)) if asked.subresource else False
        what = ", ".join(rule.resources)
        if is_near:
            yield OTHER_PART, f"subresource differs: it covers {what}, and {asked.full_resource} was asked"
        elif asked.group in rule.groups or ANY in rule.groups:
            yield OTHER_RESOURCE, f"resource differs: it covers {what}, and {asked.full_resource} was asked"
        else:
            groups = ", ".join(group or "the core group" for group in rule.groups)
            weight = OTHER_PART if asked.full_resource in rule.resources else OTHER_RESOURCE + 1
            yield (
                weight,
                f"API group differs: it covers {what} of {groups}, and {asked.group or 'the core group'} was asked",
            )
    if asked.verb not in rule.verbs and ANY not in rule.verbs:
        yield 1, f"verb lacks: it has {', '.join(rule.verbs)}, and {asked.verb} was asked"
    if rule.names and asked.name not in rule.names:
        yield from _lacking_name(rule.names, asked.name)
    if namespace and namespace != asked.namespace:
        was = f"namespace {asked.namespace}" if asked.namespace else "the whole hub"
        yield 1, f"namespace differs: it counts in {namespace}, and {was} was asked"


def _lacking_name(names: Iterable[str], asked: str) -> Iterator[tuple[int, str]]:
    patterns = [name for name in names if ANY in name]
    what = f"{asked} was asked" if asked else "all objects were asked for"
    yield 1, f"name differs: it is limited to {', '.join(names)}, and {what}"
    if patterns:
        yield 0, f"{', '.join(patterns)} is taken as a name: RBAC knows no patterns in resourceNames"


def _near_permissions(person: User, asked: Question) -> Iterator[Near]:
    """Django permissions on the same kind: on another object, or another one on the same."""
    kind = known_rights.kind_of(asked.group, asked.plural)
    if kind is None or kind.model not in who_can.governed():
        return
    own = who_can.held_by_person(person, kind.model)
    for source in own:
        lacks = []
        is_enough = source.label in asked.labels
        if not is_enough:
            lacks.append((1, f"permission differs: {' or '.join(sorted(asked.labels)) or 'RBAC alone'} is asked for"))
        if ALL not in source.names and asked.name not in source.names:
            what = f"{asked.name} was asked" if asked.name else "all objects were asked for"
            lacks.append((1, f"name differs: it is held on {', '.join(source.names)}, and {what}"))
        if lacks:
            texts = tuple(text for _, text in lacks)
            who = f"{source.text}, to {source.subject.kind.lower()} {source.subject.name}"
            yield Near(who, source.sentence, texts, sum(weight for weight, _ in lacks))


def _near_through(actor: Actor, asked: Question) -> Iterator[Near]:
    """What the actor holds on the sets that a cluster is in: it shows the cluster in the console (D16), and no more."""
    if not asked.name or asked.subresource:
        return
    needed = " or ".join(sorted(asked.labels)) or "a rule of RBAC"
    for through, how in who_can.containers(asked.resource, asked.name).values():
        kind = next(kind for kind in kinds.all_kinds() if kind.model is type(through))
        words = known_rights.rights_on(kind.group, kind.plural)
        held = [word for word in words if decide(actor, _about(word, through.name)).allowed]
        if not held:
            continue
        is_shown = asked.verb in READ and any(word.word == "see" for word in held)
        lack = f"it is about the {held[0].noun}: {needed} on {asked.name} is asked for"
        if is_shown:
            lack = f"it shows {asked.name} in the console only: the API asks for {needed} on it"
        holds = ", ".join(word.sentence([through.name]) for word in held)
        yield Near(f"Rights that reach {asked.name} {how}", holds, (lack,), 1)


def _about(right: Right, name: str) -> Question:
    return known_rights.question(right.word, right.resource, name=name)


# ---------------------------------------------------------------- who can help


def granters(asked: Question) -> list[str]:
    """Users who could give it: superusers, and those who may change permissions and hold it themselves."""
    rows: Any = User.objects.filter(is_active=True).order_by("username")
    masters = list(rows.filter(is_superuser=True).values_list("username", flat=True)[:MOST_GRANTERS])
    app, _, codename = PeoplePermission.CHANGE_PERMISSION.partition(".")
    held = Q(user_permissions__codename=codename, user_permissions__content_type__app_label=app)
    held |= Q(groups__permissions__codename=codename, groups__permissions__content_type__app_label=app)
    others = rows.filter(held, is_superuser=False).distinct()[: MOST_GRANTERS * 2] if asked.labels else ()
    able = [person.username for person in others if decide(actor_for(person), asked).allowed]
    return [*masters, *able][:MOST_GRANTERS]


def command(asked: Attributes, user: str = "") -> str:
    """The same question as kubectl asks it."""
    resource = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    what = f"{resource}/{asked.name}" if asked.name else resource
    parts = [f"kubectl auth can-i {asked.verb} {shlex.quote(what)}"]
    parts += [f"--subresource={asked.subresource}"] * bool(asked.subresource)
    parts += [f"--namespace={shlex.quote(asked.namespace)}"] * bool(asked.namespace)
    return " ".join([*parts, *([f"--as={shlex.quote(user)}"] if user else [])])
