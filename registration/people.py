"""People of the hub as actors of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from ocmconsole.kubeapi.actor import Door
from ocmconsole.kubeapi.session import actor_for

if TYPE_CHECKING:
    from ocmconsole.kubeapi.actor import Actor


def actor_named(username: str) -> Actor:
    """The active person of that name at the command line. Raises CommandError."""
    user = get_user_model().objects.filter(username=username, is_active=True).first()
    if user is None:
        msg = f"there is no active user {username!r}"
        raise CommandError(msg)
    return actor_for(user, door=Door.CLI, credential="cli")
