"""Which tests the ordinary run leaves out, and where. ``FULL=1`` leaves out none; reasons in CONTRIBUTING.md.

Tests run on both databases where SQL, locks, isolation, JSON operators, notification between processes, several servers
or Redis take part, and on SQLite alone where they do not; what several servers and workers reach together, on PostgreSQL
alone. `make test` deals out files where each of many tests may meet either. Called by tests/conftest.py and by tests with a long list of parameters.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped] # has no stubs
from xdist.workermanage import WorkerController  # type: ignore[import-untyped] # has no stubs

V = TypeVar("V")
TESTS = Path(__file__).resolve().parent
FULL = os.environ.get("FULL", "") not in {"", "0"}


class Runs(Enum):
    BOTH = "both"
    SQLITE = "sqlite"
    POSTGRES = "postgres"


# Folders and files below tests; the longest path that contains a test decides. Each top folder is named.
PLACES: dict[str, Runs] = {
    "agent": Runs.SQLITE,
    "api": Runs.BOTH,
    "api/clustersets/test_clusterset_versions.py": Runs.SQLITE,
    "api/clusters/test_addon_kinds.py": Runs.SQLITE,
    "api/clusters/test_managedcluster_permissions.py": Runs.SQLITE,
    "api/clustersets/test_clusterset_permissions.py": Runs.SQLITE,
    "api/core/test_escalation.py": Runs.SQLITE,
    "api/core/test_explain.py": Runs.SQLITE,
    "api/core/test_reviews.py": Runs.SQLITE,
    "api/core/test_secrets.py": Runs.SQLITE,
    "api/core/test_table_rows.py": Runs.SQLITE,
    "api/registration": Runs.SQLITE,
    "api/registration/test_token_for_one_cluster.py": Runs.BOTH,
    "architecture": Runs.SQLITE,
    "browser": Runs.SQLITE,
    "commands": Runs.BOTH,
    "commands/test_backup_beside.py": Runs.SQLITE,
    "commands/test_backup_passphrase.py": Runs.SQLITE,
    "commands/test_ca.py": Runs.SQLITE,
    "commands/test_database_copy.py": Runs.SQLITE,
    "commands/test_restore_crossing.py": Runs.POSTGRES,
    "commands/test_demo.py": Runs.SQLITE,
    "commands/test_wheel.py": Runs.SQLITE,
    "conformance": Runs.BOTH,
    "conformance/test_bad_placements.py": Runs.SQLITE,
    "conformance/test_replay.py": Runs.SQLITE,
    "conformance/python": Runs.SQLITE,
    "conformance/test_discovery.py": Runs.SQLITE,
    "conformance/test_printing.py": Runs.SQLITE,
    "conformance/test_validating.py": Runs.SQLITE,
    "conformance/wire": Runs.SQLITE,
    "conformance/wire/test_crud.py": Runs.BOTH,
    "conformance/wire/test_events_and_leases.py": Runs.BOTH,
    "conformance/wire/test_lists.py": Runs.BOTH,
    "conformance/wire/test_watches.py": Runs.BOTH,
    "controllers": Runs.SQLITE,
    "controllers/test_clock.py": Runs.BOTH,
    "controllers/test_cluster_health.py": Runs.BOTH,
    "controllers/test_contention.py": Runs.BOTH,
    "controllers/test_core_garbage.py": Runs.BOTH,
    "controllers/test_deadlines.py": Runs.BOTH,
    "controllers/test_flows.py": Runs.BOTH,
    "controllers/test_foundation.py": Runs.BOTH,
    "controllers/test_group_commit.py": Runs.BOTH,
    "controllers/test_heartbeat_sampling.py": Runs.BOTH,
    "controllers/test_idempotence.py": Runs.BOTH,
    "controllers/test_many_writes.py": Runs.BOTH,
    "controllers/test_placement_bounds.py": Runs.BOTH,
    "controllers/test_placement_wakes.py": Runs.BOTH,
    "controllers/test_probes.py": Runs.BOTH,
    "controllers/test_races.py": Runs.BOTH,
    "controllers/test_silence_together.py": Runs.BOTH,
    "crash": Runs.BOTH,
    "crash/test_beat.py": Runs.POSTGRES,
    "crash/test_convergence.py": Runs.POSTGRES,
    "crash/test_litestream.py": Runs.SQLITE,
    "crash/test_notification_delivery.py": Runs.SQLITE,
    "crash/test_second_approval_kill.py": Runs.SQLITE,
    "deploy": Runs.SQLITE,
    "deploy/test_units.py": Runs.POSTGRES,
    "entry_points": Runs.SQLITE,
    "fuzz": Runs.BOTH,
    "pages": Runs.SQLITE,
    "pages/access/test_admin_lists.py": Runs.BOTH,
    "pages/clusters/test_clusters.py": Runs.BOTH,
    "pages/console/test_activity.py": Runs.BOTH,
    "pages/console/test_bulk.py": Runs.BOTH,
    "pages/console/test_exports.py": Runs.BOTH,
    "pages/console/test_health.py": Runs.BOTH,
    "pages/registration/test_inbox_pages.py": Runs.BOTH,
    "pages/registration/test_repair_pages.py": Runs.BOTH,
    "proxy": Runs.BOTH,
    "proxy/test_agents_apart.py": Runs.SQLITE,
    "proxy/test_lease_corpus.py": Runs.POSTGRES,
    "proxy/test_nginx.py": Runs.SQLITE,
    "security": Runs.SQLITE,
    "security/test_audit_order.py": Runs.BOTH,
    "security/test_audit_seals.py": Runs.BOTH,
    "security/test_audit_senders.py": Runs.BOTH,
    "security/test_ended_rights.py": Runs.BOTH,
    "security/test_notifications.py": Runs.BOTH,
    "security/test_records.py": Runs.BOTH,
    "security/test_refused_notifications.py": Runs.BOTH,
    "security/test_repair_tokens.py": Runs.BOTH,
    "security/test_revocation.py": Runs.BOTH,
    "security/test_scrub.py": Runs.POSTGRES,
    "security/test_second_approval.py": Runs.BOTH,
    "security/test_second_approval_acts.py": Runs.BOTH,
    "security/test_second_approval_races.py": Runs.BOTH,
    "security/test_sessions.py": Runs.BOTH,
    "serving": Runs.SQLITE,
    "serving/test_asgi.py": Runs.BOTH,
    "serving/test_database.py": Runs.BOTH,
    "serving/test_given_up.py": Runs.BOTH,
    "serving/test_lease_newcomers.py": Runs.BOTH,
    "serving/test_lease_path.py": Runs.BOTH,
    "serving/test_lease_rights.py": Runs.POSTGRES,
    "serving/test_long_lists.py": Runs.BOTH,
    "serving/test_watch_path.py": Runs.BOTH,
    "statements": Runs.SQLITE,
    "unit": Runs.SQLITE,
    "unit/clustersets/test_membership.py": Runs.BOTH,
    "watch": Runs.BOTH,
    "watch/test_versions.py": Runs.SQLITE,
}


def runs(path: Path) -> Runs:
    """Of a file below tests. KeyError if no entry contains it."""
    return _by_place(path, PLACES)


def _by_place(path: Path, places: dict[str, V], default: V | None = None) -> V:
    place = PurePosixPath(path.relative_to(TESTS).as_posix())
    for each in (place, *place.parents):
        if str(each) in places:
            return places[str(each)]
    if default is None:
        raise KeyError(place)
    return default


def is_left_out(path: Path, config: pytest.Config) -> bool:
    """Whether the run does not even import a file of tests. pytest does not ask about one that its arguments name."""
    if FULL or not path.name.startswith("test_"):
        return False
    return runs(path).value not in {Runs.BOTH.value, config.getoption("database")}


# Files that both databases run, and whose tests `make test` deals out, so that each runs on one of them: PostgreSQL gets one in
# so many, of a function's cases as of functions. 0, or not here: what shows SQL that differs, locks, isolation, order of commits or several processes.
DEALT: dict[str, int] = {
    "api": 3,
    "api/clusters/test_cluster_queries.py": 0,
    "api/clusters/test_words.py": 0,
    "api/core/test_batches.py": 0,
    "api/core/test_exact_lists.py": 0,
    "api/core/test_reading_ahead.py": 0,
    "conformance": 3,
    "controllers/test_core_garbage.py": 3,
    "controllers/test_idempotence.py": 3,
    "controllers/test_placement_bounds.py": 3,
    "pages": 3,
    "pages/access/test_admin_lists.py": 0,
    "security/test_repair_tokens.py": 3,
    "serving/test_watch_path.py": 3,
    "watch/test_streams.py": 3,
}


class Test(Protocol):
    """A function with its parameters, as pytest has it."""

    @property
    def path(self) -> Path: ...
    @property
    def originalname(self) -> str: ...


T = TypeVar("T", bound=Test)


def dealt(items: list[T], config: pytest.Config) -> list[T]:
    """Those of a run with ``--deal``, as `make test` makes on one database and then on the other."""
    if FULL or not config.getoption("deal"):
        return items
    functions: dict[Path, dict[str, int]] = {}
    cases: Counter[tuple[Path, str]] = Counter()
    kept = []
    for item in items:
        share = _by_place(item.path, DEALT, 0)
        if share and runs(item.path) is Runs.BOTH:
            known = functions.setdefault(item.path, {})
            number = known.setdefault(item.originalname, len(known))
            # Each function begins at another case, so that of a table of functions and kinds each meets PostgreSQL.
            is_of_postgres = (number + cases[item.path, item.originalname]) % share == 0
            cases[item.path, item.originalname] += 1
            if is_of_postgres is not (config.getoption("database") == "postgres"):
                continue
        kept.append(item)
    return kept


def dealt_cases(cases: Sequence[V], config: pytest.Config) -> list[V]:
    """Of the cases that one test goes through, by the same rule: PostgreSQL gets each third."""
    if FULL or not config.getoption("deal"):
        return [*cases]
    is_of_postgres = config.getoption("database") == "postgres"
    return [case for number, case in enumerate(cases) if (number % 3 == 0) is is_of_postgres]


# By the database of the run; a file that runs on one database alone gets both, unless it is about what no kubectl takes part in.
KUBECTLS = {"sqlite": "recent", "postgres": "debian-1.20"}
ONE_KUBECTL = {TESTS / "conformance" / "test_bad_placements.py"}


def kubectls(path: Path, config: pytest.Config, known: list[str]) -> list[str]:
    """Those of the known ones, which are at least one, that the tests of a file run with."""
    if FULL or config.getoption("server"):
        return known
    wanted = (
        [KUBECTLS[config.getoption("database")]]
        if runs(path) is Runs.BOTH or path in ONE_KUBECTL
        else [*KUBECTLS.values()]
    )
    return [name for name in known if name in wanted] or known[:1]


# Folders whose tests wait for programs, timers and restarts for much of their time. Of each line one file runs at a time,
# from the start of a run: two workers that wait leave a processor idle, and one that begins them last lets the others wait.
LINES = {
    "sqlite": (("tests/browser/",), ("tests/agent/", "tests/crash/", "tests/proxy/", "tests/watch/")),
    "postgres": (("tests/crash/",), ("tests/proxy/", "tests/serving/", "tests/watch/")),
}

# What takes a worker longest at a stretch comes before the rest, so that no other waits for it in the end.
EARLY = ("tests/conformance/", "tests/statements/", "tests/pages/truth/test_truth.py")

# Many short files that compute and wait for nothing come last, so that no worker is left to wait alone at the end.
LATE = ("tests/api/", "tests/controllers/", "tests/unit/")

# Folders whose files share a hub with a fleet, which takes up to half a minute to make; on PostgreSQL those that share any
# hub: with its worker and beat it takes 5 s of CPU time to start, and 3.4 in 100 while nobody asks it.
FLEETS = ("tests/browser/", "tests/proxy/", "tests/statements/")
TOGETHER = {"sqlite": FLEETS, "postgres": (*FLEETS, "tests/conformance/")}
ALONE = ("tests/browser/test_accessibility.py",)  # has a hub of its own
# Whose tests share nothing and take minutes together with FULL=1: any worker takes one.
SINGLY = ("tests/pages/placements/test_playground_fleets.py",)


class Scheduler(LoadFileScheduling):  # type: ignore[misc] # has no stubs
    """A file goes to one worker, and so does a folder whose files share a hub; tests of few go singly. A worker begins a line that none is busy with, or what is early."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if file in SINGLY:
            return nodeid
        together = TOGETHER[self.config.getoption("database")]
        return next((folder for folder in together if file.startswith(folder) and file not in ALONE), file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        taken = {
            self._line_of(scope)
            for other, work in self.assigned_work.items()
            for scope, tests in work.items()
            if other is not node and not all(tests.values())
        } - {None}
        free = [scope for scope in self.workqueue if self._line_of(scope) not in taken]
        if free:
            first = min(
                free, key=lambda scope: (self._line_of(scope) is None, scope not in EARLY, scope.startswith(LATE))
            )
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)

    def _line_of(self, scope: str) -> tuple[str, ...] | None:
        lines = LINES[self.config.getoption("database")]
        return next((line for line in lines if scope.startswith(line)), None)
