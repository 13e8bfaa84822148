"""Django permissions spelled as RBAC: the same right whether a page, guardian, a rule or a review asks (D2).

``authorization.spell`` says which questions stand for a permission. Django calls the backend after its own and
guardian's; the chain of authorizers calls ``by_permission``, so that a SubjectAccessReview knows what a page knows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from django.contrib.auth.backends import BaseBackend
from guardian.backends import ObjectPermissionBackend
from guardian.core import ObjectPermissionChecker

from ocmconsole.core.rbac import known_rights, rule_index
from ocmconsole.kubeapi import request_cache
from ocmconsole.kubeapi.access import authorization, session
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.authorization import AccessDecision, Attributes
from ocmconsole.kubeapi.models import Resource

if TYPE_CHECKING:
    from django.db.models import Model


class ObjectBackend(ObjectPermissionBackend):
    """guardian's; what a person holds on an object is looked up together, and once a page."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        if obj is None:
            return False
        place = obj.key if isinstance(obj, Resource) else obj.pk
        held = held_on(user_obj, type(obj), place, lambda: _held(user_obj, obj))
        app_label, _, codename = perm.partition(".")
        return app_label == obj._meta.app_label and codename in held  # noqa: SLF001 - Django's documented name


def held_on(user: Any, model: type[Model], place: Hashable, read: Callable[[], set[str]]) -> set[str]:
    """Codenames of the permissions on one object, of a user's own and the user's groups; ``read`` once a page.

    ``place`` is the key of a resource, or the primary key.
    """
    return request_cache.cached(("held", user.pk, model, place), read)


def _held(user: Any, obj: Any) -> set[str]:
    """Codenames, from the user's own rows and those of the user's groups in one query."""
    if not user.is_authenticated:
        return set()
    checker: Any = ObjectPermissionChecker(user)
    return set(checker.get_user_perms(obj).order_by().union(checker.get_group_perms(obj).order_by()))


class RbacBackend(BaseBackend):
    """Answers ``has_perm`` for active people; never authenticates."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        if not user_obj.is_active:
            return False
        asked = authorization.spellings(perm, getattr(obj, "name", ""))
        if not asked:
            return False
        actor = session.actor_for(user_obj)
        return any(rule_index.index.decide(actor, attributes) is not None for attributes in asked)


@authorization.authorizer
def by_permission(actor: Actor, asked: Attributes) -> AccessDecision | None:
    """D2: authorizer: Django permissions, global or on one object, grant what they are spelled as. None is no grant."""
    permission = authorization.permission_for(asked)
    person = authorization.person_of(actor) if permission else None
    if person is None or person.is_superuser:
        return None
    if not person.has_perm(permission):
        obj = known_rights.meant_by(permission, asked.name)
        if obj is None or not person.has_perm(permission, obj):
            return None
    return AccessDecision(allowed=True, reason=f"{permission} granted to {actor.user}")
