"""A signed-in person of the pages about joining, and what these pages need of a hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client

from ocmconsole.core import defaults
from ocmconsole.kubeapi.access.actor import Actor
from registration import hub_setup
from registration.pki import ca
from tests import factories as make

WEB: dict[str, Any] = {"ocmconsole.listener": "console"}


def hub(home: Path, settings: Any) -> None:
    """What the first start of a hub leaves, as far as these pages ask for it."""
    settings.OCMCONSOLE_HOME = home
    settings.OCMCONSOLE_API_URL = "https://hub.example:6443"
    ca.ensure_authority(home, ["localhost", "hub.example"])
    defaults.ensure_defaults(Actor.controller("test"))
    hub_setup._ensure_registration_objects()
    make.settle()


def person(name: str, *permissions: str) -> Client:
    """Somebody with these Django permissions, signed in; ``root`` is a superuser."""
    user = User.objects.create_user(name, is_superuser=name == "root")
    for codename in permissions:
        user.user_permissions.add(Permission.objects.get(codename=codename))
    client = Client(**WEB)
    client.force_login(user)
    return client


def page(answer: Any) -> str:
    return str(answer.content.decode())
