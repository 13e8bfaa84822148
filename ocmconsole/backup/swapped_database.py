"""A SQLite database that was put in the place of the hub's by hand: ``serve`` refuses it (D22, D28).

Every start looks, so nothing is imported here that makes or reads copies.
"""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.db import connection

from ocmconsole.backup import revocation_log
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import audit_chain, incarnations


def trouble() -> str:
    """In words, when the SQLite database is older than what the home has seen of it; else "".

    The home's log of revocations says up to which audit entry it was read, and each of those was durable then. Those
    that are removed when they are old leave their seals.
    """
    last = revocation_log.last_line() if connection.vendor == "sqlite" else None
    present = incarnations.present() if last is not None else None
    if last is None or present is None or last["incarnation"] != present.uid:
        return ""
    seal = audit_chain.newest_seal()
    entry = AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first()
    newest = max(entry or 0, seal.last if seal else 0)
    if newest >= last["audit"]:
        return ""
    place = Path(str(settings.DATABASES["default"]["NAME"]))
    return (
        f"{place} is an older copy of this hub's database: its audit ends at entry {newest}, and {revocation_log.NAME} "
        f"has seen {last['audit']}. Run {PROGRAM} restore {place} --replace, so that the hub begins anew with it"
    )
