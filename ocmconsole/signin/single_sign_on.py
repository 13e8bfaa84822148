"""Single sign-on by allauth, with errors of a provider as a page.

Imported where a provider is set: allauth's side of it takes a tenth of the time in which a command starts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from allauth.socialaccount.providers.openid_connect import views as openid
from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.shortcuts import render
from requests import RequestException

from ocmconsole.signin import records, stepup

if TYPE_CHECKING:
    from django.http.response import HttpResponseBase

logger = logging.getLogger(__name__)


def leave(request: HttpRequest, provider_id: str = settings.OCMCONSOLE_OIDC_ID) -> HttpResponseBase:
    """A page that goes on to the provider: the form itself may lead nowhere else (form-action of the policy).

    Of a person who is signed in already the provider is asked for a new proof, whatever the address says.
    """
    asked = request.GET.copy()
    asked.pop("auth_params", None)
    if request.user.is_authenticated:
        asked["auth_params"] = stepup.AGAIN
    request.GET = cast("Any", asked)
    response = _believing(openid.login, request, provider_id)
    if isinstance(response, HttpResponseRedirect) and not response.url.startswith("/"):
        return render(request, "socialaccount/leave.html", {"url": response.url, "sso": settings.OCMCONSOLE_OIDC_NAME})
    return response


def back(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """From the provider, with a code that the hub changes for who it is."""
    return _believing(openid.callback, request, provider_id)


def _believing(view: Callable[..., HttpResponseBase], request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Believes that the provider answers, and in the way that the standard says; allauth does so too."""
    try:
        return view(request, provider_id)
    except (RequestException, AttributeError, KeyError, TypeError, ValueError) as error:
        logger.warning("single sign-on failed: %s: %s", type(error).__name__, error)
        records.record_refusal(request, "single sign-on: the provider did not answer as it should")
        return render(request, "socialaccount/authentication_error.html", status=502)
