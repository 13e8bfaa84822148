"""Bearer tokens against the database: who holds one, and making and revoking them (W21, W26).

How tokens are built and signed is ``token_formats``'s; here is what must still exist for one to be believed. No token,
and no part of one that could be used, is stored, logged or audited. The readers are registered with the machinery.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Q

from ocmconsole.core.models import BootstrapToken, Secret, ServiceAccount, TokenPermission
from ocmconsole.core.rbac import known_rights
from ocmconsole.core.tokens import bootstrap_terms, token_formats, unlimited_tokens
from ocmconsole.core.tokens.bootstrap_terms import Terms
from ocmconsole.kubeapi import clock, errors, verbs, virtual_resources
from ocmconsole.kubeapi.access import authentication, authorization
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor
from ocmconsole.kubeapi.access.authorization import AccessDecision, Attributes
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.schema.values import quoted
from ocmconsole.kubeapi.storage import audit, only_reads, plain_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from django.db.models import Model

    from ocmconsole.core.tokens.token_formats import Claims, SigningKey
    from ocmconsole.kubeapi.errors import Doc

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
SERVICE_ACCOUNTS = "system:serviceaccounts"
JOINING = "system:bootstrappers:managedcluster"
REPAIRING = f"{JOINING}:repair"  # of repair tokens as well (D29); it has no rights of its own
# The right to mint, and how RBAC spells it: tokens are no resource of the API, so the group is the hub's own.
MINTING = Attributes("create", bootstrap_terms.GROUP, bootstrap_terms.PLURAL)
# How exactly it is known when a token was used last: not each of an agent's requests is a write.
LAST_USED_WITHIN = timedelta(minutes=1)


def ca_certificate() -> str:
    """The certificate of the hub's CA, which clients trust, as PEM; empty before it is made."""
    path = settings.OCMCONSOLE_HOME / "ca.crt"
    return path.read_text(encoding="ascii") if path.exists() else ""


# ---------------------------------------------------------------- service accounts


def service_account_actor(token: str, address: str = "", *, audience: str = token_formats.AUDIENCE) -> Actor | None:  # noqa: ARG001 - a reader's signature
    """The service account of a JWT; None for other tokens. Raises Unauthorized."""
    if token.count(".") != 2:  # noqa: PLR2004 - header, payload, signature
        return None
    try:
        claims = token_formats.read_token(_key(settings.OCMCONSOLE_HOME), token, clock.now(), audience=audience)
    except token_formats.BadToken as error:
        raise errors.Unauthorized from error
    if not _exists(ServiceAccount, claims.namespace, claims.name, claims.uid) or not _is_bound_to_something(claims):
        raise errors.Unauthorized
    return Actor(
        user=claims.user,
        uid=claims.uid,
        groups=(SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{claims.namespace}", AUTHENTICATED),
        extra={CREDENTIAL_ID: (f"JTI={claims.jti}",)},
        credential=f"jwt:{claims.jti}",
    )


def _is_bound_to_something(claims: Claims) -> bool:
    """A bound token ends with its object; only secrets are served among those that can be bound."""
    if claims.bound is None:
        return True
    kind, name, uid = claims.bound
    return kind == "Secret" and _exists(Secret, claims.namespace, name, uid)


def _exists(model: Any, namespace: str, name: str, uid: str) -> bool:
    found: bool = model.objects.filter(namespace=namespace, name=name, uid=uid, deleted_at=None).exists()
    return found


@lru_cache(maxsize=4)
def _key(home: Path) -> SigningKey:
    return token_formats.signing_key(home)


def mint_token(account: ServiceAccount, lifetime: timedelta, *, audiences: Sequence[str] = (),
         bound: tuple[str, str, str] | None = None) -> tuple[str, Claims]:  # fmt: skip
    """Sign a token; the caller has asked for permission and leaves the audit entry."""
    return token_formats.issue_token(
        _key(settings.OCMCONSOLE_HOME),
        namespace=account.namespace,
        name=account.name,
        uid=account.uid,
        lifetime=lifetime,
        now=clock.now(),
        audiences=tuple(audiences) or (token_formats.AUDIENCE,),
        bound=bound,
    )


def issue_account_token(
    actor: Actor,
    account: ServiceAccount,
    lifetime: timedelta,
    *,
    audiences: Sequence[str] = (),
    bound: Doc | None = None,
) -> tuple[str, Claims]:
    """What TokenRequest answers with. Raises Forbidden, and NotFound and Conflict about the object it is bound to."""

    def issue(actor: Actor) -> tuple[str, Claims]:
        asked = Attributes("create", "", "serviceaccounts", "token", namespace=account.namespace, name=account.name)
        authorization.require(actor, asked)
        text, claims = mint_token(
            account, lifetime, audiences=audiences, bound=_bound(account.namespace, bound) if bound else None
        )
        diff = [{"path": "jti", "new": claims.jti}, {"path": "expires", "new": claims.expires.isoformat()}]
        place = {"namespace": account.namespace, "uid": account.uid}
        with verbs.while_permitted(actor):
            for each in unlimited_tokens.agreed_account_token(actor, account, lifetime, audiences):
                each.save()
            _record(actor, "token", "serviceaccounts/token", account.name, **place, diff=diff).save()
        return text, claims

    return verbs.with_present_rights(actor, issue)


def _bound(namespace: str, reference: Doc) -> tuple[str, str, str]:
    kind, name, uid = (reference.get(field) or "" for field in ("kind", "name", "uid"))
    if kind != "Secret":
        raise errors.BadRequest(f"cannot bind token to object of type {kind}: only secrets are served")
    found = Secret.objects.filter(namespace=namespace, name=name, deleted_at=None).first()
    if found is None:
        raise errors.not_found("", "secrets", name)
    if uid and uid != found.uid:
        text = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict("", "secrets", name, text)
    return kind, name, found.uid


# ---------------------------------------------------------------- bootstrap tokens


def bootstrap_actor(token: str, address: str = "") -> Actor | None:
    """The bearer of a bootstrap token, ours or of a Secret; None for other tokens.

    Raises Unauthorized, Forbidden when the token is right and does not work from the address (K4).
    """
    parts = token_formats.split_bootstrap_token(token)
    if parts is None:
        return None
    token_id, secret = parts
    row = plain_sql.row_by(BootstrapToken.objects, id=token_id)
    groups = _groups_of_row(row, secret) if row else _groups_of_secret(token_id, secret)
    if groups is None:
        raise errors.Unauthorized
    actor = Actor(
        user=f"system:bootstrap:{token_id}",
        groups=(*groups, AUTHENTICATED),
        credential=f"{bootstrap_terms.PREFIX}{token_id}",
    )
    if row is not None:
        _require_address(replace(actor, address=address), row)
        _note_use(row)
        actor = replace(actor, bearers=row.max_uses or 1)
    return actor


def _groups_of_row(row: BootstrapToken, secret: str) -> tuple[str, ...] | None:
    if not token_formats.secret_matches(secret, row.hash) or row.revoked_at is not None or row.expires <= clock.now():
        return None
    return (token_formats.BOOTSTRAPPERS, JOINING, *((REPAIRING,) if row.is_repair else ()))


def _require_address(actor: Actor, row: BootstrapToken) -> None:
    """The refusal is recorded, so that the console shows the maker of the token why nothing joins."""
    if not row.addresses or bootstrap_terms.is_within(actor.address, row.addresses):
        return
    if not actor.address:  # somebody asks whose token it is
        raise errors.Unauthorized
    text = f"the bootstrap token {row.pk} works from {', '.join(row.addresses)} only, not from {quoted(actor.address)}"
    audit.record_denial(actor, Attributes("use", bootstrap_terms.GROUP, bootstrap_terms.PLURAL, name=row.pk), text)
    raise errors.Forbidden(text)


def _note_use(row: BootstrapToken) -> None:
    if only_reads.is_set():
        return
    now = clock.now()
    if row.last_used is None or row.last_used < now - LAST_USED_WITHIN:
        BootstrapToken.objects.filter(pk=row.pk, last_used=row.last_used).update(last_used=now)


def _groups_of_secret(token_id: str, secret: str) -> tuple[str, ...] | None:
    kept = Secret.objects.filter(
        namespace=token_formats.BOOTSTRAP_NAMESPACE, name=f"bootstrap-token-{token_id}"
    ).first()
    return token_formats.bootstrap_secret_matches(kept.doc, token_id, secret, clock.now()) if kept else None


def cluster_of(actor: Actor) -> str:
    """The one cluster that the actor's bootstrap token is for; empty when it is for any, or there is no token."""
    token = bootstrap_terms.token_of(actor)
    return token.cluster if token else ""


def may_mint(actor: Actor) -> AccessDecision:
    """Users who may make tokens may also see and revoke those that they made."""
    return authorization.permitted(actor, TokenPermission.ADD)


def require_mint(actor: Actor) -> None:
    """As ``may_mint``, but a no is recorded and raised as Forbidden."""
    if not may_mint(actor).allowed:
        authorization.refuse(actor, MINTING, f"the permission {TokenPermission.ADD} is missing")


def issue_bootstrap_token(
    actor: Actor,
    *,
    ttl: timedelta,
    name: str = "",
    cluster: str = "",
    max_uses: int | None = None,
    addresses: Sequence[str] = (),
    clusterset: str = "",
    labels: Mapping[str, str] | None = None,
) -> str:
    """Mint a token and return it, this once. Raises Invalid.

    The caller has asked for permission; it is asked again, and Forbidden raised, where rights have changed meanwhile.
    """
    return issue_token(actor, Terms(ttl, name, cluster, max_uses, tuple(addresses), clusterset, labels or {}))


def issue_token(
    actor: Actor,
    terms: Terms,
    *,
    require: Callable[[Actor], object] = require_mint,
    confirm: Callable[[Actor], Iterable[Model]] = lambda _: (),
) -> str:
    """As ``issue_bootstrap_token``. ``require`` asks for the right that it takes.

    ``confirm`` is called while nobody else may write, and raises where the token is not to be minted any more; it
    returns rows to save with the token.
    """
    terms.check()

    def issue(present: Actor) -> str:
        if present is not actor:
            require(present)
        return _issue(present, terms, confirm)

    return verbs.with_present_rights(actor, issue)


def _issue(actor: Actor, terms: Terms, confirm: Callable[[Actor], Iterable[Model]]) -> str:
    token_id, secret = token_formats.new_bootstrap_token()
    now = clock.now()
    row = BootstrapToken(
        id=token_id,
        hash=token_formats.hash_secret(secret),
        created_by=actor.user[:320],
        created=now,
        expires=now + terms.ttl,
        **terms.columns(),
    )
    recorded = {**terms.columns(), "expires": row.expires.isoformat()}
    diff = [{"path": path, "new": value} for path, value in recorded.items() if value]
    with verbs.while_permitted(actor):
        for each in (*confirm(actor), *unlimited_tokens.agreed_terms(actor, terms)):
            each.save()
        row.save(force_insert=True)
        _record(actor, "create", "bootstraptokens", token_id, diff=diff).save()
    return f"{token_id}.{secret}"


def revoke_as(actor: Actor, token: BootstrapToken) -> None:
    """Raises Forbidden unless the actor made the token, or may revoke those of others."""

    def revoke(actor: Actor) -> None:
        if not bootstrap_terms.may_revoke(actor, token):
            asked = Attributes("delete", bootstrap_terms.GROUP, bootstrap_terms.PLURAL, name=token.pk)
            text = f"you may revoke the bootstrap tokens that you minted yourself; {TokenPermission.DELETE} is missing"
            authorization.refuse(actor, asked, text)
        _revoke(actor, token.pk)

    verbs.with_present_rights(actor, revoke)


def revoke_bootstrap_token(actor: Actor, token_id: str) -> None:
    """As ``revoke_as``, for a caller that needs no right. Raises NotFound."""
    verbs.with_present_rights(actor, lambda actor: _revoke(actor, token_id))


def _revoke(actor: Actor, token_id: str) -> None:
    """From now on the token opens nothing. Revoking again changes nothing."""
    now = clock.now()
    with verbs.changing_rights(actor):
        if BootstrapToken.objects.filter(pk=token_id, revoked_at=None).update(revoked_at=now):
            _record(
                actor, "revoke", "bootstraptokens", token_id, diff=[{"path": "revoked", "new": now.isoformat()}]
            ).save()
            return
    if not BootstrapToken.objects.filter(pk=token_id).exists():
        raise errors.not_found("", "bootstraptokens", token_id)


def ended_repairs(actor: Actor, cluster: str, reason: str) -> Iterator[Model]:
    """D29: the repair tokens of a cluster, revoked, and an audit entry of each: rows for the caller's transaction.

    Spent ones too, also when their time is over: what was asked for with them may still wait.
    """
    now = clock.now()
    found = BootstrapToken.objects.filter(cluster=cluster, key_line__isnull=False, revoked_at=None)
    for row in found.filter(Q(expires__gt=now) | Q(brought__isnull=False)).distinct():
        row.revoked_at = now
        yield row
        diff = [{"path": "revoked", "new": now.isoformat()}]
        yield _record(actor, "revoke", "bootstraptokens", row.pk, diff=diff, reason=reason)


def _record(
    actor: Actor,
    verb: str,
    resource: str,
    name: str,
    *,
    namespace: str = "",
    uid: str = "",
    diff: list[Doc],
    reason: str = "",
) -> AuditEvent:
    singular = resource.partition("/")[0].removesuffix("s")
    return audit.entry_of(
        actor,
        f"{singular}:{verb}",
        verb="create" if verb == "token" else verb,
        resource=resource,
        namespace=namespace,
        name=name,
        uid=uid,
        diff=diff,
        reason=reason,
    )


authorization.spell(TokenPermission.ADD, lambda name: [MINTING])  # noqa: ARG005 - a right on all tokens: they have no names
known_rights.register(
    known_rights.domain_right(
        "mint",
        TokenPermission.ADD,
        group=MINTING.group,
        plural=MINTING.resource,
        phrase="mint bootstrap tokens",
        noun="token",
    )
)
virtual_resources.register_document(
    virtual_resources.StaticDocument(
        token_formats.PROVIDER_PATH, "application/json", lambda: token_formats.provider(settings.OCMCONSOLE_API_URL)
    )
)
virtual_resources.register_document(
    virtual_resources.StaticDocument(
        token_formats.KEY_SET_PATH,
        "application/jwk-set+json",
        lambda: token_formats.public_key_set(_key(settings.OCMCONSOLE_HOME)),
    )
)
authentication.reads_tokens(service_account_actor)
authentication.reads_tokens(bootstrap_actor)
