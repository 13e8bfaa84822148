"""Where allauth asks what this hub wants: who may sign in, how accounts are written, what is recorded of it.

Invariants: there is no sign-up. A first single sign-on makes an account without rights, with the name that the
provider gives and nobody has, RBAC and records included; an account that exists is never taken over, and never
connected. Accounts and passwords are written by ``people``. Called by allauth; each class is named by a setting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.providers.base import AuthProcess
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.shortcuts import render

from ocmconsole.accounts import people
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.session import actor_of, unauthenticated_actor
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.signin import factor_texts, names, records, stepup

if TYPE_CHECKING:
    from allauth.socialaccount.models import SocialLogin
    from django.http import HttpRequest, HttpResponse

SYSTEM = ("system:", "open-cluster-management:")


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc] # allauth carries no types
    error_messages = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": "This is not a correct username and password.",
        "too_many_login_attempts": "Too many failed attempts. Wait five minutes, or sign in with a passkey.",
        "incorrect_password": "This is not your password.",
        "enter_current_password": "This is not your password.",
        "incorrect_code": "This was not accepted. Try again, or use another way.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002 - allauth's signature
        return False

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            records.record_refusal(request, "too many failed attempts", name=credentials.get("username", ""))
            raise

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        records.record_refusal(request, "name or password was wrong", name=credentials.get("username", ""))

    def post_login(self, request: HttpRequest, user: User, **how: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **how)
        if (login := (how.get("signal_kwargs") or {}).get("sociallogin")) is not None:
            stepup.date_sign_in(request, login)
        records.signed_in(request, user)
        return response

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        records.record_refusal(request, "the account is deactivated", name=user.get_username())
        response: HttpResponse = super().respond_user_inactive(request, user)
        return response

    def is_reauthentication_required(self, *, app: str, **_: Any) -> bool:  # noqa: ARG002 - allauth's signature
        """For allauth's own checks: the rule of this hub, by which a sign-in is a proof as well."""
        return not stepup.recently_authenticated(context.request)

    def logout(self, request: HttpRequest) -> None:
        records.signed_out(request)
        super().logout(request)

    def set_password(self, user: User, password: str) -> None:
        user.password = make_password(password)
        people.change_own_password(actor_of(context.request), user)


class SecondFactors(DefaultMFAAdapter):  # type: ignore[misc] # as above
    """allauth encrypts before it makes the row, and says of no text whose it is: ``factor_texts`` knows."""

    def encrypt(self, text: str) -> str:
        return factor_texts.NewText(stored_text.encrypt(text, factor_texts.FACTOR))

    def decrypt(self, encrypted_text: str) -> str:
        return factor_texts.read(encrypted_text)

    def get_totp_label(self, user: User) -> str:
        return user.get_username()

    def get_totp_issuer(self) -> str:
        return f"ocmconsole {settings.OCMCONSOLE_HUB_NAME}"

    def get_public_key_credential_user_entity(self, user: User) -> dict[str, Any]:
        entity: dict[str, Any] = super().get_public_key_credential_user_entity(user)
        return entity | {"name": user.get_username()}


class SingleSignOn(DefaultSocialAccountAdapter):  # type: ignore[misc] # as above
    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:  # noqa: ARG002 - allauth's signature
        return True

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        process = sociallogin.state.get("process")
        if process == AuthProcess.CONNECT:
            raise self._refusal(request, "An account that exists cannot be connected with single sign-on.")
        if process == AuthProcess.REDIRECT:
            self._prove(request, sociallogin)
            return
        if not sociallogin.is_existing:
            self._check_name(request, sociallogin.user)

    def _prove(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """The person who is signed in was to show at the provider that they are still there (``stepup``)."""
        if not sociallogin.is_existing or sociallogin.user.pk != request.user.pk:
            raise self._refusal(request, "The provider did not confirm the account that is signed in here.")
        at = stepup.asked_at(sociallogin)
        if at is not None and not stepup.is_recent(at):
            text = "The provider confirmed you without asking you again. Sign out there, then send again what you sent."
            raise self._refusal(request, text)
        stepup.record_proof(request, sociallogin)

    def _check_name(self, request: HttpRequest, user: User) -> None:
        user.username = User.normalize_username(user.username)
        if not user.username:
            raise self._refusal(request, "The provider gave no user name (preferred_username).")
        if user.username.startswith(SYSTEM):
            raise self._refusal(request, "Names with this beginning are the hub's own.")
        if User.objects.filter(username__iexact=user.username).exists():
            raise self._refusal(request, "An account of this name exists already and is not connected with yours.")
        try:
            User.username_validator(user.username)
        except ValidationError as error:
            raise self._refusal(request, " ".join(error.messages)) from error
        if names.is_spoken_for(user.username):
            raise self._refusal(request, "This name has rights or records here; an administrator makes its account.")

    def _refusal(self, request: HttpRequest, why: str) -> ImmediateHttpResponse:
        records.record_refusal(request, f"single sign-on: {why}")
        return ImmediateHttpResponse(
            render(request, "socialaccount/authentication_error.html", {"why": why}, status=403)
        )

    def on_authentication_error(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - allauth's signature
        records.record_refusal(request, "single sign-on did not succeed")

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:  # noqa: ARG002 - allauth's signature
        """The account is the hub's own deed: nobody is signed in yet."""
        user: User = sociallogin.user
        user.password = make_password(None)
        hub, seen = Actor.controller("single-sign-on"), unauthenticated_actor(request)
        people.save_user(replace(seen, user=hub.user, groups=hub.groups), user)
        sociallogin.save(request)
        return user
