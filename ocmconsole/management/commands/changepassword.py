"""``manage.py changepassword``: Django's, with an entry in the audit; a superuser's may take a second person."""

from __future__ import annotations

import getpass
from contextlib import ExitStack
from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db.models.signals import post_save, pre_save

from ocmconsole.accounts import permissions, superusers
from ocmconsole.accounts.acting_command import BREAK_GLASS, breaking_glass
from ocmconsole.accounts.permissions import place_of
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint


class Command(changepassword.Command):
    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        parser.add_argument("--break-glass", **BREAK_GLASS)

    def handle(self, *args: Any, break_glass: str = "", **options: Any) -> str | None:
        username = options["username"] or getpass.getuser()
        try:
            with breaking_glass(break_glass):
                return self._change(User.objects.filter(username=username).first(), *args, **options)
        except errors.ApiError as error:
            raise CommandError(error.message) from error

    def _change(self, before: User | None, *args: Any, **options: Any) -> str | None:
        """The signals span one transaction around the account alone, as of ``createsuperuser``."""
        actor = Actor.controller("command-line").through(EntryPoint.CLI)
        with ExitStack() as saving:

            def begin(**_: Any) -> None:
                saving.enter_context(verbs.changing_rights())

            def end(instance: User, **_: Any) -> None:
                for row in superusers.agreed_account(actor, before, instance, {"password"}, ()):
                    row.save()
                permissions.audit_entry(actor, "user:update", place_of(instance), diff=[{"path": "password"}]).save()
                saving.close()

            pre_save.connect(begin, sender=User, weak=False)
            post_save.connect(end, sender=User, weak=False)
            try:
                said: str | None = super().handle(*args, **options)
            finally:
                pre_save.disconnect(begin, sender=User)
                post_save.disconnect(end, sender=User)
        return said
