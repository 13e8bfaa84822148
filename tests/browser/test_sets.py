"""Sets and bindings as people use them: move with and without the right, bind, walk the map; by keyboard, without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import Console
from tests.fleet import CLUSTERS, Doc, Fleet

GROUP = "cluster.open-cluster-management.io"
SETS = f"/apis/{GROUP}/v1beta2/managedclustersets"
SET = f"{GROUP}/clusterset"
OWNER, OWNERS_PASSWORD = "rosa", "owns-just-one-set"
OWNS = """
from django.contrib.auth.models import User
from guardian.shortcuts import assign_perm
from clusters.models import ManagedCluster
from clustersets.models import ManagedClusterSet
rosa = User.objects.create_user("rosa", password="owns-just-one-set")
for each in ManagedClusterSet.objects.filter(name__in=["shop", "depot"]):
    assign_perm("clustersets.view_managedclusterset", rosa, each)
assign_perm("clustersets.join_managedclusterset", rosa, ManagedClusterSet.objects.get(name="shop"))
assign_perm("clusters.change_managedcluster", rosa, ManagedCluster.objects.get(name="till-1"))
"""


def make(fleet: Fleet, path: str, version: str, kind: str, metadata: Doc) -> None:
    doc = {"apiVersion": version, "kind": kind, "metadata": metadata}
    fleet.admin.post(path, json=doc).raise_for_status()


@pytest.fixture(scope="module", autouse=True)
def sets(fleet: Fleet) -> None:
    """Two exclusive sets and three clusters in one of them; rosa may move them out of it and no further."""
    for name in ("shop", "depot"):
        make(fleet, SETS, f"{GROUP}/v1beta2", "ManagedClusterSet", {"name": name})
    for name in ("till-1", "till-2", "till-3"):
        make(fleet, CLUSTERS, f"{GROUP}/v1", "ManagedCluster", {"name": name, "labels": {SET: "shop"}})
    make(fleet, "/api/v1/namespaces", "v1", "Namespace", {"name": "counter"})
    fleet.hub.manage("shell", "-c", OWNS)


def where(fleet: Fleet, name: str) -> str:
    return str(fleet.cluster(name)["metadata"]["labels"][SET])


def test_ticked_clusters_move_after_their_effects_were_shown_and_come_back(console: Console, fleet: Fleet) -> None:
    console.sign_in()
    console.open("/sets/shop/")
    page = console.page
    page.get_by_label("Choose till-2").check()
    page.get_by_label("Choose till-3").check()
    page.get_by_label("Move the ticked to").select_option("depot")
    page.get_by_role("button", name="Preview the move…").click()
    expect(page.get_by_role("heading", name="Move 2 clusters to set depot")).to_be_visible()
    expect(page.get_by_text("Leaves shop")).to_be_visible()
    expect(page.get_by_text("1 person loses sight")).to_have_count(0)  # rosa sees both sets
    page.get_by_role("button", name="Move 2 clusters").click()
    expect(page.get_by_role("heading", name="2 of 2 clusters moved to set depot")).to_be_visible()
    assert where(fleet, "till-2") == where(fleet, "till-3") == "depot"
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", name="2 of 2 clusters moved back")).to_be_visible()
    assert where(fleet, "till-2") == where(fleet, "till-3") == "shop"


def test_without_join_on_the_other_set_the_button_says_why_and_leads_to_the_reason(
    console: Console, fleet: Fleet
) -> None:
    console.sign_in(OWNER, OWNERS_PASSWORD)
    console.open("/clusters/till-1/set/?to=depot")
    page = console.page
    expect(page.get_by_role("button", name="Move till-1")).to_be_disabled()
    expect(page.get_by_role("button", name="Move till-1")).to_have_accessible_description(
        re.compile("You may not add clusters to set depot")
    )
    expect(page.locator(".oc-denied").get_by_role("link", name="Why?")).to_have_attribute(
        "href", re.compile(r"/access/explain/\?verb=create.*name=depot")
    )
    console.open("/sets/default/")
    expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()
    assert where(fleet, "till-1") == "shop"


def test_binding_by_keyboard_alone(console: Console, fleet: Fleet) -> None:
    console.sign_in()
    console.open("/namespaces/counter/")
    page = console.page
    console.tab_to(page.get_by_role("link", name="Bind a set…"))
    page.keyboard.press("Enter")
    console.tab_to(page.get_by_label("Set", exact=True))
    page.keyboard.type("shop")
    console.tab_to(page.get_by_role("button", name="Bind", exact=True))
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("Set shop is bound into namespace counter.")
    expect(page.get_by_role("row", name=re.compile("^shop"))).to_be_visible()


def test_a_cluster_moves_without_scripts(scriptless: Console, fleet: Fleet) -> None:
    scriptless.sign_in()
    scriptless.open("/clusters/till-1/set/")
    page = scriptless.page
    page.get_by_label("Move to set").select_option("depot")
    page.get_by_role("button", name="Show what it does").click()
    page.get_by_role("button", name="Move 1 cluster").click()
    expect(page.get_by_role("heading", name="till-1 moved to set depot")).to_be_visible()
    assert where(fleet, "till-1") == "depot"


def test_arrow_keys_walk_the_map_along_its_lines(console: Console, fleet: Fleet) -> None:
    console.sign_in()
    console.open("/sets/?view=map")
    page = console.page
    shop = page.locator('[data-node="set:shop"]')
    shop.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator('[data-node="word:needs-review"]')).to_be_focused()
    shop.focus()
    page.keyboard.press("ArrowUp")
    expect(shop).not_to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(shop).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Only around shop")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("^shop"))).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("^depot"))).to_have_count(0)
