"""Pages of signing in where allauth's own do not do: status codes, the account, the way to single sign-on."""

from __future__ import annotations

import logging
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast

from allauth.account.views import LoginView, PasswordChangeView
from allauth.mfa.base.views import IndexView
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from ocmconsole.signin import records, sessions

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.http.response import HttpResponseBase

logger = logging.getLogger(__name__)


class SignIn(LoginView):  # type: ignore[misc] # allauth carries no types
    """Name and password, a passkey, or single sign-on."""

    def form_invalid(self, form: Any) -> HttpResponse:
        response: HttpResponse = super().form_invalid(form)
        response.status_code = 400
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        sso = settings.OCMCONSOLE_OIDC_NAME if settings.OCMCONSOLE_OIDC_ISSUER else ""
        return context | {"sso": sso, "passkeys": passkeys_work(self.request)}


class AccountView(IndexView):  # type: ignore[misc] # as above
    """What signs in as the person, and where that happened."""

    template_name = "mfa/index.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        user = self.request.user
        accounts = SocialAccount.objects.filter(user=user, provider=settings.OCMCONSOLE_OIDC_ID)
        is_connected = bool(settings.OCMCONSOLE_OIDC_ISSUER) and accounts.exists()
        return context | {
            "passkeys_work": passkeys_work(self.request),
            "connected": settings.OCMCONSOLE_OIDC_NAME if is_connected else "",
            "session_count": len(sessions.sessions_of(user)),
        }


class ChangePassword(PasswordChangeView):  # type: ignore[misc] # as above
    """Of an account that has one here; others have theirs where they sign in."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated and not request.user.has_usable_password():
            raise Http404("This account has no password here.")
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response

    def get_default_success_url(self) -> str:
        return reverse("account")

    def form_invalid(self, form: Any) -> HttpResponse:
        response: HttpResponse = super().form_invalid(form)
        response.status_code = 400
        return response


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def browsers(request: HttpRequest) -> HttpResponse:
    """Where the person is signed in; a POST ends every session but this one."""
    user, key = cast("User", request.user), request.session.session_key or ""
    if request.method == "POST":
        if ended := sessions.end_others(user, key):
            records.signed_out(request, others=ended)
        messages.info(request, "The other sessions have ended.")
        return redirect("sessions")
    rows = [{"session": each, "is_current": each.belongs_to(key)} for each in sessions.sessions_of(user)]
    return render(request, "account/sessions.html", {"rows": rows, "session_count": len(rows)})


def passkeys_work(request: HttpRequest) -> bool:
    """Browsers have passkeys for names only, and over HTTPS unless the name is localhost."""
    host = request.get_host().rpartition(":")[0] or request.get_host()
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return request.is_secure() or host == "localhost"
    return False
