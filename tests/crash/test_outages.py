"""What the hub stands on is frozen or locked: it is seen, said in the right words, and over as soon as it is over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import redis

from tests import hub as hubs
from tests import servers
from tests.conftest import StartHub
from tests.hub import Hub

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.slow]

SPACES = "/api/v1/namespaces"
SEEN_SECONDS = 5.0  # in which an outage of the database must be noticed
LEAST_WAIT = 120.0  # for what must happen, on a machine that is busy with something else


@contextmanager
def admin_of(hub: Hub) -> Iterator[httpx.Client]:
    with hub.client(pair=hub.admin_pair()) as client:
        client.timeout = httpx.Timeout(100)
        yield client


def until(condition: Callable[[], object], what: str) -> float:
    """How long it took, in seconds."""
    began = time.monotonic()
    while True:
        with suppress(httpx.TransportError):
            if condition():
                return time.monotonic() - began
        assert time.monotonic() - began < LEAST_WAIT, what
        time.sleep(0.05)


def refused(answer: httpx.Response, code: int, *words: str) -> None:
    said: Any = answer.json()
    assert (answer.status_code, said["code"]) == (code, code), said
    assert int(answer.headers["Retry-After"]) >= 1
    assert "too many requests" not in said["message"]
    for word in words:
        assert word in said["message"]


@pytest.mark.contract("W6", "W149")
def test_each_check_is_asked_for_by_name_listed_and_left_out(start_hub: StartHub) -> None:
    with start_hub() as hub, hub.client() as anybody:
        until(lambda: "not seen yet" not in anybody.get("/readyz?verbose").text, "worker and clock are seen")
        lines = anybody.get("/readyz?verbose").text.splitlines()
        names = [line.removeprefix("[+]").removesuffix(" ok") for line in lines[:-1]]
        assert {"ping", "database", "migrations", "worker", "clock"} <= {*names}
        assert lines[-1] == "readyz check passed"
        for name in names:
            assert anybody.get(f"/readyz/{name}").text == "ok"
        assert "[+]database excluded: ok" in anybody.get("/readyz?verbose&exclude=database").text
        warned = anybody.get("/readyz?verbose&exclude=nothing").text
        assert 'warn: some health checks cannot be excluded: no matches for "nothing"' in warned
        assert anybody.get("/livez?verbose").text == "[+]ping ok\nlivez check passed\n"
        assert anybody.get("/readyz/nothing").status_code == 404
        # Not a question of who asks: a credential that is worth nothing does not matter.
        assert anybody.get("/readyz", headers={"Authorization": "Bearer nonsense"}).text == "ok"
        assert anybody.head("/livez").status_code == 200


@pytest.mark.contract("H16")
def test_a_worker_keeps_the_clock_where_beat_is_dead(start_hub: StartHub) -> None:
    if "TEST_DATABASE_URL" not in os.environ:
        pytest.skip("without Redis the server keeps the clock")
    with start_hub() as hub, hub.client() as anybody, ExitStack() as stack:
        until(lambda: "[+]clock ok" in anybody.get("/readyz?verbose").text, "the clock is seen")
        hub.stop("beat", signal.SIGKILL)
        database = stack.enter_context(psycopg.connect(hub.environment["OCMCONSOLE_DATABASE_URL"], autocommit=True))
        until(lambda: "no task has come for 20 s" in hub.log("worker"), "the worker misses its tasks")
        taken_over = datetime.now(UTC)

        def leases_looked_at() -> Any:
            (seen,) = database.execute("SELECT seen FROM clusters_serving").fetchone() or ()
            return seen

        until(lambda: leases_looked_at() > taken_over, "the worker looks at leases")
        hub.start("beat")
        until(lambda: "tasks come again" in hub.log("worker"), "Celery has the clock again")


def test_a_locked_sqlite_file_stops_writes_with_its_cause_while_reads_go_on(start_hub: StartHub) -> None:
    if "TEST_DATABASE_URL" in os.environ:
        pytest.skip("SQLite's")
    with start_hub() as hub, admin_of(hub) as admin, ExitStack() as stack:
        locker = stack.enter_context(closing(sqlite3.connect(hub.home / "hub.sqlite3", isolation_level=None)))
        locker.execute("BEGIN IMMEDIATE")
        waiting = [stack.enter_context(hub.client(pair=hub.admin_pair())) for _ in range(12)]
        sent = [_send_create(client, f"locked-{number}") for number, client in enumerate(waiting)]
        assert admin.get(f"{SPACES}/default").status_code == 200  # while a dozen writes wait

        took = until(lambda: admin.get("/readyz").status_code == 500, "the lock is seen")
        assert took < SEEN_SECONDS * 2  # the goal, and room for a busy machine
        assert "[-]database failed: the database is locked" in admin.get("/readyz").text
        assert admin.get("/readyz/database").text.startswith("internal server error: the database is locked")
        assert admin.get("/livez").text == "ok"
        refused(admin.post(SPACES, json=space("late")), 503, "the database is locked")
        assert admin.get(SPACES).status_code == 200

        locker.execute("ROLLBACK")
        until(lambda: admin.get("/readyz").text == "ok", "it is over")
        assert admin.post(SPACES, json=space("after")).status_code == 201
        for each in sent:
            each.join()


def test_a_write_waits_for_a_lock_as_long_as_it_may_and_reads_do_not(start_hub: StartHub) -> None:
    with start_hub(DATABASE_LOCK_TIMEOUT="2s") as hub, admin_of(hub) as admin, ExitStack() as stack:
        if url := hub.environment.get("OCMCONSOLE_DATABASE_URL"):
            other = stack.enter_context(psycopg.connect(url))
            other.execute("UPDATE kubeapi_revision SET value = value")
        else:
            sqlite = stack.enter_context(closing(sqlite3.connect(hub.home / "hub.sqlite3", isolation_level=None)))
            sqlite.execute("BEGIN IMMEDIATE")
        waiting = [stack.enter_context(hub.client(pair=hub.admin_pair())) for _ in range(12)]
        sent = [_send_create(client, f"waits-{number}") for number, client in enumerate(waiting)]
        assert admin.get(f"{SPACES}/default").status_code == 200
        refused(admin.post(SPACES, json=space("waits")), 503, "the database is locked by another transaction")
        for each in sent:
            each.join()


def space(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _send_create(client: httpx.Client, name: str) -> Any:
    def send() -> None:
        client.timeout = httpx.Timeout(100)
        client.post(SPACES, json=space(name))

    thread = threading.Thread(target=send)
    thread.start()
    return thread


# ---------------------------------------------------------------- a full disk


def fill(path: Path) -> None:
    """In one step, to its last 64 KiB: what the hub gives up meanwhile is not filled too."""
    with path.open("wb") as file:
        while True:
            with suppress(OSError):  # somebody else took some meanwhile
                os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(path.parent).free - 65_536)
                return


def test_a_full_disk_refuses_what_grows_while_deletes_and_sign_in_go_on(tmp_path: Path) -> None:
    if "TEST_DATABASE_URL" in os.environ:
        pytest.skip("SQLite's: the disk of PostgreSQL is not the hub's")
    with ExitStack() as stack:
        disk = stack.enter_context(servers.small_disk(tmp_path / "disk", "64m"))
        hub = stack.enter_context(hubs.serve(disk / "home", DISK_RESERVE="16Mi"))
        admin = stack.enter_context(admin_of(hub))
        for number in range(8):
            assert admin.post(SPACES, json=space(f"full-{number}")).status_code == 201
        assert admin.get("/readyz/disk").text == "ok"

        fill(disk / "filler")
        until(lambda: admin.get("/readyz").status_code == 500, "it is seen")
        assert "[-]disk failed: the disk of the database is full" in admin.get("/readyz").text
        (disk / "filler-2").write_bytes(b"\0" * 10 * 2**20)  # most of the reserve is taken by somebody else
        refused(admin.post(SPACES, json=space("late")), 507, "the disk of the database is full")
        change = {"metadata": {"labels": {"grows": "yes"}}}
        merge = {"Content-Type": "application/merge-patch+json"}
        refused(admin.patch(f"{SPACES}/full-0", json=change, headers=merge), 507, "the disk of the database is full")
        said = hub.manage("doctor", check=False)
        assert "database: its disk is full: the reserve was given up" in said
        assert "warning: disk: the disk of" in said

        assert signs_in(hub, "/hub/", shows="are left")
        for number in range(8):
            assert admin.delete(f"{SPACES}/full-{number}").status_code == 200
        until(lambda: not any("full-" in name for name in names_of(admin)), "deletes come to their end")

        (disk / "filler").unlink()
        (disk / "filler-2").unlink()
        until(lambda: admin.get("/readyz").text == "ok", "there is room for the reserve again")
        assert admin.post(SPACES, json=space("after")).status_code == 201


def names_of(admin: httpx.Client) -> list[str]:
    return [each["metadata"]["name"] for each in admin.get(SPACES).json()["items"]]


def signs_in(hub: Hub, page: str = "/", *, shows: str = "") -> bool:
    """Whether the admin can, and then reads that on a page."""
    with httpx.Client(base_url=hub.console_url, timeout=100, trust_env=False) as browser:
        browser.get("/login/")
        form = {
            "login": "admin",
            "password": hub.admin_password,
            "csrfmiddlewaretoken": browser.cookies["ocmconsole_csrf"],
        }
        answer = browser.post("/login/", data=form, headers={"Referer": f"{hub.console_url}/login/"})
        opened = browser.get(page)
        return (answer.status_code, opened.status_code) == (302, 200) and shows in opened.text


# ---------------------------------------------------------------- PostgreSQL


@contextmanager
def frozen(database_url: str) -> Iterator[None]:
    """Stop every process of that server; each has a group of its own."""
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SHOW data_directory").fetchone()
    assert found is not None
    postmaster = int((Path(found[0]) / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    stopped = [postmaster, *map(int, children)]
    try:
        for number in stopped:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGSTOP)
        yield
    finally:
        for number in stopped:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)


def test_a_frozen_postgresql_is_seen_and_said_and_over_when_it_is_over(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    if "TEST_DATABASE_URL" not in os.environ:
        pytest.skip("PostgreSQL's")
    with ExitStack() as stack:
        url = stack.enter_context(servers.postgres())  # of its own: others use the one of the run
        redis_url = stack.enter_context(servers.redis_server())
        hub = stack.enter_context(
            hubs.serve(tmp_path_factory.mktemp("hub"), database_url=url, redis_url=f"{redis_url}/0")
        )
        admin = stack.enter_context(admin_of(hub))
        assert admin.get(SPACES).status_code == 200
        with frozen(url):
            began = time.monotonic()
            waiting = admin.get(SPACES)  # sent before anything has been seen
            assert time.monotonic() - began < SEEN_SECONDS * 2
            refused(waiting, 503, "the database does not answer")
            until(lambda: admin.get("/readyz").status_code == 500, "it is seen")
            said = admin.get("/readyz").text
            assert "[-]database failed: the database does not answer" in said
            assert "[-]migrations failed: not known while the database does not answer" in said
            assert admin.get("/livez").text == "ok"
            refused(admin.post(SPACES, json=space("late")), 503, "the database does not answer")
            page = httpx.get(f"{hub.console_url}/", trust_env=False, timeout=60)
            assert (page.status_code, "The database does not answer" in page.text) == (503, True)
        until(lambda: admin.get("/readyz").text == "ok", "it is over")
        assert admin.post(SPACES, json=space("after")).status_code == 201


# ---------------------------------------------------------------- Redis


@contextmanager
def second_server(hub: Hub) -> Iterator[Hub]:
    """Of the same hub: home, database and Redis are shared."""
    api, console = f"127.0.0.1:{servers.free_port()}", f"127.0.0.1:{servers.free_port()}"
    environment = {**hub.environment, "OCMCONSOLE_API_ADDRESS": api, "OCMCONSOLE_CONSOLE_ADDRESS": console}
    environment["OCMCONSOLE_API_URL"] = hub.api_url  # the name in the certificate that both serve
    other = hubs.Hub(hub.home, f"https://{api}", f"http://{console}", environment)
    other.start("server")
    try:
        yield other
    finally:
        other.stop("server")


@contextmanager
def frozen_redis(url: str) -> Iterator[None]:
    with redis.Redis.from_url(url) as client:
        number = client.info()["process_id"]
    os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(number, signal.SIGCONT)


def test_without_redis_people_sign_in_reconcilers_run_and_other_servers_watches_hear(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    if "TEST_DATABASE_URL" not in os.environ:
        pytest.skip("there is no Redis beside SQLite")
    with ExitStack() as stack:
        database = servers.create_database(os.environ["TEST_DATABASE_URL"], "hub_without_redis")
        first = stack.enter_context(ExitStack())
        url = first.enter_context(servers.redis_server())
        home = tmp_path_factory.mktemp("hub")
        hub = stack.enter_context(hubs.serve(home, database_url=database, redis_url=f"{url}/0"))
        other = stack.enter_context(second_server(hub))
        admin = stack.enter_context(admin_of(hub))
        watch = Watch(stack.enter_context(admin_of(other)))
        until(lambda: admin.get("/readyz?verbose").text.count("[+]") >= 7, "everything is there")
        _goes_on(hub, admin, watch, "there")

        with frozen_redis(url):
            until(lambda: "[-]redis failed: it does not answer" in admin.get("/readyz").text, "it is seen")
            _goes_on(hub, admin, watch, "frozen")
        first.close()
        until(lambda: admin.get("/readyz/redis").status_code == 500, "it is seen")
        _goes_on(hub, admin, watch, "dead")
        # Nothing is left over that waits for Celery: the worker's own clock looks at leases too.
        for name in ("clock", "worker"):
            until(lambda name=name: admin.get(f"/readyz/{name}").text == "ok", f"the {name} goes on")  # type: ignore[misc] # bound now

        stack.enter_context(servers.redis_server(url))
        until(lambda: admin.get("/readyz").text == "ok", "it is back")
        _goes_on(hub, admin, watch, "back")


class Watch:
    """Names of namespaces as another server tells of them, from now on."""

    def __init__(self, client: httpx.Client) -> None:
        self.heard: dict[str, float] = {}
        since = client.get(SPACES).json()["metadata"]["resourceVersion"]
        self._opened = threading.Event()
        threading.Thread(target=self._follow, args=(client, since), daemon=True).start()
        assert self._opened.wait(LEAST_WAIT)

    def _follow(self, client: httpx.Client, since: str) -> None:
        query = {"watch": "true", "resourceVersion": since}
        with suppress(httpx.HTTPError), client.stream("GET", SPACES, params=query, timeout=None) as answer:
            self._opened.set()
            for line in answer.iter_lines():
                event = json.loads(line)
                self.heard[f"{event['type']} {event['object']['metadata']['name']}"] = time.monotonic()


def _goes_on(hub: Hub, admin: httpx.Client, watch: Watch, name: str) -> None:
    """A write, what other servers hear of it, what a reconciler does, and somebody who signs in."""
    began = time.monotonic()
    assert admin.post(SPACES, json=space(name)).status_code == 201
    written = time.monotonic()
    until(lambda: f"ADDED {name}" in watch.heard, "another server's watch hears of it")
    print(f"{name}: written in {written - began:.3f} s, heard after {watch.heard[f'ADDED {name}'] - written:.3f} s")  # noqa: T201
    assert admin.delete(f"{SPACES}/{name}").status_code == 200
    took = until(lambda: f"DELETED {name}" in watch.heard, "a reconciler empties it")
    began = time.monotonic()
    assert signs_in(hub)
    print(f"{name}: reconciled after {took:.3f} s, signed in within {time.monotonic() - began:.3f} s")  # noqa: T201
