"""The journeys of one cluster's page: taints, maintenance, labels, YAML, disconnect, revoke, remove; keyboard, no script."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.people import VIEWER, VIEWERS_PASSWORD, Console
from tests.fleet import Fleet, eventually


@pytest.fixture(scope="module")
def cluster(fleet: Fleet) -> str:
    """One that is well."""
    fleet.join("paged", labels={"env": "prod"})
    return "paged"


def taints(fleet: Fleet, name: str) -> list[str]:
    return [taint["key"] for taint in fleet.cluster(name)["spec"].get("taints") or []]


def test_a_taint_is_added_and_taken_back(console: Console, fleet: Fleet, cluster: str) -> None:
    console.sign_in()
    console.open(f"/clusters/{cluster}/taints/")
    page = console.page
    page.get_by_role("button", name="Add taint").click()
    expect(page.get_by_label("Key")).to_have_accessible_description(re.compile("Say what the taint is about"))
    page.get_by_label("Key").fill("dedicated")
    page.get_by_role("radio", name=re.compile("^PreferNoSelect")).check()
    page.get_by_role("button", name="Add taint").click()
    expect(page.get_by_role("status").first).to_contain_text("The taint dedicated is added.")
    expect(page.get_by_role("row").filter(has_text="dedicated")).to_contain_text("admin")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status").first).to_contain_text("Undone: your change of the taints of")
    assert taints(fleet, cluster) == []


def test_maintenance_begins_and_ends_by_keyboard_alone(console: Console, fleet: Fleet, cluster: str) -> None:
    console.sign_in()
    console.open(f"/clusters/{cluster}/")
    page, keyboard = console.page, console.page.keyboard
    console.tab_to(page.get_by_role("link", name="Maintenance…"))
    keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Start maintenance")
    console.tab_to(page.get_by_label("Reason"))
    keyboard.type("kernel")
    keyboard.press("Enter")
    expect(page.locator("#state")).to_contain_text(re.compile(r"In maintenance by admin until .*: kernel\."))
    console.tab_to(page.get_by_role("button", name="End now"))
    keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("is over")
    assert taints(fleet, cluster) == []


def test_the_page_follows_what_others_do(console: Console, fleet: Fleet, cluster: str) -> None:
    console.sign_in()
    console.open(f"/clusters/{cluster}/taints/")
    console.page.get_by_label("Key").fill("half-typed")
    fleet.patch(cluster, {"spec": {"taints": [{"key": "theirs", "effect": "NoSelectIfNew"}]}})
    expect(console.page.locator("#taints")).to_contain_text("theirs")
    expect(console.page.get_by_label("Key")).to_have_value("half-typed")
    fleet.patch(cluster, {"spec": {"taints": None}})


def test_an_edit_of_the_document_shows_its_difference_first(console: Console, fleet: Fleet, cluster: str) -> None:
    console.sign_in()
    console.open(f"/clusters/{cluster}/yaml/")
    page = console.page
    page.get_by_role("link", name="Edit…").click()
    text = page.get_by_label("Document")
    text.fill(text.input_value().replace("env: prod", "env: prod\n    tier: gold"))
    page.get_by_role("button", name="Show the difference").click()
    expect(page.locator("#difference ins")).to_contain_text("tier: gold")
    assert "tier" not in fleet.cluster(cluster)["metadata"]["labels"]
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status").first).to_contain_text("is applied as ocmconsole-console")
    assert fleet.cluster(cluster)["metadata"]["labels"]["tier"] == "gold"


def test_revoking_takes_a_reason_and_the_name(console: Console, fleet: Fleet) -> None:
    fleet.join("stolen")
    console.sign_in()
    console.open("/clusters/stolen/identity/")
    page = console.page
    page.get_by_role("link", name="Revoke now…").click()
    page.get_by_label("Reason").fill("The laptop was stolen.")
    page.get_by_label("Type the name").fill("stolen")
    page.get_by_role("button", name="Revoke").click()
    expect(page.locator("#lives")).to_contain_text("revoked by admin: The laptop was stolen.")
    expect(page.locator("#current")).to_contain_text("No certificate of this cluster counts now")


def test_disconnecting_and_reconnecting_without_script(scriptless: Console, fleet: Fleet) -> None:
    fleet.join("away")
    scriptless.sign_in()
    scriptless.open("/clusters/away/")
    page = scriptless.page
    page.locator("summary", has_text="More").first.click()
    page.get_by_role("link", name="Disconnect…").click()
    expect(page.get_by_text("rights are withdrawn now")).to_be_visible()
    page.get_by_role("button", name="Disconnect away").click()
    expect(page.locator("#state")).to_contain_text("Disconnected by admin")
    page.get_by_role("link", name="Reconnect…").click()
    page.get_by_role("button", name="Let away in again").click()
    expect(page.get_by_role("status").first).to_contain_text("away is let in again")
    assert fleet.cluster("away")["spec"]["hubAcceptsClient"]


def test_removing_without_script_ends_on_the_page_that_says_who_did_it(scriptless: Console, fleet: Fleet) -> None:
    fleet.join("unwanted")
    scriptless.sign_in()
    scriptless.open("/clusters/unwanted/remove/")
    page = scriptless.page
    page.get_by_role("button", name="Remove unwanted").click()
    expect(page.get_by_label("Type the name")).to_have_accessible_description(re.compile("Type the name"))
    page.get_by_label("Type the name").fill("unwanted")
    page.get_by_role("button", name="Remove unwanted").click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text(re.compile("Removing unwanted|unwanted was deleted"))
    eventually(lambda: fleet.must_be_gone("unwanted"))
    page.reload()
    expect(heading).to_contain_text(re.compile("unwanted was deleted .* by admin"))


def test_who_may_only_look_reads_why_not(console: Console, fleet: Fleet, cluster: str) -> None:
    console.sign_in(VIEWER, VIEWERS_PASSWORD)
    console.open(f"/clusters/{cluster}/taints/")
    expect(console.page.get_by_role("button", name="Add taint")).to_have_count(0)
    expect(console.page.locator("#editor")).to_contain_text("clusters.change_managedcluster")
    console.page.locator("summary", has_text="More").first.click()
    expect(console.page.locator(".oc-more")).to_contain_text("clusters.delete_managedcluster")
