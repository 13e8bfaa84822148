"""A hub of its own for the watches: its server is stopped, killed and compacted under their feet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import StartHub
from tests.hub import Hub


@pytest.fixture(scope="module")
def watched(start_hub: StartHub) -> Iterator[Hub]:
    with start_hub() as hub:
        yield hub


@pytest.fixture(scope="module")
def pair(watched: Hub) -> Path:
    return watched.admin_pair()


@pytest.fixture
def admin(watched: Hub, pair: Path) -> Iterator[httpx.Client]:
    with watched.client(pair=pair) as client:
        yield client
