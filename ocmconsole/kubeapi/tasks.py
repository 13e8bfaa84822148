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
    """Cut to their retention the change log (W12), the results of bulk jobs, and who was held back."""
    changes.compact()
    bulkjobs.forget()
    heldback.cut(timezone.now())


def bound_log() -> None:
    """D23: the change log has at most so many bytes; between two runs it grows by what is written meanwhile."""
    changes.bound()


def seal() -> None:
    """D11: seal what is settled of the audit, and cut what is older than its retention."""
    seals.seal()
    seals.cut()
