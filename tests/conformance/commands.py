"""One kubectl with one identity against one hub, and patience for what the hub does in its own time.

Called by every test of this folder. A call states what is expected: `kubectl(…)` works, `kubectl.refuses(…)` ends
with exit code 1; both say what the program printed when it is otherwise.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tests import tools
from tests.server import Server

Doc = dict[str, Any]
T = TypeVar("T")
PATIENCE = 120


@dataclass(frozen=True)
class Kubectl:
    hub: Server
    binary: Path
    kubeconfig: Path

    @property
    def is_old(self) -> bool:
        """Debian's 1.20, whose texts and flags differ."""
        return self.binary == tools.KUBECTL_DEBIAN

    def as_(self, kubeconfig: Path) -> Kubectl:
        return replace(self, kubeconfig=kubeconfig)

    def __call__(self, *arguments: str, stdin: str | Doc | None = None) -> str:
        """What it prints; it has to work."""
        return self.run(*arguments, stdin=stdin, code=0).stdout

    def refuses(self, *arguments: str, stdin: str | Doc | None = None) -> str:
        """Its complaint."""
        return self.run(*arguments, stdin=stdin, code=1).stderr.strip()

    def run(self, *arguments: str, stdin: str | Doc | None = None, code: int) -> subprocess.CompletedProcess[str]:
        done = self.attempt(*arguments, stdin=stdin)
        said = f"exit {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.returncode == code, f"kubectl {' '.join(arguments)}: {said}"
        return done

    def attempt(self, *arguments: str, stdin: str | Doc | None = None) -> subprocess.CompletedProcess[str]:
        """However it ends."""
        text = json.dumps(stdin) if isinstance(stdin, dict) else stdin
        return self.hub.kubectl(self.binary, *arguments, kubeconfig=self.kubeconfig, stdin=text)

    def running(self, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
        return self.hub.kubectl_running(self.binary, *arguments, kubeconfig=self.kubeconfig)

    def read(self, *arguments: str) -> Doc:
        doc: Doc = json.loads(self("get", *arguments, "-o", "json"))
        return doc

    def rows(self, *arguments: str) -> list[list[str]]:
        """The cells of a table without its heading; columns are two blanks or more apart."""
        return [cells(line) for line in self("get", *arguments, "--no-headers").splitlines()]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def eventually(ask: Callable[[], T | None], seconds: float = PATIENCE) -> T:
    """The first answer that is true; the hub's controllers work behind the answer to a write."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"still {answer!r} after {seconds} s"
        time.sleep(0.1)
    return answer
