"""What the settings refuse at start, where one says the least of another or of a library."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from ocmconsole.environment.installation import ROOT


def started(monkeypatch: pytest.MonkeyPatch, home: Path, values: dict[str, str]) -> dict[str, Any]:
    """The settings of a process that begins with these variables."""
    for name, value in {"HOME": str(home), **values}.items():
        monkeypatch.setenv(f"OCMCONSOLE_{name}", value)
    return runpy.run_path(str(ROOT / "ocmconsole" / "settings.py"))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"CERT_LIFETIME": "29m"}, "CERT_LIFETIME must be at least 30 min, not 29m"),
        (
            {"CERT_LIFETIME": "1h", "CERT_SHORTEST_LIFETIME": "2h"},
            "CERT_LIFETIME must be at least 2 h, not 1h",
        ),
        ({"DATABASE_CONNECT_TIMEOUT": "1s"}, "DATABASE_CONNECT_TIMEOUT must be at least 2 s, not 1s"),
        ({"AUDIT_RETENTION": "29d"}, "AUDIT_RETENTION must be at least 30 d, not 29d"),
    ],
)
def test_a_duration_below_its_least_stops_the_start_and_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, values: dict[str, str], why: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"^OCMCONSOLE_{why}$"):
        started(monkeypatch, tmp_path, values)


def test_the_least_itself_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    values = {"CERT_LIFETIME": "10m", "CERT_SHORTEST_LIFETIME": "10m", "DATABASE_CONNECT_TIMEOUT": "2s"}
    found = started(monkeypatch, tmp_path, values)
    assert found["OCMCONSOLE_CERT_LIFETIME"] == found["OCMCONSOLE_CERT_SHORTEST_LIFETIME"]
