"""What the clock runs of the machinery (``ocmconsole.schedule``): calls without logic."""

from __future__ import annotations

from django.utils import timezone

from ocmconsole.kubeapi import bulkjobs, changes, heldback, seals, workqueue

TURN_SECONDS = 1.0


def drain() -> None:
    """Run what reconcilers have due, for a second; what is left then is another task's, behind what waits already."""
    if workqueue.drain(seconds=TURN_SECONDS) and workqueue.is_due():
        workqueue.poke()


def compact() -> None:
    """Cut the change log (W12: its kept history), results of bulk jobs and records of limits to their retention."""
    changes.compact_log()
    bulkjobs.delete_old_jobs()
    heldback.delete_old_counts(timezone.now())


def bound_log() -> None:
    """D23: cut the change log to ``OCMCONSOLE_LIMIT_CHANGE_LOG`` bytes; it may be larger between runs."""
    changes.bound_log()


def seal() -> None:
    """D11: seal new segments of the audit, and cut sealed ones that are older than its retention."""
    seals.seal_entries()
    seals.delete_old_entries()
