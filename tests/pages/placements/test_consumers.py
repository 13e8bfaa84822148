"""The page of a Placement says which add-ons use it and which clients watch its decisions; nobody else is known."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from clusters.addons.addon_kinds import CLUSTER_MANAGEMENT_ADDON
from clusters.addons.addon_wire import ADDON_GROUP
from clusters.kinds import GROUP
from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.http.request_info import ListOptions
from ocmconsole.kubeapi.storage.selectors import FieldSelector, LabelSelector
from ocmconsole.kubeapi.watch import open_watches
from ocmconsole.kubeapi.watch.open_watches import Watcher
from ocmconsole.kubeapi.watch.streams import WatchScope
from placements.kinds import PLACEMENT_LABEL
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


def watch(namespace: str, placement: str, user: str, minutes: int) -> AbstractContextManager[None]:
    """Of the decisions of one Placement, opened so long ago."""
    served = kinds.find_served(GROUP, "v1beta1", "placementdecisions")
    assert served is not None
    options = ListOptions(LabelSelector.parse(f"{PLACEMENT_LABEL}={placement}"), FieldSelector())
    scope = WatchScope(served, namespace, options)
    return open_watches.noted(scope, Watcher(user, "argocd/v3", timezone.now() - timedelta(minutes=minutes)))


def test_clients_that_watch_its_decisions_are_named_to_those_who_may_read_the_audit() -> None:
    place()
    place("p2")
    page = f"/placements/{TEAM}/p1/"
    admin = signed_in("root", is_superuser=True)
    with (
        watch(TEAM, "p1", "argo", 5),
        watch("", "p1", "argo", 9),
        watch(TEAM, "p2", "of-another", 1),
        watch("ops", "p1", "elsewhere", 1),
    ):
        answer = admin.get(page)
        assert [each.user for each in answer.context["watchers"]] == ["argo"]
        text = answer.content.decode()
        assert "“argocd" in text
        assert "9 min" in text
        li = person("li")
        grant(li, rule("get list", "placements placementdecisions", groups=GROUP), namespace=TEAM)
        others = signed_in("li").get(page)
        assert others.context["watchers"] is None
        assert "“argocd" not in others.content.decode()
    assert admin.get(page).context["watchers"] == []
