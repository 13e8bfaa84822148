"""Access in a browser: a denial explained, asked for and granted; roles given by keyboard alone and without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.people import GRANTEE, VIEWERS_PASSWORD, Console
from tests.fleet import Fleet

MINT = "/access/explain/?verb=mint&resource=bootstraptokens.ocmconsole.io"


@pytest.fixture
def grantee(browser: Browser, fleet: Fleet) -> Console:
    """gita, beside the admin."""
    console = Console(browser.new_context(locale="en-GB").new_page(), fleet.hub.console_url, "")
    console.sign_in(GRANTEE, VIEWERS_PASSWORD)
    return console


def test_a_denial_is_explained_asked_for_and_granted(console: Console, grantee: Console) -> None:
    page = grantee.page
    grantee.open(MINT)
    expect(page.get_by_role("heading", level=1)).to_have_text("May you mint bootstrap tokens?")
    expect(page.get_by_text("Denied", exact=True)).to_be_visible()
    page.get_by_label("Reason").fill("I add the stores in Lyon.")
    page.get_by_role("button", name="Request access").click()
    expect(page.get_by_text("You have asked for this", exact=True)).to_be_visible()

    console.sign_in()
    console.open("/access/requests/")
    console.page.get_by_role("link", name="Answer the request of gita").click()
    expect(console.page.get_by_text("Django permission corekinds.add_bootstraptoken")).to_be_visible()
    console.page.get_by_role("button", name="Grant it to gita").click()
    expect(console.page.get_by_text("gita may now mint bootstrap tokens; the audit has it.")).to_be_visible()

    grantee.open(MINT)
    expect(page.get_by_text("Allowed", exact=True)).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("add_bootstraptoken.*gita.*admin"))).to_be_visible()


def test_a_role_is_given_by_keyboard_alone(console: Console) -> None:
    page = console.page
    console.sign_in()
    console.open("/access/give/")
    console.tab_to(page.get_by_role("radio", name=re.compile("Approver")))
    viewer = page.get_by_role("radio", name=re.compile("Viewer"))
    for _ in range(page.get_by_role("radio").count()):
        if not viewer.is_checked():
            page.keyboard.press("ArrowDown")
    expect(viewer).to_be_checked()
    console.tab_to(page.get_by_label("Person or group"))
    page.keyboard.type("gita")
    console.tab_to(page.get_by_role("button", name="Show what it gives"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Django permission clusters.view_managedcluster")).to_be_visible()
    console.tab_to(page.get_by_role("button", name="Give it to gita"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("gita is now viewer; the audit has it.")).to_be_visible()


def test_a_right_is_given_and_taken_without_scripts(scriptless: Console) -> None:
    page = scriptless.page
    scriptless.sign_in()
    scriptless.open("/access/give/?preset=set-owner&holder=gita&scope=set&set=default&names=&namespace=")
    page.get_by_role("button", name="Give it to gita").click()
    expect(page.get_by_text("gita is now set owner; the audit has it.")).to_be_visible()
    page.get_by_role("link", name=re.compile("Take away….*bind_managedclusterset on default")).click()
    expect(page.get_by_text(re.compile("Bind set default"))).to_be_visible()
    page.get_by_role("button", name="Take it from gita").click()
    expect(page.get_by_role("link", name=re.compile("Take away….*bind_managedclusterset on default"))).to_have_count(0)
