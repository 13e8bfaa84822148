"""What the clock runs of the machinery (``ocmconsole.schedule``): calls without logic."""

from __future__ import annotations

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.control import bulk_jobs, compaction, workqueue
from ocmconsole.kubeapi.health import limit_records
from ocmconsole.kubeapi.outbound import outlets, positions
from ocmconsole.kubeapi.storage import audit_chain

TURN_SECONDS = 1.0  # of one task; what is left is a task of its own


def drain() -> None:
    """Run what reconcilers have due, for a second; what is left then is another task's, behind what waits already."""
    if workqueue.drain(seconds=TURN_SECONDS) and workqueue.is_due():
        workqueue.poke()


def compact() -> None:
    """Cut the change log (W12: its kept history), results of bulk jobs and records of limits to their retention."""
    compaction.compact_log()
    bulk_jobs.delete_old_jobs()
    limit_records.delete_old_counts(clock.now())


def bound_log() -> None:
    """D23: cut the change log to ``OCMCONSOLE_LIMIT_CHANGE_LOG`` bytes; it may be larger between runs."""
    compaction.bound_log()


def seal() -> None:
    """D11: seal new segments of the audit, and cut sealed ones that are older than its retention and taken outside."""
    audit_chain.seal_entries()
    audit_chain.delete_old_entries(taken=positions.lowest_entry(outlets.streaming()))
