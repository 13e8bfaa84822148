"""What the audit holds about signing in: who came and went, who was refused, and what signs in as whom (D11).

Invariant: what strangers type is not stored. A refusal names an account that exists, or none; equal ones of a minute
are one row. Entries of what allauth writes by itself follow its own signals, within the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa import signals
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver

from ocmconsole.accounts import permissions
from ocmconsole.accounts.permissions import place_of
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.access.session import actor_of, seen, unauthenticated_actor
from ocmconsole.kubeapi.storage import audit, audit_acts
from ocmconsole.signin import lifetime, sessions

if TYPE_CHECKING:
    from django.http import HttpRequest

SIGN_IN = audit_acts.declare("session:create", "Signed in", refused="Sign-in refused")
SIGN_OUT = audit_acts.declare("session:delete", "Signed out")
METHODS = {"password": "password", "socialaccount": "single sign-on", "mfa": "second factor"}
KINDS = {
    Authenticator.Type.WEBAUTHN: "passkey",
    Authenticator.Type.TOTP: "authenticator app",
    Authenticator.Type.RECOVERY_CODES: "recovery codes",
}


def signed_in(request: HttpRequest, user: User) -> None:
    shown = dict.fromkeys(_method(record) for record in get_authentication_records(request, user))
    permissions.audit_entry(actor_of(request), SIGN_IN, place_of(user), diff=[], reason=", ".join(shown)).save()


def _method(record: dict[str, Any]) -> str:
    method = str(record["method"])
    return str(KINDS.get(record.get("type"), METHODS.get(method, method)))


def signed_out(request: HttpRequest, *, others: int = 0) -> None:
    """The user signed out, or ended other sessions of their own."""
    if isinstance(request.user, User):
        reason = f"{others} other session{'' if others == 1 else 's'}" if others else ""
        permissions.audit_entry(actor_of(request), SIGN_OUT, place_of(request.user), diff=[], reason=reason).save()


def record_refusal(request: HttpRequest, reason: str, *, name: str = "") -> None:
    """A sign-in was refused; ``name`` is the name that was given."""
    is_known = name.isprintable() and User.objects.filter(username=name).exists()
    attributes = Attributes("create", resource="users", name=name if is_known else "")
    audit.record_denial(unauthenticated_actor(request), attributes, reason, act=SIGN_IN, is_known=True)


def record_factor_change(request: HttpRequest, user: User, side: str, authenticator: Authenticator) -> None:
    diff = {"path": KINDS[authenticator.type], side: str(authenticator)}
    permissions.audit_entry(actor_of(request), "user:update", place_of(user), diff=[diff]).save()


@receiver(user_logged_in)
def _begun(request: HttpRequest, **_: Any) -> None:
    """What the list of sessions shows; and sessions that have expired go."""
    lifetime.begin_session(request.session)
    request.session[sessions.SEEN] = {name: value for name, value in seen(request).items() if name != "request_id"}
    sessions.SessionStore.clear_expired()


@receiver(signals.authenticator_added)
@receiver(signals.authenticator_reset)
def _added(request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    record_factor_change(request, user, "new", authenticator)


@receiver(signals.authenticator_removed)
def _removed(request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    record_factor_change(request, user, "old", authenticator)


@receiver(signals.authentication_failed)
def _failed(request: HttpRequest, user: User, **_: Any) -> None:
    record_refusal(request, "the second factor was wrong", name=user.get_username())
