"""The cluster list in a browser: narrowing, ticking, what is kept, by keyboard alone and without scripts; what it weighs."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.people import Console
from tests.fleet import Fleet

LARGEST_FIRST_LOAD = 200 * 1024


@pytest.fixture(scope="module", autouse=True)
def _some(fleet: Fleet) -> None:
    """Two sets of clusters that nobody let in, which suffices for a list."""
    for name in ("list-a1", "list-a2", "list-b1"):
        fleet.register(name, labels={"team": name[5]})


def shows(console: Console, *names: str) -> None:
    """The list comes to hold these, in this order."""
    expect(console.page.locator("#clusters .oc-name")).to_have_text(names)


def test_the_list_is_narrowed_ordered_and_kept_by_keyboard_alone(console: Console) -> None:
    console.sign_in()
    console.open("/clusters/")
    page = console.page
    search = page.get_by_label("Name contains")
    console.tab_to(search)
    page.keyboard.type("list-")
    page.keyboard.press("Enter")
    expect(page.locator("#clusters .oc-name")).to_have_count(3)
    console.tab_to(page.locator("#facet-status a").first)
    page.keyboard.press("Enter")
    expect(page.locator("#filter .oc-chip")).to_have_count(2)
    console.tab_to(page.locator("thead").get_by_role("link", name="Name"))
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Name")
    shows(console, "list-b1", "list-a2", "list-a1")
    console.tab_to(page.locator("#save-view summary"))
    page.keyboard.press("Enter")
    console.tab_to(page.get_by_label("Name of the view"))
    page.keyboard.type("My list")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("The view My list is saved")
    expect(page.get_by_role("link", name="My list")).to_have_attribute("aria-current", "page")
    page.get_by_role("button", name="Forget the view My list").click()
    expect(page.get_by_role("link", name="My list")).to_have_count(0)


def test_ticked_clusters_get_a_label(console: Console, fleet: Fleet) -> None:
    console.sign_in()
    console.open("/clusters/?q=list-a")
    page = console.page
    expect(page.locator("#bulk")).to_be_hidden()
    page.get_by_label("Select all on this page").check()
    expect(page.locator("#bulk")).to_contain_text("2 selected")
    page.get_by_label("What to do with the selected clusters").select_option("Add a label")
    page.get_by_role("button", name="Preview…").click()
    expect(page.get_by_role("heading", name="Add a label: 2 clusters")).to_be_visible()
    page.get_by_label("Key").fill("wing")
    page.get_by_label("Value").fill("north")
    page.get_by_role("button", name="Add a label: 2 clusters").click()
    expect(page.get_by_role("heading", name="2 clusters labelled")).to_be_visible()
    assert fleet.cluster("list-a1")["metadata"]["labels"]["wing"] == "north"


def test_without_scripts_the_list_does_the_same(scriptless: Console, fleet: Fleet) -> None:
    fleet.patch("list-a1", {"spec": {"hubAcceptsClient": True}})  # only what was let in goes into maintenance
    scriptless.sign_in()
    scriptless.open("/clusters/?q=list-")
    page = scriptless.page
    page.locator("#facet-words summary").click()
    page.get_by_label("Label", exact=True).fill("team=b")
    page.get_by_role("button", name="Add to the filter").click()
    shows(scriptless, "list-b1")
    page.get_by_role("link", name="Clear the filter Label: team=b").click()
    page.get_by_label("Select list-a1").check()
    page.get_by_label("What to do with the selected clusters").select_option("Start maintenance")
    page.get_by_role("button", name="Preview…").click()
    page.get_by_label("Reason").fill("wiring")
    page.get_by_role("button", name="Start maintenance: 1 cluster").click()
    expect(page.get_by_role("heading", name="list-a1 in maintenance")).to_be_visible()
    page.goto(f"{scriptless.url}/clusters/?taint=ocmconsole.io/maintenance&q=list-")
    shows(scriptless, "list-a1")


def test_a_selection_outlives_what_happens_meanwhile(console: Console, fleet: Fleet) -> None:
    console.sign_in()
    console.open("/clusters/?q=list-")
    console.page.get_by_label("Select list-b1").check()
    fleet.patch("list-a2", {"metadata": {"labels": {"seen": "live"}}})
    fleet.register("list-a0")
    expect(console.page.get_by_role("link", name="list-a0", exact=True)).to_be_visible()
    expect(console.page.get_by_label("Select list-b1")).to_be_checked()
    expect(console.page.locator("#bulk")).to_contain_text("1 selected")


@pytest.mark.parametrize("path", ["/", "/clusters/", "/approvals/"])
def test_the_first_load_of_a_page_is_light(browser: Browser, console: Console, path: str) -> None:
    """Everything that a browser fetches, as it comes through the wire, into an empty cache."""
    console.sign_in()
    state = console.page.context.storage_state()
    context = browser.new_context(storage_state=state)
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    loaded: list[int] = []
    devtools.on("Network.loadingFinished", lambda event: loaded.append(int(event["encodedDataLength"])))
    devtools.send("Network.enable")
    page.goto(f"{console.url}{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_timeout(500)
    context.close()
    assert len(loaded) > 3
    assert sum(loaded) < LARGEST_FIRST_LOAD, f"{path}: {sum(loaded)} bytes in {len(loaded)} answers"


def test_a_cluster_may_have_any_name(console: Console, fleet: Fleet) -> None:
    """Addresses of the list's own pages are none that a cluster can have."""
    for name in ("bulk", "export", "views", "columns"):
        fleet.register(name)
    console.sign_in()
    for name in ("bulk", "export", "views", "columns"):
        console.open(f"/clusters/{name}/")
        expect(console.page.get_by_role("heading", name=name, level=1)).to_be_visible()
    assert re.search(r"/clusters/columns/$", console.page.url)


def test_many_are_changed_in_the_background_while_the_page_follows(console: Console, fleet: Fleet) -> None:
    """Twenty-five are more than are done while one waits."""
    names = [f"many-{number:02}" for number in range(25)]
    fleet.names(*names)
    console.sign_in()
    console.open("/clusters/?q=many-")
    page = console.page
    page.get_by_label("Select all on this page").check()
    expect(page.locator("#bulk b")).to_have_text("25 selected")
    page.get_by_label("What to do with the selected clusters").select_option("Add a label")
    page.get_by_role("button", name="Preview…").click()
    expect(page).to_have_url(re.compile("/clusters/_bulk/[0-9a-f-]+/label/$"))
    page.get_by_label("Key").fill("team")
    page.get_by_label("Value").fill("shop")
    page.get_by_label("Type how many clusters it concerns").fill("25")
    page.get_by_role("button", name="Add a label: 25 clusters").click()
    expect(page).to_have_url(re.compile("/bulk/[0-9a-f-]+/$"))
    expect(page.get_by_role("heading", name="25 of 25 clusters labelled")).to_be_visible(timeout=120_000)
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    assert {fleet.cluster(name)["metadata"]["labels"]["team"] for name in names} == {"shop"}
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.path().read_text().count("done") == 25
    page.locator("summary", has_text="User menu").click()
    page.get_by_role("link", name="Your bulk acts").click()
    expect(page.get_by_role("row", name=re.compile("Add a label.*25 of 25 clusters labelled"))).to_be_visible()
