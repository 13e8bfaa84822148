"""Celery tasks of the machinery: pokes without logic."""

from __future__ import annotations

from celery import shared_task

from ocmconsole.kubeapi import changes, seals, workqueue


@shared_task(ignore_result=True)
def drain() -> None:
    """Run what reconcilers have due."""
    workqueue.drain(limit=200)


@shared_task(ignore_result=True)
def compact() -> None:
    """W12: cut the change log to its retention."""
    changes.compact()


@shared_task(ignore_result=True)
def seal() -> None:
    """D11: seal what is settled of the audit, and cut what is older than its retention."""
    seals.seal()
    seals.cut()
