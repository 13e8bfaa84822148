"""A backup that is locked with a passphrase instead of a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from ocmconsole.backup import encryption


def test_a_passphrase_opens_what_it_was_made_with_and_nothing_else(tmp_path: Path, settings: Any) -> None:
    """Each try takes a second of CPU time and half a GiB, by design of age."""
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.write_bytes(b"no tar")
    with made.open("wb") as file:
        encryption.encrypt(plain, file, encryption.BackupKey(passphrase="right"))
    for passphrase, expected in (("wrong", "is not opened by this passphrase"), ("right", "is no backup of a hub")):
        settings.OCMCONSOLE_BACKUP_PASSPHRASE = passphrase
        with pytest.raises(CommandError, match=expected):
            call_command("backup", str(made), verify=True)
