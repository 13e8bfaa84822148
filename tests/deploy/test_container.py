"""The Containerfile, as far as it can be judged without a builder: a linter, and a context in which the wheel is built."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.hub import ROOT

CONTAINERFILE = ROOT / "deploy" / "Containerfile"
HADOLINT = Path(sys.executable).parent / "hadolint"


def test_the_linter_has_nothing_to_say() -> None:
    if not HADOLINT.exists():
        missing("hadolint")
    said = subprocess.run([HADOLINT, CONTAINERFILE], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout + said.stderr) == (0, "")


def test_it_runs_without_rights_and_writes_its_home_alone() -> None:
    *_, final = CONTAINERFILE.read_text().split("\nFROM ")
    assert "\nUSER 10001\n" in final
    assert "\nVOLUME /var/lib/ocmconsole\n" in final
    assert "\nHEALTHCHECK " in final


@pytest.mark.slow
def test_what_the_builder_is_given_is_enough_for_the_wheel(tmp_path: Path) -> None:
    """``Containerfile.dockerignore`` names what is let in."""
    lines = (CONTAINERFILE.with_name("Containerfile.dockerignore")).read_text().splitlines()
    for name in (line.removeprefix("!") for line in lines if line.startswith("!")):
        target = tmp_path / "src" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, target)
    build = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-deps"]
    done = subprocess.run(
        [*build, "--wheel-dir", tmp_path, tmp_path / "src"], capture_output=True, text=True, check=False
    )
    if done.returncode and "No matching distribution" in done.stderr:
        missing("a package index")
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.whl"))) == 1
