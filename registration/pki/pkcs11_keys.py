"""Keys in PKCS #11 tokens: URIs (RFC 7512), the sessions of this process, and what is said when a token refuses.

Each process loads the module of ``OCMCONSOLE_PKCS11_MODULE`` at first use and keeps a session for each token, which one
thread at a time uses: modules are not asked to be safe for threads. A forked process begins anew. The hub opens no
session that may write: keys are made with the tools of the token.

Invariants: a PIN that a token has refused is not tried again by this process, as tokens lock after a few; a token that
did not answer is left alone for some seconds, so that those who wait for it hold up nobody else. No Django models.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote_to_bytes

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from django.conf import settings

from registration.pki.external_keys import AuthorityError, KeyAwayError, PublicKey

if TYPE_CHECKING:
    from pkcs11 import Session
    from pkcs11._pkcs11 import lib as Library  # noqa: N812 - a class by a function's name

T = TypeVar("T")

SCHEME = "pkcs11:"
OF_TOKEN = ("token", "serial", "manufacturer", "model")  # attributes of RFC 7512
OF_KEY = ("object", "id", "type")
REST_SECONDS = 3.0  # for a token that did not answer


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Which token; what is empty may be anything."""

    token: str
    serial: str
    manufacturer: str
    model: str

    def __str__(self) -> str:
        named = zip(OF_TOKEN, (self.token, self.serial, self.manufacturer, self.model), strict=True)
        return SCHEME + ";".join(f"{name}={quote(value)}" for name, value in named if value)

    def fits(self, token: Any) -> bool:
        serial = token.serial.decode("utf-8", "replace") if isinstance(token.serial, bytes) else token.serial
        found = (token.label, serial, token.manufacturer_id, token.model)
        wanted = (self.token, self.serial, self.manufacturer, self.model)
        return all(not want or str(have).rstrip(" \0") == want for have, want in zip(found, wanted, strict=True))


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A key in a token, as ``external_keys.Signer``."""

    uri: str
    place: TokenPlace
    label: str
    id: bytes

    @classmethod
    def parse(cls, uri: str) -> TokenKey:
        """Raises AuthorityError."""
        path, _, query = uri.removeprefix(SCHEME).partition("?")
        if query:
            raise AuthorityError(
                f"{_shown(uri)} says more than which key it is: module and PIN are settings of the hub"
            )
        found: dict[str, bytes] = {}
        for part in path.split(";"):
            name, _, value = part.partition("=")
            if name not in OF_TOKEN + OF_KEY or name in found or not value:
                raise AuthorityError(
                    f"this is no URI of a key: {name!r} is not one of {', '.join(OF_TOKEN + OF_KEY)}, each once"
                )
            found[name] = unquote_to_bytes(value)
        if not found.keys() & set(OF_TOKEN) or not found.keys() & {"object", "id"}:
            raise AuthorityError(f"{uri} does not say which key: name its token or serial, and its object or id")
        if found.pop("type", b"private") != b"private":
            raise AuthorityError(f"{uri} is not a private key")
        identity = found.pop("id", b"")
        try:
            texts = {name: value.decode("utf-8") for name, value in found.items()}
        except UnicodeDecodeError as error:
            raise AuthorityError(f"{uri} is no URI of a key: it is not UTF-8") from error
        return cls(uri, TokenPlace(*(texts.get(name, "") for name in OF_TOKEN)), texts.get("object", ""), identity)

    def public_key(self) -> PublicKey:
        return _tokens.use(self, self._public)

    def sign(self, data: bytes) -> bytes:
        return _tokens.use(self, lambda session: self._signature(session, data))

    def _public(self, session: Session) -> PublicKey:
        from pkcs11 import KeyType, ObjectClass  # noqa: PLC0415 - an optional package
        from pkcs11.util import ec, rsa  # noqa: PLC0415 - the same

        found = _tokens.key(session, self, ObjectClass.PUBLIC_KEY)
        encode = {KeyType.EC: ec.encode_ec_public_key, KeyType.RSA: rsa.encode_rsa_public_key}.get(found.key_type)
        if encode is None:
            raise AuthorityError(
                f"{self.uri} is a key of the kind {found.key_type.name}: the hub signs with EC and RSA"
            )
        try:
            return serialization.load_der_public_key(encode(found))  # type: ignore[return-value] # of these two kinds
        except ValueError as error:
            raise AuthorityError(f"the public key of {self.uri} cannot be read: {error}") from error

    def _signature(self, session: Session, data: bytes) -> bytes:
        from pkcs11 import KeyType, Mechanism, ObjectClass, SignMixin  # noqa: PLC0415 - an optional package

        key = _tokens.key(session, self, ObjectClass.PRIVATE_KEY)
        if not isinstance(key, SignMixin):
            raise AuthorityError(f"the token lets nobody sign with {self.uri}: a CA needs a key for signatures")
        if key.key_type == KeyType.RSA:
            signed: bytes = key.sign(data, mechanism=Mechanism.SHA256_RSA_PKCS)
            return signed
        raw: bytes = key.sign(hashlib.sha256(data).digest(), mechanism=Mechanism.ECDSA)
        half = len(raw) // 2
        return encode_dss_signature(int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big"))


def _shown(uri: str) -> str:
    """Without what follows the question mark: it may be a PIN."""
    return uri.partition("?")[0]


class _Tokens:
    """The sessions of this process."""

    def __init__(self) -> None:
        self._refused: dict[TokenPlace, tuple[str, str]] = {}  # PIN, and what was said
        self.begin_anew()

    def begin_anew(self) -> None:
        """In a forked process, whose sessions are those of its parent."""
        self._lock = threading.Lock()
        self._sessions: dict[int, Session] = {}  # by slot
        self._slots: dict[TokenPlace, int] = {}
        self._keys: dict[tuple[str, str], Any] = {}
        self._away: dict[TokenPlace, tuple[float, str]] = {}  # until when, and what is said
        self._is_new = True

    def stand_still(self) -> None:
        """No thread is inside a module while a process forks: the child would find its locks taken for ever."""
        self._lock.acquire()

    def go_on(self) -> None:
        self._lock.release()

    def use(self, key: TokenKey, act: Callable[[Session], T]) -> T:
        """Raises AuthorityError."""
        with self._lock:
            pin, said = self._refused.get(key.place, ("", ""))
            if said and pin == settings.OCMCONSOLE_PKCS11_PIN:
                raise AuthorityError(said)
            until, said = self._away.get(key.place, (0.0, ""))
            if monotonic() < until:
                raise KeyAwayError(said)
            try:
                return self._use(key, act)
            except KeyAwayError as error:
                self._away[key.place] = monotonic() + REST_SECONDS, str(error)
                raise

    def key(self, session: Session, wanted: TokenKey, kind: Any) -> Any:
        """An object of a token; called by what ``use`` calls."""
        if (found := self._keys.get((wanted.uri, kind.name))) is None:
            chosen: dict[str, Any] = {"label": wanted.label} if wanted.label else {}
            chosen |= {"id": wanted.id} if wanted.id else {}
            found = self._keys[wanted.uri, kind.name] = session.get_key(object_class=kind, **chosen)
        return found

    def _use(self, key: TokenKey, act: Callable[[Session], T]) -> T:
        """What fails is tried once more from the beginning: sessions end with a token that was away for a while."""
        library = self._library(key)
        from pkcs11 import exceptions  # noqa: PLC0415 - an optional package, which is there now

        for is_last in (False, True):
            try:
                return act(self._session(library, key))
            except exceptions.PKCS11Error as error:
                if is_last:
                    raise _said(key, error) from error
            try:
                self._initialize(library)
            except exceptions.PKCS11Error as error:
                raise _said(key, error) from error
        raise AssertionError

    def _library(self, key: TokenKey) -> Library:
        path = settings.OCMCONSOLE_PKCS11_MODULE
        if not path:
            raise AuthorityError(
                f"the key {key.uri} is in a token: set OCMCONSOLE_PKCS11_MODULE to the token's library"
            )
        if not Path(path).is_file():
            raise AuthorityError(f"OCMCONSOLE_PKCS11_MODULE={path}: there is no such file")
        try:
            import pkcs11  # noqa: PLC0415 - an optional package
        except ImportError as error:
            raise AuthorityError(
                f"the key {key.uri} is in a token, for which the package python-pkcs11 is missing: install it"
            ) from error
        try:
            library = pkcs11.lib(path)
            if self._is_new:
                self._initialize(library)
        except pkcs11.PKCS11Error as error:
            if type(error) is pkcs11.PKCS11Error:  # of the loader, not of the module
                raise AuthorityError(f"OCMCONSOLE_PKCS11_MODULE={path} is no PKCS #11 module: {error}") from error
            raise _said(key, error) from error
        self._is_new = False
        return library

    def _initialize(self, library: Library) -> None:
        from pkcs11 import exceptions  # noqa: PLC0415 - an optional package, which is there now

        self._sessions.clear()
        self._slots.clear()
        self._keys.clear()
        with suppress(exceptions.PKCS11Error):  # it was not initialized, as in a forked process, or is beyond that
            library.finalize()
        library.initialize()

    def _session(self, library: Library, key: TokenKey) -> Session:
        from pkcs11 import exceptions  # noqa: PLC0415 - an optional package, which is there now

        if (slot := self._slots.get(key.place)) is not None:
            return self._sessions[slot]
        found = [token for token in library.get_tokens() if key.place.fits(token)]
        if not found:
            raise exceptions.NoSuchToken
        if len(found) > 1:
            raise AuthorityError(f"{key.uri} fits {len(found)} tokens: name the serial of one")
        (token,) = found
        slot = token.slot.slot_id
        if slot not in self._sessions:
            self._sessions[slot] = self._login(token, key)
        self._slots[key.place] = slot
        return self._sessions[slot]

    def _login(self, token: Any, key: TokenKey) -> Session:
        from pkcs11 import exceptions  # noqa: PLC0415 - an optional package, which is there now

        pin = settings.OCMCONSOLE_PKCS11_PIN
        if not pin:
            raise AuthorityError(f"the token {key.place} wants a PIN: set OCMCONSOLE_PKCS11_PIN_FILE")
        try:
            session: Session = token.open(user_pin=pin)
        except tuple(getattr(exceptions, name) for name in PIN_REFUSALS) as error:
            said = (
                f"the token {key.place} refuses the PIN ({type(error).__name__}): see to OCMCONSOLE_PKCS11_PIN_FILE "
                "and start again; this process does not try it again, as tokens lock after a few times"
            )
            self._refused[key.place] = pin, said
            raise AuthorityError(said) from error
        return session


PIN_REFUSALS = ("PinIncorrect", "PinInvalid", "PinLenRange", "PinLocked", "PinExpired", "UserPinNotInitialized")
# What cannot be because a token is away.
FLAWS = {
    "NoSuchKey": "the token has no such key, or no public key beside it",
    "MultipleObjectsReturned": "there are several such keys: name the id of one",
    "MechanismInvalid": "the token cannot sign with it as X.509 wants: by ECDSA, or RSA with SHA-256",
    "KeyTypeInconsistent": "the token cannot sign with it as X.509 wants: by ECDSA, or RSA with SHA-256",
}


def _said(key: TokenKey, error: Exception) -> AuthorityError:
    name = type(error).__name__
    if name in FLAWS:
        return AuthorityError(f"{key.uri}: {FLAWS[name]}")
    why = "there is no such token now" if name == "NoSuchToken" else f"{name} {error}".strip()
    return KeyAwayError(f"the token {key.place} does not answer ({why})")


_tokens = _Tokens()
os.register_at_fork(before=_tokens.stand_still, after_in_parent=_tokens.go_on, after_in_child=_tokens.begin_anew)
