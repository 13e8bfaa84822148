"""The inbox and the page of a request in a real browser: decide alone, together, beside others, by keys, without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.people import VIEWER, VIEWERS_PASSWORD, Console
from tests.fleet import Fleet

STALE = "The request changed while you were reading it; nothing was done."
SOON = 2_000  # milliseconds in which another browser must know


def accepts(fleet: Fleet, name: str) -> bool:
    return bool(fleet.cluster(name)["spec"]["hubAcceptsClient"])


def row(console: Console, name: str) -> Locator:
    return console.page.locator(f"#request-{name}")


@pytest.fixture
def inbox(console: Console) -> Console:
    """Signed in, before the list."""
    console.sign_in()
    console.open("/approvals/")
    return console


@pytest.fixture
def other(browser: Browser, fleet: Fleet) -> Iterator[Console]:
    """The window of somebody else."""
    context = browser.new_context(locale="en-GB", reduced_motion="reduce")
    other = Console(context.new_page(), fleet.hub.console_url, fleet.hub.admin_password)
    other.sign_in()
    yield other
    context.close()


class TestOne:
    def test_accepting_leads_from_the_inbox_to_the_cluster(self, inbox: Console, fleet: Fleet) -> None:
        fleet.ask("welcome")
        page = inbox.page
        page.reload()
        page.get_by_role("link", name="Review welcome").click()
        expect(page.get_by_text("Safe: all 7 checks hold")).to_be_visible()
        page.get_by_role("button", name="Accept welcome").click()
        expect(page.get_by_role("status")).to_contain_text("welcome is accepted; its request welcome-")
        expect(page.get_by_role("link", name="Review welcome")).to_have_count(0)
        inbox.open("/clusters/welcome/")
        expect(page.locator("#state")).to_contain_text(re.compile("certificate is issued|Accepted;"))
        assert accepts(fleet, "welcome")

    def test_a_decline_needs_its_reason_shows_it_and_can_be_undone(self, console: Console, fleet: Fleet) -> None:
        fleet.ask("unwelcome")
        page = console.page
        console.sign_in()
        console.open("/approvals/unwelcome/")
        page.get_by_text("Decline…").click()
        page.get_by_label("Reason").fill("   ")
        page.get_by_role("button", name="Decline unwelcome").click()
        expect(page.get_by_label("Reason")).to_have_accessible_description(re.compile("Say why"))
        expect(page.get_by_label("Reason")).to_have_attribute("aria-invalid", "true")
        page.get_by_label("Reason").fill("Nobody knows this machine.")
        page.get_by_role("button", name="Decline unwelcome").click()
        expect(page.get_by_role("status")).to_contain_text("unwelcome is declined.")
        console.open("/approvals/-/decided/")
        expect(page.locator("#decision-unwelcome")).to_contain_text("Nobody knows this machine.")
        assert not accepts(fleet, "unwelcome")
        console.open("/approvals/")
        page.get_by_role("button", name="Undo the decline of unwelcome").click()
        expect(page.get_by_role("status")).to_contain_text("unwelcome may ask again")

    def test_a_stale_page_says_what_changed_and_does_nothing(self, console: Console, fleet: Fleet) -> None:
        fleet.ask("restless")
        console.sign_in()
        console.open("/approvals/restless/")
        expect(console.page.locator("#live")).to_have_attribute("data-state", "live")
        fleet.request("restless")
        expect(console.page.get_by_role("link", name="This request changed while you were reading it.")).to_be_visible()
        console.page.get_by_role("button", name="Accept restless").click()
        expect(console.page.get_by_role("status")).to_contain_text(STALE)
        expect(console.page.get_by_role("status")).to_contain_text("whose key differs")
        expect(console.page.get_by_text("The newest of 2 keys counts").first).to_be_visible()
        assert not accepts(fleet, "restless")

    def test_two_askers_are_compared_and_one_is_accepted_by_an_override(self, console: Console, fleet: Fleet) -> None:
        fleet.ask("contested")
        right = fleet.request("contested", token="stores")
        page = console.page
        console.sign_in_with_the_form()
        console.open("/approvals/contested/")
        expect(page.get_by_text("Blocked: 1 problem")).to_be_visible()
        expect(page.get_by_role("button", name="Accept contested")).to_have_count(0)
        compared = page.get_by_role("table", name="2 askers, side by side")
        expect(compared.get_by_role("row").filter(has_text="Credential")).to_contain_text("differs")
        page.get_by_text("Override the block").click()
        page.get_by_role("radiogroup", name="The right key").get_by_role("radio").first.check()
        page.get_by_label("Type the name of the cluster").fill("contested")
        page.get_by_label("How you know").fill("Its admin read me the fingerprint.")
        page.get_by_role("button", name="Accept this key for contested").click()
        expect(page.get_by_role("status")).to_contain_text(f"contested is accepted; its request {right.request}")

    def test_who_may_only_look_sees_buttons_that_are_off_and_why(self, console: Console, fleet: Fleet) -> None:
        fleet.ask("locked")
        console.sign_in(VIEWER, VIEWERS_PASSWORD)
        console.open("/approvals/locked/")
        expect(console.page.get_by_text("clusters.accept_managedcluster")).to_be_visible()
        for button in console.page.locator("main").get_by_role("button", name=re.compile("^(Accept|Decline)")).all():
            expect(button).to_be_disabled()

    def test_another_set_has_other_effects(self, console: Console, fleet: Fleet) -> None:
        name = "choosers"
        version = "cluster.open-cluster-management.io/v1beta2"
        doc = {"apiVersion": version, "kind": "ManagedClusterSet", "metadata": {"name": name}}
        assert fleet.admin.post(f"/apis/{version}/managedclustersets", json=doc).status_code == 201
        fleet.ask("moving")
        console.sign_in()
        console.open("/approvals/moving/")
        console.page.get_by_label("Change set").select_option(name)
        expect(console.page.locator("#effects")).to_contain_text(f"Moves to set {name}")
        console.page.get_by_role("button", name="Accept moving").click()
        expect(console.page.get_by_role("status")).to_contain_text("moving is accepted")
        assert fleet.cluster("moving")["metadata"]["labels"]["cluster.open-cluster-management.io/clusterset"] == name


class TestMany:
    def test_safe_requests_are_accepted_together(self, console: Console, fleet: Fleet) -> None:
        for name in ("both-1", "both-2"):
            fleet.ask(name)
        page = console.page
        console.sign_in()
        console.open("/approvals/?q=both-")
        expect(page.locator("#bar")).not_to_contain_text("Preview and accept", use_inner_text=True)
        page.get_by_label("Select both-1").check()
        expect(page.locator("#bar")).to_contain_text("1 selected")
        page.get_by_label("Select all 2 safe").check()
        expect(page.get_by_label("Select both-2")).to_be_checked()
        expect(page.locator("#bar")).to_contain_text("2 selected")
        page.get_by_label("Select both-2").uncheck()
        expect(page.get_by_label("Select all 2 safe")).not_to_be_checked()
        page.get_by_label("Select all safe requests").check()
        expect(page.locator("#bar")).to_contain_text("2 selected")
        page.get_by_role("button", name="Preview and accept…").click()
        expect(page.locator("main")).to_contain_text("They join default (2).")
        assert "both-1" not in page.url
        page.get_by_role("button", name="Accept: 2 clusters").click()
        expect(page.get_by_role("heading", name="2 of 2 clusters accepted")).to_be_visible()
        assert accepts(fleet, "both-1")
        assert accepts(fleet, "both-2")

    def test_the_letters_act_on_the_selection_where_there_is_one(self, console: Console, fleet: Fleet) -> None:
        for name in ("letters-1", "letters-2"):
            fleet.ask(name)
        page, keyboard = console.page, console.page.keyboard
        console.sign_in()
        console.open("/approvals/?q=letters-")
        page.get_by_label("Select letters-2").check()
        page.get_by_role("link", name="letters-1", exact=True).focus()
        keyboard.press("d")
        expect(page.get_by_role("heading", name="Decline: 1 cluster")).to_be_visible()
        expect(page.locator("#together")).to_contain_text("letters-2")
        console.open("/approvals/?q=letters-")
        page.get_by_role("link", name="letters-1", exact=True).focus()
        keyboard.press("d")
        expect(page.get_by_role("heading", name="letters-1 wants to join")).to_be_visible()

    def test_an_inbox_that_empties_leaves_no_error_and_the_focus_survives_a_refresh(
        self, console: Console, other: Console, fleet: Fleet
    ) -> None:
        for name in ("empties-1", "empties-2"):
            fleet.ask(name)
        errors: list[str] = []
        page = console.page
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        console.sign_in()
        console.open("/approvals/?q=empties-")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        page.get_by_label("Select empties-1").check()
        page.get_by_label("Select empties-2").check()
        button = page.get_by_role("button", name="Preview and accept…")
        button.focus()
        refreshed = (
            "new Promise(done => document.addEventListener('live:refreshed', () => done(document.activeElement.id)))"
        )
        waiting = page.evaluate_handle(f"() => {{ window.held = {refreshed}; }}")
        fleet.patch("empties-1", {"metadata": {"labels": {"env": "prod"}}})
        assert page.evaluate("() => window.held") == "act-accept"
        waiting.dispose()
        expect(page.locator("#bar")).to_contain_text("2 selected")
        other.open("/approvals/?q=empties-")
        other.page.get_by_label("Select all 2 safe").check()
        other.page.get_by_role("button", name="Preview and accept…").click()
        other.page.get_by_role("button", name="Accept: 2 clusters").click()
        expect(row(console, "empties-2")).to_contain_text("Accepted by")
        expect(page.get_by_role("button", name="Preview and accept…")).to_have_count(0)
        assert errors == []

    def test_what_one_decides_another_sees_and_what_is_new_waits_for_him(
        self, inbox: Console, other: Console, fleet: Fleet
    ) -> None:
        fleet.ask("shared")
        fleet.ask("stays")
        page = inbox.page
        page.reload()
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        page.get_by_label("Select stays").check()
        other.open("/approvals/shared/")
        other.page.get_by_role("button", name="Accept shared").click()
        expect(other.page.get_by_role("status")).to_contain_text("shared is accepted")
        expect(row(inbox, "shared")).to_contain_text("Accepted by admin", timeout=SOON)
        expect(row(inbox, "shared").get_by_role("checkbox")).to_be_disabled()
        expect(page.get_by_label("Select stays")).to_be_checked()
        fleet.ask("newcomer")
        expect(page.get_by_role("button", name="1 new request. Show it")).to_be_visible()
        expect(row(inbox, "newcomer")).to_have_count(0)
        page.get_by_role("button", name="1 new request. Show it").click()
        expect(row(inbox, "newcomer")).to_be_visible()
        expect(page.get_by_label("Select stays")).to_be_checked()


class TestWithoutMouseOrScript:
    def test_letters_lead_through_the_list_and_do_nothing_at_once(self, console: Console, fleet: Fleet) -> None:
        for name in ("keys-1", "keys-2"):
            fleet.ask(name)
        page, keyboard = console.page, console.page.keyboard
        console.sign_in()
        console.open("/approvals/?q=keys-")
        keyboard.press("j")  # the list has no focus, so this is not meant
        expect(page.get_by_role("link", name="keys-1", exact=True)).not_to_be_focused()
        console.tab_to(page.get_by_role("link", name="keys-1", exact=True))
        keyboard.press("j")
        expect(page.get_by_role("link", name="keys-2", exact=True)).to_be_focused()
        keyboard.press("x")
        expect(page.get_by_label("Select keys-2")).to_be_checked()
        keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
        keyboard.press("Escape")
        keyboard.press("x")
        keyboard.press("k")
        keyboard.press("d")
        expect(page.get_by_role("button", name="Decline keys-1")).to_be_visible()
        assert not accepts(fleet, "keys-1")

    def test_the_keyboard_alone_gets_a_cluster_in(self, console: Console, fleet: Fleet) -> None:
        fleet.ask("by-keyboard")
        keyboard = console.page.keyboard
        console.sign_in()
        console.open("/approvals/?q=by-keyboard")
        console.tab_to(console.page.get_by_role("link", name="Skip to content"))
        keyboard.press("Enter")
        console.tab_to(console.page.get_by_role("link", name="by-keyboard", exact=True))
        keyboard.press("a")
        expect(console.page.get_by_role("heading", name="by-keyboard wants to join")).to_be_visible()
        console.tab_to(console.page.get_by_role("button", name="Accept by-keyboard"))
        keyboard.press("Enter")
        expect(console.page.get_by_role("status")).to_contain_text("by-keyboard is accepted")

    @pytest.mark.parametrize("decision", ["accept", "decline"])
    def test_everything_works_without_scripts(self, scriptless: Console, fleet: Fleet, decision: str) -> None:
        name = f"scriptless-{decision}"
        fleet.ask(name)
        page = scriptless.page
        scriptless.sign_in()
        scriptless.open(f"/approvals/?q={name}")
        page.get_by_role("link", name=f"Review {name}").click()
        if decision == "decline":
            page.get_by_text("Decline…").click()
            page.get_by_label("Usual answer").select_option("Nobody expects this cluster.")
        page.get_by_role("button", name=f"{decision.capitalize()} {name}").click()
        expect(page.get_by_role("status")).to_contain_text(f"{name} is {decision.rstrip('e')}ed")

    def test_many_are_accepted_without_scripts(self, scriptless: Console, fleet: Fleet) -> None:
        for name in ("plain-1", "plain-2"):
            fleet.ask(name)
        page = scriptless.page
        scriptless.sign_in()
        scriptless.open("/approvals/?q=plain-")
        page.get_by_label("Select all 2 safe").check()
        page.get_by_role("button", name="Preview and accept…").click()
        page.get_by_role("button", name="Accept: 2 clusters").click()
        expect(page.get_by_role("heading", name="2 of 2 clusters accepted")).to_be_visible()
