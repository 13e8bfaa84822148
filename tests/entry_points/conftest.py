"""One person whose right to accept is given per test."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def ana(db: None) -> Any:
    """Staff, so that Django admin opens for her; she may do nothing yet."""
    from tests import factories

    return factories.staff("ana")
