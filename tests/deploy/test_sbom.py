"""The list of what is in a release names every package of the locks, each with a licence."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.utils import canonicalize_name

from tests.hub import ROOT
from tests.selection import FULL

LOCKED = re.compile(r"^([a-z0-9.-]+)==([^ ]+)(?: ; (.+?))? \\$", re.MULTILINE)

UNNAMED = {"pyrage"}  # its metadata names no licence; the LICENSE file in its wheel is MIT

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not FULL, reason="it is made with FULL=1")]


def components(name: str) -> dict[str, dict[str, Any]]:
    found = json.loads((ROOT / "dist" / name).read_text())["components"]
    return {f"{each['name']}=={each['version']}": each for each in found}


def test_it_is_complete_against_the_locks() -> None:
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, capture_output=True)
    listed = components("ocmconsole.cdx.json")
    locked = {
        f"{canonicalize_name(name)}=={version}"
        for name, version, marker in LOCKED.findall((ROOT / "requirements.lock").read_text())
        if not marker or Marker(marker).evaluate()
    }
    assert {f"{canonicalize_name(each['name'])}=={each['version']}" for each in listed.values()} == locked
    assert {each["name"] for each in listed.values() if not each.get("licenses")} <= UNNAMED
    assets = components("ocmconsole-assets.cdx.json")
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    wanted = {
        f"{path.rpartition('node_modules/')[2]}=={entry['version']}"
        for path, entry in packages.items()
        if path and not entry.get("dev") and not entry.get("optional")
    }
    assert wanted <= set(assets)
