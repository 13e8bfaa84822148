"""Encryption of archives in the format of age (age-encryption.org/v1), so that the program ``age`` opens them too.

A key is a passphrase, or a file of lines as ``age-keygen`` writes them: ``age1…`` encrypts, ``AGE-SECRET-KEY-1…``
encrypts and opens. Whatever is wrong with an archive or a key is a ``BackupError``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyrage
from pyrage import passphrase, x25519

from ocmconsole.environment.installation import PROGRAM

HEADER = b"age-encryption.org/v1\n"
PASSPHRASE_STANZA = b"-> scrypt "
REFUSED = "Decryption failed"  # what the library says; all else means that the file is damaged
TOO_MUCH_WORK = "work"  # of "Excessive work parameter for passphrase"
# The library measures for some milliseconds, by the clock, how much work this machine does in time: a busy one looks
# slow to a part of these measurements only.
MEASUREMENTS = 20


class BackupError(Exception):
    """One sentence: what is wrong and what to do."""


@dataclass(frozen=True)
class BackupKey:
    """What archives are encrypted to or opened with."""

    passphrase: str = ""
    recipients: tuple[Any, ...] = ()
    identities: tuple[Any, ...] = ()
    file: str = ""

    @classmethod
    def chosen(cls, passphrase: str, file: str) -> BackupKey:
        """The key file where one is named, else the passphrase. Raises BackupError."""
        if file:
            return cls._read(file)
        if passphrase:
            return cls(passphrase=passphrase)
        raise BackupError(
            "no key: set OCMCONSOLE_BACKUP_PASSPHRASE, or name a file that age-keygen has written with --key FILE"
        )

    @classmethod
    def _read(cls, file: str) -> BackupKey:
        recipients, identities = [], []
        try:
            for line in Path(file).read_text(encoding="ascii").split("\n"):
                text = line.strip()
                if text.startswith("AGE-SECRET-KEY-1"):
                    identities.append(x25519.Identity.from_str(text))
                    recipients.append(identities[-1].to_public())
                elif text and not text.startswith("#"):
                    recipients.append(x25519.Recipient.from_str(text))
        except (OSError, UnicodeDecodeError) as error:
            raise BackupError(f"the key file {file} cannot be read ({error}): name one with --key FILE") from error
        except (pyrage.IdentityError, pyrage.RecipientError) as error:
            raise BackupError(
                f"the key file {file} holds a line that is no key of age: each is age1… or AGE-SECRET-KEY-1…"
            ) from error
        if not recipients:
            raise BackupError(f"the key file {file} holds no key: make one with age-keygen")
        return cls(recipients=tuple(recipients), identities=tuple(identities), file=file)


def encrypt(source: Path, target: Any, key: BackupKey) -> None:
    """Write the encrypted content of a file to an open one. With a passphrase it is held in memory once."""
    if key.passphrase:
        target.write(passphrase.encrypt(source.read_bytes(), key.passphrase))
    else:
        with source.open("rb") as plain:
            pyrage.encrypt_io(plain, target, list(key.recipients))


def decrypt(source: Path, target: Path, key: BackupKey) -> None:
    """Write what the archive holds to ``target``, which is incomplete where this raises BackupError."""
    head = _head(source)
    if not head.startswith(HEADER):
        raise BackupError(f"{source} is no backup of a hub: name a file that {PROGRAM} backup has written")
    needs_passphrase = head[len(HEADER) :].startswith(PASSPHRASE_STANZA)
    if needs_passphrase and not key.passphrase:
        raise BackupError(f"{source} is opened by a passphrase: set OCMCONSOLE_BACKUP_PASSPHRASE and leave --key out")
    if not needs_passphrase and not key.identities:
        raise BackupError(f"{source} is opened by a secret key: name the file with AGE-SECRET-KEY-1… with --key FILE")
    try:
        if needs_passphrase:
            target.write_bytes(_opened(source.read_bytes(), key.passphrase))
        else:
            with source.open("rb") as encrypted, target.open("wb") as plain:
                pyrage.decrypt_io(encrypted, plain, list(key.identities))
    except (pyrage.DecryptError, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # of the disk; the library's own has no number
            raise BackupError(
                f"{target.parent} cannot be written ({error.strerror}): make room and try again"
            ) from error
        raise BackupError(f"{source} {_problem(str(error), key)}") from error


def _opened(encrypted: bytes, word: str) -> bytes:
    """What a passphrase opens. Raises pyrage.DecryptError."""
    for _ in range(MEASUREMENTS - 1):
        try:
            return bytes(passphrase.decrypt(encrypted, word))
        except pyrage.DecryptError as error:
            if TOO_MUCH_WORK not in str(error):
                raise
    return bytes(passphrase.decrypt(encrypted, word))


def _head(source: Path) -> bytes:
    try:
        with source.open("rb") as file:
            return file.read(len(HEADER) + len(PASSPHRASE_STANZA))
    except OSError as error:
        raise BackupError(f"{source} cannot be read ({error.strerror}): name a backup that is there") from error


def _problem(said: str, key: BackupKey) -> str:
    if said == REFUSED:
        return "is not opened by this passphrase: set OCMCONSOLE_BACKUP_PASSPHRASE to the one that it was made with"
    if said == "No matching keys found":
        return f"is not opened by the key in {key.file}: name the file of the key that it was made for"
    if TOO_MUCH_WORK in said:
        return "asks for more work than this machine can do in time: restore it on a faster one"
    return "is damaged or was cut off: take another copy of it, or an older backup"
