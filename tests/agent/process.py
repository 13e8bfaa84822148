"""The agent as its own process, as people run it: its log is what a test reads and waits for."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from tests import preloaded, servers
from tests.hub import ROOT
from tests.server import Server

PATIENCE = 120  # seconds for what an agent and a hub do within one on an idle machine
REQUEST = re.compile(r'HTTP Request: (\S+) (\S+) "HTTP/\S+ (\d+)')


@dataclass(frozen=True)
class Request:
    """One that the agent sent, in the order in which answers came. ``query`` without what is random."""

    method: str
    path: str
    query: frozenset[tuple[str, str]]
    status: int

    @property
    def is_watch(self) -> bool:
        return ("watch", "true") in self.query


@dataclass
class AgentProcess:
    """``folder`` keeps its files; one that is started again goes on with them. ``program`` is how it is run."""

    folder: Path
    bootstrap: Sequence[Path]
    spoke: Path
    cluster: str
    options: Sequence[str] = ()
    program: Sequence[str] = (sys.executable, "-m", "registration.agent")
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def files(self) -> Path:
        return self.folder / "hub-kubeconfig"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        arguments = [part for path in self.bootstrap for part in ("--bootstrap-kubeconfig", str(path))]
        arguments += ["--spoke-kubeconfig", str(self.spoke), "--cluster-name", self.cluster, "--verbose"]
        if not any(option.startswith("--hub-kubeconfig") for option in self.options):
            arguments += ["--hub-kubeconfig-dir", str(self.files)]
        with (self.folder / "log").open("ab") as log:
            self.process = preloaded.Popen(
                [*self.program, *arguments, *self.options], cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code."""
        process, self.process = self.process, None
        return servers.stop(process, how) if process is not None else 0

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def wait_for(self, words: str, *others: str, times: int = 1) -> str:
        """Until the log has these words so many times, or others; the log."""
        deadline = time.monotonic() + PATIENCE
        while sum(map((log := self.log()).count, (words, *others))) < times:
            assert self.process is not None
            assert self.process.poll() is None, f"the agent ended:\n{log}"
            assert time.monotonic() < deadline, f"{words!r} is not in the log:\n{log}"
            time.sleep(0.05)
        return log

    def requests(self, server: Server) -> list[Request]:
        """Those that it sent to a server, in order."""
        found = [match.groups() for match in map(REQUEST.search, self.log().splitlines()) if match]
        sent = []
        for method, url, status in found:
            parts = urlsplit(url)
            if f"{parts.scheme}://{parts.netloc}" == server.api_url:
                query = frozenset(parse_qsl(parts.query)) - {
                    each for each in parse_qsl(parts.query) if "imeout" in each[0]
                }
                sent.append(Request(method, parts.path, query, int(status)))
        return sent
