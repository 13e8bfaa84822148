"""The wheel: all that a hub needs is in it, built again it has the same bytes, and its command serves a hub."""

from __future__ import annotations

import os
import re
import site
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests import hub as hubs
from tests.conftest import missing
from tests.fleet import Fleet
from tests.hub import ROOT, Hub
from tests.selection import FULL
from tests.tools import pip_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Built twice with ``FULL=1``, each in an environment of its own, which takes 4 s of CPU time."""
    folder = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-deps"]
    for number in ("first", "second") if FULL else ("first",):
        done = subprocess.run(
            [*build, "--wheel-dir", str(folder / number), str(ROOT)], check=False, capture_output=True, text=True
        )
        if done.returncode != 0 and "No matching distribution" in done.stderr:
            missing("a package index")
        assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*/*.whl"))


@pytest.fixture(scope="module")
def program(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that holds the wheel and, by a path file, the dependencies of this one."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    subprocess.run([*pip_of(folder), "--quiet", "install", "--no-deps", "--no-index", str(wheels[0])], check=True)
    return folder / "bin" / "ocmconsole"


@pytest.fixture(scope="module")
def installed(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = replace(hubs.prepare(tmp_path_factory.mktemp("home")), program=(str(program),))
    hub.start("server")
    yield hub
    hub.stop("server")


@pytest.mark.skipif(not FULL, reason="it is built twice with FULL=1")
def test_built_twice_it_has_the_same_bytes(wheels: list[Path]) -> None:
    first, second = wheels
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_the_command_serves_a_hub_that_clusters_join(installed: Hub) -> None:
    with Fleet(installed) as fleet:
        fleet.join("wheeled")
        assert fleet.cluster("wheeled")["status"]["version"]["kubernetes"] == "v1.34.2"


def test_pages_have_their_assets_and_name_the_command_as_it_is_installed(installed: Hub) -> None:
    with httpx.Client(base_url=installed.console_url, follow_redirects=True, timeout=60) as browser:
        page = browser.get("/")
        token = re.findall(r'name="csrfmiddlewaretoken" value="(.+?)"', page.text)[0]
        form = {"login": "admin", "password": installed.admin_password, "csrfmiddlewaretoken": token}
        health = browser.post(page.url, data=form | {"next": "/hub/"}, headers={"Referer": str(page.url)})
        assert "ocmconsole doctor" in health.text
        assert "manage.py" not in health.text
        assets = set(re.findall(r'(?:href|src)="(/static/.+?)[#"]', health.text))
        assert len(assets) > 5
        assert {path: browser.get(path).status_code for path in assets} == dict.fromkeys(assets, 200)
        assert "<dd>" in browser.get("/help/").text


def test_its_home_is_where_a_user_keeps_data(program: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OCMCONSOLE_")}
    done = subprocess.run(
        [program, "diffsettings"],
        check=True, capture_output=True, text=True, cwd=tmp_path, env=environment | {"XDG_DATA_HOME": str(tmp_path)},
    )  # fmt: skip
    assert f"OCMCONSOLE_HOME = PosixPath('{tmp_path}/ocmconsole')" in done.stdout
