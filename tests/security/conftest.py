"""A hub as it is after its first start."""

from __future__ import annotations

import pytest


@pytest.fixture
def fresh_hub(db: None) -> None:
    from django.conf import settings

    from tests import factories

    factories.started(settings.OCMCONSOLE_HOME)
