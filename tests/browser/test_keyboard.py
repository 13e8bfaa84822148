"""Journeys that other modules make with the mouse, by keyboard alone: every step leads to something that is focused."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.people import VIEWER, VIEWERS_PASSWORD, Console
from tests.fleet import Fleet

SETS = "cluster.open-cluster-management.io/v1beta2"


@pytest.fixture(scope="module", autouse=True)
def tended(fleet: Fleet) -> None:
    """A cluster, and a set to move it to."""
    fleet.register("tended")
    doc = {"apiVersion": SETS, "kind": "ManagedClusterSet", "metadata": {"name": "yard"}}
    fleet.admin.post(f"/apis/{SETS}/managedclustersets", json=doc).raise_for_status()


def go(console: Console, target: Locator, *, press: str = "Enter", type_first: str = "") -> None:
    """To the target with the Tab key, and there a text or a key."""
    console.tab_to(target)
    if type_first:
        console.page.keyboard.type(type_first)
    if press:
        console.page.keyboard.press(press)


def test_declining(console: Console, fleet: Fleet) -> None:
    fleet.ask("key-decline")
    page = console.page
    console.sign_in()
    console.open("/approvals/?q=key-decline")
    go(console, page.get_by_role("link", name="key-decline", exact=True), press="d")
    expect(page.get_by_role("button", name="Decline key-decline")).to_be_visible()
    go(console, page.get_by_label("Reason"), type_first="Nobody knows it.", press="")
    go(console, page.get_by_role("button", name="Decline key-decline"))
    expect(page.get_by_role("status")).to_contain_text("key-decline is declined.")


def test_comparing_and_overriding(console: Console, fleet: Fleet) -> None:
    fleet.ask("key-contested")
    fleet.request("key-contested", token="stores")
    page = console.page
    console.sign_in_with_the_form()
    console.open("/approvals/key-contested/")
    expect(page.get_by_role("table", name="2 askers, side by side")).to_be_visible()
    go(console, page.locator("summary", has_text="Override the block"))
    go(console, page.get_by_role("radiogroup", name="The right key").get_by_role("radio").first, press="Space")
    go(console, page.get_by_label("Type the name of the cluster"), type_first="key-contested", press="")
    go(console, page.get_by_label("How you know"), type_first="By telephone.", press="")
    go(console, page.get_by_role("button", name="Accept this key for key-contested"))
    expect(page.get_by_role("status")).to_contain_text("key-contested is accepted")


def test_accepting_many(console: Console, fleet: Fleet) -> None:
    for name in ("key-both-1", "key-both-2"):
        fleet.ask(name)
    page = console.page
    console.sign_in()
    console.open("/approvals/?q=key-both-")
    go(console, page.get_by_label("Select all safe requests"), press="Space")
    go(console, page.get_by_role("button", name="Preview and accept…"))
    expect(page.get_by_role("heading", name="Accept: 2 clusters")).to_be_visible()
    go(console, page.get_by_role("button", name="Accept: 2 clusters"))
    expect(page.get_by_role("heading", name="2 of 2 clusters accepted")).to_be_visible()


def test_a_taint(console: Console, fleet: Fleet) -> None:
    page = console.page
    console.sign_in()
    console.open("/clusters/tended/taints/")
    go(console, page.get_by_label("Key"), type_first="dedicated")
    expect(page.get_by_role("status").first).to_contain_text("The taint dedicated is added.")
    go(console, page.get_by_role("button", name="Remove dedicated"))
    expect(page.get_by_role("button", name="Remove dedicated")).to_have_count(0)
    assert "dedicated" not in str(fleet.cluster("tended")["spec"])


def test_moving_to_another_set(console: Console) -> None:
    page = console.page
    console.sign_in()
    console.open("/clusters/tended/set/")
    go(console, page.get_by_label("Move to set"), type_first="yard", press="")
    go(console, page.get_by_role("button", name="Show what it does"))
    go(console, page.get_by_role("button", name="Move 1 cluster"))
    expect(page.get_by_role("heading", name="tended moved to set yard")).to_be_visible()


def test_explaining_a_denial(console: Console) -> None:
    page = console.page
    console.sign_in(VIEWER, VIEWERS_PASSWORD)
    console.open("/clusters/tended/taints/")
    go(console, page.locator("#editor .oc-denied").get_by_role("link", name="Why?"))
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("May you .*tended"))
    expect(page.locator("#main")).to_contain_text("Denied")


def test_disconnecting_and_removing(console: Console, fleet: Fleet) -> None:
    fleet.register("key-leaving")
    fleet.patch("key-leaving", {"spec": {"hubAcceptsClient": True}})
    page = console.page
    console.sign_in()
    for act in ("Disconnect", "Remove"):
        console.open("/clusters/key-leaving/")
        go(console, page.locator(".oc-more summary"))
        go(console, page.locator(".oc-more").get_by_role("link", name=f"{act}…"))
        if act == "Disconnect":
            go(console, page.get_by_role("button", name="Disconnect key-leaving"))
            expect(page.locator("#state")).to_contain_text("Disconnected by admin")
        else:
            go(console, page.get_by_label("Type the name"), type_first="key-leaving")
            expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile("Removing|was deleted"))


def test_revoking(console: Console, fleet: Fleet) -> None:
    fleet.join("key-stolen")
    page = console.page
    console.sign_in()
    console.open("/clusters/key-stolen/identity/")
    go(console, page.get_by_role("link", name="Revoke now…"))
    go(console, page.get_by_label("Reason"), type_first="Stolen.", press="")
    go(console, page.get_by_label("Type the name"), type_first="key-stolen")
    expect(page.locator("#lives")).to_contain_text("revoked by admin: Stolen.")
