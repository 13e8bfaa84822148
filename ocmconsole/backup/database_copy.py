"""A copy of a hub's SQLite database alone, as Litestream restores one, made a home of with the keys that are here.

A copy that is put in the place of the database by hand would give out its revisions a second time (D22) and be taken
for the hub that it is a copy of (D28). ``opened`` hands it to ``restoring`` as an archive is handed;
``swapped_database`` knows one that was put there by hand.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ocmconsole.backup import archive, databases, opening, succession, taking
from ocmconsole.backup.encryption import BackupError
from ocmconsole.backup.opening import OpenedArchive
from ocmconsole.kubeapi import clock
from registration.pki import ca

HEAD = b"SQLite format 3\0"
# When the hub wrote last: a server notes every five seconds that it serves, and each act is in the audit.
TIMES = ("SELECT max(served) FROM clusters_serving", "SELECT max(seen) FROM clusters_serving",
         "SELECT max(time) FROM kubeapi_auditevent")  # fmt: skip
CA_STEPS = "SELECT name, diff, time FROM kubeapi_auditevent WHERE act LIKE 'ca:%' AND outcome = 'allowed' ORDER BY id"


def is_one(source: Path) -> bool:
    try:
        with source.open("rb") as file:
            return file.read(len(HEAD)) == HEAD
    except OSError:
        return False


@contextmanager
def opened(source: Path, home: Path) -> Iterator[OpenedArchive]:
    """The copy beside the keys of ``home``, in a folder of this process. Raises BackupError.

    Its time is that of the last thing that is in it: what was written later is not, so that nobody takes it for known.
    """
    if missing := [name for name in taking.NEEDED if not (home / name).exists()]:
        raise BackupError(
            f"{source} is a database without keys, and {home} has none ({missing[0]}): restore a backup there first, "
            "then this with --replace"
        )
    try:
        folder = Path(tempfile.mkdtemp(prefix=opening.PREFIX, dir=home))
    except OSError as error:
        raise BackupError(f"{home} cannot be written ({error.strerror}): see to that and try again") from error
    try:
        facts, moment, hub = _copied(source, folder / databases.FILES[databases.SQLITE])
        if (own := succession.read(home)) is not None and own.hub != hub:
            raise BackupError(
                f"{source} is the database of another hub than that of {home}: restore its own backup first"
            )
        taking.copy_files(home, folder)
        _require_keys(folder, source)
        manifest = archive.Manifest(
            format=archive.FORMAT,
            version="",
            database=databases.SQLITE,
            incarnation=facts.incarnation,
            revision=facts.revision,
            time=f"{moment:%Y-%m-%dT%H:%M:%SZ}",
            migrations=facts.migrations,
            settings={},
            members={},
            key_places=tuple(ca.key_places(home)),
        )
        found = OpenedArchive(folder, manifest)
        opening.require_known(found, source)
        yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copied(source: Path, target: Path) -> tuple[databases.CopyFacts, datetime, str]:
    """With what its log beside it holds, if it has one. When it was written last, and the id of its hub."""
    try:
        with (
            closing(sqlite3.connect(f"file:{source}?mode=rw", uri=True)) as found,
            closing(sqlite3.connect(target)) as made,
        ):
            found.backup(made)
            made.execute("PRAGMA journal_mode = DELETE")
            flaw = made.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if flaw != "ok":
                raise BackupError(f"{source} is damaged ({flaw}): restore an older state of it")
            facts = databases.facts_of(made)
            times = [made.execute(statement).fetchone()[0] for statement in TIMES]
            hub = made.execute("SELECT uid FROM kubeapi_incarnation ORDER BY number LIMIT 1").fetchone()
    except sqlite3.Error as error:
        raise BackupError(f"{source} is no whole database of a hub ({error}): name another copy") from error
    known = [datetime.fromisoformat(time).replace(tzinfo=UTC) for time in times if time]
    if not known or not facts.incarnation:
        raise BackupError(f"{source} is the database of no hub that has served: name another copy")
    return facts, min(max(known), clock.now()), str(hub[0])


def _require_keys(folder: Path, source: Path) -> None:
    """The CAs that are here are those of the copy or later ones: with earlier ones a stolen CA is trusted again."""
    signs: dict[str, tuple[str, datetime]] = {}
    with closing(sqlite3.connect(folder / databases.FILES[databases.SQLITE])) as made:
        for role, diff, time in made.execute(CA_STEPS):
            for new in [each["new"] for each in json.loads(diff) if each["path"] == "signs"]:
                signs[role] = (new, datetime.fromisoformat(time).replace(tzinfo=UTC))
    for role, (key, moment) in signs.items():
        try:
            authority = ca.authority_of(folder, ca.AuthorityRole(role))
        except ca.AuthorityError as error:
            raise BackupError(str(error)) from error
        here = (authority, *authority.others)
        if key not in [each.key_fingerprint for each in here] and max(ca.begun(each) for each in here) <= moment:
            raise BackupError(
                f"{source} is from after a rotation of the {role} CA on {moment:%Y-%m-%d %H:%M:%S} UTC, and the keys "
                "of this home are from before: restore a backup that was made after it, then this with --replace"
            )
