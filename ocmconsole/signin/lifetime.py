"""How long a session lasts: while somebody is there, and no longer than is set (WCAG 2.2.1 warns before the end).

Invariant: what a page does by itself keeps no session alive. Middleware, and what session.js asks.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django.contrib.sessions.backends.base import SessionBase
    from django.http.response import HttpResponseBase

BEGAN, ACTIVE = "session_began", "session_active"
NOTED_AFTER = 60.0  # seconds; a write for each click would say no more


class Ends(NamedTuple):
    """Seconds from now."""

    idle: float
    at_last: float

    @property
    def soonest(self) -> float:
        return min(self)


def ends(session: SessionBase | Mapping[str, Any]) -> Ends:
    """When the session, or what one holds, will end; it has, if something is negative.

    Streams that outlive a request ask this too.
    """
    now = time.time()
    began, active = session.get(BEGAN, now), session.get(ACTIVE, now)
    idle = active + settings.OCMCONSOLE_SESSION_IDLE.total_seconds() - now
    return Ends(idle, began + settings.OCMCONSOLE_SESSION_LIFETIME.total_seconds() - now)


class LifetimeMiddleware:
    """Below the session and its person."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.user.is_authenticated:
            if ends(request.session).soonest <= 0:
                logout(request)
                messages.info(request, "Your session has ended. Sign in to go on.")
            elif BEGAN not in request.session:
                begin_session(request.session)
            elif is_deed(request):
                note(request.session)
        return self.get_response(request)


def is_deed(request: HttpRequest) -> bool:
    """Somebody opened a page or sent a form: browsers tell that from what scripts fetch, live updates for instance."""
    mode = request.headers.get("Sec-Fetch-Mode", "navigate")
    return mode == "navigate" or "HX-Request" in request.headers or request.method not in {"GET", "HEAD"}


def begin_session(session: Any) -> None:
    """Somebody has signed in."""
    session[BEGAN] = session[ACTIVE] = time.time()


def note(session: Any) -> None:
    if time.time() - session[ACTIVE] > NOTED_AFTER:
        session[ACTIVE] = time.time()


@never_cache
@login_required
@require_GET
def state(request: HttpRequest) -> HttpResponse:
    """How many seconds are left, and whether they can become more."""
    return _said(request)


@never_cache
@login_required
@require_POST
def extend(request: HttpRequest) -> HttpResponse:
    """Somebody is there."""
    request.session[ACTIVE] = time.time()
    return _said(request)


def _said(request: HttpRequest) -> HttpResponse:
    left = ends(request.session)
    return JsonResponse({"seconds": round(left.soonest), "at_last": round(left.at_last)})
