"""How a restored hub begins (D22, D28): a new incarnation, revisions beyond all that the old one gave out, no old log.

Runs in a process of its own on the new database, before anybody sees it.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from django.conf import settings
from django.db import transaction
from django.db.models import F

from ocmconsole.backup import revocation_log, revocations, succession
from ocmconsole.backup.encryption import BackupError
from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import clock, kinds
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.models import Change, Compaction, Incarnation, Revision
from ocmconsole.kubeapi.storage import audit, audit_chain, incarnations, reader
from ocmconsole.kubeapi.writes import reencryption
from ocmconsole.models import Session

A_SECOND = 100_000  # revisions that a hub may have given out for each second since it was copied: no database does
AND_MORE = 10**9  # revisions that it may still give out before it is fenced
FIRST_HUBS = datetime(2020, 1, 1, tzinfo=UTC)  # there were none before
CONTROLLER = Actor.controller("restore")


def begin(backup_at: datetime, after: int) -> tuple[Incarnation, list[str]]:
    """Returns the new incarnation, whose number is beyond ``after``, and lines that a person should read."""
    now = clock.now()
    known = revocation_log.read()
    with transaction.atomic():
        former = incarnations.present()
        number = max(former.number if former else 0, after) + 1
        Revision.objects.filter(pk=1).update(read_only=None)
        last = _jump(now, backup_at, number)
        Revision.objects.filter(pk=1).update(rights=F("rights") + 1)
        Change.objects.all().delete()
        Compaction.objects.all().delete()
        Compaction.objects.bulk_create(Compaction(resource=kind.resource, revision=last) for kind in kinds.all_kinds())
        new = Incarnation.objects.create(
            number=number,
            uid=str(uuid.uuid4()),
            begun_at=now,
            backup_at=backup_at,
            revoked_until=known.until,
        )
        sessions = Session.objects.all().delete()[0]
        audit.entry_of(
            CONTROLLER,
            incarnations.RESTORED,
            verb="create",
            resource="incarnations",
            namespace="",
            name=new.uid,
            reason=f"from a backup of {backup_at:%Y-%m-%d %H:%M:%S} UTC; revisions go on after {last}",
            diff=[],
        ).save()
    if mark := succession.present():
        succession.write(settings.OCMCONSOLE_HOME, mark)
    ended = _end_tokens()
    lines = revocations.apply(CONTROLLER, known, backup_at)
    reach = f"{known.until:%Y-%m-%d %H:%M:%S} UTC" if known.until and known.until > backup_at else "the backup itself"
    return new, [
        f"what was revoked is known up to {reach}: look through what was decided after that",
        *lines,
        f"ended: {ended} bootstrap tokens, {sessions} sessions of people",
    ]


def _jump(now: datetime, copied_at: datetime, number: int) -> int:
    """The last revision that nobody gets: beyond those of the hub that was copied, and of each that was restored since.

    Of these only the number is known: a copy may be newer than the one that the hub before began with.
    """
    present = Revision.take(0)[0]
    of_the_copied = present + AND_MORE + A_SECOND * max(0, int((now - copied_at).total_seconds()))
    of_any = AND_MORE * number + A_SECOND * int((now - FIRST_HUBS).total_seconds())
    return Revision.take(max(of_the_copied, of_any) - present)[0]


def check() -> None:
    """What is encrypted has its keys, rows agree with their documents, and the audit is as it was sealed.

    Raises BackupError.
    """
    try:
        missing = [stored_text.lost(name) for name in reencryption.count_texts().missing_keys()]
    except stored_text.Unreadable as error:
        missing = [error]
    if missing:
        raise BackupError(missing[0].message)
    _, wrong = reader.check_wire()
    flaws = [flaw.text for flaw in audit_chain.verify_chain().flaws]
    if found := [*wrong, *flaws]:
        raise BackupError(f"what was restored is not in order ({found[0]}): use an older backup")


def _end_tokens() -> int:
    """Which of them were spent after the backup is not known."""
    names = list(BootstrapToken.objects.usable(clock.now()).values_list("pk", flat=True))
    for name in names:
        tokens.revoke_bootstrap_token(CONTROLLER, name)
    return len(names)
