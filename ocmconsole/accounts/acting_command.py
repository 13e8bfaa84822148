"""People of the hub as actors of the command line, and commands that act as one of them."""

from __future__ import annotations

import getpass
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db.models.signals import post_save, pre_save

from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.second_approval import gate

if TYPE_CHECKING:
    from argparse import ArgumentParser


# The option by which commands do alone what takes several people.
BREAK_GLASS: dict[str, Any] = {
    "default": "",
    "metavar": "WHY",
    "help": "where an act takes two people, do it alone, from this host; the audit keeps WHY",
}
PROVEN = "cli:password"  # the credential of who has shown the password of the account


def breaking_glass(why: str) -> AbstractContextManager[None]:
    return gate.breaking_glass(why.strip()) if why.strip() else nullcontext()


@contextmanager
def saving_account(note: Callable[[Actor, User], None]) -> Iterator[None]:
    """Around a command of Django's that saves one account.

    The save, and what ``note`` stores behind it as the command line, are one transaction around the account alone: no
    lock is held while the person types.
    """
    actor = Actor.controller("command-line").through(EntryPoint.CLI)
    with ExitStack() as saving:

        def begin(**_: Any) -> None:
            saving.enter_context(verbs.changing_rights())

        def end(instance: User, **_: Any) -> None:
            note(actor, instance)
            saving.close()

        pre_save.connect(begin, sender=User, weak=False)
        post_save.connect(end, sender=User, weak=False)
        try:
            yield
        finally:
            pre_save.disconnect(begin, sender=User)
            post_save.disconnect(end, sender=User)


def add_proof(parser: ArgumentParser) -> None:
    """The options of commands with ``--as`` for acts that take two people."""
    prove = "ask for the password of USER, so that this counts as done by that person where an act takes two"
    parser.add_argument("--prove", action="store_true", help=prove)
    parser.add_argument("--break-glass", **BREAK_GLASS)


def actor_named(username: str, *, proven: bool = False) -> Actor:
    """The active person of that name at the command line. Raises CommandError.

    ``proven``: the password of that person is asked for first. Without it, ``--as`` names somebody, and proves nothing.
    """
    user = get_user_model().objects.filter(username=username, is_active=True).first()
    if user is None:
        msg = f"there is no active user {username!r}"
        raise CommandError(msg)
    if proven and not user.check_password(_password(username)):
        raise CommandError("this is not the password of that person: nothing is changed")
    return actor_for(user, entry_point=EntryPoint.CLI, credential=PROVEN if proven else gate.UNPROVEN)


def _password(username: str) -> str:
    """From the terminal, without showing it; else the first line of standard input."""
    if sys.stdin.isatty():
        return getpass.getpass(f"Password of {username}: ")
    return sys.stdin.readline().rstrip("\n")


class ActingCommand(BaseCommand, ABC):
    """What ``act`` does is done as the named person; when the hub refuses, the command ends with its words."""

    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        who = "who does it (default: admin)"
        parser.add_argument("--as", dest="acts_as", default="admin", metavar="USER", help=who)
        add_proof(parser)

    def handle(self, *args: Any, acts_as: str, prove: bool, break_glass: str, **options: Any) -> None:
        try:
            with breaking_glass(break_glass):
                self.act(actor_named(acts_as, proven=prove), *args, **options)
        except errors.ApiError as error:
            raise CommandError(error.message) from error

    @abstractmethod
    def act(self, actor: Actor, *args: Any, **options: Any) -> None:
        """Raises ApiError when the hub refuses."""
