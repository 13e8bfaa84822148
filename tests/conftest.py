"""Choice of database, servers of the run, and the fixtures every suite may use.

`--database=sqlite` (default) or `--database=postgres`, the latter with Redis. The environment is set before Django
reads its settings; nothing here may import Django at module level. With pytest-xdist the first process starts the
servers and each worker has a database, a Redis number range and a home of its own.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import pytest
from _pytest import runner

from ocmconsole.environment import frame_stack, garbage
from tests import hashers, selection, servers, tools
from tests import hub as hubs
from tests.server import Server, elsewhere
from tests.statements import page

gc.disable()  # until tests are collected, which leaves little garbage
garbage.look_less_often()
frame_stack.make_room_in_threads()
frame_stack.with_room(runner.runtestprotocol)  # under which each test runs

# A deadline would fail a test for what else the machine is doing.
hypothesis.settings.register_profile("hub", deadline=None, max_examples=200 if selection.FULL else 40)
hypothesis.settings.load_profile("hub")

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
OF_PEOPLE = "TEST_REGISTRATION_AGENT"  # what people set; other variables of tests are their own
# Sixteen numbers a worker: one for the tests themselves, the others for hubs.
FIRST_REDIS_NUMBER = 16 * int(WORKER.removeprefix("gw") or 0)
# Where there is room, homes and databases of a run lie in memory: a commit waits 3 ms for a disk.
MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes folders in it that are its own
CONTRACT_ID = re.compile(r"[WTAHGPCSKDI]\d+[a-z]?")
# A test that asks for one of these is marked, so that `make check` can leave it out.
MARKED_BY_FIXTURE = {
    "hub": "slow",
    "server": "slow",
    "start_hub": "slow",
    "kubectl": "kubectl",
    "kubectls": "kubectl",
    "page": "browser",
}
KUBECTLS = {
    "recent": tools.kubectl_of_wheel,
    "debian-1.20": tools.kubectl_of_debian,
    "machine": tools.kubectl_of_machine,
}


# ------------------------------------------------------------------------------------------------------- before Django


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--database", choices=["sqlite", "postgres"], default="sqlite", help="what the hub stores in")
    parser.addoption("--deal", action="store_true", help="leave to the other database what need run on one alone")
    parser.addoption("--server", metavar="URL", help="another hub for tests/conformance; needs --kubeconfig")
    parser.addoption("--kubeconfig", metavar="PATH", type=Path, help="of an admin of that hub")


def pytest_configure(config: pytest.Config) -> None:
    """Runs before pytest-django's own, which reads the settings."""
    config.pluginmanager.register(page.Statements(config))
    if not WORKER:
        _start_servers(config)
        config.option.loadscopereorder = False  # xdist: files in the order of selection.LINES, not by number of tests
    os.environ["OCMCONSOLE_HOME"] = str(Path(os.environ["TEST_HOME"]) / (WORKER or "main"))
    os.environ["OCMCONSOLE_CONTROLLERS"] = "inline"
    if database_url := os.environ.get("TEST_DATABASE_URL"):
        os.environ["OCMCONSOLE_DATABASE_URL"] = database_url
        os.environ["OCMCONSOLE_REDIS_URL"] = f"{os.environ['TEST_REDIS_URL']}/{FIRST_REDIS_NUMBER}"
    _load_settings()


def _load_settings() -> None:
    """pytest-django sets Django up once they are loaded. It reads the variable too early, so no worker inherits it."""
    from django.conf import settings

    os.environ["DJANGO_SETTINGS_MODULE"] = "ocmconsole.settings"
    assert settings.INSTALLED_APPS
    del os.environ["DJANGO_SETTINGS_MODULE"]
    settings.PASSWORD_HASHERS = hashers.cheap(settings.PASSWORD_HASHERS)


def _start_servers(config: pytest.Config) -> None:
    """Workers inherit what this process puts into the environment."""
    stack = ExitStack()
    config.add_cleanup(stack.close)
    if "TMPDIR" not in os.environ and servers.is_roomy(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # asked for anew
    for name in [name for name in os.environ if name.startswith(("OCMCONSOLE_", "TEST_")) and name != OF_PEOPLE]:
        del os.environ[name]
    home = tempfile.mkdtemp(prefix="ocmconsole-home-")
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    os.environ["TEST_HOME"] = home
    if config.getoption("database") == "postgres":
        os.environ["TEST_DATABASE_URL"] = stack.enter_context(servers.postgres())
        os.environ["TEST_REDIS_URL"] = stack.enter_context(servers.redis_server())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: tests of watches, timers and restarts wait for a third of their time."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return selection.Scheduler(config, log)


def is_elsewhere(config: pytest.Config) -> bool:
    """The tests are pointed at somebody else's hub: of ours, none is started."""
    if bool(config.getoption("server")) != bool(config.getoption("kubeconfig")):
        raise pytest.UsageError("--server and --kubeconfig go together")
    return bool(config.getoption("server"))


def pytest_collection_finish() -> None:
    """What is there now stays to the end, so that the collector need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return selection.is_left_out(collection_path, config) or None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kubectl" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("kubectls")
        known = list(mark.args if mark else KUBECTLS)
        chosen = selection.kubectls(metafunc.definition.path, metafunc.config, known)
        metafunc.parametrize("kubectl", chosen, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    functions = [item for item in items if isinstance(item, pytest.Function)]
    chosen = {*selection.dealt(functions, config)}
    config.hook.pytest_deselected(items=[item for item in functions if item not in chosen])
    items[:] = [item for item in items if item in chosen or not isinstance(item, pytest.Function)]
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in MARKED_BY_FIXTURE:
                item.add_marker(MARKED_BY_FIXTURE[fixture])
        for marker in item.iter_markers("contract"):
            wrong = [name for name in marker.args if not CONTRACT_ID.fullmatch(str(name))]
            if wrong or not marker.args:
                raise pytest.UsageError(f"{item.nodeid}: contract ids look like W14 or A4a, not {wrong}")


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_modify_db_settings: None) -> None:
    """A copy of what the run has migrated once, which goes with the run: each worker would take 3 s of CPU time."""
    from django.db import connection

    template = hubs.migrated(Path(os.environ["TEST_HOME"]))
    name = (
        connection.settings_dict["TEST"]["NAME"] or f"test_{connection.settings_dict['NAME']}"
    )  # a worker's has its suffix
    if database_url := os.environ.get("TEST_DATABASE_URL"):
        servers.create_database(database_url, name, template.database)
    else:
        shutil.copy(template.home / "hub.sqlite3", name)
    connection.close()
    connection.settings_dict["NAME"] = name


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """SQLite in a file, as in a hub: threads and processes share it, which a database in memory does not allow."""
    from django.conf import settings

    database: dict[str, Any] = settings.DATABASES["default"]
    if database["ENGINE"] == "django.db.backends.sqlite3":
        home = Path(os.environ["OCMCONSOLE_HOME"])
        home.mkdir(parents=True, exist_ok=True)
        database.setdefault("TEST", {})["NAME"] = str(home / "test.sqlite3")


# --------------------------------------------------------------------------------------------------------- served hubs

StartHub = Callable[..., AbstractContextManager[hubs.Hub]]


@pytest.fixture(scope="session")
def start_hub(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> StartHub:
    """Hubs with settings of their own; the keyword LIMIT_WATCHES sets OCMCONSOLE_LIMIT_WATCHES."""
    if is_elsewhere(pytestconfig):
        pytest.skip("only a hub of our own can be stopped and asked from inside")

    def start(*, first: Sequence[str] = (), **settings: str) -> AbstractContextManager[hubs.Hub]:
        home = tmp_path_factory.mktemp("hub")
        template = hubs.migrated(Path(os.environ["TEST_HOME"]))
        database_url = os.environ.get("TEST_DATABASE_URL")
        if database_url is None:
            shutil.copy(template.home / "hub.sqlite3", home)
            return hubs.serve(home, first=first, **settings)
        number = next(hubs.numbers)
        return hubs.serve(
            home,
            database_url=servers.create_database(database_url, f"hub_{WORKER or 'main'}_{number}", template.database),
            redis_url=f"{os.environ['TEST_REDIS_URL']}/{FIRST_REDIS_NUMBER + number % 15 + 1}",
            first=first,
            **settings,
        )

    return start


@pytest.fixture(scope="session")
def hub(start_hub: StartHub) -> Iterator[hubs.Hub]:
    """One hub for all tests of a process: use names that no other test uses."""
    with start_hub() as hub:
        yield hub


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The hub, or another one that the command line names; tests know it by its API alone."""
    config = request.config
    if is_elsewhere(config):
        home = tmp_path_factory.mktemp("server")
        return elsewhere(home, config.getoption("server"), config.getoption("kubeconfig"))
    hub: hubs.Hub = request.getfixturevalue("hub")
    return hub


# ------------------------------------------------------------------------------------------------------------ programs


def missing(what: str) -> NoReturn:
    """A tool is not there: a gap on somebody's laptop, a failure where the whole suite must have run."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="session")
def kubectls() -> dict[str, Path]:
    """Every kubectl there is, by name: `recent`, `debian-1.20`, and `machine` where the path has another one."""
    found = {name: path for name, find in KUBECTLS.items() if (path := find())}
    for name in ("recent", "debian-1.20"):
        if name not in found:
            missing(f"kubectl {name}")
    return found


@pytest.fixture
def kubectl(request: pytest.FixtureRequest) -> Path:
    """The test runs once with each kubectl that tests/selection.py chooses."""
    path = KUBECTLS[request.param]()
    if path is None and request.param == "machine":
        pytest.skip("the machine has no other kubectl")
    if path is None:
        missing(f"kubectl {request.param}")
    return path


@pytest.fixture(scope="session")
def chromium() -> Path:
    path = tools.chromium()
    if path is None:
        missing("chromium")
    return path


# -------------------------------------------------------------------------------------------------- between two tests


@pytest.fixture(scope="session", autouse=True)
def _static_files() -> Iterator[None]:
    """Looked for once: each test client builds the middleware anew, and WhiteNoise reads 240 files when it is built."""
    from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped] # has no stubs

    look = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, Any] = {}

    def look_once(middleware: WhiteNoiseMiddleware) -> None:
        if not found:
            look(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", look_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _emptied() -> Iterator[None]:
    from django.test import TransactionTestCase

    from tests import kept

    with pytest.MonkeyPatch.context() as patch:
        flush = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined] # Django's own
        patch.setattr(TransactionTestCase, "_fixture_teardown", kept.emptied(flush))
        yield


@pytest.fixture(scope="session", autouse=True)
def _authority() -> None:
    """The CA of the process's home is a day old: tests that travel by half a day meet it too."""
    from django.conf import settings
    from django.utils import timezone

    from registration.pki import ca

    settings.OCMCONSOLE_HOME.mkdir(parents=True, exist_ok=True)
    ca.ensure_authority(settings.OCMCONSOLE_HOME, ["localhost"], now=timezone.now() - timedelta(days=1))


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    """A test that is rolled back turns the revision counter back, which the process's indexes cannot notice."""
    from clusters.health import deadlines
    from ocmconsole.core.rbac import rule_index
    from placements.controller import snapshot

    rule_index.index.forget()
    snapshot.present.forget()
    deadlines.forget()
