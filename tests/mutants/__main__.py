"""``python -m tests.mutants [NAME…]``: a test that carries the id of a rule fails when the rule does nothing.

Every rule, reconciler, authorizer and task of the clock is silenced in a process of its own, which runs the tests that
carry one of its ids until the first fails. Then those that failed run unharmed: one that fails there too proves nothing
and is set aside. Exit code 1 when a subject has no id, no test or survives, or when a test failed unharmed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hub import ROOT

AT_ONCE = 2
LONGEST_SECONDS = 900
# Tests that run in one process; those that serve a hub prove the same more slowly.
FOLDERS = [f"tests/{name}" for name in ("unit", "api", "controllers", "doors", "security", "commands", "statements")]
PYTEST = [sys.executable, "-m", "pytest", "-p", "tests.mutants.plugin", "-q", "--no-header", "--tb=no", "-r", ""]
PYTEST += ["-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=120"]
FAST = "not slow and not browser and not kubectl"
TESTS_RAN, A_TEST_FAILED = 0, 1


@dataclass(frozen=True)
class Verdict:
    name: str
    ids: list[str]
    tests: int
    killer: str
    problem: str

    def __str__(self) -> str:
        found = f"killed by {self.killer}" if self.killer else f"SURVIVED: {self.problem}"
        return f"{self.name} [{' '.join(self.ids)}] {found}"


class Suite:
    """The tests with their ids and what became of them unharmed, and the subjects with theirs."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        survey = self._pytest("survey", [folder for folder in FOLDERS if (ROOT / folder).exists()], "--collect-only")
        self.subjects: dict[str, list[str]] = survey["subjects"]
        self.tests: dict[str, dict[str, Any]] = survey["tests"]
        self.failing: set[str] = set()

    def silence_all(self, names: Iterable[str]) -> Iterator[Verdict]:
        """Says each verdict; again with other tests where the one that failed does so unharmed."""
        doubtful = list(names)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while doubtful:
                verdicts = []
                for verdict in pool.map(self.silence, doubtful):
                    _say(str(verdict))
                    verdicts.append(verdict)
                self.failing |= self._failing_unharmed({verdict.killer for verdict in verdicts if verdict.killer})
                yield from (verdict for verdict in verdicts if verdict.killer not in self.failing)
                doubtful = [verdict.name for verdict in verdicts if verdict.killer in self.failing]

    def _failing_unharmed(self, tests: set[str]) -> set[str]:
        return _failed(self._pytest("unharmed", sorted(tests))) if tests else set()

    def carrying(self, ids: Iterable[str]) -> list[str]:
        wanted = set(ids)
        return [
            name for name, test in self.tests.items() if not wanted.isdisjoint(test["ids"]) and name not in self.failing
        ]

    def silence(self, name: str) -> Verdict:
        ids = self.subjects[name]
        tests = self.carrying(ids)
        if not tests:
            return Verdict(name, ids, 0, "", "no test carries its id" if ids else "its docstring names no id")
        aside = [f"--deselect={test}" for test in sorted(self.failing)]
        files = sorted({_file(test) for test in tests})
        try:
            found = self._pytest(name, files, f"--mutant={name}", _contract(ids), "-x", *aside)
        except RuntimeError as error:
            return Verdict(name, ids, len(tests), "", str(error))
        killer = next(iter(_failed(found)), "")
        return Verdict(name, ids, len(tests), killer, f"{len(tests)} tests pass without it")

    def _pytest(self, name: str, paths: list[str], *options: str) -> dict[str, Any]:
        report = self.scratch / f"{name.replace('/', '.')}.json"
        command = [*PYTEST, "-m", FAST, f"--report={report}", *options, *paths]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
        if done.returncode not in {TESTS_RAN, A_TEST_FAILED} or not report.exists():
            raise RuntimeError(f"pytest did not run for {name}:\n{done.stdout}{done.stderr}")
        found: dict[str, Any] = json.loads(report.read_text())
        return found


def _failed(found: dict[str, Any]) -> set[str]:
    return {test for test, what in found["tests"].items() if what.get("outcome") == "failed"}


def _file(test: str) -> str:
    return test.partition("::")[0]


def _contract(ids: Iterable[str]) -> str:
    return f"--contract={','.join(sorted(ids))}"


def main(names: list[str]) -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ocmconsole-mutants-") as scratch:
        suite = Suite(Path(scratch))
        if unknown := set(names) - suite.subjects.keys():
            raise SystemExit(f"nothing is registered as {', '.join(sorted(unknown))}")
        verdicts = list(suite.silence_all(names or suite.subjects))
    survivors = [verdict for verdict in verdicts if not verdict.killer]
    for test in sorted(suite.failing):
        _say(f"fails with every rule in place: {test}")
    seconds = time.monotonic() - started
    _say(
        f"{len(verdicts)} subjects, {len(verdicts) - len(survivors)} killed, {len(survivors)} survived, {seconds:.0f} s"
    )
    for verdict in survivors:
        _say(str(verdict))
    return 1 if survivors or suite.failing else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
