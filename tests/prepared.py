"""The project as ``importer`` keeps it: Django is set up and pages are imported once, for programs that are forked from it.

Each program reads the settings of its own environment and opens its own connections. What modules read of the settings
while they were imported is remembered: a program where that differs is started as anybody would start it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from tests.hashers import cheap

MODULE = "ocmconsole.settings"
# What a program that serves imports besides, or at its first request.
MODULES = ("ocmconsole.urls", "ocmconsole.management.commands.serve", "ocmconsole.kubeapi.http.views")
READY_AGAIN = ("template_partials", "ocmconsole")  # their ``ready`` reads settings that differ
# Settings of which a module reads part at its import; None: nothing that stays.
PARTS: dict[str, Any] = {
    "DATABASES": lambda databases: databases["default"]["ENGINE"],
    "LOGGING": None,  # configured anew
    "OCMCONSOLE_CONTROLLERS": lambda how: how == "inline",
    "OCMCONSOLE_HOME": None,  # READY_AGAIN
    "OCMCONSOLE_REDIS_URL": bool,
    "TEMPLATES": None,  # READY_AGAIN
}

_read: dict[str, Any] = {}
_given: dict[str, Any] = {}  # settings that a library gives a default when it is imported


def prepare() -> None:
    """In a process that starts no program of itself."""
    from django.conf import LazySettings

    # As a hub that has no Celery, whose application registers receivers when it is made.
    os.environ |= {"DJANGO_SETTINGS_MODULE": MODULE, "OCMCONSOLE_CONTROLLERS": "thread"}
    read: Any = LazySettings.__getattr__
    give: Any = LazySettings.__setattr__

    def remember_read(settings: LazySettings, name: str) -> Any:
        value = read(settings, name)
        _read[name] = _part(name, value)
        return value

    def remember_given(settings: LazySettings, name: str, value: Any) -> None:
        give(settings, name, value)
        if name.isupper():
            _given[name] = value

    hooked: Any = LazySettings
    hooked.__getattr__, hooked.__setattr__ = remember_read, remember_given
    try:
        import django

        django.setup()
        for name in MODULES:
            import_module(name)
    finally:
        hooked.__getattr__, hooked.__setattr__ = read, give


def _part(name: str, value: Any) -> Any:
    part = PARTS.get(name, lambda whole: whole)
    return part and part(value)


def rewind(argv: list[str], environment: dict[str, str]) -> None:
    """In a program before it begins: its settings are not read yet, and when it sets Django up, most of that is done."""
    from asgiref.local import Local
    from django.apps import apps
    from django.conf import settings
    from django.db import connections
    from django.utils.functional import empty

    for name in [name for name in vars(settings) if name.isupper()]:
        del vars(settings)[name]
    settings._wrapped = empty
    del sys.modules[MODULE], sys.modules["ocmconsole"].settings
    vars(connections).pop("settings", None)
    vars(connections)["_settings"] = None  # as Django makes it
    vars(connections)["_connections"] = Local(connections.thread_critical)

    def populate(_installed_apps: object) -> None:
        del vars(apps)["populate"]
        for name, value in _given.items():
            setattr(settings, name, value)
        if any(_part(name, getattr(settings, name)) != part for name, part in _read.items()):
            os.execve(sys.executable, [sys.executable, *argv], environment)  # noqa: S606 - the same program
        settings.PASSWORD_HASHERS = cheap(settings.PASSWORD_HASHERS)
        for label in READY_AGAIN:
            apps.get_app_config(label).ready()

    vars(apps)["populate"] = populate
