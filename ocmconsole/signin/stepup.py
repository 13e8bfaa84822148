"""Step-up: requests that weigh most need a proof of who is signed in from the last five minutes.

A sign-in is such a proof, and so is a password, code or passkey on the page that ``authenticate_again`` redirects to.
A single sign-on is as old as the provider says (``asked_at``): it may have answered without asking anybody.
``ACTS`` is the only list of these requests; ``StepUpMiddleware`` enforces it, so that views know nothing of it.
Invariants: a stolen session is not enough. A form that was sent is kept in the session, encrypted with a key that only
the browser's cookie holds, and is carried out after the proof.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from allauth.account import app_settings
from allauth.account.internal.flows.login import (
    AUTHENTICATION_METHODS_SESSION_KEY,
    get_authentication_records,
    record_authentication,
)
from allauth.account.internal.flows.reauthentication import (
    STATE_SESSION_KEY,
    get_reauthentication_flows,
    resume_request,
)
from allauth.socialaccount.providers.base import AuthProcess
from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import QueryDict
from django.shortcuts import redirect, render
from django.urls import resolve, reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from ocmconsole.components.whole_numbers import whole_number
from ocmconsole.core.tokens.unlimited_tokens import FEW
from ocmconsole.second_approval import acts
from ocmconsole.second_approval.rules import ActName
from ocmconsole.signin.lifetime import BEGAN

if TYPE_CHECKING:
    from allauth.socialaccount.models import SocialLogin
    from django.http import HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase

Arguments = Mapping[str, Any]  # of the route
Condition = Callable[[QueryDict, Arguments], bool]

NEXT = "next"
METHOD = "socialaccount"  # of a record of allauth's: single sign-on
KEPT_SECONDS = 10 * 60  # a form is carried out only while the person still means it and what it decides stands
AGAIN = "prompt=login&max_age=0"  # OpenID Connect Core 3.1.2.1: ask the person, and say when (``auth_time``)


# ---------------------------------------------------------------- what needs a proof


def _always(sent: QueryDict, arguments: Arguments) -> bool:  # noqa: ARG001 - a Condition
    return True


def _is_sent(field: str, *values: str) -> Condition:
    """The form has the field, be it empty, with one of the values if there are some."""
    return lambda sent, _: sent.get(field) in values if values else field in sent


def _has_no_terms(sent: QueryDict, arguments: Arguments) -> bool:  # noqa: ARG001 - a Condition
    """A token for any name, and for any number of clusters or more than ``FEW``."""
    uses = whole_number(sent.get("uses", "").strip(), 9)
    return not sent.get("cluster", "").strip() and (uses is None or uses > FEW)


def _lets_in(sent: QueryDict, arguments: Arguments) -> bool:
    """A token that accepts by itself, or one of the wizard's that is not bound to its cluster."""
    return "accept" in sent or ("bind" not in sent and _has_no_terms(sent, arguments))


def _is_kept(sent: QueryDict, arguments: Arguments) -> bool:  # noqa: ARG001 - a Condition
    """Not only tried."""
    return sent.get("act") != "try"


def _can_be_second(sent: QueryDict, arguments: Arguments) -> bool:  # noqa: ARG001 - a Condition
    """To accept may be to stand behind another's override: the word for a key is in an annotation as well (D9)."""
    return acts.rule_of(ActName.KEY_OVERRIDE) is not None


def _is_final(sent: QueryDict, arguments: Arguments) -> bool:
    return arguments["name"] in {"remove", "revoke"} or "revoke" in sent


# By name of the route, in which "*" stands for any text: the forms (POST) that need a proof, and when.
ACTS: dict[str, Condition] = {
    # Accept a key that the hub would not give the name to (D9).
    "registration:override": _always,
    "registration:accept": _can_be_second,
    "registration:bulk": lambda sent, arguments: arguments["name"] == "accept" and _can_be_second(sent, arguments),
    # Be the second person behind an act, and have it done.
    "second-approval:approve": _always,
    "second-approval:carry-out": _always,
    # Let an agent come back under a key that nobody has looked at (D29).
    "registration:repair": _always,
    # Bootstrap tokens without terms.
    "registration:mint": _has_no_terms,
    # Approval policies; the wizard makes one when it is to accept the cluster by itself.
    "registration:new-policy": _is_kept,
    "registration:edit-policy": _is_kept,
    "registration:switch-policy": _always,
    "registration:delete-policy": _always,
    "registration:add-token": _lets_in,
    # The names by which agents reach the hub, and its certificate.
    "registration:add-address": _always,
    "registration:add-run": _is_sent("name_it"),
    "registration:remove-address": _always,
    "demo-remove": _always,
    # Rights.
    "access:give": _always,
    "access:answer": lambda sent, _: sent.get("act") != "dismiss",
    "access:join": _always,
    # People.
    "access:add-person": _always,
    "access:activate": _is_sent("active", "yes"),
    # The ends of clusters and of their certificates.
    "clusters:remove": _always,
    "clusters:abandon": _always,
    "clusters:bulk": _is_final,
    "registration:disconnect": _is_sent("revoke"),
    "registration:revoke": _always,
    "registration:revoke-many": _is_sent("confirmed"),
    # Where the hub sends what happens, and who can sign as the hub.
    "notifications:add": _always,
    "notifications:address": _always,
    "notifications:secret": _always,
    # That nobody hears of what follows.
    "notifications:switch": _is_sent("to", "off"),
    "notifications:remove-rule": _always,
    "notifications:quiet": _always,
    "notifications:delete": _always,
    # Many clusters leave their placements at once (D27).
    "placements:held": _is_sent("act", "release"),
    # A cluster's document can hold all of that: the word for another key (D9), finalizers, the acceptance.
    "clusters:edit": _is_sent("apply"),
    # All that Django admin stores: people, rights, documents, deletions, actions on many.
    "admin:auth_*": _always,
    "admin:*_add": _always,
    "admin:*_change": _always,
    "admin:*_permissions": _always,
    "admin:*_delete": _always,
    "admin:*_changelist": _always,
}
# What adds, changes, removes or shows second factors: by any method, since their pages show secrets.
FACTORS = (
    "mfa_activate_totp", "mfa_deactivate_totp", "mfa_add_webauthn", "mfa_edit_webauthn", "mfa_remove_webauthn",
    "mfa_view_recovery_codes", "mfa_generate_recovery_codes", "mfa_download_recovery_codes",
)  # fmt: skip


def needs_proof(request: HttpRequest) -> bool:
    """Whether the resolved request is one of ``ACTS`` or ``FACTORS``."""
    match = request.resolver_match
    if match is None:
        return False
    name = match.view_name
    if name in FACTORS:
        return True
    if request.method != "POST":
        return False
    return any(fnmatchcase(name, act) and when(request.POST, match.kwargs) for act, when in ACTS.items())


class StepUpMiddleware:
    """Below the session, its person and the check of the form's CSRF token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        if not needs_proof(request):
            return None
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        return None if recently_authenticated(request) else authenticate_again(request)


# ---------------------------------------------------------------- the proof


def recently_authenticated(request: HttpRequest) -> bool:
    """Whether the signed-in person has shown a credential, besides the session, within the last five minutes."""
    user = request.user
    if not isinstance(user, User):
        return False
    shown = [float(record["at"]) for record in get_authentication_records(request, user)]
    return is_recent(max(shown, default=float(request.session.get(BEGAN, 0))))


def is_recent(at: float) -> bool:
    """``at`` is in seconds since the epoch."""
    return bool(time.time() - at < app_settings.REAUTHENTICATION_TIMEOUT)


def asked_at(login: SocialLogin) -> float | None:
    """When the provider asked the person who they are, in seconds since the epoch: ``auth_time`` of the ID token.

    None where the provider does not say, and 0 where it says what is no time. OpenID Connect Core 2.
    """
    claimed = (login.account.extra_data.get("id_token") or {}).get("auth_time")
    if claimed is None:
        return None
    is_time = isinstance(claimed, int | float) and not isinstance(claimed, bool) and math.isfinite(claimed)
    return min(float(claimed), time.time()) if is_time else 0.0


def date_sign_in(request: HttpRequest, login: SocialLogin) -> None:
    """A sign-in that has just been recorded is as old as the provider says; no proof where it does not say."""
    records = request.session.get(AUTHENTICATION_METHODS_SESSION_KEY) or []
    if records and records[-1].get("method") == METHOD:
        dated = {**records[-1], "at": asked_at(login) or 0.0}
        request.session[AUTHENTICATION_METHODS_SESSION_KEY] = [*records[:-1], dated]


def record_proof(request: HttpRequest, login: SocialLogin) -> None:
    """The provider was asked to ask again, and has answered for the person who is signed in."""
    at = asked_at(login)
    claimed = {"provider": login.account.provider, "uid": login.account.uid}
    record_authentication(request, request.user, METHOD, **claimed, at=time.time() if at is None else at)


def authenticate_again(request: HttpRequest) -> HttpResponse:
    """The redirect to the page that asks for the proof; afterwards the request is carried out, a form as sent."""
    place = request.get_full_path()
    if request.method == "POST":
        _keep(request)
    else:
        request.session.pop(STATE_SESSION_KEY, None)  # a form that was given up
    user = request.user
    if isinstance(user, User) and not get_reauthentication_flows(user) and settings.OCMCONSOLE_OIDC_ISSUER:
        back = f"{reverse('carry_on')}?{urlencode({NEXT: place})}" if request.method == "POST" else place
        return redirect(f"{reverse('sso')}?{urlencode({NEXT: back, 'process': AuthProcess.REDIRECT})}")
    return redirect(f"{reverse('account_reauthenticate')}?{urlencode({NEXT: place})}")


# ---------------------------------------------------------------- the form that waits for it


def _keep(request: HttpRequest) -> None:
    kept = {
        "path": request.path,
        "place": request.path_info,
        "query": request.GET.urlencode(),
        "body": request.POST.urlencode(),
    }
    sealed = _cipher(request).encrypt(json.dumps(kept).encode()).decode()
    callback = f"{__name__}.{carried_out.__name__}"
    request.session[STATE_SESSION_KEY] = {"callback": callback, "state": {"sealed": sealed}}


def _cipher(request: HttpRequest) -> Fernet:
    """The database has only the digest of a session's key (``models.KeyField``)."""
    key = f"stepup:{request.session.session_key}".encode()
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(key).digest()))


def carried_out(request: HttpRequest, state: dict[str, str]) -> HttpResponseBase | None:
    """The answer of the form that was kept; None (for allauth) or a page when it is no longer there or not meant."""
    wanted = (request.POST.get(NEXT) or request.GET.get(NEXT, "")).partition("?")[0]
    try:
        kept = json.loads(_cipher(request).decrypt(state["sealed"].encode(), ttl=KEPT_SECONDS))
    except InvalidToken:
        messages.warning(request, "What you had sent is not kept any more. Send it again.")
        return None
    if wanted != kept["path"]:
        return None  # the proof was for something else
    request.GET, request.POST = QueryDict(kept["query"]), QueryDict(kept["body"])
    request.path, request.path_info, request.META["QUERY_STRING"] = kept["path"], kept["place"], kept["query"]
    match = request.resolver_match = resolve(kept["place"])
    answer: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
    return answer


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def carry_on(request: HttpRequest) -> HttpResponseBase:
    """After a proof that a provider of single sign-on gave: the person says once more that the form is meant."""
    if not recently_authenticated(request):
        return authenticate_again(request)
    if request.method == "POST":
        return resume_request(request) or redirect("home")
    return render(request, "account/carry_on.html", {"place": request.GET.get(NEXT, "")})
