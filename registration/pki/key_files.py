"""Files of CA keys in the home: each key is there as PEM, or by the URI of the place that holds it.

A line ``pkcs11:token=hub;object=clients`` stands for a key in a token. The public key that follows it, written by the
hub, says which one it was; so certificates are read while the token is away. ``KINDS`` has a function for each kind of
place, which makes a ``Signer`` of a URI; one more kind is one more entry. No Django models.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

from ocmconsole.environment import home as files
from registration.pki import external_keys
from registration.pki.external_keys import AuthorityError, ExternalKey, Signer
from registration.pki.issuing import key_pem
from registration.pki.pkcs11_keys import TokenKey

KINDS: dict[str, Callable[[str], Signer]] = {"pkcs11": TokenKey.parse}
PUBLIC = rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----"
URI = re.compile(rb"^(?:%s):\S*" % "|".join(KINDS).encode(), re.MULTILINE)
KEY = re.compile(
    rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----|(%s)(?:\s+(%s))?" % (URI.pattern, PUBLIC),
    re.DOTALL | re.MULTILINE,
)


def load_all(path: Path) -> list[CertificateIssuerPrivateKeyTypes]:
    """Raises OSError, TypeError (encrypted), ValueError, UnsupportedAlgorithm, AuthorityError."""
    text = path.read_bytes()
    found = [
        external(each[2].decode("utf-8"), each[3] or b"") if each[2] else load_key(each[0], path.name)
        for each in KEY.finditer(text)
    ]
    return found or [load_key(text, path.name)]


def load_key(pem: bytes, name: str) -> CertificateIssuerPrivateKeyTypes:
    """``name`` is that of its file. Raises TypeError (encrypted), ValueError, UnsupportedAlgorithm."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(
        key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey
    ):
        raise TypeError(f"{name} holds a key that cannot sign")
    return key


def external(uri: str, public_pem: bytes = b"") -> ExternalKey:
    """Asks the place itself only where its public key was not noted. Raises AuthorityError, ValueError."""
    kind = uri.partition(":")[0]
    if kind not in KINDS:
        raise AuthorityError(f"{uri!r} names no key: it is a URI that begins with {' or '.join(KINDS)}:")
    signer = KINDS[kind](uri)
    public = serialization.load_pem_public_key(public_pem) if public_pem else signer.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise AuthorityError(f"{uri} is a key of a kind that the hub does not sign with: EC and RSA are")
    return external_keys.key_of(signer, public)


def named(path: Path) -> list[str]:
    """URIs in a file of keys; no place is asked."""
    return [found[0].decode("utf-8") for found in URI.finditer(path.read_bytes())] if path.is_file() else []


def write_all(path: Path, *keys: CertificateIssuerPrivateKeyTypes) -> None:
    files.write_file(path, b"".join(map(_text_of, keys)), secret=True)


def note_public_keys(path: Path) -> None:
    """Beside each URI that a person wrote alone. Raises as ``load_all``."""
    if any(each[2] and not each[3] for each in KEY.finditer(path.read_bytes())):
        write_all(path, *load_all(path))


def _text_of(key: CertificateIssuerPrivateKeyTypes) -> bytes:
    if not (uri := external_keys.place_of(key)):
        return key_pem(key)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return uri.encode() + b"\n" + key.public_key().public_bytes(serialization.Encoding.PEM, form)
