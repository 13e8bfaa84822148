"""``manage.py createsuperuser``: Django's, with an entry in the audit, and D24's end of earlier certificates."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db.models.signals import post_save, pre_save

from ocmconsole.accounts import people, permissions, superusers
from ocmconsole.accounts.acting_command import BREAK_GLASS, breaking_glass
from ocmconsole.accounts.permissions import place_of
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint


class Command(createsuperuser.Command):
    requires_system_checks = ()

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        parser.add_argument("--break-glass", **BREAK_GLASS)

    def handle(self, *args: Any, break_glass: str = "", **options: Any) -> str | None:
        try:
            with breaking_glass(break_glass):
                return self._create(*args, **options)
        except errors.ApiError as error:
            raise CommandError(error.message) from error

    def _create(self, *args: Any, **options: Any) -> str | None:
        """The signals span one transaction around the account alone: no lock is held while the person types."""
        with ExitStack() as saving:

            def begin(**_: Any) -> None:
                saving.enter_context(verbs.changing_rights())

            def end(instance: User, **_: Any) -> None:
                actor = Actor.controller("command-line").through(EntryPoint.CLI)
                for row in superusers.agreed_account(actor, None, instance, (), ()):
                    row.save()
                people.save_named(actor, instance.username)
                diff = [{"path": "is_superuser", "new": instance.is_superuser}]
                permissions.audit_entry(actor, "user:create", place_of(instance), diff=diff).save()
                saving.close()

            pre_save.connect(begin, sender=User, weak=False)
            post_save.connect(end, sender=User, weak=False)
            try:
                said: str | None = super().handle(*args, **options)
            finally:
                pre_save.disconnect(begin, sender=User)
                post_save.disconnect(end, sender=User)
        return said
