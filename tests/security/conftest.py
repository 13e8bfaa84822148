"""A hub as it is after its first start."""

from __future__ import annotations

import pytest


@pytest.fixture
def fresh_hub(db: None) -> None:
    from registration import hub_setup
    from tests import factories

    hub_setup.ensure_hub()
    factories.settle()
