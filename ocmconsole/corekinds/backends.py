"""Django permissions spelled as RBAC: the same right whether a page, guardian or a rule asks (D2).

``authz.spell`` says which questions stand for a permission. Django calls this backend after its own and guardian's.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import BaseBackend

from ocmconsole.corekinds import rbac
from ocmconsole.kubeapi import authz
from ocmconsole.kubeapi.actor import AUTHENTICATED, Actor, Door


class RbacBackend(BaseBackend):
    """Answers ``has_perm`` for active people; never authenticates."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        if not user_obj.is_active or user_obj.is_anonymous:
            return False
        asked = authz.spellings(perm, getattr(obj, "name", ""))
        if not asked:
            return False
        actor = actor_of(user_obj)
        return any(rbac.index.decide(actor, attributes) is not None for attributes in asked)


def actor_of(user: Any) -> Actor:
    """A signed-in person as RBAC knows him: Django groups are groups. Superusers are Django's business, not RBAC's."""
    # Names that start with system: are never people's or their groups' to choose.
    names = (name for name in user.groups.values_list("name", flat=True) if not name.startswith("system:"))
    return Actor(user=user.get_username(), groups=(*names, AUTHENTICATED), door=Door.WEB)
