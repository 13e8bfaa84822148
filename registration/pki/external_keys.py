"""Keys of a CA that the hub uses and never sees: a token or a service has them, and signs.

``Signer`` is all that such a place must do; ``key_files`` says which kinds there are. To the rest of the hub its key is
a private key of ``cryptography`` like one from a file, but for being written down, which is refused.

Invariant: a signature is checked with the public key of the CA before anybody gets it, so that a place that holds
another key signs nothing. No Django models.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
PROBE = b"ocmconsole: is the key of this CA there?"  # no certificate begins like this
SHA256 = hashes.SHA256()


class AuthorityError(Exception):
    """No usable authority: files in the home, or what they name; the text says which and why."""


class KeyAwayError(AuthorityError):
    """What holds the key does not answer. It may do so later, and nothing else is known to be wrong."""


class Signer(Protocol):
    """A place that holds one key and signs with it."""

    @property
    def uri(self) -> str:
        """By which a file of keys names it; never a secret."""

    def public_key(self) -> PublicKey:
        """Raises AuthorityError."""

    def sign(self, data: bytes) -> bytes:
        """By SHA-256: ECDSA in the form that X.509 has, or RSA with PKCS #1 v1.5. Raises AuthorityError."""


class _ExternalKey:
    """What is refused of both kinds."""

    signer: Signer

    def _refuse(self) -> NoReturn:
        raise TypeError(f"the key {self.signer.uri} does not leave its place")

    def _require_own(self, error: InvalidSignature) -> NoReturn:
        raise AuthorityError(
            f"{self.signer.uri} signs with another key than that of the CA's certificate: nothing is signed"
        ) from error

    def exchange(self, *args: Any) -> NoReturn:  # noqa: ARG002 - of each of the methods below
        self._refuse()

    decrypt = private_numbers = private_bytes = exchange


class ExternalEcKey(_ExternalKey, ec.EllipticCurvePrivateKey):
    def __init__(self, signer: Signer, public: ec.EllipticCurvePublicKey) -> None:
        self.signer, self._public = signer, public

    def public_key(self) -> ec.EllipticCurvePublicKey:
        return self._public

    @property
    def curve(self) -> ec.EllipticCurve:
        return self._public.curve

    @property
    def key_size(self) -> int:
        return self._public.key_size

    def sign(self, data: Any, signature_algorithm: Any) -> bytes:  # noqa: ARG002 - cryptography fixes the signature
        signature = self.signer.sign(bytes(data))
        try:
            self._public.verify(signature, data, ec.ECDSA(SHA256))
        except InvalidSignature as error:
            self._require_own(error)
        return signature

    def __copy__(self) -> ExternalEcKey:
        return self

    def __deepcopy__(self, memo: dict[Any, Any]) -> ExternalEcKey:
        return self


class ExternalRsaKey(_ExternalKey, rsa.RSAPrivateKey):
    def __init__(self, signer: Signer, public: rsa.RSAPublicKey) -> None:
        self.signer, self._public = signer, public

    def public_key(self) -> rsa.RSAPublicKey:
        return self._public

    @property
    def key_size(self) -> int:
        return self._public.key_size

    def sign(self, data: bytes, padding: Any, algorithm: Any) -> bytes:  # noqa: ARG002 - cryptography fixes the signature
        signature = self.signer.sign(data)
        try:
            self._public.verify(signature, data, PKCS1, SHA256)
        except InvalidSignature as error:
            self._require_own(error)
        return signature

    def __copy__(self) -> ExternalRsaKey:
        return self

    def __deepcopy__(self, memo: dict[Any, Any]) -> ExternalRsaKey:
        return self


PKCS1 = padding.PKCS1v15()
ExternalKey = ExternalEcKey | ExternalRsaKey


def key_of(signer: Signer, public: PublicKey) -> ExternalKey:
    return ExternalRsaKey(signer, public) if isinstance(public, rsa.RSAPublicKey) else ExternalEcKey(signer, public)


def place_of(key: object) -> str:
    """The URI of a key that is not the hub's to read, else empty."""
    return key.signer.uri if isinstance(key, ExternalEcKey | ExternalRsaKey) else ""


def probe(key: object) -> None:
    """See that such a key is there and is the one it should be. Raises AuthorityError."""
    if isinstance(key, ExternalEcKey):
        key.sign(PROBE, ec.ECDSA(SHA256))
    elif isinstance(key, ExternalRsaKey):
        key.sign(PROBE, PKCS1, SHA256)
