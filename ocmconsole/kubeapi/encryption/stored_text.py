"""Texts that the database holds encrypted: ``enc:v1:KEY:`` and AES-256-GCM of the text, in base64.

Invariant: a text is bound to whose it is. Who puts it in the place of another one's finds it refused, not believed.
What has not the prefix is a text from before there were keys. It is taken as it is until everything was encrypted once,
and from then on (``kept``) refused as well. Called by the store and by what
reads rows and the change log, by sign-in for what it keeps, and by ``reencryption``.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ocmconsole.kubeapi import errors

PREFIX = "enc:v1:"
NOT_BELIEVED = f"{PREFIX}!"  # in the place of a text in clear, where none is left; no key opens it
ID_LENGTH = 8  # hexadecimal digits of a key's id
NONCE = 12  # bytes, at random: good for 2**32 texts of one key


@dataclass(frozen=True, slots=True)
class DataKey:
    """One key. Its secret is in no representation of it."""

    id: str
    made: datetime
    cipher: AESGCM = field(repr=False)

    @classmethod
    def of(cls, name: str, made: datetime, secret: bytes) -> DataKey:
        """Raises ValueError for a secret of a length that no key has."""
        return cls(name, made, AESGCM(secret))


class KeySource(Protocol):
    """Where keys come from: a file of the home now; a KMS would open them here."""

    def keys(self) -> Sequence[DataKey]:
        """All that are known; the first one encrypts. Raises Unreadable."""

    def make_first(self) -> None:
        """Make one where there is none."""


class Unreadable(errors.InternalError):
    """Something that is encrypted cannot be read, or nothing can be encrypted: its key is missing, or it was moved."""


_sources: list[KeySource] = []
_guards: list[Callable[[], bool]] = []
_settled: list[Callable[[], bool]] = []


def use(source: KeySource) -> None:
    """What this process takes its keys from, from now on."""
    _sources[:] = [source]


def guard(is_anything_encrypted: Callable[[], bool]) -> None:
    """Asked before a first key is made: a new one must not take the place of one that was lost."""
    _guards[:] = [is_anything_encrypted]


def refuse_clear_text(is_settled: Callable[[], bool]) -> None:
    """``is_settled`` says whether everything was encrypted once; it is asked for texts in clear alone."""
    _settled[:] = [is_settled]


def is_settled() -> bool:
    return any(found() for found in _settled)


def kept(text: str) -> str:
    """Of a text that is to be encrypted, as it was read from the database: what ``decrypt`` is to be given."""
    return text if not text or text.startswith(PREFIX) or not is_settled() else NOT_BELIEVED


def newest() -> DataKey:
    """The key that encrypts. Raises Unreadable where it was lost."""
    [source] = _sources
    if not (keys := source.keys()):
        if any(found() for found in _guards):
            raise lost("")
        source.make_first()
        keys = source.keys()
    return keys[0]


def known_keys() -> Sequence[DataKey]:
    """The one that encrypts comes first. Raises Unreadable for a file that is none."""
    [source] = _sources
    return source.keys()


def lost(name: str) -> Unreadable:
    which = f"the key {name} of encryption-keys is" if name else "the file encryption-keys is"
    return Unreadable(
        f"{which} missing in the hub's home, and what the database holds encrypted cannot be read: put the file back "
        "from the home or a backup that has it"
    )


def in_clear(what: str) -> Unreadable:
    return Unreadable(
        f"what the database holds of {what} is not encrypted, although everything was once: it was put there from "
        "elsewhere and is not believed; restore a backup, or delete the row"
    )


def encrypt(text: str, *whose: str | int) -> str:
    """Raises Unreadable where there is no key."""
    key, nonce = newest(), secrets.token_bytes(NONCE)
    content = nonce + key.cipher.encrypt(nonce, text.encode(), _bound_to(whose))
    return f"{PREFIX}{key.id}:{base64.b64encode(content).decode()}"


def decrypt(text: str, *whose: str | int) -> str:
    """Raises Unreadable for what no key opens, and for what belongs to somebody else."""
    if not text.startswith(PREFIX):
        return text
    if text == NOT_BELIEVED:
        raise in_clear(" ".join(str(each) for each in whose))
    name, _, content = text.removeprefix(PREFIX).partition(":")
    key = next((each for each in known_keys() if each.id == name), None)
    if key is None:
        raise lost(name[:ID_LENGTH])
    try:
        raw = base64.b64decode(content, validate=True)
        return key.cipher.decrypt(raw[:NONCE], raw[NONCE:], _bound_to(whose)).decode()
    except (InvalidTag, ValueError) as error:
        shown = " ".join(str(each) for each in whose)
        raise Unreadable(
            f"what the database holds encrypted of {shown} was changed there, or put there from elsewhere: it is not "
            "believed; restore a backup, or delete the row"
        ) from error


def key_of(text: str) -> str:
    """The id of the key, "" for a text that is not encrypted."""
    return text.removeprefix(PREFIX)[:ID_LENGTH] if text.startswith(PREFIX) else ""


def _bound_to(whose: Sequence[str | int]) -> bytes:
    return json.dumps([str(each) for each in whose]).encode()
