"""From a name to a cluster that has joined, as somebody at the console sees it; by keyboard, and without scripts."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.people import Console
from tests.browser.test_accessibility import violations
from tests.fleet import Agent, Fleet, NotYet, eventually

TOKEN = re.compile(r"--hub-token ([a-z0-9]{6}\.[a-z0-9]{16})")


def minted(page: Page, fleet: Fleet, name: str) -> None:
    """The fleet's agent gets what the page shows once."""
    found = TOKEN.search(page.locator("main").inner_text())
    assert found
    fleet.tokens[name] = found[1]


def joined(fleet: Fleet, name: str) -> Agent:
    """The agent asks with that token, is accepted beforehand, and reports."""
    agent = fleet.ask(name, token=name)
    agent.report()
    agent.beat()
    return agent


def must_be_labelled(fleet: Fleet, name: str) -> None:
    if fleet.cluster(name)["metadata"]["labels"].get("env") != "prod":
        raise NotYet(f"{name} has no label env")


def test_by_keyboard_from_a_name_to_the_first_heartbeat(console: Console, fleet: Fleet) -> None:
    console.sign_in()
    console.open("/clusters/add/")
    page = console.page
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("wizard-01")
    page.keyboard.press("Enter")
    console.tab_to(page.get_by_label("Accept wizard-01 automatically if it comes with exactly this token"))
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Run this on wizard-01")).to_be_visible()
    minted(page, fleet, "wizard-01")
    assert violations(page) == []
    console.tab_to(page.get_by_role("link", name="Next: watch it join"))
    page.keyboard.press("Enter")
    expect(page.locator("#step-1.is-next")).to_be_visible()
    joined(fleet, "wizard-01")
    expect(page.get_by_role("heading", name="wizard-01 has joined")).to_be_visible()
    expect(page.locator(".oc-watch .is-done")).to_have_count(6)
    assert violations(page) == []


def test_without_scripts_the_same_forms_do_the_same(scriptless: Console, fleet: Fleet) -> None:
    scriptless.sign_in()
    scriptless.open("/clusters/add/")
    page = scriptless.page
    page.get_by_label("Name", exact=True).fill("wizard-02")
    page.get_by_label("Labels").fill("env=prod")
    page.get_by_role("button", name="Next: token").click()
    page.get_by_role("button", name="Mint token").click()
    minted(page, fleet, "wizard-02")
    page.get_by_role("button", name="kubectl").click()
    expect(page.get_by_text("kubectl apply -f klusterlet.yaml")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download klusterlet.yaml").click()
    assert download.value.suggested_filename == "klusterlet.yaml"
    page.get_by_role("link", name="Next: watch it join").click()
    expect(page.get_by_role("heading", name="wizard-02 joins")).to_be_visible()
    fleet.ask("wizard-02", token="wizard-02")
    page.reload()
    expect(page.get_by_role("link", name="Decide about wizard-02")).to_be_visible()
    eventually(lambda: must_be_labelled(fleet, "wizard-02"))


def test_a_policy_is_tried_before_it_is_kept(console: Console, fleet: Fleet) -> None:
    fleet.ask("policy-01", token="policies")
    console.sign_in()
    console.open("/policies/-/new/")
    page = console.page
    page.get_by_label("Name", exact=True).fill("shops")
    page.get_by_label("Names").fill("policy-*")
    page.get_by_label("Reason").fill("A wave of new shops.")
    page.get_by_role("button", name="Try on").click()
    expect(page.get_by_text("1 would be let in at once.")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Make policy").click()
    expect(page.get_by_role("heading", name="shops")).to_be_visible()
    expect(page.get_by_role("link", name="policy-01")).to_be_visible()


def test_a_token_is_revoked_after_its_effects_were_read(console: Console, fleet: Fleet) -> None:
    fleet.ask("revoke-01", token="to-revoke")
    console.sign_in()
    console.open("/tokens/")
    page = console.page
    page.get_by_role("link", name="Revoke… ").filter(has_text="to-revoke").click()
    expect(page.get_by_role("link", name="revoke-01")).to_be_visible()
    page.get_by_role("button", name="Revoke ").click()
    expect(page.get_by_text("opens nothing from now on")).to_be_visible()
