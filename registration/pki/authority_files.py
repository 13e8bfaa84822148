"""The hub's two authorities as files of the home, and their rotation: which CA signs, and which are trusted.

``ca.crt`` and ``ca.key`` are the authority of serving: by ``ca.crt`` agents and kubectl know the hub. The authority of
clients has ``client-ca.crt`` and ``client-ca.key``; while there are none, as in every home before its first rotation,
the CA of serving signs clients too. The first certificate of a file signs, with what is above it; any other is trusted
until it is retired. Each has its key in the file of keys, or there the URI of the place that holds it (``key_files``).

Invariants: what phase a rotation is in is read from the certificates, and nothing else remembers it. Each step is done
by one replacement of a file of certificates: what is killed before it has changed nothing. A file of keys gains keys
before that and loses them after it. Who changes these files holds the home. No Django models.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

from ocmconsole.environment import home as files
from ocmconsole.kubeapi import clock
from registration.pki import external_keys, key_files, x509_reading
from registration.pki.external_keys import AuthorityError, KeyAwayError
from registration.pki.issuing import BACKDATED, Authority, new_root

log = logging.getLogger(__name__)

SECOND = timedelta(seconds=1)  # times of certificates have no parts of it
IN_FILE = "file"
MOST = 2  # CAs of one authority: the one that signs, and the one that is to go or was to come

Note = Callable[[Authority], None]


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
            keys = key_files.load_all(home / f"{stem}.key")
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
        times = f"{issuing.not_valid_before_utc} to {issuing.not_valid_after_utc}"
        raise AuthorityError(f"the first certificate in {stem}.crt is not valid now, but from {times}")
    if None in keys:  # of a rotation, the hub has the keys of all
        raise AuthorityError(f"{stem}.crt is not a chain: each certificate must be signed by the one after it")
    if len(chains) > MOST:
        raise AuthorityError(f"{stem}.crt holds {len(chains)} CAs: a rotation has {MOST}")


# ---------------------------------------------------------------- keys that are elsewhere


def key_places(home: Path) -> list[str]:
    """URIs of the CA keys that are not in the home. No place is asked."""
    return list(dict.fromkeys(uri for stem in STEMS.values() for uri in key_files.named(home / f"{stem}.key")))


def key_problems(home: Path) -> list[str]:
    """What is wrong with keys that are not in the home, also of CAs that do not sign now. Raises AuthorityError."""
    found = []
    for authority in _signing(home, clock.now()):
        for each in (authority, *authority.others):
            try:
                external_keys.probe(each.key)
            except AuthorityError as error:
                found.append(str(error))
    return list(dict.fromkeys(found))


def answering(home: Path) -> dict[AuthorityRole, bool]:
    """Whether all keys of a role answer, also of a CA that does not sign. It takes as long as a token takes.

    One in the home does, and none of a CA whose files are not whole, which signs nothing.
    """
    now = clock.now()
    return {role: _role_answers(home, role, now) for role in STEMS}


def _role_answers(home: Path, role: AuthorityRole, now: datetime) -> bool:
    try:
        signs = authority_of(home, role, now=now)
    except AuthorityError:
        return False
    return all(_answers(each) for each in (signs, *signs.others))


def _answers(authority: Authority) -> bool:
    try:
        external_keys.probe(authority.key)
    except AuthorityError:
        return False
    return True


def require_keys(home: Path, now: datetime) -> None:
    """Those that sign are there. Of one that does not answer the log tells: all that needs no signature goes on.

    The caller holds the home. Raises AuthorityError.
    """
    for authority in {each.key_fingerprint: each for each in _signing(home, now)}.values():
        try:
            external_keys.probe(authority.key)
        except KeyAwayError as error:
            log.warning("no certificate is signed for now: %s", error)
    for certificates in {client_file(home), home / "ca.crt"}:
        key_files.note_public_keys(certificates.with_suffix(".key"))


def _signing(home: Path, now: datetime) -> tuple[Authority, Authority]:
    return client_authority(home, now=now), serving_authority(home, now=now)


# ---------------------------------------------------------------- writing


def create(home: Path, now: datetime) -> None:
    """The first CA of a home. Key first: a key alone is what an interrupted start leaves; the next goes on with it.

    So does a first start with a key that a person has put there, or named by its URI: ``ca.key`` for both authorities,
    or ``client-ca.key`` for one of clients. The caller holds the home. Raises AuthorityError.
    """
    if not (home / "ca.key").exists():
        key_files.write_all(home / "ca.key", ec.generate_private_key(ec.SECP256R1()))
    for stem in STEMS.values():  # that of clients first: ``ca.crt`` says that all is done
        if (home / f"{stem}.key").exists() and not (home / f"{stem}.crt").exists():
            key = _first_key(home / f"{stem}.key")
            certificate = new_root(key, now - BACKDATED, now)
            files.write_file(home / f"{stem}.crt", x509_reading.as_pem(certificate), secret=False)


def _first_key(path: Path) -> CertificateIssuerPrivateKeyTypes:
    """Of a file of keys. Raises AuthorityError."""
    try:
        with x509_reading.value_errors_only(f"key {path}"):
            (key, *_) = key_files.load_all(path)
    except (OSError, ValueError) as error:
        raise AuthorityError(str(error)) from error
    return key


def rotate(home: Path, role: AuthorityRole, *, note: Note, place: str = "", now: datetime | None = None) -> Authority:
    """Let a new CA sign, and trust the present one beside it; or go on with a rotation that was rolled back.

    ``place`` is where the new key is: the URI of one, ``IN_FILE`` for a new one in the home, and nothing for that too
    where the present one is there. ``note`` is called with what will be, before it is. Raises RotationError,
    AuthorityError, OSError and what ``note`` raises; then nothing has changed.
    """
    now = now or clock.now()
    with files.locked(home):
        present = authority_of(home, role, now=now)
        if phase_of(present) is Phase.ROTATING:
            raise RotationError(
                f"the {role} CA is being rotated already, since {begun(present):%Y-%m-%d %H:%M} UTC; nothing is changed"
            )
        if present.others and place:
            raise RotationError(f"a rotation of the {role} CA goes on with the key that it began with: leave out --key")
        if present.others:
            return _commit(home, role, _led_by_last(present), note)
        key = _new_key(home, present, place, now)
        begin = max(now - BACKDATED, present.certificate.not_valid_before_utc + SECOND)
        new = Authority((new_root(key, begin, now),), key, b"", (Authority(present.chain, present.key, b""),))
        if role is AuthorityRole.SERVING:
            _require_cross_signature(present, new, now)
            _keep_client_authority(home, present)
        _write_keys(home, role, new)
        return _commit(home, role, new, note)


def _new_key(home: Path, present: Authority, place: str, now: datetime) -> CertificateIssuerPrivateKeyTypes:
    """Raises RotationError, AuthorityError."""
    if not place and present.key_place:
        raise RotationError(
            f"the key of the present CA is not in the home ({present.key_place}): say where the new one is, "
            f"by --key and its URI, or --key {IN_FILE} for a file in the home"
        )
    if place in {"", IN_FILE}:
        return ec.generate_private_key(ec.SECP256R1())
    try:
        key = key_files.external(place)
    except ValueError as error:
        raise AuthorityError(str(error)) from error
    if flaw := x509_reading.size_flaw(key.public_key()):
        raise RotationError(f"the key {place} is refused: {flaw}")
    known = _signing(home, now)
    if key.public_key() in [each.key.public_key() for authority in known for each in (authority, *authority.others)]:
        raise RotationError(f"{place} is the key of a CA of this hub already: a new CA needs a new key")
    return key


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


def replace_stolen(
    home: Path, role: AuthorityRole, *, note: Note, place: str = "", now: datetime | None = None
) -> Authority:
    """A new CA signs, and no other is trusted: a key of the present ones is in other hands. Raises as ``rotate``.

    Nothing vouches for the new one.
    """
    now = now or clock.now()
    with files.locked(home):
        present = authority_of(home, role, now=now)
        if role is AuthorityRole.SERVING and client_file(home).stem == STEMS[role]:
            raise RotationError("the stolen key signs clients too: take `ca rotate client --stolen` first")
        key = _new_key(home, present, place, now)
        known = (present, *present.others)
        begin = max(now - BACKDATED, *(each.certificate.not_valid_before_utc + SECOND for each in known))
        new = Authority((new_root(key, begin, now),), key, b"")
        _write_keys(home, role, Authority(new.chain, new.key, b"", known))
        left = _commit(home, role, new, note)
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
    key_files.write_all(home / f"{STEMS[role]}.key", *(each.key for each in (authority, *authority.others)))


def _commit(home: Path, role: AuthorityRole, wanted: Authority, note: Note) -> Authority:
    note(wanted)
    pem = _pem_of(wanted)
    files.write_file(home / f"{STEMS[role]}.crt", pem, secret=False)
    return Authority(wanted.chain, wanted.key, pem, wanted.others)


def _pem_of(authority: Authority) -> bytes:
    return b"".join(x509_reading.as_pem(item) for each in (authority, *authority.others) for item in each.chain)
