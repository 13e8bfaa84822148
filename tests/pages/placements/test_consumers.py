"""The page of a Placement says which add-ons use it, and that nobody else is known."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from clusters.addons.addon_kinds import CLUSTER_MANAGEMENT_ADDON
from clusters.addons.addon_wire import ADDON_GROUP
from clusters.kinds import GROUP
from tests import factories as make
from tests.actors import grant, person, rule, signed_in
from tests.pages.placements.scene import TEAM, fleet, place

__all__ = ["fleet"]  # a fixture of every test

pytestmark = pytest.mark.django_db


def add_on(name: str, strategy: str, *placements: tuple[str, str]) -> None:
    named = [{"namespace": namespace, "name": placement} for namespace, placement in placements]
    spec: dict[str, Any] = {"installStrategy": {"type": strategy, "placements": named}}
    make.create(CLUSTER_MANAGEMENT_ADDON, make.document(CLUSTER_MANAGEMENT_ADDON, name, spec=spec))


def shown(client: Client) -> Any:
    answer = client.get(f"/placements/{TEAM}/p1/")
    assert "the audit holds no reads" in answer.content.decode()
    return answer.context["add_ons"]


def test_add_ons_whose_install_strategy_names_it_use_it() -> None:
    place()
    admin = signed_in("root", is_superuser=True)
    assert shown(admin) == []
    add_on("observability", "Placements", ("ops", "p1"), (TEAM, "p1"))
    add_on("elsewhere", "Placements", ("ops", "p1"), (TEAM, "p2"))
    add_on("by-hand", "Manual", (TEAM, "p1"))
    assert shown(admin) == ["observability"]


@pytest.mark.contract("D16")
def test_who_may_not_list_add_ons_reads_none() -> None:
    place()
    add_on("observability", "Placements", (TEAM, "p1"))
    li = person("li")
    grant(li, rule("get list", "placements", groups=GROUP), namespace=TEAM)
    assert shown(signed_in("li")) is None
    assert "observability" not in signed_in("li").get(f"/placements/{TEAM}/p1/").content.decode()
    grant(li, rule("list", "clustermanagementaddons", groups=ADDON_GROUP))
    assert shown(signed_in("li")) == ["observability"]
