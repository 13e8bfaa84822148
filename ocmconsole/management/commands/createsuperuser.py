"""``manage.py createsuperuser``: Django's, with an entry in the audit, and D24's end of earlier certificates."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from ocmconsole.accounts import people, permissions, superusers
from ocmconsole.accounts.acting_command import BREAK_GLASS, breaking_glass, saving_account
from ocmconsole.accounts.permissions import place_of
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.actor import Actor


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
        with saving_account(_note):
            said: str | None = super().handle(*args, **options)
        return said


def _note(actor: Actor, made: User) -> None:
    for row in superusers.agreed_account(actor, None, made, (), ()):
        row.save()
    people.save_named(actor, made.username)
    diff = [{"path": "is_superuser", "new": made.is_superuser}]
    permissions.audit_entry(actor, "user:create", place_of(made), diff=diff).save()
