"""Celery tasks of the machinery: pokes without logic."""

from __future__ import annotations

from celery import shared_task

from ocmconsole.kubeapi import bulkjobs, changes, seals, workqueue


@shared_task(ignore_result=True)
def drain() -> None:
    """Run what reconcilers have due."""
    workqueue.drain(limit=200)


@shared_task(ignore_result=True)
def compact() -> None:
    """Cut to their retention the change log (W12) and the results of bulk jobs."""
    changes.compact()
    bulkjobs.forget()


@shared_task(ignore_result=True)
def seal() -> None:
    """D11: seal what is settled of the audit, and cut what is older than its retention."""
    seals.seal()
    seals.cut()
