"""What a reader of the repository relies on: locks without addresses, no paths of a machine, a readable version."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PINNED = re.compile(r"^[a-z0-9-]+(\[[a-z,]+\])?==\S+( ; .+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
# The folders of people and machines; folders that every Linux has, such as /usr/lib or /etc, are fine.
OF_A_MACHINE = re.compile(r"(?<![\w.])/(?:home|root|Users|work|tmp|mnt)/\w")


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize(
    "name",
    [
        "requirements.lock",
        "requirements-dev.lock",
        "requirements-node.lock",
        "requirements-pkcs11.lock",
        "requirements-traces.lock",
        "requirements-chat.lock",
    ],
)
def test_a_python_lock_holds_versions_and_hashes_only(name: str) -> None:
    lines = (ROOT / name).read_text().splitlines()
    odd = [line for line in lines if not (line.lstrip().startswith("#") or PINNED.match(line) or HASH.match(line))]
    assert odd == []
    assert not re.search(r"https?://|file:", "\n".join(lines))


def test_the_npm_lock_pins_every_package_by_hash_and_names_no_address() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    del packages[""]
    assert [name for name, entry in packages.items() if "resolved" in entry] == []
    assert [name for name, entry in packages.items() if "integrity" not in entry] == []


def test_the_dev_lock_repeats_the_versions_of_the_run_lock() -> None:
    def versions(name: str) -> set[str]:
        return {line.partition(" ")[0] for line in (ROOT / name).read_text().splitlines() if "==" in line}

    assert versions("requirements.lock") <= versions("requirements-dev.lock")


def test_no_tracked_text_names_a_folder_of_somebodys_machine() -> None:
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if path == Path(__file__).resolve():
            continue
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in OF_A_MACHINE.finditer(text)]
    assert found == []


def test_the_changelog_names_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["version"]
    text = (ROOT / version["path"]).read_text()
    assert re.search(version["pattern"], text, re.MULTILINE)


def test_every_release_has_its_notes_for_who_upgrades() -> None:
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    sections = re.findall(r"^## To (.+)$", (ROOT / "docs/guide/upgrading.md").read_text(), re.MULTILINE)
    assert sections == ["the next release", *released]
    tags = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert {*tags.split()} <= {f"v{version}" for version in released}
