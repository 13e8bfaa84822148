"""Celery tasks of registration."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from registration import controllers


@shared_task(ignore_result=True)
def collect_requests() -> None:
    """Remove certificate requests that nobody needs any more (W25)."""
    controllers.collect_requests(timezone.now())
