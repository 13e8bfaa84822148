"""Journeys that other modules make with scripts, without any: plain links and forms do all of it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.people import GROW_OLD, VIEWER, VIEWERS_PASSWORD, Console
from tests.fleet import Fleet


@pytest.fixture(scope="module", autouse=True)
def plain(fleet: Fleet) -> None:
    fleet.register("plainly")


@pytest.fixture
def page(scriptless: Console) -> Page:
    """Signed in, without scripts."""
    scriptless.sign_in()
    return scriptless.page


def test_comparing_and_overriding(scriptless: Console, fleet: Fleet) -> None:
    fleet.ask("plain-contested")
    fleet.request("plain-contested", token="stores")
    page = scriptless.page
    scriptless.sign_in_with_the_form()
    scriptless.open("/approvals/plain-contested/")
    expect(page.get_by_role("table", name="2 askers, side by side")).to_be_visible()
    page.get_by_text("Override the block").click()
    page.get_by_role("radiogroup", name="The right key").get_by_role("radio").first.check()
    page.get_by_label("Type the name of the cluster").fill("plain-contested")
    page.get_by_label("How you know").fill("By telephone.")
    fleet.hub.manage("shell", "-c", GROW_OLD)
    page.get_by_role("button", name="Accept this key for plain-contested").click()
    page.get_by_label("Password").fill(scriptless.password)
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("status")).to_contain_text("plain-contested is accepted")


def test_a_taint_and_maintenance(scriptless: Console, page: Page, fleet: Fleet) -> None:
    scriptless.open("/clusters/plainly/taints/")
    page.get_by_label("Key").fill("dedicated")
    page.get_by_role("button", name="Add taint").click()
    page.get_by_role("button", name="Remove dedicated").click()
    expect(page.get_by_role("button", name="Remove dedicated")).to_have_count(0)
    scriptless.open("/clusters/plainly/maintenance/")
    page.get_by_label("Reason").fill("kernel")
    page.get_by_role("button", name="Start maintenance").click()
    expect(page.get_by_role("status").first).to_contain_text("maintenance")
    assert "ocmconsole.io/maintenance" in str(fleet.cluster("plainly")["spec"]["taints"])
    scriptless.open("/clusters/plainly/maintenance/")
    page.get_by_role("button", name="End it now").click()
    expect(page.get_by_role("status").first).to_contain_text("is over")


def test_binding_a_set(scriptless: Console, page: Page) -> None:
    scriptless.open("/namespaces/default/")
    page.get_by_role("link", name="Bind a set…").first.click()
    page.get_by_label("Set", exact=True).select_option("global")
    page.get_by_role("button", name="Bind", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("Set global is bound into namespace default.")


def test_explaining_a_denial(scriptless: Console) -> None:
    page = scriptless.page
    scriptless.sign_in(VIEWER, VIEWERS_PASSWORD)
    scriptless.open("/clusters/plainly/taints/")
    page.locator("#editor .oc-denied").get_by_role("link", name="Why?").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("May you .*plainly"))
    expect(page.locator("#main")).to_contain_text("Denied")
    expect(page.get_by_role("heading", name="Who can give it")).to_be_visible()


def test_revoking(scriptless: Console, page: Page, fleet: Fleet) -> None:
    fleet.join("plain-stolen")
    scriptless.open("/clusters/plain-stolen/identity/")
    page.get_by_role("link", name="Revoke now…").click()
    page.get_by_label("Reason").fill("Stolen.")
    page.get_by_label("Type the name").fill("plain-stolen")
    page.get_by_role("button", name="Revoke").click()
    expect(page.locator("#lives")).to_contain_text("revoked by admin: Stolen.")
