"""The hub's two authorities as files of the home, and their rotation: which CA signs, and which are trusted.

``ca.crt`` and ``ca.key`` are the authority of serving: by ``ca.crt`` agents and kubectl know the hub. The authority of
clients has ``client-ca.crt`` and ``client-ca.key``; while there are none, as in every home before its first rotation,
the CA of serving signs clients too. The first certificate of a file signs, with what is above it; any other is trusted
until it is retired. Each has its key in the file of keys.

Invariants: what phase a rotation is in is read from the certificates, and nothing else remembers it. Each step is done
by one replacement of a file of certificates: what is killed before it has changed nothing. A file of keys gains keys
before that and loses them after it. Who changes these files holds the home. No Django models.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

from ocmconsole.environment import home as files
from ocmconsole.kubeapi import clock
from registration.pki import x509_reading
from registration.pki.issuing import BACKDATED, Authority, key_pem, new_root

PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
SECOND = timedelta(seconds=1)  # times of certificates have no parts of it
MOST = 2  # CAs of one authority: the one that signs, and the one that is to go or was to come

Note = Callable[[Authority], None]


class AuthorityError(Exception):
    """The files in the home are no usable authority; the text says which and why."""


class RotationError(Exception):
    """A step that the present phase does not allow, or that would help nobody; nothing was changed."""


class AuthorityRole(StrEnum):
    """What an authority is for."""

    CLIENT = "client"
    SERVING = "serving"


class Phase(StrEnum):
    STEADY = "steady"  # one CA
    ROTATING = "rotating"  # the new one signs, the old one is trusted too
    TURNED_BACK = "rolled back"  # the old one signs again, the new one is trusted too


STEMS = {AuthorityRole.CLIENT: "client-ca", AuthorityRole.SERVING: "ca"}


# ---------------------------------------------------------------- reading


def serving_authority(home: Path, *, now: datetime | None = None) -> Authority:
    """What signs the hub's own certificate. Raises AuthorityError."""
    return _read(home, STEMS[AuthorityRole.SERVING], now or clock.now())


def client_authority(home: Path, *, now: datetime | None = None) -> Authority:
    """What signs clients. Raises AuthorityError."""
    if client_file(home).stem == STEMS[AuthorityRole.CLIENT]:
        return _read(home, STEMS[AuthorityRole.CLIENT], now or clock.now())
    authority = serving_authority(home, now=now)
    if authority.others:
        raise AuthorityError(f"client-ca.crt is missing in {home}: bring it and client-ca.key back from a backup")
    return authority


def authority_of(home: Path, role: AuthorityRole, *, now: datetime | None = None) -> Authority:
    """Raises AuthorityError."""
    return (client_authority if role is AuthorityRole.CLIENT else serving_authority)(home, now=now)


def client_file(home: Path) -> Path:
    """The certificates of the CAs whose clients the hub trusts; the first one signs."""
    own = home / "client-ca.crt"
    return own if own.exists() else home / "ca.crt"


def phase_of(authority: Authority) -> Phase:
    if not authority.others:
        return Phase.STEADY
    begun = [each.certificate.not_valid_before_utc for each in authority.others]
    return Phase.ROTATING if authority.certificate.not_valid_before_utc > max(begun) else Phase.TURNED_BACK


def _read(home: Path, stem: str, now: datetime) -> Authority:
    try:
        with x509_reading.value_errors_only(f"authority in {home}"):
            pem = (home / f"{stem}.crt").read_bytes()
            chains = x509_reading.split_chains(x509.load_pem_x509_certificates(pem))
            keys = _load_keys(home / f"{stem}.key")
            found = [_with_key(chain, keys) for chain in chains]
            _check(stem, chains, found, now)
    except (OSError, ValueError) as error:
        raise AuthorityError(str(error)) from error
    first, *others = [Authority(chain, key, b"") for chain, key in zip(chains, found, strict=True) if key is not None]
    return Authority(first.chain, first.key, pem, tuple(others))


def _with_key(
    chain: tuple[x509.Certificate, ...], keys: list[CertificateIssuerPrivateKeyTypes]
) -> CertificateIssuerPrivateKeyTypes | None:
    return next((key for key in keys if key.public_key() == chain[0].public_key()), None)


def _check(
    stem: str,
    chains: list[tuple[x509.Certificate, ...]],
    keys: list[CertificateIssuerPrivateKeyTypes | None],
    now: datetime,
) -> None:
    """Raises AuthorityError."""
    issuing = chains[0][0]
    if keys[0] is None:
        raise AuthorityError(f"{stem}.key is not the key of the first certificate in {stem}.crt")
    for item in (item for chain in chains for item in chain):
        if flaw := x509_reading.size_flaw(item.public_key()):
            raise AuthorityError(f"a key in {stem}.crt, of {item.subject.rfc4514_string()}, is refused: {flaw}")
    if not x509_reading.may_issue(issuing):
        raise AuthorityError(f"the first certificate in {stem}.crt is not a CA that may sign certificates")
    if not x509_reading.lives(issuing, now):
        raise AuthorityError(f"the first certificate in {stem}.crt is valid until {issuing.not_valid_after_utc} only")
    if None in keys:  # of a rotation, the hub has the keys of all
        raise AuthorityError(f"{stem}.crt is not a chain: each certificate must be signed by the one after it")
    if len(chains) > MOST:
        raise AuthorityError(f"{stem}.crt holds {len(chains)} CAs: a rotation has {MOST}")


def _load_keys(path: Path) -> list[CertificateIssuerPrivateKeyTypes]:
    """Raises OSError, TypeError (encrypted), ValueError, UnsupportedAlgorithm."""
    text = path.read_bytes()
    return [load_key(found[0], path.name) for found in PRIVATE_KEY.finditer(text)] or [load_key(text, path.name)]


def load_key(pem: bytes, name: str) -> CertificateIssuerPrivateKeyTypes:
    """``name`` is that of its file. Raises TypeError (encrypted), ValueError, UnsupportedAlgorithm."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(
        key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey
    ):
        raise TypeError(f"{name} holds a key that cannot sign")
    return key


# ---------------------------------------------------------------- writing


def create(home: Path, now: datetime) -> None:
    """The first CA of a home. Key first: a key alone is what an interrupted start leaves; the next goes on with it.

    The caller holds the home. Raises AuthorityError.
    """
    path = home / "ca.key"
    if not path.exists():
        files.write_file(path, key_pem(ec.generate_private_key(ec.SECP256R1())), secret=True)
    try:
        with x509_reading.value_errors_only(f"key {path}"):
            (key, *_) = _load_keys(path)
    except (OSError, ValueError) as error:
        raise AuthorityError(str(error)) from error
    certificate = new_root(key, now - BACKDATED, now)
    files.write_file(home / "ca.crt", x509_reading.as_pem(certificate), secret=False)


def rotate(home: Path, role: AuthorityRole, *, note: Note, now: datetime | None = None) -> Authority:
    """Let a new CA sign, and trust the present one beside it; or go on with a rotation that was rolled back.

    ``note`` is called with what will be, before it is. Raises RotationError, AuthorityError, OSError and what ``note``
    raises; then nothing has changed.
    """
    now = now or clock.now()
    with files.locked(home):
        present = authority_of(home, role, now=now)
        if phase_of(present) is Phase.ROTATING:
            raise RotationError(
                f"the {role} CA is being rotated already, since {begun(present):%Y-%m-%d %H:%M} UTC; nothing is changed"
            )
        if present.others:
            return _commit(home, role, _led_by_last(present), note)
        key = ec.generate_private_key(ec.SECP256R1())
        begin = max(now - BACKDATED, present.certificate.not_valid_before_utc + SECOND)
        new = Authority((new_root(key, begin, now),), key, b"", (Authority(present.chain, present.key, b""),))
        if role is AuthorityRole.SERVING:
            _require_cross_signature(present, new, now)
            _keep_client_authority(home, present)
        _write_keys(home, role, new)
        return _commit(home, role, new, note)


def turn_back(home: Path, role: AuthorityRole, *, note: Note, now: datetime | None = None) -> Authority:
    """Let the old CA sign again; the new one is trusted until it is retired. Raises as ``rotate``."""
    with files.locked(home):
        present = authority_of(home, role, now=now or clock.now())
        if phase_of(present) is not Phase.ROTATING:
            raise RotationError(f"no new {role} CA signs: there is nothing to roll back")
        back = _led_by_last(present)
        if not x509_reading.lives(back.certificate, now or clock.now()):
            raise RotationError(f"the old {role} CA has expired and signs nothing any more")
        return _commit(home, role, back, note)


def retire(home: Path, role: AuthorityRole, *, note: Note, now: datetime | None = None) -> Authority:
    """Trust the CA that signs, and no other, and forget the keys of the others. Raises as ``rotate``."""
    with files.locked(home):
        present = authority_of(home, role, now=now or clock.now())
        if not present.others:
            raise RotationError(f"there is one {role} CA only: nothing to retire")
        left = _commit(home, role, Authority(present.chain, present.key, b""), note)
        _write_keys(home, role, left)
        return left


def begun(authority: Authority) -> datetime:
    """When the CA that signs was made."""
    return authority.certificate.not_valid_before_utc + BACKDATED


def _led_by_last(present: Authority) -> Authority:
    """The other CA signs. There are two at most: a rotation begins where there is one."""
    (other,) = present.others
    return Authority(other.chain, other.key, b"", (Authority(present.chain, present.key, b""),))


def _require_cross_signature(old: Authority, new: Authority, now: datetime) -> None:
    """Agents that trust the old CA alone would believe the new one. An organisation may have forbidden that."""
    try:
        cross = old.cross_sign(new.certificate, now)
        leaf = new.issue(x509.Name([]), new.key.public_key(), (), timedelta(days=1), now)
        x509_reading.check_served(leaf, (cross, *old.intermediates), old.chain, now)
    except ValueError as error:
        raise RotationError(
            f"agents would not follow, as the serving CA cannot vouch for another one ({error}); nothing is changed"
        ) from error


def _keep_client_authority(home: Path, present: Authority) -> None:
    """The CA that signs clients too goes on doing that when serving gets another one."""
    if client_file(home).stem == STEMS[AuthorityRole.SERVING]:
        _write_keys(home, AuthorityRole.CLIENT, present)
        files.write_file(home / "client-ca.crt", _pem_of(present), secret=False)


def _write_keys(home: Path, role: AuthorityRole, authority: Authority) -> None:
    keys = b"".join(key_pem(each.key) for each in (authority, *authority.others))
    files.write_file(home / f"{STEMS[role]}.key", keys, secret=True)


def _commit(home: Path, role: AuthorityRole, wanted: Authority, note: Note) -> Authority:
    note(wanted)
    pem = _pem_of(wanted)
    files.write_file(home / f"{STEMS[role]}.crt", pem, secret=False)
    return Authority(wanted.chain, wanted.key, pem, wanted.others)


def _pem_of(authority: Authority) -> bytes:
    return b"".join(x509_reading.as_pem(item) for each in (authority, *authority.others) for item in each.chain)
