"""Django permissions spelled as RBAC: the same right whether a page, guardian or a rule asks (D2).

``authz.spell`` says which questions stand for a permission. Django calls this backend after its own and guardian's.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import BaseBackend

from ocmconsole.corekinds import rbac
from ocmconsole.kubeapi import authz, session


class RbacBackend(BaseBackend):
    """Answers ``has_perm`` for active people; never authenticates."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        if not user_obj.is_active:
            return False
        asked = authz.spellings(perm, getattr(obj, "name", ""))
        if not asked:
            return False
        actor = session.actor_for(user_obj)
        return any(rbac.index.decide(actor, attributes) is not None for attributes in asked)
