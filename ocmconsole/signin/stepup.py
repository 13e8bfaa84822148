"""Step-up: acts that weigh most ask again who is there, unless that was proven within the last minutes.

Invariant: a stolen session is not enough. Who has neither password nor passkey here proves himself where he signs in.
"""

from __future__ import annotations

import time
from functools import wraps
from typing import TYPE_CHECKING, Any

from allauth.account import app_settings
from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.internal.flows.reauthentication import did_recently_reauthenticate, get_reauthentication_flows
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase


def recently_authenticated(request: HttpRequest) -> bool:
    """Whether the signed-in person has shown a credential, besides the session, within the last five minutes."""
    user = request.user
    if not isinstance(user, User):
        return False
    if get_reauthentication_flows(user):
        return bool(did_recently_reauthenticate(request))
    records = get_authentication_records(request, user)  # allauth would take everybody without a password at his word
    return bool(records) and time.time() - float(records[-1]["at"]) < app_settings.REAUTHENTICATION_TIMEOUT


def authenticate_again(request: HttpRequest, *, back: str = "") -> HttpResponse:
    """The page that asks; it comes back to ``back``, or to the page that was asked for."""
    query = {"next": back or request.get_full_path()}
    user = request.user
    if isinstance(user, User) and not get_reauthentication_flows(user) and settings.OCMCONSOLE_OIDC_ISSUER:
        return redirect(f"{reverse('sso')}?{urlencode(query | {'auth_params': 'prompt=login'})}")
    return redirect(f"{reverse('account_reauthenticate')}?{urlencode(query)}")


def asking_everybody(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """A view of allauth's that asks by itself who has password or factor here, and takes all others at their word."""

    @login_required
    @wraps(view)
    def asked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if recently_authenticated(request) or get_reauthentication_flows(request.user):
            return view(request, *args, **kwargs)  # which keeps what was sent until the person has answered
        return authenticate_again(request)

    return asked
