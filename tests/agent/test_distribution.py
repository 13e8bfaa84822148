"""The distribution ocmconsole-agent: what it installs, how large it is, and that it registers a cluster from there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.conftest import StartAgent, accept
from tests.conftest import missing
from tests.hub import ROOT, Hub
from tests.tools import pip_of

MOST = 15 << 20  # bytes that an installation may take
SOURCES = ROOT / "registration" / "agent"


def size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """An environment into which the built wheel was installed, by the pip of this one, and by how many bytes it grew."""
    folder = tmp_path_factory.mktemp("distribution")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    pip = pip_of(folder / "empty")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "empty")], check=True)
    before = size(folder / "empty")
    _run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(SOURCES)], environment)
    (wheel,) = folder.glob("*.whl")
    _run([*pip, "install", "--compile", str(wheel)], environment)
    return folder / "empty", size(folder / "empty") - before


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode != 0 and "No matching distribution" in done.stderr:
        missing("a package index")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_it_takes_less_than_15_mb_and_brings_nothing_of_the_hub(empty: tuple[Path, int]) -> None:
    environment, grown = empty
    assert grown < MOST
    command = [*pip_of(environment), "list", "--format=freeze"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    names = {line.partition("==")[0].lower() for line in listed.stdout.splitlines()}
    assert "ocmconsole-agent" in names
    assert not names & {"ocmconsole", "django", "cryptography", "uvicorn", "celery"}


@pytest.mark.slow
def test_it_registers_a_cluster(hub: Hub, empty: tuple[Path, int], start_agent: StartAgent) -> None:
    program = str(empty[0] / "bin" / "ocmconsole-agent")
    agent = start_agent("installed", hub, program=[program])
    agent.wait_for("waits for approval")
    accept(hub, "installed")
    agent.wait_for("status reported")
    assert agent.stop() == 0
