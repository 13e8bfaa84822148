"""The command that a page shows for a taint: one that the API takes, whatever is there already."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from clusters.kinds import MAINTENANCE_TAINT, taints_of
from clusters.taints import maintenance, taint_rules
from ocmconsole.components.refusals import plain
from ocmconsole.kubeapi.formats import patches

Doc = dict[str, Any]
GPU = {"key": "gpu", "effect": "NoSelect"}
OURS = {"key": MAINTENANCE_TAINT, "effect": "NoSelect"}


def patched(command: str, doc: Doc) -> list[Doc]:
    """What the command would leave."""
    found: Doc = patches.json_patch(doc, json.loads(shlex.split(command)[-1]))
    return taints_of(found)


@pytest.mark.parametrize(
    ("present", "left"),
    [
        ([], ["NoSelectIfNew"]),
        ([GPU], ["NoSelect", "NoSelectIfNew"]),
        ([GPU, OURS], ["NoSelect", "NoSelectIfNew"]),
        ([OURS, GPU], ["NoSelectIfNew", "NoSelect"]),
    ],
)
def test_the_command_for_a_maintenance_can_be_applied(present: list[Doc], left: list[str]) -> None:
    doc: Doc = {"metadata": {"name": "c1"}, "spec": {"taints": present} if present else {}}
    (command,) = maintenance.maintenance_commands({"c1": doc}, effect="NoSelectIfNew", reason="o'brien's disk")
    after = patched(command, doc)
    assert [taint["effect"] for taint in after] == left
    assert {"key": MAINTENANCE_TAINT, "effect": "NoSelectIfNew", "value": "o'brien's disk"} in after


def test_clusters_with_the_same_patch_share_a_command() -> None:
    told = taint_rules.taint_commands({"c1": [], "c2": [GPU], "c3": []}, {"key": "dedicated", "effect": "NoSelect"})
    assert [line.partition(" --type")[0] for line in told] == [
        "kubectl patch managedclusters c1 c3",
        "kubectl patch managedclusters c2",
    ]


def test_another_effect_of_a_key_is_another_taint() -> None:
    (command,) = taint_rules.taint_commands({"c1": [GPU]}, {"key": "gpu", "effect": "PreferNoSelect"})
    assert '"/spec/taints/-"' in command


@pytest.mark.contract("A0")
@pytest.mark.parametrize(
    ("message", "told"),
    [
        ('Operation cannot be fulfilled on managedclusters.x "c1": it moved on', "it moved on"),
        ('admission webhook "a.b.c" denied the request: user "li" may not', 'user "li" may not'),
        ("web-1 denied the request: of li", "web-1 denied the request: of li"),
    ],
)
def test_a_refusal_is_shown_without_its_preamble(message: str, told: str) -> None:
    assert plain(message) == told
