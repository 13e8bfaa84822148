"""What every page has: palette, search, ways of the keyboard, foot of a phone, bell, theme, shortcuts, live updates."""

from __future__ import annotations

import re
from signal import SIGKILL

import pytest
from playwright.sync_api import Page, expect

from tests.browser.people import VIEWER, VIEWERS_PASSWORD, Console
from tests.browser.test_accessibility import violations
from tests.fleet import Fleet

GROUP = "cluster.open-cluster-management.io"
SOON = 2_000  # milliseconds in which an open page must know
LONGEST_WAIT = 180_000  # milliseconds: the longer a hub is away, the more rarely it is tried


@pytest.fixture(scope="module", autouse=True)
def clusters(fleet: Fleet) -> None:
    for name in ("shell-a", "shell-b"):
        fleet.register(name)


@pytest.fixture
def signed_in(console: Console) -> Console:
    console.sign_in()
    return console


def chosen(page: Page) -> str:
    """What a screen reader says is chosen: the text of the element that the palette's input names."""
    told = "document.getElementById(document.querySelector('#palette').getAttribute('aria-activedescendant'))"
    return str(page.evaluate(f"{told}?.textContent ?? ''"))


class TestPalette:
    def test_from_two_keys_to_a_cluster(self, signed_in: Console) -> None:
        signed_in.open("/help/")
        page, keyboard = signed_in.page, signed_in.page.keyboard
        link = page.get_by_role("link", name="ocmconsole, overview")
        link.focus()
        keyboard.press("Control+k")
        palette = page.get_by_role("dialog", name="Search everything")
        field = palette.get_by_role("combobox")
        expect(field).to_be_focused()
        keyboard.insert_text("shell-")  # at once: a list for a part of it would come in between
        expect(palette.get_by_role("group", name="Clusters").get_by_role("option")).to_have_count(2)
        total = palette.get_by_role("option").count()
        expect(palette.get_by_role("status")).to_have_text(f"{total} results")
        assert violations(page) == []
        first = chosen(page)
        keyboard.press("ArrowUp")  # round to the last
        assert chosen(page) not in {"", first}
        keyboard.press("ArrowDown")
        assert chosen(page) == first
        expect(palette.get_by_role("option", selected=True)).to_have_count(1)
        expect(field).to_be_focused()
        keyboard.press("Escape")
        expect(palette).to_be_hidden()
        expect(link).to_be_focused()
        keyboard.press("Control+k")
        field.fill("shell-b")
        keyboard.press("Enter")  # sooner than the list can follow
        page.wait_for_url(re.compile("shell-b"))

    def test_where_one_was_lately_comes_first(self, signed_in: Console) -> None:
        for path in ("/clusters/shell-a/", "/nothing-here/", "/sets/", "/help/"):
            signed_in.open(path)
        page = signed_in.page
        page.keyboard.press("Control+k")
        recent = page.get_by_role("dialog").get_by_role("group").first
        expect(recent).to_have_accessible_name("Recent")
        expect(recent.get_by_role("option")).to_have_text(["Sets", "shell-a"])
        assert chosen(page) == "Sets"
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="shell-a", level=1)).to_be_visible()

    def test_another_person_at_the_same_browser_does_not_read_it(self, signed_in: Console) -> None:
        signed_in.open("/clusters/shell-a/")
        signed_in.sign_in(VIEWER, VIEWERS_PASSWORD)
        signed_in.open("/help/")
        signed_in.page.keyboard.press("Control+k")
        expect(signed_in.page.get_by_role("option").first).to_be_visible()
        expect(signed_in.page.get_by_role("group", name="Recent")).to_have_count(0)

    def test_a_text_that_nothing_fits_is_searched_for_all_the_same(self, signed_in: Console) -> None:
        signed_in.open("/help/")
        signed_in.page.get_by_label("Search everything").click()
        signed_in.page.keyboard.type("zebra")
        signed_in.page.keyboard.press("Enter")
        expect(signed_in.page.get_by_role("heading", level=1)).to_be_visible()
        expect(signed_in.page).to_have_url(re.compile("/access/explain/.*zebra|/search/.*zebra"))

    def test_without_scripts_it_is_a_page(self, scriptless: Console) -> None:
        scriptless.sign_in()
        scriptless.open("/help/")
        page = scriptless.page
        page.get_by_label("Search everything").fill("shell-b")
        page.keyboard.press("Enter")
        expect(page.get_by_text(re.compile("results for “shell-b”"))).to_be_visible()
        page.get_by_role("link", name="shell-b cluster", exact=True).click()
        expect(page.get_by_role("heading", name="shell-b", level=1)).to_be_visible()


class TestWays:
    def test_the_first_keys_lead_past_the_navigation_and_to_the_search(self, signed_in: Console) -> None:
        signed_in.open("/clusters/")
        page, keyboard = signed_in.page, signed_in.page.keyboard
        keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        keyboard.press("Tab")
        keyboard.press("Enter")  # Skip to search
        expect(page.locator("#search")).to_be_focused()
        page.reload()
        keyboard.press("Tab")
        keyboard.press("Enter")
        keyboard.press("Tab")
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")

    def test_the_navigation_and_the_menu_need_no_mouse(self, signed_in: Console) -> None:
        signed_in.open("/")
        page, keyboard = signed_in.page, signed_in.page.keyboard
        summary = page.locator("summary", has_text="User menu")
        signed_in.tab_to(summary)
        keyboard.press("Enter")
        expect(page.get_by_role("link", name="Preferences")).to_be_visible()
        keyboard.press("Tab")
        keyboard.press("Escape")
        expect(page.get_by_role("link", name="Preferences")).to_be_hidden()
        expect(summary).to_be_focused()
        signed_in.tab_to(page.get_by_role("navigation", name="Main", exact=True).get_by_role("link", name="Sets"))
        keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Sets", level=1)).to_be_visible()
        expect(
            page.get_by_role("navigation", name="Main", exact=True).get_by_role("link", name="Sets")
        ).to_have_attribute("aria-current", "page")

    def test_on_a_phone_every_page_is_at_the_foot(self, signed_in: Console) -> None:
        page = signed_in.page
        page.set_viewport_size({"width": 360, "height": 740})
        signed_in.open("/")
        thumbs = page.get_by_role("navigation", name="Main, small screen")
        more = thumbs.locator("summary")
        more.click()
        activity = thumbs.get_by_role("link", name="Activity")
        expect(activity).to_be_in_viewport(ratio=1)
        page.keyboard.press("Escape")
        expect(activity).to_be_hidden()
        expect(more).to_be_focused()
        page.keyboard.press("Enter")
        activity.click()
        expect(page.get_by_role("heading", name="Activity", level=1)).to_be_visible()
        page.get_by_role("link", name="Search", exact=True).click()
        page.get_by_role("dialog", name="Search everything").get_by_role("combobox").fill("shell-a")
        found = page.get_by_role("group", name="Exactly this name").get_by_role("option")
        expect(found).to_have_text([re.compile(r"^shell-a\s*cluster$")])

    def test_the_theme_is_switched_and_stays(self, signed_in: Console) -> None:
        signed_in.open("/help/")
        page = signed_in.page
        for theme in ("light", "dark"):
            page.get_by_role("button", name="Theme: ").click()
            expect(page.locator("html")).to_have_attribute("data-theme", theme)
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        page.get_by_role("button", name="Theme: dark").click()
        expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")

    def test_one_key_leads_to_the_filter_only_where_that_is_wanted(self, console: Console) -> None:
        console.sign_in(VIEWER, VIEWERS_PASSWORD)
        page, keyboard = console.page, console.page.keyboard
        console.open("/clusters/")
        keyboard.press("/")
        expect(page.get_by_label("Name contains")).not_to_be_focused()
        for choice in ("On", "Off"):
            console.open("/preferences/")
            shortcuts = page.get_by_role("radiogroup", name="Single-key shortcuts").or_(
                page.get_by_role("group", name="Single-key shortcuts")
            )
            shortcuts.get_by_label(choice, exact=True).check()
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_role("status")).to_contain_text("Your preferences are saved")
            if choice == "On":
                console.open("/clusters/")
                keyboard.press("/")
                expect(page.get_by_label("Name contains")).to_be_focused()
                keyboard.type("/")
                expect(page.get_by_label("Name contains")).to_have_value("/")


def test_what_the_bell_says_is_put_away_and_taken_back(console: Console, fleet: Fleet) -> None:
    fleet.ask("bell")
    console.sign_in()
    console.open("/")
    page = console.page
    console.tab_to(page.get_by_role("link", name="Needs you: "))
    page.keyboard.press("Enter")
    item = page.locator("#item-approvals")
    expect(item).to_contain_text("Approvals waiting")
    _bell_agrees(page)
    item.get_by_role("button", name="Put away until it changes").click()
    expect(page.get_by_text("Put away (1)")).to_be_visible()
    expect(item).to_have_count(0)
    _bell_agrees(page)
    page.get_by_text("Put away (1)").click()
    page.get_by_role("button", name="Take back").click()
    expect(item).to_be_visible()
    _bell_agrees(page)


def _bell_agrees(page: Page) -> None:
    """Both follow by themselves what else happens to the fleet."""
    counted = "Number(document.querySelector('#bell .oc-count')?.textContent ?? 0)"
    page.wait_for_function(f"document.querySelectorAll('#items li').length === {counted}")


class TestLive:
    @pytest.fixture
    def listed(self, signed_in: Console) -> Console:
        signed_in.open("/clusters/?q=shell-")
        expect(signed_in.page.locator("#live")).to_have_attribute("data-state", "live")
        return signed_in

    def test_a_change_is_seen_soon_and_moves_nothing_under_the_reader(self, listed: Console, fleet: Fleet) -> None:
        page = listed.page
        page.set_viewport_size({"width": 1280, "height": 420})
        page.get_by_label("Select shell-a").check()
        page.get_by_role("link", name="shell-b", exact=True).focus()
        page.evaluate("scrollTo(0, 60)")
        at = page.evaluate("scrollY")
        fleet.register("shell-new")
        expect(page.get_by_role("link", name="shell-new", exact=True)).to_be_visible(timeout=SOON)
        expect(page.get_by_label("Select shell-a")).to_be_checked()
        expect(page.get_by_role("link", name="shell-b", exact=True)).to_be_focused()
        assert page.evaluate("scrollY") == at

    def test_a_list_that_was_empty_fills_by_itself_but_under_nobody_who_types(
        self, signed_in: Console, fleet: Fleet
    ) -> None:
        page = signed_in.page
        made = {"apiVersion": f"{GROUP}/v1beta2", "kind": "ManagedClusterSet", "metadata": {"name": "shell-set"}}
        fleet.admin.post(f"/apis/{GROUP}/v1beta2/managedclustersets", json=made).raise_for_status()
        signed_in.open("/sets/shell-set/")
        empty, name = page.get_by_role("heading", name="The set is empty"), page.get_by_label("Name contains")
        expect(empty).to_be_visible()
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        name.fill("shell")
        fleet.register("shell-member", labels={f"{GROUP}/clusterset": "shell-set"})
        expect(page.locator("#summary")).to_contain_text("1 cluster you may see")
        expect(empty).to_be_visible()
        expect(name).to_have_value("shell")
        name.clear()
        name.blur()
        fleet.patch("shell-member", {"metadata": {"labels": {"seen": "again"}}})
        expect(page.get_by_role("link", name="shell-member", exact=True)).to_be_visible()
        expect(empty).to_have_count(0)
        fleet.remove("shell-member")
        expect(empty).to_be_visible()

    def test_what_is_new_on_the_page_can_be_copied(self, signed_in: Console, fleet: Fleet) -> None:
        page = signed_in.page
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        signed_in.open("/clusters/shell-a/yaml/")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        fleet.patch("shell-a", {"metadata": {"labels": {"seen": "copied"}}})
        expect(page.locator("#document")).to_contain_text("copied")
        page.get_by_role("button", name="Copy YAML").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert "seen: copied" in page.evaluate("navigator.clipboard.readText()")

    def test_a_form_that_was_refused_is_not_sent_again(self, signed_in: Console, fleet: Fleet) -> None:
        page = signed_in.page
        fleet.register("shell-leaving")
        fleet.hold("shell-leaving")
        signed_in.open("/clusters/shell-leaving/remove/")
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.method))
        name = page.get_by_role("textbox", name="Type")
        name.fill("shell-a")
        page.get_by_role("button", name="Remove shell-leaving").click()
        expect(name).to_have_attribute("aria-invalid", "true")
        name.blur()
        fleet.remove("shell-leaving")  # what the page would show now has other sections
        expect(page.locator("#headline")).to_contain_text("Removing shell-leaving")
        fleet.patch("shell-leaving", {"metadata": {"finalizers": []}})
        expect(page.get_by_role("heading", name=re.compile("^shell-leaving was deleted"))).to_be_visible()
        assert sent.count("POST") == 1

    def test_it_can_be_paused_on_every_page_and_goes_on(self, listed: Console, fleet: Fleet) -> None:
        page = listed.page
        listed.tab_to(page.get_by_role("button", name="Pause live updates"))
        page.keyboard.press("Enter")
        expect(page.locator("#live")).to_contain_text("Paused")
        expect(page.get_by_role("log")).to_have_text("Live updates are paused.")
        page.reload()
        expect(page.locator("#live")).to_have_attribute("data-state", "paused")
        fleet.register("shell-paused")
        page.wait_for_timeout(SOON)
        expect(page.get_by_role("link", name="shell-paused", exact=True)).to_have_count(0)
        page.get_by_role("button", name="Live updates are paused. Resume").click()
        expect(page.get_by_role("link", name="shell-paused", exact=True)).to_be_visible(timeout=SOON)

    def test_times_count_on_by_themselves(self, listed: Console) -> None:
        page = listed.page
        page.get_by_role("button", name="Pause live updates").click()
        stamp = page.locator("time[data-age]").first
        stamp.evaluate("element => { element.dateTime = new Date(Date.now() - 10_000).toISOString(); }")
        expect(stamp).to_have_text(re.compile(r"(1[1-9]|[2-5]\d) s"))

    def test_a_browser_that_is_offline_says_so_and_comes_back(self, listed: Console, fleet: Fleet) -> None:
        page = listed.page
        page.context.set_offline(True)
        expect(page.locator("#live")).to_contain_text(re.compile(r"Offline · showing \d\d:\d\d"))
        fleet.register("shell-offline")
        page.context.set_offline(False)
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        expect(page.get_by_role("link", name="shell-offline", exact=True)).to_be_visible()

    def test_a_hub_that_does_not_answer_is_waited_for(self, listed: Console, fleet: Fleet) -> None:
        page = listed.page
        fleet.hub.stop("server", SIGKILL)
        try:
            expect(page.locator("#live")).to_contain_text("Reconnecting…")
            expect(page.get_by_role("link", name="shell-a", exact=True)).to_be_visible()
        finally:
            fleet.hub.start("server")  # for the tests after this one
        fleet.register("shell-back")
        expect(page.locator("#live")).to_have_attribute("data-state", "live", timeout=LONGEST_WAIT)
        expect(page.get_by_role("link", name="shell-back", exact=True)).to_be_visible()
