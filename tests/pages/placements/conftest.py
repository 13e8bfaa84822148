"""What every test of these pages begins with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import time_machine
from django.utils import timezone


@pytest.fixture(autouse=True)
def noon() -> Iterator[None]:
    """Pages write a date beside a time that is not of today: tests that begin shortly before midnight would see it."""
    with time_machine.travel(timezone.now().replace(hour=12, minute=0), tick=True):
        yield
