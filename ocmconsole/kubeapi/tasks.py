"""Celery tasks of the machinery: pokes without logic."""

from __future__ import annotations

from celery import shared_task

from ocmconsole.kubeapi import changes, workqueue


@shared_task(ignore_result=True)
def drain() -> None:
    """Run what reconcilers have due."""
    workqueue.drain(limit=200)


@shared_task(ignore_result=True)
def compact() -> None:
    """W12: cut the change log to its retention."""
    changes.compact()
