"""Celery tasks of the core kinds: pokes without logic."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from ocmconsole.corekinds import controllers


@shared_task(ignore_result=True)
def expire_events() -> None:
    """W28: forget old events."""
    controllers.expire_events(timezone.now())
