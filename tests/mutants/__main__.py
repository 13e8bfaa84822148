"""``python -m tests.mutants [NAME…]``: a test that carries the id of a rule fails when the rule does nothing.

The tests are those that run in one process; tests that serve a hub prove the same more slowly. Exit code 1 when a
subject has no id, no test or survives, or when a test fails with every subject in place.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]  # tests.hub has it too, and imports what pytest wants to import itself
FOLDERS = ("unit", "api", "controllers", "entry_points", "security", "commands", "statements", "pages")
OPTIONS = ["-p", "tests.mutants.plugin", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-s", "--tb=no", "-r", ""]
OPTIONS += ["-m", "not slow and not browser and not kubectl", "--timeout=120"]


def main(names: list[str]) -> int:
    os.environ["FULL"] = "1"  # any test may be the one that notices
    folders = [str(ROOT / "tests" / name) for name in FOLDERS if (ROOT / "tests" / name).exists()]
    return int(pytest.main([*OPTIONS, f"--rootdir={ROOT}", f"--mutants={','.join(names) or 'all'}", *folders]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
