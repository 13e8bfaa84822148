"""People as actors: the signed-in person of a page, and the named one of the command line."""

from __future__ import annotations

import uuid
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user, get_user_model
from django.db import DatabaseError
from django.http import HttpRequest, parse_cookie

from ocmconsole.kubeapi import once
from ocmconsole.kubeapi.actor import ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, Actor, Door

AGENTS = "open-cluster-management:"
REQUEST_ID = "ocmconsole.request_id"  # in the environ: one id a request


def actor_of(request: HttpRequest, door: Door = Door.WEB) -> Actor:
    """Who is signed in."""
    return actor_for(request.user, door=door, credential=f"session:{request.user.pk}", **seen(request))


def is_known(environ: dict[str, Any]) -> bool:
    """Whether the cookies of a request belong to somebody who is signed in: judged before a body is read (D23)."""
    request = HttpRequest()
    request.META = environ
    try:
        cookies = parse_cookie(environ.get("HTTP_COOKIE", ""))
        store = import_module(settings.SESSION_ENGINE).SessionStore
        request.session = store(cookies.get(settings.SESSION_COOKIE_NAME))
        return bool(get_user(request).is_authenticated)
    except DatabaseError:
        return False


def stranger(request: HttpRequest) -> Actor:
    """Who is not signed in, or not yet."""
    return Actor(user=ANONYMOUS, groups=(UNAUTHENTICATED,), door=Door.WEB, **seen(request))


def seen(request: HttpRequest) -> dict[str, Any]:
    """What the console sees of whoever is there."""
    return {
        "address": request.META.get("REMOTE_ADDR", ""),
        "user_agent": request.META.get("HTTP_USER_AGENT", "")[:256],
        "request_id": request.META.get(REQUEST_ID, "") or str(uuid.uuid4()),
    }


def stand_in(name: str, credential: str) -> Actor | None:
    """The person of that name, for what he decided beforehand: with the rights he has now. None when he is gone."""
    user = get_user_model().objects.filter(username=name, is_active=True).first()
    return actor_for(user, door=Door.STANDING, credential=credential) if user else None


def actor_for(user: Any, **how: Any) -> Actor:
    """User name, Django groups as groups; a superuser carries ``system:masters`` here, where no certificate is asked.

    A Django group cannot claim a name of the system's own, nor that of a cluster's agents (ocm.md 8.1, 3).
    """
    named = user.groups.exclude(name__startswith="system:").exclude(name__startswith=AGENTS).order_by("name")
    masters = [MASTERS] if user.is_superuser else []
    names = once.ask(("groups", user.pk), lambda: tuple(named.values_list("name", flat=True)))
    groups = (*names, *masters, AUTHENTICATED)
    how.setdefault("request_id", str(uuid.uuid4()))
    return Actor(user=user.get_username(), groups=groups, **how)
