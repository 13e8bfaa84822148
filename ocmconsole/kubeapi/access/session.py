"""People as actors: the signed-in person of a page, and the named one of the command line."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from importlib import import_module
from time import time
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user, get_user_model
from django.db import DatabaseError
from django.http import HttpRequest, parse_cookie

from ocmconsole.kubeapi import errors, request_cache
from ocmconsole.kubeapi.access.actor import ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, Actor, EntryPoint
from ocmconsole.kubeapi.watch import change_log

AGENTS = "open-cluster-management:"
# In the environ: one id a request; Revision.rights from before the session was read, where the request may write.
REQUEST_ID = "ocmconsole.request_id"
AS_OF = "ocmconsole.as_of"


def actor_of(request: HttpRequest, entry_point: EntryPoint = EntryPoint.WEB) -> Actor:
    """Who is signed in."""

    def renew() -> Actor:
        if request.user.pk is None or not _is_valid(request):
            raise errors.Unauthorized
        return replace(actor_of_present(request.user.pk, **how), renew=renew)

    how: dict[str, Any] = {"entry_point": entry_point, "credential": f"session:{request.user.pk}", **seen(request)}
    how["until"] = _store().expires_at(request.session)
    return actor_for(request.user, as_of=request.META.get(AS_OF), renew=renew, **how)


def _is_valid(request: HttpRequest) -> bool:
    """Whether the session, read again, still signs in the same person: not ended, expired or of another password."""
    key = request.session.session_key  # which signing in and a new password change
    if key is None or time() >= _store().expires_at(request.session):
        return False
    present = HttpRequest()
    present.session = _store()(key)
    return bool(get_user(present).pk == request.user.pk)


def _store() -> Any:
    return import_module(settings.SESSION_ENGINE).SessionStore


def actor_of_present(pk: int, **how: Any) -> Actor:
    """The person with this key as an actor of now. Raises Unauthorized when the account is deactivated or gone."""
    as_of = change_log.rights()
    user = get_user_model().objects.filter(pk=pk, is_active=True).first()
    if user is None:
        raise errors.Unauthorized
    return actor_for(user, as_of=as_of, renew=partial(actor_of_present, pk, **how), **how)


def known_as(environ: dict[str, Any]) -> str:
    """The account that the cookies of a request sign in, or "", by which its body is judged and counted (D23)."""
    request = HttpRequest()
    request.META = environ
    try:
        cookies = parse_cookie(environ.get("HTTP_COOKIE", ""))
        request.session = _store()(cookies.get(settings.SESSION_COOKIE_NAME))
        user = get_user(request)
    except (DatabaseError, errors.ApiError):  # also of ending a session from before the present password
        return ""
    return f"session:{user.pk}" if user.is_authenticated else ""


def unauthenticated_actor(request: HttpRequest) -> Actor:
    """Who is not signed in, or not yet."""
    return Actor(user=ANONYMOUS, groups=(UNAUTHENTICATED,), entry_point=EntryPoint.WEB, **seen(request))


def seen(request: HttpRequest) -> dict[str, Any]:
    """The actor of a request of the console."""
    return {
        "address": request.META.get("REMOTE_ADDR", ""),
        "user_agent": request.META.get("HTTP_USER_AGENT", "")[:256],
        "request_id": request.META.get(REQUEST_ID, "") or str(uuid.uuid4()),
    }


def stand_in(name: str, credential: str) -> Actor | None:
    """The user of that name, for what they decided beforehand: with present rights. None when the account is gone."""
    found = get_user_model().objects.filter(username=name, is_active=True).values_list("pk", flat=True).first()
    try:
        return (
            actor_of_present(found, entry_point=EntryPoint.STANDING, credential=credential)
            if found is not None
            else None
        )
    except errors.Unauthorized:  # deactivated in between
        return None


def actor_for(user: Any, **how: Any) -> Actor:
    """User name, Django groups as groups; a superuser carries ``system:masters`` here, where no certificate is asked.

    ``how`` are the other fields of Actor. Without ``as_of`` the account was read just now, and may be read again.
    A Django group cannot claim a name of the system's own, nor that of a cluster's agents:
    it would give the rights that their certificates give.
    """
    if how.get("as_of") is None and not request_cache.is_remembering():
        how["as_of"] = change_log.rights()
    if how.get("renew") is None:
        kept = {name: value for name, value in how.items() if name not in {"as_of", "renew"}}
        how["renew"] = partial(actor_of_present, user.pk, **kept)
    if user.is_active:  # whom ``authorization.person_of`` would read again
        request_cache.cached(("person", user.get_username()), lambda: user)
    masters = [MASTERS] if user.is_superuser else []
    names = request_cache.cached(("groups", user.pk), lambda: _group_names(user))
    groups = (*names, *masters, AUTHENTICATED)
    how.setdefault("request_id", str(uuid.uuid4()))
    return Actor(user=user.get_username(), groups=groups, **how)


def _group_names(user: Any) -> tuple[str, ...]:
    return peoples_groups(user.groups.order_by("name").values_list("name", flat=True))


def peoples_groups(names: Iterable[str]) -> tuple[str, ...]:
    """Those that an account of these Django groups has as an actor."""
    return tuple(name for name in names if not name.startswith(("system:", AGENTS)))
