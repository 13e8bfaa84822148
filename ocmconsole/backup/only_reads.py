"""D28: commands of a hub that was restored elsewhere, or that is read-only: those that only read, and no other.

Called by the command line for each command, before it begins; what a command that may run still tries to write is
refused by ``kubeapi.storage.only_reads``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.db import Error as DatabaseFailure

from ocmconsole.backup import read_only_mode, succession
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.models import Revision
from ocmconsole.kubeapi.storage.only_reads import OnlyReads

if TYPE_CHECKING:
    from django.core.management.base import BaseCommand

EVERYTHING = frozenset({""})
# What only reads, by command and by step of it. ``serve`` looks for itself.
READS = {
    "audit": EVERYTHING,
    "backup": EVERYTHING,
    "bootstrap_token": frozenset({"list"}),
    "ca": frozenset({"status"}),
    "check": EVERYTHING,
    "check_wire": EVERYTHING,
    "doctor": EVERYTHING,
    "encryption": frozenset({"status"}),
    "read_only": frozenset({"status"}),
    "showmigrations": EVERYTHING,
    "support-bundle": EVERYTHING,
}
# In a hub that a person has made read-only, to end that and for what is done meanwhile.
MAINTAINS = frozenset({"migrate", "read_only"})
UNASKED = frozenset({"serve", "restore", "help", "version", "diffsettings"})  # restore makes another hub of this home


def guard(command: BaseCommand, name: str) -> BaseCommand:
    """The command, which raises CommandError with the words of the pages where it would write."""
    if name in UNASKED:
        return command
    execute = command.execute

    def guarded(*arguments: Any, **options: Any) -> Any:
        before, Revision.is_exempt = Revision.is_exempt, name in MAINTAINS
        try:
            return permitted(*arguments, **options)
        finally:
            Revision.is_exempt = before

    def permitted(*arguments: Any, **options: Any) -> Any:
        with suppress(DatabaseFailure):  # the command meets it too
            outages.state.superseded = succession.found()
            read_only_mode.look()
        step = str(options.get("step") or options.get("act") or "")
        if outages.state.only_reads and not READS.get(name, frozenset()) & {"", step}:
            raise CommandError(outages.state.only_reads)
        try:
            return execute(*arguments, **options)
        except (OnlyReads, errors.ServiceUnavailable) as error:
            if not outages.state.only_reads:
                raise
            raise CommandError(outages.state.only_reads) from error

    command.execute = guarded  # type: ignore[method-assign]
    return command
