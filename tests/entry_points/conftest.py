"""A hub's CA, and one person whose right to accept is given per test."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def _authority() -> None:
    """Certificates of people and agents are signed in the test's own process."""
    from django.conf import settings

    from registration.pki import ca

    ca.ensure_authority(settings.OCMCONSOLE_HOME, ["localhost"])


@pytest.fixture
def ana(db: None) -> Any:
    """Staff, so that Django admin opens for her; she may do nothing yet."""
    from tests import factories

    return factories.staff("ana")
