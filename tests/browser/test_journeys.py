"""What people come to the console for, from the first page to the last, in a real browser against a served hub."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.people import Console
from tests.fleet import Fleet


def accepts(fleet: Fleet, name: str) -> bool:
    return bool(fleet.cluster(name)["spec"]["hubAcceptsClient"])


class TestSession:
    def test_signing_in_leads_to_the_page_that_was_asked_for(self, console: Console) -> None:
        console.open("/clusters/")
        expect(console.page).to_have_url(re.compile(r"/login/\?next=/clusters/$"))
        console.page.get_by_label("User name").fill("admin")
        console.page.get_by_label("Password").fill(console.password)
        console.page.get_by_role("button", name="Sign in").click()
        expect(console.page.get_by_role("heading", name="Clusters", level=1)).to_be_visible()

    def test_a_wrong_password_is_refused_in_words(self, console: Console) -> None:
        console.sign_in_with_the_form(password="wrong-horse")
        expect(console.page.get_by_role("alert")).to_contain_text("correct username and password")
        expect(console.page.get_by_label("User name")).to_have_value("admin")

    def test_signing_out_ends_the_session(self, console: Console) -> None:
        console.sign_in_with_the_form()
        console.page.locator("summary", has_text="User menu").click()
        console.page.get_by_role("button", name="Sign out").click()
        expect(console.page.get_by_role("heading", name="Sign in")).to_be_visible()
        console.open("/approvals/")
        expect(console.page).to_have_url(re.compile(r"/login/"))

    def test_what_is_not_there_is_a_page_that_says_so(self, console: Console) -> None:
        console.sign_in()
        for path in ("/clusters/nobody/", "/approvals/nobody/", "/api/v1/namespaces"):
            console.open(path)
            expect(console.page.get_by_role("heading", name="There is nothing here")).to_be_visible()


class TestDecision:
    def test_disconnecting_withdraws_the_acceptance(self, console: Console, fleet: Fleet) -> None:
        fleet.accept(fleet.ask("leaving"))
        console.sign_in()
        console.open("/clusters/leaving/")
        console.page.locator("summary", has_text="More").first.click()
        console.page.get_by_role("link", name="Disconnect…").click()
        console.page.get_by_role("button", name="Disconnect leaving").click()
        expect(console.page.locator("#state")).to_contain_text("Disconnected by admin")
        assert not accepts(fleet, "leaving")


class TestList:
    def test_the_list_narrows_to_a_state_and_a_name(self, console: Console, fleet: Fleet) -> None:
        fleet.register("narrow-1")
        fleet.accept(fleet.ask("narrow-2"))
        console.sign_in()
        console.open("/clusters/")
        console.page.get_by_label("Name contains").fill("narrow-")
        console.page.get_by_role("button", name="Filter").click()
        rows = console.page.locator("#clusters tbody tr")
        expect(rows).to_have_count(2)
        console.page.get_by_role("navigation", name="Narrow the list").get_by_role("link", name="Needs review").click()
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("narrow-1")
        console.page.get_by_role("link", name=re.compile("Clear the filter .*narrow-")).click()
        expect(console.page).to_have_url(re.compile(r"\?status=needs-review$"))


class TestDjangoAdmin:
    def test_a_cluster_is_edited_as_yaml_and_a_mistake_is_named(self, console: Console, fleet: Fleet) -> None:
        fleet.register("edited")
        console.sign_in()
        console.open("/admin/clusters/managedcluster/")
        expect(console.page.locator("#site-name")).to_have_text("ocmconsole")
        console.page.get_by_role("link", name="edited", exact=True).click()
        document = console.page.get_by_label("Document")
        text = document.input_value()
        document.fill(text.replace("leaseDurationSeconds: 60", "leaseDurationSeconds: soon"))
        console.page.get_by_role("button", name="Save", exact=True).click()
        expect(console.page.locator(".errorlist").first).to_contain_text("leaseDurationSeconds")
        document.fill(text.replace("leaseDurationSeconds: 60", "leaseDurationSeconds: 30"))
        console.page.get_by_role("button", name="Save", exact=True).click()
        expect(console.page.locator(".messagelist .success")).to_contain_text("edited")
        assert fleet.cluster("edited")["spec"]["leaseDurationSeconds"] == 30

    def test_its_action_accepts_like_the_inbox(self, console: Console, fleet: Fleet) -> None:
        fleet.ask("chosen")
        console.sign_in()
        console.open("/admin/clusters/managedcluster/?q=chosen")
        console.page.get_by_role("row", name="chosen").get_by_role("checkbox").check()
        console.page.get_by_label("Action:").select_option("Accept selected clusters and approve their requests…")
        console.page.get_by_role("button", name=re.compile("Run|Go")).click()
        console.page.get_by_role("button", name="Accept selected clusters and approve their requests").click()
        expect(console.page.locator(".messagelist .success")).to_contain_text("Managed cluster chosen accepted")
        assert accepts(fleet, "chosen")
