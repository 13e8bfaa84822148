"""A hub as it is after its first start."""

from __future__ import annotations

import pytest


@pytest.fixture
def fresh_hub(db: None) -> None:
    from registration import foundation
    from tests import factories

    foundation.ensure_hub()
    factories.settle()
