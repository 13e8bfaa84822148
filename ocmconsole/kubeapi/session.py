"""People as actors: the signed-in person of a page, and the named one of the command line."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from ocmconsole.kubeapi.actor import AUTHENTICATED, MASTERS, Actor, Door

if TYPE_CHECKING:
    from django.http import HttpRequest


def actor_of(request: HttpRequest, door: Door = Door.WEB) -> Actor:
    """Who is signed in."""
    return actor_for(
        request.user,
        door=door,
        credential=f"session:{request.user.pk}",
        address=request.META.get("REMOTE_ADDR", ""),
        user_agent=request.META.get("HTTP_USER_AGENT", "")[:256],
    )


def actor_for(user: Any, **how: Any) -> Actor:
    """User name, Django groups as groups; a superuser carries ``system:masters`` here, where no certificate is asked.

    A Django group cannot claim a name of the system's own.
    """
    named = user.groups.exclude(name__startswith="system:").order_by("name")
    groups = [*named.values_list("name", flat=True), AUTHENTICATED]
    if user.is_superuser:
        groups.append(MASTERS)
    return Actor(user=user.get_username(), groups=tuple(groups), request_id=str(uuid.uuid4()), **how)
