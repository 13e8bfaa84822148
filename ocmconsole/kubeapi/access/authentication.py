"""Who sends this request: client certificate, then bearer token, then nobody; then impersonation (W21, W148).

A bad credential is 401 and never becomes anonymous. How certificates and tokens are read is registered by the apps that
own them, so the machinery holds no cryptography.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from django.contrib.auth import get_user_model
from django.db import DatabaseError
from rest_framework.authentication import BaseAuthentication

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access import authorization, request_limits
from ocmconsole.kubeapi.access.actor import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, Actor
from ocmconsole.kubeapi.storage import plain_sql
from ocmconsole.kubeapi.watch import change_log

if TYPE_CHECKING:
    from datetime import datetime

    from rest_framework.request import Request

ReadToken = Callable[[str, str], "Actor | None"]
ListHonoured = Callable[[Collection[str]], Mapping[str, "datetime"]]
ReadRegistered = Callable[[Mapping[str, bytes]], Mapping[str, Actor]]


class ReadCertificate(Protocol):
    def __call__(self, der: bytes, address: str = "") -> Actor: ...


_certificates: list[ReadCertificate] = []
_tokens: list[ReadToken] = []
_honoured: list[ListHonoured] = []
_registered: list[ReadRegistered] = []

SYSTEM = "system:"  # how names begin that are nobody's account
SERVICE_ACCOUNT = "system:serviceaccount:"


def reads_certificates(read: ReadCertificate) -> ReadCertificate:
    """The reader gets a DER certificate and the address from which it is shown, "" when that is not known.

    It raises Unauthorized for one that it does not trust.
    """
    _certificates.append(read)
    return read


def reads_tokens(read: ReadToken) -> ReadToken:
    """The reader gets a token and the address it comes from, "" when that is not known.

    It answers None for a token that is not its kind, raises Unauthorized for a bad one of its kind.
    """
    _tokens.append(read)
    return read


def lists_honoured_certificates(read: ListHonoured) -> ListHonoured:
    """The reader gets fingerprints as ``Actor.credential`` has them.

    It returns those of certificates that nobody has revoked, and when each expires. A certificate that it does not know
    is missing, whether or not ``reads_certificates`` trusts it.
    """
    _honoured.append(read)
    return read


def honoured_certificates(fingerprints: Collection[str]) -> Mapping[str, datetime]:
    """As the reader says; nothing without one."""
    return _honoured[0](fingerprints) if _honoured else {}


def reads_registered_certificates(read: ReadRegistered) -> ReadRegistered:
    """The reader gets DER certificates by fingerprint, any number at once.

    It returns whose those are that it knows, trusts and nobody has revoked. The others are missing: what is to be said
    or recorded of them is for ``reads_certificates``.
    """
    _registered.append(read)
    return read


def actors_of_registered_certificates(shown: Mapping[str, bytes]) -> dict[str, Actor]:
    """As the reader says, but for people, whose accounts would have to be looked at; nothing without a reader."""
    found = _registered[0](shown) if _registered else {}
    return {fingerprint: _active(actor) for fingerprint, actor in found.items() if actor.user.startswith(SYSTEM)}


class KubernetesAuthentication(BaseAuthentication):
    """DRF's authentication class: ``request.user`` becomes the Actor.

    One class for all credentials: which counts first, and that a bad one is never passed over, is said by ``actor_of``,
    which streams and commits ask again without a request.
    """

    def authenticate(self, request: Request) -> tuple[Actor, None]:
        """Raises Unauthorized, Forbidden (impersonation), BadRequest."""
        return actor_of(request.META), None


def actor_of(environ: dict[str, object]) -> Actor:
    """The acting identity of a request. Raises Unauthorized, Forbidden (impersonation)."""
    as_of = change_log.rights()  # first: whatever ends from now on is noticed by the commit
    actor = replace(
        _who(environ),
        as_of=as_of,
        renew=lambda: actor_of(environ),
        address=str(environ.get("REMOTE_ADDR", "")),
        user_agent=str(environ.get("HTTP_USER_AGENT", ""))[:256],
        request_id=str(uuid.uuid4()),
    )
    environ[request_limits.AUTHENTICATED_AS] = actor
    return _impersonated(actor, environ)


def may_still(environ: dict[str, object], asked: authorization.Attributes, *, deleting: bool) -> bool:
    """Whether who opened a watch may read on, with the same limits: the credential is examined again."""
    try:
        decision = authorization.authorize(actor_of(environ), asked)
    except (errors.Unauthorized, errors.Forbidden):
        return False
    return decision.allowed and decision.deleting == deleting


def is_known(environ: dict[str, object]) -> bool:
    """Whether the head of a request carries a valid credential: it is judged by this before its body is read (D23).

    The request is authenticated again when it is handled. While the database does not answer nobody is known.
    """
    try:
        return _who(environ).user != ANONYMOUS
    except (errors.ApiError, DatabaseError):
        return False


def _who(environ: dict[str, object]) -> Actor:
    certificate = environ.get("ocmconsole.peer_certificate")
    if isinstance(certificate, bytes) and _certificates:
        return _active(_certificates[0](certificate, str(environ.get("REMOTE_ADDR", ""))))
    authorization = environ.get("HTTP_AUTHORIZATION")
    if authorization is None:
        return Actor.anonymous()
    if not (token := request_limits.bearer_token(str(authorization))):
        raise errors.Unauthorized
    return actor_of_token(token, str(environ.get("REMOTE_ADDR", "")))


def actor_of_token(token: str, address: str = "") -> Actor:
    """The identity behind a bearer token. Raises Unauthorized, Forbidden from an address where it does not work."""
    for read in _tokens:
        if actor := read(token, address):
            return _active(actor)
    raise errors.Unauthorized


def _active(actor: Actor) -> Actor:
    """Every credential of a deactivated account is refused."""
    is_person = not actor.user.startswith(SYSTEM)
    if is_person and plain_sql.is_there(get_user_model(), username=actor.user, is_active=False):
        raise errors.Unauthorized
    if AUTHENTICATED not in actor.groups:
        actor = replace(actor, groups=(*actor.groups, AUTHENTICATED))
    return actor


# ---------------------------------------------------------------- impersonation


def _impersonated(actor: Actor, environ: dict[str, object]) -> Actor:
    user = str(environ.get("HTTP_IMPERSONATE_USER", ""))
    groups = _listed(environ, "HTTP_IMPERSONATE_GROUP")
    uid = str(environ.get("HTTP_IMPERSONATE_UID", ""))
    prefix = "HTTP_IMPERSONATE_EXTRA_"
    extra = {
        unquote(name.removeprefix(prefix).replace("_", "-").lower()): _listed(environ, name)
        for name in environ
        if name.startswith(prefix)
    }
    if not user:
        if groups or uid or extra:
            raise errors.BadRequest(
                f"requested [{', '.join((*groups, uid, *extra))}] without impersonating a user name"
            )
        return actor
    _ask(actor, user, groups, uid, extra)
    if not groups and (account := _service_account(user)):
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    if AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, UNAUTHENTICATED if user == ANONYMOUS else AUTHENTICATED)
    return replace(actor, user=user, groups=groups, uid=uid, extra=extra, impersonator=actor.user)


def _ask(actor: Actor, user: str, groups: tuple[str, ...], uid: str, extra: dict[str, tuple[str, ...]]) -> None:
    """The real user needs ``impersonate`` on everything that is claimed."""
    if account := _service_account(user):
        asked = authorization.Attributes(
            "impersonate", resource="serviceaccounts", namespace=account[0], name=account[1]
        )
        authorization.require(actor, asked)
    else:
        authorization.require(actor, authorization.Attributes("impersonate", resource="users", name=user))
    for group in groups:
        authorization.require(actor, authorization.Attributes("impersonate", resource="groups", name=group))
    of_authentication = "authentication.k8s.io"
    if uid:
        authorization.require(
            actor, authorization.Attributes("impersonate", group=of_authentication, resource="uids", name=uid)
        )
    for key, values in extra.items():
        for value in values:
            asked = authorization.Attributes(
                "impersonate", of_authentication, "userextras", subresource=key, name=value
            )
            authorization.require(actor, asked)


def _service_account(user: str) -> list[str] | None:
    """Namespace and name. What merely begins like a service account is a user, and gets no account's groups."""
    parts = user.removeprefix(SERVICE_ACCOUNT).split(":") if user.startswith(SERVICE_ACCOUNT) else []
    return parts if len(parts) == 2 and all(parts) else None  # noqa: PLR2004 - namespace and name


def _listed(environ: dict[str, object], name: str) -> tuple[str, ...]:
    """Repeated headers arrive joined by commas."""
    value = str(environ.get(name, ""))
    return tuple(part.strip() for part in value.split(",") if part.strip())
