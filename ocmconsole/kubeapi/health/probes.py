"""``/livez``, ``/readyz`` and ``/healthz``: answered from memory, without the database and without authorisation (W6).

One thread of a serving process looks once a second at what the hub stands on and keeps the result; it also writes
``outages.state``. Answers only read: on the event loop (``request_threads``), or in the API view where there is no
loop. Apps register what only they can judge. Causes are fixed sentences: anybody may read them, and a driver's text may
name hosts and files.
Formats are those of a Kubernetes API server.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from time import monotonic
from typing import NamedTuple

from django.apps import apps
from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from ocmconsole.kubeapi.health import disk_space, outages
from ocmconsole.kubeapi.watch import change_log, redis_client

log = logging.getLogger(__name__)

PATHS = frozenset({"healthz", "livez", "readyz"})
PAUSE_SECONDS = 1.0  # between two rounds of checks
SPACE_SECONDS = 0.25  # between two looks at the disk, which cost microseconds: it may fill fast
PATIENCE_SECONDS = 3.0  # for one look at the database: with the pause it is seen within five that it does not answer
SELDOM_SECONDS = 5.0  # between two looks at what changes slowly
STALE_SECONDS = 15.0  # a thread that has not looked for so long hangs, and nothing is known
GRACE_SECONDS = 30.0  # worker and clock start after the server, or with it
CONTENT_TYPE = "text/plain; charset=utf-8"
STOPPING = "the server is stopping"
UNKNOWN = "not known while the database does not answer"

Look = Callable[[], str]


class Check(NamedTuple):
    """``look`` returns what is wrong in words, or nothing; it may raise an error of the database."""

    name: str
    look: Look
    needs_database: bool
    has_grace: bool


class ProbeResponse(NamedTuple):
    status: int
    text: str


_checks: list[Check] = [Check("disk", disk_space.trouble, needs_database=False, has_grace=False)]
if settings.OCMCONSOLE_REDIS_URL:
    _checks.append(Check("redis", redis_client.trouble, needs_database=False, has_grace=False))


def register(name: str, look: Look, *, needs_database: bool = True, has_grace: bool = False) -> None:
    """Add a check to ``/readyz``. One with grace may fail for ``GRACE_SECONDS`` after the start."""
    _checks.append(Check(name, look, needs_database, has_grace))


# ---------------------------------------------------------------- looking


@dataclass
class Monitor:
    """What was seen last, by the name of the check; an empty text is well."""

    seen: dict[str, str] = field(default_factory=dict)
    looked: float | None = None
    started: float = field(default_factory=monotonic)
    is_running: bool = False
    is_stopping: bool = False  # at a signal: readyz fails
    _logged: dict[str, str] = field(default_factory=dict)  # of failures that the log has
    _seldom: float = 0.0
    _thread: threading.Thread | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Look once, then go on beside the process. Doing it again changes nothing."""
        if not self.is_running:
            self.is_running, self.started = True, monotonic()
            self._stopping.clear()
            disk_space.check_space()
            self.look()
            self._thread = threading.Thread(target=self._run, name="probes", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(PAUSE_SECONDS)
        self.is_running = False

    def _run(self) -> None:
        while not self._stopping.wait(SPACE_SECONDS):
            try:
                disk_space.check_space()
                if monotonic() - (self.looked or 0.0) >= PAUSE_SECONDS:
                    self.look()
            except Exception:  # the next look may succeed; without one the answer says so
                log.exception("a look at the hub's health failed")
        connection.close()

    def look(self) -> None:
        """The database each time, what changes slowly each ``SELDOM_SECONDS`` or when the database has come back."""
        found = {"database": database()}
        if outages.state.read_only:  # worker and clock are at rest, and have time to be seen again afterwards
            self.started = monotonic()
        was_away = bool(self.seen.get("database", "unknown"))
        seldom = was_away or monotonic() - self._seldom >= SELDOM_SECONDS
        for check in (Check("migrations", migrations, needs_database=True, has_grace=False), *_checks):
            if not check.needs_database:
                found[check.name] = check.look()
            elif outages.state.away:
                found[check.name] = UNKNOWN
            elif seldom:
                found[check.name] = _asked(check)
            else:
                found[check.name] = self.seen.get(check.name, "")
        if seldom:
            self._seldom = monotonic()
        self._tell(found)
        self.seen, self.looked = found, monotonic()

    def _tell(self, found: dict[str, str]) -> None:
        """A line in the log when something fails, and one when it works again if its failure was logged."""
        for name, text in found.items():
            if not text:
                if self._logged.pop(name, ""):
                    log.warning("check %s passes again", name)
            elif text != self._logged.get(name) and not self.is_excused(name):
                self._logged[name] = text
                log.error("check %s fails: %s", name, text)

    def results(self) -> dict[str, str]:
        """As of the last look; all fail when that is too long ago."""
        if not self.is_running:
            self.look()
        age = monotonic() - (self.looked or self.started)
        if age > STALE_SECONDS:
            return dict.fromkeys(self.seen, f"not looked at for {age:.0f} s")
        return self.seen

    def is_excused(self, name: str) -> bool:
        """What starts after the server has some time for it."""
        early = self.is_running and monotonic() - self.started < GRACE_SECONDS
        return early and any(check.name == name and check.has_grace for check in _checks)


monitor = Monitor()


def database() -> str:
    """Reads, and on SQLite also asks for the right to write. Sets ``outages.state``."""
    state = outages.state
    try:
        with patient():
            state.locked = _locked()
            state.away = ""
    except DatabaseFailure as error:
        state.away = outages.cause_of(error)
        if connection.connection is not None:
            connection.close()
    return state.away or state.locked


def _locked() -> str:
    """Why nothing can be written. A hub whose revision moved meanwhile is busy, not locked. Raises DatabaseFailure."""
    before = change_log.newest_revision()
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        return ""
    try:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            cursor.execute("ROLLBACK")
    except DatabaseFailure as error:
        return outages.cause_of(error) if change_log.newest_revision() == before else ""
    return ""


def migrations() -> str:
    """Empty when none is missing. The plan is made anew only after the table of applied ones has changed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), max(id) FROM django_migrations")
        applied = cursor.fetchone()
    if applied != _applied.get("marker"):
        if missing := len(unapplied()):
            return f"{missing} missing"
        _applied["marker"] = applied
    return ""


def unapplied() -> set[tuple[str, str]]:
    """Migrations, as label of the app and name, that are not recorded in the database; all of an empty one.

    Only their files' names are read: to import them all and build Django's plan takes 0.1 s of CPU time. Where files
    are missing from the table the plan decides, since a squashed migration stands for those that it replaces.
    """
    missing = _files() - set(MigrationRecorder(connection).applied_migrations())
    if not missing:
        return set()
    loader = MigrationLoader(connection)
    return set(loader.graph.nodes) - set(loader.applied_migrations or ())


def _files() -> set[tuple[str, str]]:
    found = set()
    for app in apps.get_app_configs():
        package, _ = MigrationLoader.migrations_module(app.label)
        try:
            folder = import_module(package).__path__ if package else ()
        except ModuleNotFoundError:
            continue
        found |= {(app.label, module.name) for module in iter_modules(folder) if module.name[0] not in "_~"}
    return found


_applied: dict[str, object] = {}


def _asked(check: Check) -> str:
    try:
        with patient():
            return check.look()
    except DatabaseFailure as error:
        return outages.cause_of(error)


class patient:  # noqa: N801 - used as a function
    """Within: this thread waits at most ``PATIENCE_SECONDS`` for the database."""

    def __enter__(self) -> None:
        self._sqlite_waits(PATIENCE_SECONDS)
        outages.deadline.at = monotonic() + PATIENCE_SECONDS

    def __exit__(self, *_: object) -> None:
        outages.deadline.at = None
        self._sqlite_waits(settings.OCMCONSOLE_DATABASE_LOCK_TIMEOUT.total_seconds())

    @staticmethod
    def _sqlite_waits(seconds: float) -> None:
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


# ---------------------------------------------------------------- answering


def answer(path: str, query: Iterable[tuple[str, str]]) -> ProbeResponse | None:
    """``path`` is ``/readyz`` or ``/readyz/<check>``; None when there is no such check."""
    name, _, only = path.strip("/").partition("/")
    results = {"ping": ""}
    if name != "livez":
        results |= monitor.results() | {"shutdown": STOPPING if monitor.is_stopping else ""}
    if name == "healthz":  # ping and database, as before there was more to know
        results = {each: text for each, text in results.items() if each in {"ping", "database"}}
    if only:
        if only not in results:
            return None
        text = "" if monitor.is_excused(only) else results[only]
        return ProbeResponse(500, f"internal server error: {text}\n") if text else ProbeResponse(200, "ok")
    return _listed(name, results, list(query))


def _listed(name: str, results: dict[str, str], query: list[tuple[str, str]]) -> ProbeResponse:
    excluded = {value for key, value in query if key == "exclude"}
    lines, failed = [], False
    for check, text in results.items():
        if check in excluded:
            lines.append(f"[+]{check} excluded: ok")
        elif text and monitor.is_excused(check):
            lines.append(f"[+]{check} not seen yet: ok")
        elif text:
            failed = True
            lines.append(f"[-]{check} failed: {text}")
        else:
            lines.append(f"[+]{check} ok")
    if unknown := sorted(excluded - set(results) - {""}):
        quoted = ",".join(f'"{each}"' for each in unknown if each.isidentifier())
        lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
    if not failed and not any(key == "verbose" for key, _ in query):
        return ProbeResponse(200, "ok")
    text = "\n".join([*lines, f"{name} check {'failed' if failed else 'passed'}", ""])
    return ProbeResponse(500 if failed else 200, text)
