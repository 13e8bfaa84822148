"""``manage.py createsuperuser``: Django's, with an entry in the audit."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.models import User

from ocmconsole.kubeapi import permissions
from ocmconsole.kubeapi.actor import Actor, Door
from ocmconsole.kubeapi.permissions import place_of


class Command(createsuperuser.Command):
    def handle(self, *args: Any, **options: Any) -> str | None:
        known = set(User.objects.values_list("pk", flat=True))
        said: str | None = super().handle(*args, **options)
        for user in User.objects.exclude(pk__in=known):
            actor = Actor.controller("command-line").through(Door.CLI)
            diff = [{"path": "is_superuser", "new": user.is_superuser}]
            permissions.entry(actor, "user:create", place_of(user), diff=diff).save()
        return said
