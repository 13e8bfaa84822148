"""What people do beside a fleet, one after the other with pauses: pages, approvals, ``kubectl get --chunk-size=500``."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

from tests import tools
from tests.bench import machine, pages, rows
from tests.bench.callers import Caller, percentiles
from tests.bench.row import Row
from tests.hub import Hub

PAUSE = 4.0  # seconds between two acts of one person
KUBECTL_PAUSE = 20.0  # seconds between two lists of all
SHOWN = {"overview": "/", "list": "/clusters/", "search": "/clusters/?q=web-01", "approvals": "/approvals/"}
CHUNK = f"{rows.CLUSTERS}?limit={rows.PAGE}"


def admit(hub: Hub) -> None:
    code = f"crowd.admit({pages.ADMIN!r}, {pages.PASSWORD!r})"
    hub.manage("shell", "-c", f"from tests.bench import crowd; {code}")


class Everyday:
    """Three people on threads of their own."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.taken: defaultdict[str, list[float]] = defaultdict(list)
        self.failures: list[str] = []
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for act in (self._look, self._approve, self._list):
            self._threads.append(threading.Thread(target=act, daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(120)

    def _timed(self, what: str, act: Callable[[], object]) -> None:
        began = time.monotonic()
        try:
            act()
        except Exception as error:  # noqa: BLE001 - it is told
            self.failures.append(f"{what} after {time.monotonic() - began:.1f} s: {error!r:.200}")
        else:
            self.taken[what].append(time.monotonic() - began)

    def _look(self) -> None:
        with pages.signed_in(self.hub) as browser:
            while not self._is_over.is_set():
                for name, path in SHOWN.items():
                    self._timed(name, lambda path=path: browser.get(path).raise_for_status())  # type: ignore[misc] # bound now
                    self._is_over.wait(PAUSE)

    def _approve(self) -> None:
        """A cluster joins and is let in, from the first request to a certificate that may read its lease."""
        printed = self.hub.manage("bootstrap_token", "create", "--name", f"everyday-{time.time_ns()}", "--uses", "1000")
        token = printed.partition("token=")[2].split()[0]
        bootstrap, admin = Caller.of(self.hub, token=token), Caller.of(self.hub, pair=self.hub.admin_pair())
        number = 0
        while not self._is_over.is_set():
            number += 1
            # Milliseconds: a name in a certificate has 64 characters at most.
            name = f"late-{time.time_ns() // 1_000_000}-{number}"
            self._timed("join", lambda name=name: rows.joined(self.hub, name, bootstrap, admin))  # type: ignore[misc] # bound now
            self._is_over.wait(PAUSE)

    def _list(self) -> None:
        """All clusters by kubectl, and the first page of 500 by itself."""
        admin = Caller.of(self.hub, pair=self.hub.admin_pair())
        kubectl = tools.kubectl_of_wheel() or tools.kubectl_of_machine()
        while not self._is_over.is_set():
            for _ in range(5):
                self._timed("page of 500", lambda: admin.must_bytes(CHUNK, Accept=rows.TABLE))
                self._is_over.wait(PAUSE)
            if kubectl is not None and not self._is_over.is_set():
                self._timed("kubectl", lambda: self._get(str(kubectl)))

    def _get(self, kubectl: str) -> None:
        command = [kubectl, f"--kubeconfig={self.hub.admin_kubeconfig}", "get", "managedclusters", "--chunk-size=500"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            machine.asking.add(process.pid)
            out, err = process.communicate()
            machine.asking.discard(process.pid)
        if process.returncode or out.count("\n") < 2:
            raise RuntimeError(f"kubectl: {process.returncode} {err[-300:]}")
        self.lines = out.count("\n") - 1

    def kubectls(self) -> str:
        return f"{len(self.taken['kubectl'])} kubectl, {len(self.taken['join'])} joined, {len(self.failures)} failed;"

    def __str__(self) -> str:
        told = "; ".join(
            f"{name} {len(each)} times, ms "
            + ", ".join(f"{at} {1000 * value:.0f}" for at, value in percentiles(each).items())
            for name, each in self.taken.items()
            if each
        )
        return f"{told}; {'; '.join(self.failures[:5]) or 'nothing failed'}"

    def rows(self) -> Iterator[Row]:
        def p95(*names: str) -> float:
            return max((percentiles(self.taken[name])["p95"] for name in names if self.taken[name]), default=0.0)

        yield Row("fleet_page_ms", 1000 * p95(*SHOWN), str(self))
        yield Row("fleet_join_s", p95("join"), f"{len(self.taken['join'])} joined")
        yield Row("fleet_chunk_ms", 1000 * p95("page of 500"), f"{len(self.taken['page of 500'])} pages")
        yield Row(
            "fleet_kubectl_s", p95("kubectl"), f"{len(self.taken['kubectl'])} lists of {getattr(self, 'lines', 0)}"
        )
