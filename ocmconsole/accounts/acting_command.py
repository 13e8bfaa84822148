"""People of the hub as actors of the command line, and commands that act as one of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_for

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.access.actor import Actor


def actor_named(username: str) -> Actor:
    """The active person of that name at the command line. Raises CommandError."""
    user = get_user_model().objects.filter(username=username, is_active=True).first()
    if user is None:
        msg = f"there is no active user {username!r}"
        raise CommandError(msg)
    return actor_for(user, entry_point=EntryPoint.CLI, credential="cli")


class ActingCommand(BaseCommand, ABC):
    """What ``act`` does is done as the named person; when the hub refuses, the command ends with its words."""

    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        who = "who does it (default: admin)"
        parser.add_argument("--as", dest="acts_as", default="admin", metavar="USER", help=who)

    def handle(self, *args: Any, acts_as: str, **options: Any) -> None:
        try:
            self.act(actor_named(acts_as), *args, **options)
        except errors.ApiError as error:
            raise CommandError(error.message) from error

    @abstractmethod
    def act(self, actor: Actor, *args: Any, **options: Any) -> None:
        """Raises ApiError when the hub refuses."""
