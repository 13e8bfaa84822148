"""A signed-in person of the pages about joining, and what these pages need of a hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client

from tests import factories as make

WEB: dict[str, Any] = {"ocmconsole.listener": "console"}


def hub(home: Path, settings: Any) -> None:
    """What the first start of a hub leaves, as far as these pages ask for it."""
    settings.OCMCONSOLE_API_URL = "https://hub.example:6443"
    make.hub(home, settings, "localhost", "hub.example")


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
