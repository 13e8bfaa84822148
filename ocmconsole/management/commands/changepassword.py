"""``manage.py changepassword``: Django's, with an entry in the audit."""

from __future__ import annotations

import getpass
from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.models import User

from ocmconsole.accounts import permissions
from ocmconsole.accounts.permissions import place_of
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint


class Command(changepassword.Command):
    def handle(self, *args: Any, **options: Any) -> str | None:
        username = options["username"] or getpass.getuser()
        before = User.objects.filter(username=username).first()
        said: str | None = super().handle(*args, **options)
        for user in User.objects.filter(username=username).exclude(password=before.password if before else ""):
            actor = Actor.controller("command-line").through(EntryPoint.CLI)
            permissions.audit_entry(actor, "user:update", place_of(user), diff=[{"path": "password"}]).save()
        return said
