"""pytest's side of `make mutants`: instead of one run of the tests, a short one for each subject that is silenced.

The tests are collected once. For each subject the process forks; the child silences it and runs the tests that carry
one of its ids until the first fails. A test that failed is then run unharmed, in a child as well: if it fails there
too it proves nothing, and the subject is silenced again without it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import _pytest.main
import pytest
from django.conf import settings

from tests.mutants.subjects import Subject, subjects

AT_ONCE = 2
FAILED = "failed.json"  # what a child leaves in its home


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutants", default="all", help="names of subjects to silence, with commas between")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Mutants(config))


@dataclass(frozen=True)
class Verdict:
    subject: Subject
    tests: int
    killer: str

    def __str__(self) -> str:
        found = f"killed by {self.killer}" if self.killer else f"SURVIVED {self.tests} tests"
        return f"{self.subject.name} [{' '.join(self.subject.ids)}] {found}"


class Mutants:
    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.failing: set[str] = set()
        self.failed: list[str] = []  # in a child: what it will tell

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        found = subjects()
        names: str = self.config.getoption("mutants")
        chosen = [*found.values()] if names == "all" else [_named(name, found) for name in names.split(",")]
        with tempfile.TemporaryDirectory(prefix="ocmconsole-mutants-") as scratch:
            verdicts = list(self._silence_all(session, chosen, Path(scratch)))
        survivors = [verdict for verdict in verdicts if not verdict.killer]
        for test in sorted(self.failing):
            self._say(f"fails with every subject in place: {test}")
        self._say(f"{len(verdicts)} subjects, {len(survivors)} survived")
        for verdict in survivors:
            self._say(str(verdict))
        session.testsfailed = len(survivors) + len(self.failing)
        return True

    def _silence_all(self, session: pytest.Session, doubtful: list[Subject], scratch: Path) -> Iterator[Verdict]:
        while doubtful:
            verdicts = []
            work = [(subject, self._carrying(session, subject)) for subject in doubtful]
            for number, failed in self._fork_each(session, work, scratch):
                subject, items = work[number]
                verdicts.append(Verdict(subject, len(items), failed[0] if failed else ""))
                self._say(str(verdicts[-1]))
            killers = {verdict.killer for verdict in verdicts}
            unharmed = [item for item in session.items if item.nodeid in killers]
            for _, failed in self._fork_each(session, [(None, unharmed)], scratch):
                self.failing |= set(failed)
            yield from (verdict for verdict in verdicts if verdict.killer not in self.failing)
            doubtful = [verdict.subject for verdict in verdicts if verdict.killer in self.failing]

    def _carrying(self, session: pytest.Session, subject: Subject) -> list[pytest.Item]:
        """Those of the same app first, of them unit tests: one of these will fail, and others take up to minutes."""
        ids = set(subject.ids)
        aside = {_function(test) for test in self.failing}
        items = [item for item in session.items if ids & _ids_of(item) and _function(item.nodeid) not in aside]
        return sorted(items, key=lambda item: (subject.app not in item.nodeid, "/unit/" not in item.nodeid))

    def _fork_each(
        self, session: pytest.Session, work: Sequence[tuple[Subject | None, list[pytest.Item]]], scratch: Path
    ) -> Iterator[tuple[int, list[str]]]:
        """Numbers of work with the tests that failed, as they are done."""
        running: dict[int, tuple[int, Path]] = {}
        waiting = list(range(len(work)))
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                number, home = waiting.pop(0), Path(tempfile.mkdtemp(dir=scratch))
                if (pid := os.fork()) == 0:
                    self._be_child(session, *work[number], home)
                running[pid] = number, home
            pid, _ = os.wait()
            number, home = running.pop(pid)
            yield number, json.loads((home / FAILED).read_text())

    def _be_child(self, session: pytest.Session, subject: Subject | None, items: list[pytest.Item], home: Path) -> None:
        """Never returns: what the parent would tidy up is the parent's."""
        try:
            settings.OCMCONSOLE_HOME = home
            os.environ["OCMCONSOLE_HOME"] = str(home)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            session.items = items
            if subject is not None:
                self.config.option.maxfail = 1
                subject.silence()
            with suppress(session.Failed):
                _pytest.main.pytest_runtestloop(session)
            (home / FAILED).write_text(json.dumps(self.failed))
        finally:
            os._exit(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def _say(self, text: str) -> None:
        self.config.get_terminal_writer().line(text, flush=True)


def _named(name: str, found: dict[str, Subject]) -> Subject:
    if name not in found:
        raise pytest.UsageError(f"there is no rule, reconciler, authorizer or task {name}")
    return found[name]


def _function(test: str) -> str:
    """Without parameters: what fails unharmed with one is not asked again with the others."""
    return test.partition("[")[0]


def _ids_of(item: pytest.Item) -> set[str]:
    return {str(name) for marker in item.iter_markers("contract") for name in marker.args}
