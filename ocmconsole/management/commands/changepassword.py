"""``manage.py changepassword``: Django's, with an entry in the audit; a superuser's may take a second person."""

from __future__ import annotations

import getpass
from functools import partial
from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from ocmconsole.accounts import permissions, superusers
from ocmconsole.accounts.acting_command import BREAK_GLASS, breaking_glass, saving_account
from ocmconsole.accounts.permissions import place_of
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.actor import Actor


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
        with saving_account(partial(_note, before)):
            said: str | None = super().handle(*args, **options)
        return said


def _note(before: User | None, actor: Actor, changed: User) -> None:
    for row in superusers.agreed_account(actor, before, changed, {"password"}, ()):
        row.save()
    permissions.audit_entry(actor, "user:update", place_of(changed), diff=[{"path": "password"}]).save()
