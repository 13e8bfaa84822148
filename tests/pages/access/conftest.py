"""What Django admin is asked for, and by whom."""

from __future__ import annotations

import pytest
from django.test import Client


@pytest.fixture
def root() -> Client:
    from tests.actors import signed_in

    return signed_in("boss", is_staff=True, is_superuser=True)


@pytest.fixture
def fleet() -> None:
    from tests.pages.access import admin_site

    admin_site.make_fleet()


@pytest.fixture
def records(fleet: None) -> None:
    from tests.pages.access import admin_site

    admin_site.make_records()
