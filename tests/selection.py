"""Which tests the ordinary run leaves out, and where. ``FULL=1`` leaves out none; reasons in CONTRIBUTING.md.

Tests run on both databases where SQL, locks, isolation, JSON operators, notification between processes, several servers
or Redis take part, and on SQLite alone where they do not. Called by tests/conftest.py
and by tests with a long list of parameters.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path, PurePosixPath

import pytest

TESTS = Path(__file__).resolve().parent
FULL = os.environ.get("FULL", "") not in {"", "0"}


class Runs(Enum):
    BOTH = "both"
    SQLITE = "sqlite"


# Folders and files below tests; the longest path that contains a test decides. Each top folder is named.
PLACES: dict[str, Runs] = {
    "api": Runs.BOTH,
    "api/console/test_headers.py": Runs.SQLITE,
    "api/console/test_preferences.py": Runs.SQLITE,
    "api/console/test_wizard.py": Runs.SQLITE,
    "architecture": Runs.SQLITE,
    "browser": Runs.SQLITE,
    "commands": Runs.BOTH,
    "conformance": Runs.BOTH,
    "conformance/python": Runs.SQLITE,
    "conformance/python/test_watching.py": Runs.BOTH,
    "conformance/test_discovery.py": Runs.SQLITE,
    "conformance/test_printing.py": Runs.SQLITE,
    "conformance/test_validating.py": Runs.SQLITE,
    "conformance/wire/test_discovery.py": Runs.SQLITE,
    "conformance/wire/test_negotiation.py": Runs.SQLITE,
    "conformance/wire/test_openapi.py": Runs.SQLITE,
    "conformance/wire/test_protobuf.py": Runs.SQLITE,
    "conformance/wire/test_python_client.py": Runs.SQLITE,
    "conformance/wire/test_tables.py": Runs.SQLITE,
    "conformance/wire/test_validation.py": Runs.SQLITE,
    "controllers": Runs.BOTH,
    "crash": Runs.BOTH,
    "entry_points": Runs.BOTH,
    "fuzz": Runs.BOTH,
    "serving": Runs.SQLITE,
    "serving/test_asgi.py": Runs.BOTH,
    "serving/test_database.py": Runs.BOTH,
    "serving/test_given_up.py": Runs.BOTH,
    "serving/test_start.py": Runs.BOTH,
    "proxy": Runs.BOTH,
    "security": Runs.BOTH,
    "security/test_client_certificates.py": Runs.SQLITE,
    "security/test_files.py": Runs.SQLITE,
    "security/test_signing.py": Runs.SQLITE,
    "security/test_single_sign_on.py": Runs.SQLITE,
    "statements": Runs.SQLITE,
    "unit": Runs.SQLITE,
    "unit/clustersets/test_membership.py": Runs.BOTH,
    "watch": Runs.BOTH,
}


def runs(path: Path) -> Runs:
    """Of a file below tests. KeyError if no entry contains it."""
    place = PurePosixPath(path.relative_to(TESTS).as_posix())
    return next(PLACES[str(each)] for each in (place, *place.parents) if str(each) in PLACES)


def is_left_out(path: Path, config: pytest.Config) -> bool:
    """Whether the run does not even import a file of tests. pytest does not ask about one that its arguments name."""
    if FULL or config.getoption("database") == Runs.SQLITE.value or not path.name.startswith("test_"):
        return False
    return runs(path) is Runs.SQLITE


# By the database of the run; a file that runs on one database alone gets both.
KUBECTLS = {"sqlite": "recent", "postgres": "debian-1.20"}


def kubectls(path: Path, config: pytest.Config, known: list[str]) -> list[str]:
    """Those of the known ones, which are at least one, that the tests of a file run with."""
    if FULL or config.getoption("server"):
        return known
    wanted = [*KUBECTLS.values()] if runs(path) is Runs.SQLITE else [KUBECTLS[config.getoption("database")]]
    return [name for name in known if name in wanted] or known[:1]
