"""``manage.py doctor`` tells what is missing, and fails when something is."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from registration import ca, foundation

pytestmark = pytest.mark.django_db


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    settings.OCMCONSOLE_HOME = tmp_path
    return tmp_path


def doctor() -> str:
    out = StringIO()
    call_command("doctor", stdout=out)
    return out.getvalue()


def test_a_hub_in_order_passes(home: Path) -> None:
    ca.ensure(home, foundation.serving_names())
    assert [line.split(": ")[1] for line in doctor().splitlines()] == ["ok"] * 4


def test_a_home_without_a_ca_fails(home: Path) -> None:
    with pytest.raises(CommandError, match="1 of 4 checks failed"):
        doctor()


def test_a_serving_certificate_for_another_name_fails(home: Path) -> None:
    ca.ensure(home, ["elsewhere.example.com"])
    with pytest.raises(CommandError):
        doctor()


def test_a_redis_that_is_away_fails(home: Path, settings: Any) -> None:
    ca.ensure(home, foundation.serving_names())
    settings.OCMCONSOLE_REDIS_URL = "redis://127.0.0.1:1/0"
    with pytest.raises(CommandError):
        doctor()
