"""What the audit tells of a cluster's taints and labels: of this very cluster, by those who meant it."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import services
from clusters.kinds import MANAGED_CLUSTER
from clusters.taints import edit_history
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from tests import factories as make

pytestmark = pytest.mark.django_db


def history() -> list[tuple[str, str | None]]:
    return [(change.key, change.new) for change in edit_history.of_labels(make.stored("c1").doc)]


def test_a_cluster_made_again_has_no_past_of_its_predecessor() -> None:
    make.cluster("c1")
    make.label("c1", env="prod")
    services.set_taint(make.ADMIN, "c1", {"key": "gpu", "effect": "NoSelect"})
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    make.cluster("c1")
    doc = make.stored("c1").doc
    assert ("env", "prod") not in history()
    assert ("gpu", "NoSelect") not in edit_history.owners_of_taints(doc)
    assert edit_history.undoable_edit(make.ADMIN, doc) is None


def test_reports_of_an_agent_crowd_nothing_out(monkeypatch: Any) -> None:
    monkeypatch.setattr(edit_history, "LOOKED_AT", 2)
    make.cluster("c1")
    services.set_taint(make.ADMIN, "c1", {"key": "gpu", "effect": "NoSelect"})
    make.label("c1", env="prod")
    for status in ("True", "False", "True"):
        make.available("c1", status)
    doc = make.stored("c1").doc
    assert history()[0] == ("env", "prod")
    assert edit_history.owners_of_taints(doc)["gpu", "NoSelect"] == make.ADMIN.user
    newest = edit_history.undoable_edit(make.ADMIN, doc)
    assert newest is not None
    assert newest.what == "the labels"
