"""Authorization: one chain of authorizers for every entry point, verb, validator, review and page.

Apps add authorizers (RBAC rules, object permissions); the first that allows wins, nobody can deny. A domain right such
as ``clusters.accept_managedcluster`` may be spelled as a Django permission or as a rule on a virtual resource (D2).
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from django.contrib import auth
from django.contrib.auth.models import Permission
from django.db.models import Q

from ocmconsole.kubeapi import errors, request_cache
from ocmconsole.kubeapi.storage import audit, plain_sql

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked: a verb on a resource, or on a non-resource path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    version: str = "*"
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """``fields`` limits a permitted write to these document paths; None is no limit.

    ``deleting`` limits a permitted read or write to objects that are being deleted.
    """

    allowed: bool
    reason: str = ""
    fields: frozenset[str] | None = None
    deleting: bool = False

    @property
    def is_limited(self) -> bool:
        return self.fields is not None or self.deleting

    def together_with(self, other: AccessDecision) -> AccessDecision:
        """Both rights; the first alone where the two limit different things."""
        if self.fields is None or other.fields is None or self.deleting or other.deleting:
            return self
        return replace(self, reason=f"{self.reason} and {other.reason}", fields=self.fields | other.fields)

    def covers(self, doc: Doc) -> bool:
        """Whether an object, as it is stored now, is among those that the decision is about."""
        return not self.deleting or bool(doc["metadata"].get("deletionTimestamp"))


Authorizer = Callable[["Actor", Attributes], "AccessDecision | None"]
Spelling = Callable[[str], list[Attributes]]
DENIED = AccessDecision(allowed=False)

_authorizers: list[Authorizer] = []
_spellings: dict[str, Spelling] = {}


def authorizer(ask: Authorizer) -> Authorizer:
    """Add to the chain; it answers None when it has nothing to say."""
    _authorizers.append(ask)
    return ask


def spell(permission: str, spelling: Spelling) -> None:
    """Say how RBAC spells a Django permission: object name ("" for all) -> equivalent questions (D2)."""
    _spellings[permission] = spelling


def spellings(permission: str, name: str) -> list[Attributes]:
    return _spellings[permission](name) if permission in _spellings else []


def permission_for(asked: Attributes) -> str:
    """The Django permission that the question spells, or nothing."""
    asked = replace(asked, version="*")
    return next((label for label, spelling in _spellings.items() if asked in spelling(asked.name)), "")


def authorize(actor: Actor, attributes: Attributes, *, fields: frozenset[str] = frozenset()) -> AccessDecision:
    """Ask the chain; an unlimited yes beats a limited one, and rights to single fields add up.

    ``fields`` are all that the caller changes, if known: a right to them is enough, and no other is looked for.
    """
    if actor.is_master:
        return AccessDecision(allowed=True, reason="member of system:masters")
    limited: AccessDecision | None = None
    for ask in _authorizers:
        decision = ask(actor, attributes)
        if decision is not None and decision.allowed:
            if not decision.is_limited:
                return decision
            limited = limited.together_with(decision) if limited else decision
            if fields and limited.fields is not None and fields <= limited.fields and not limited.deleting:
                return limited
    return limited or DENIED


def require(actor: Actor, attributes: Attributes, *, fields: frozenset[str] = frozenset()) -> AccessDecision:
    """As ``authorize``, but a no is recorded and raised as Forbidden with Kubernetes' text (W19)."""
    decision = authorize(actor, attributes, fields=fields)
    return decision if decision.allowed else refuse(actor, attributes)


def refuse(actor: Actor, attributes: Attributes, why: str = "") -> NoReturn:
    """Record a denial and raise it; ``why`` is added to Kubernetes' text."""
    refusal = forbidden_error(actor, attributes, why)
    audit.record_denial(actor, attributes, refusal.message)
    raise refusal


def forbidden_error(actor: Actor, attributes: Attributes, why: str = "") -> errors.Forbidden:
    user = f'User "{actor.user}"'
    if attributes.path:
        return errors.Forbidden(_escape(f'forbidden: {user} cannot {attributes.verb} path "{attributes.path}"'))
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    named = f' "{attributes.name}"' if attributes.name else ""
    text = (
        f"{errors.qualified(attributes.group, attributes.resource)}{named} is forbidden: {user} "
        f'cannot {attributes.verb} resource "{attributes.full_resource}" in API group "{attributes.group}" {where}'
    )
    details = {"group": attributes.group, "kind": attributes.resource, "name": attributes.name}
    return errors.Forbidden(
        _escape(text + (f": {why}" if why else "")), details={key: value for key, value in details.items() if value}
    )


def permitted(actor: Actor, permission: str, *, obj: Any = None, name: str = "") -> AccessDecision:
    """Whether the actor holds a domain right on an object or, where it does not exist yet, on its name.

    Django's backend chain answers for people (global and object permissions), RBAC for everybody. A superuser counts
    as one only through the group ``system:masters``, which not every credential carries.
    """
    if actor.is_master:
        return AccessDecision(allowed=True, reason="member of system:masters")
    person = person_of(actor)
    if person is not None and not person.is_superuser and _holds(person, permission, obj):
        return AccessDecision(allowed=True, reason=f"{permission} granted to {actor.user}")
    for attributes in spellings(permission, name or getattr(obj, "name", "")):
        decision = authorize(actor, attributes)
        if decision.allowed:
            return decision
    return DENIED


def _holds(person: Any, permission: str, obj: Any) -> bool:
    """As ``has_perm`` for all objects or for this one; each backend answers both before a dearer one is asked."""
    permissions_of(person)
    objects = (None,) if obj is None else (None, obj)
    return any(backend.has_perm(person, permission, each) for backend in auth.get_backends() for each in objects)


def permissions_of(person: Any) -> frozenset[str]:
    """Labels of the Django permissions that an active person, no superuser, holds for all objects.

    Own ones and those of groups in one query, where Django takes two; kept where ``ModelBackend`` looks for them.
    """
    if not hasattr(person, "_perm_cache"):
        held = Permission.objects.filter(Q(user=person) | Q(group__user=person)).order_by().distinct()
        labels = held.values_list("content_type__app_label", "codename")
        person._perm_cache = frozenset(f"{app}.{codename}" for app, codename in labels)  # noqa: SLF001 - Django's name
    found: frozenset[str] = person._perm_cache  # noqa: SLF001 - Django's name
    return found


def person_of(actor: Actor) -> Any:
    """The active Django user of that name, or None. Names that start with ``system:`` are never people's."""
    if actor.user.startswith("system:"):
        return None
    return request_cache.cached(("person", actor.user), lambda: _active_person(actor.user))


def _active_person(name: str) -> Any:
    found = plain_sql.row_by(auth.get_user_model().objects, username=name)
    return found if found is not None and found.is_active else None


def _escape(text: str) -> str:
    return html.escape(text, quote=False)
