"""Service-account tokens and bootstrap tokens: made, signed and checked. Pure functions on keys and documents.

Invariant: a token is believed only when every claim has the shape that the hub itself writes; whether the account, the
bound object or the Secret still exists is asked of the database by the caller, kubeapi's authentication.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import string
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from ocmconsole.environment import home as files
from ocmconsole.kubeapi.errors import Doc

ALGORITHM = "ES256"
ISSUER = "https://kubernetes.default.svc"
AUDIENCE = ISSUER  # what a token is for when nobody says
PROVIDER_PATH = "/.well-known/openid-configuration"
KEY_SET_PATH = "/openid/v1/jwks"
LONGEST_TOKEN = 16 * 1024  # characters; bounds what is decoded
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"

BOOTSTRAP_TYPE = "bootstrap.kubernetes.io/token"
BOOTSTRAP_NAMESPACE = "kube-system"
BOOTSTRAPPERS = "system:bootstrappers"
ACCOUNT_TYPE = "kubernetes.io/service-account-token"  # of a Secret with a token of a ServiceAccount
ACCOUNT_NAME = "kubernetes.io/service-account.name"  # the annotation of such a Secret
BOOTSTRAP_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
BOOTSTRAP_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
ALPHABET = string.ascii_lowercase + string.digits


class BadToken(Exception):
    """A service-account token that must not be believed; the text is for logs, not for the caller of the API."""


# ---------------------------------------------------------------- service-account tokens


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key of ``sa.key``; ``kid`` is the digest of its public half, as Kubernetes makes it."""

    private: ec.EllipticCurvePrivateKey
    kid: str


@dataclass(frozen=True, slots=True)
class Claims:
    """What a service-account token says. ``bound`` is ``(kind, name, uid)`` of the object whose end ends the token."""

    namespace: str
    name: str
    uid: str
    jti: str
    audiences: tuple[str, ...]
    issued: datetime
    expires: datetime
    bound: tuple[str, str, str] | None = None

    @property
    def user(self) -> str:
        return f"{SERVICE_ACCOUNT_PREFIX}{self.namespace}:{self.name}"


def signing_key(home: Path) -> SigningKey:
    """The home's ``sa.key``, made on first use. Raises ValueError when the file holds no P-256 key."""
    path = home / "sa.key"
    with files.locked(home):
        if not path.exists():
            files.write_file(path, _new_key(), secret=True)
        try:
            private = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(private, ec.EllipticCurvePrivateKey) or not isinstance(private.curve, ec.SECP256R1):
        raise ValueError(f"{path} does not hold an ECDSA P-256 key")  # noqa: TRY004 - the file is wrong, not the caller
    spki = private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    kid = base64.urlsafe_b64encode(hashlib.sha256(spki).digest()).rstrip(b"=").decode()
    return SigningKey(private, kid)


def _new_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_key_set(key: SigningKey) -> Doc:
    """The public half as a JSON Web Key Set, for those who check tokens themselves (``/openid/v1/jwks``)."""
    public = ECAlgorithm.to_jwk(key.private.public_key(), as_dict=True)
    return {"keys": [{"use": "sig", "kid": key.kid, "alg": ALGORITHM, **public}]}


def provider(address: str) -> Doc:
    """The OpenID provider's description; ``address`` is the URL of this API server."""
    return {
        "issuer": ISSUER,
        "jwks_uri": f"{address}{KEY_SET_PATH}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
    }


def issue_token(
    key: SigningKey,
    *,
    namespace: str,
    name: str,
    uid: str,
    lifetime: timedelta,
    now: datetime,
    audiences: Sequence[str] = (AUDIENCE,),
    bound: tuple[str, str, str] | None = None,
) -> tuple[str, Claims]:
    """A ServiceAccount token as Kubernetes issues it (JWT), and its claims."""
    issued = now.replace(microsecond=0)
    claims = Claims(namespace, name, uid, str(uuid.uuid4()), tuple(audiences), issued, issued + lifetime, bound)
    private: Doc = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
    if bound is not None:
        private[bound[0].lower()] = {"name": bound[1], "uid": bound[2]}
    payload = {
        "iss": ISSUER,
        "sub": claims.user,
        "aud": list(audiences),
        "iat": int(issued.timestamp()),
        "nbf": int(issued.timestamp()),
        "exp": int(claims.expires.timestamp()),
        "jti": claims.jti,
        "kubernetes.io": private,
    }
    return jwt.encode(payload, key.private, algorithm=ALGORITHM, headers={"kid": key.kid}), claims


def read_token(key: SigningKey, token: str, now: datetime, *, audience: str = AUDIENCE) -> Claims:
    """Raises BadToken for anything that this key did not sign for this audience and time."""
    if len(token) > LONGEST_TOKEN:
        raise BadToken("the token is too long")
    try:
        header = jwt.get_unverified_header(token)
        if header.get("kid") != key.kid:
            raise BadToken("the token was signed by another key")
        payload = jwt.decode(
            token,
            key.private.public_key(),
            algorithms=[ALGORITHM],
            audience=audience,
            issuer=ISSUER,
            # the times are compared below, with the caller's clock
            options={"require": ["exp", "nbf", "iat"], "verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise BadToken(str(error)) from error
    return _checked(payload, now)


def _checked(payload: Doc, now: datetime) -> Claims:
    claims = _claims(payload)
    if now >= claims.expires:
        raise BadToken("the token has expired")
    if _instant(payload, "nbf") > now:
        raise BadToken("the token is not valid yet")
    if payload.get("sub") != claims.user:
        raise BadToken("the subject is not the service account")
    return claims


def _claims(payload: Doc) -> Claims:
    private = _object(payload, "kubernetes.io")
    account = _object(private, "serviceaccount")
    audiences = payload["aud"] if isinstance(payload["aud"], list) else [payload["aud"]]
    return Claims(
        namespace=_text(private, "namespace"),
        name=_text(account, "name"),
        uid=_text(account, "uid"),
        jti=_text(payload, "jti"),
        audiences=tuple(audiences),
        issued=_instant(payload, "iat"),
        expires=_instant(payload, "exp"),
        bound=_bound(private),
    )


def _bound(private: Doc) -> tuple[str, str, str] | None:
    for field, kind in (("pod", "Pod"), ("secret", "Secret"), ("node", "Node")):
        if field in private:
            found = _object(private, field)
            return kind, _text(found, "name"), _text(found, "uid")
    return None


def _object(doc: Doc, field: str) -> Doc:
    value: Any = doc.get(field)
    if not isinstance(value, dict):
        raise BadToken(f"the claim {field} is missing")
    return value


def _text(doc: Doc, field: str) -> str:
    value: Any = doc.get(field)
    if not isinstance(value, str) or not value:
        raise BadToken(f"the claim {field} is missing")
    return value


def _instant(doc: Doc, field: str) -> datetime:
    value: Any = doc.get(field)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadToken(f"the claim {field} is no time")
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise BadToken(f"the claim {field} is no time") from error


# ---------------------------------------------------------------- bootstrap tokens


def new_bootstrap_token() -> tuple[str, str]:
    """A public id and a secret of 82 random bits."""
    return _random(6), _random(16)


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def hash_secret(secret: str) -> str:
    """What is kept of a secret that the hub made.

    One round of SHA-256 is enough, and a slow password hash would only slow down every join: nobody chose the secret,
    so there is no list of likely ones to try, and 2**82 of them cannot be tried.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def secret_matches(secret: str, kept: str) -> bool:
    """Compare a presented secret with what ``hash_secret`` kept, in constant time."""
    presented = hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
    return hmac.compare_digest(presented.encode(), kept.encode(errors="surrogatepass"))


def split_bootstrap_token(token: str) -> tuple[str, str] | None:
    """``(id, secret)`` of a bootstrap token, None for anything else."""
    found = BOOTSTRAP_TOKEN.fullmatch(token)
    return (found[1], found[2]) if found else None


def bootstrap_secret_matches(secret_doc: Doc, token_id: str, secret: str, now: datetime) -> tuple[str, ...] | None:
    """The groups that a Secret gives to the bearer of a token, None when it gives nothing (W166, K4: it may end).

    What cannot be read counts against the bearer: an expiration that is no time has passed, a group outside
    ``system:bootstrappers:`` spoils the whole Secret.
    """
    metadata = secret_doc.get("metadata")
    data = secret_doc.get("data")
    if not isinstance(metadata, dict) or not isinstance(data, dict):
        return None
    kept = _value(data, "token-secret") or b""
    is_known = hmac.compare_digest(kept, secret.encode(errors="surrogatepass")) and bool(kept)
    is_usable = (
        secret_doc.get("type") == BOOTSTRAP_TYPE
        and metadata.get("namespace") == BOOTSTRAP_NAMESPACE
        and metadata.get("name") == f"bootstrap-token-{token_id}"
        and not metadata.get("deletionTimestamp")
        and _value(data, "token-id") == token_id.encode(errors="surrogatepass")
        and _value(data, "usage-bootstrap-authentication") == b"true"
        and _is_current(data, now)
    )
    return _groups(data) if is_known and is_usable else None


def _value(data: Doc, key: str) -> bytes | None:
    value: Any = data.get(key)
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None


def _is_current(data: Doc, now: datetime) -> bool:
    if "expiration" not in data:
        return True
    try:
        expiration = datetime.fromisoformat((_value(data, "expiration") or b"").decode())
    except ValueError:
        return False
    return expiration.tzinfo is not None and now < expiration


def _groups(data: Doc) -> tuple[str, ...] | None:
    if not data.get("auth-extra-groups"):
        return (BOOTSTRAPPERS,)
    listed = _value(data, "auth-extra-groups")
    if listed is None:
        return None
    extra = set(listed.decode(errors="replace").split(","))
    if not all(BOOTSTRAP_GROUP.fullmatch(group) for group in extra):
        return None
    return (BOOTSTRAPPERS, *sorted(extra))
