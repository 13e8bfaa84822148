"""Two people, one act: proposed by mouse, approved by another by keyboard, done; and from a message to the decision."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from playwright.sync_api import expect

from tests import receivers
from tests.browser.people import GROW_OLD, Console
from tests.browser.test_accessibility import DESK, PHONE, Look, violations
from tests.fleet import Fleet
from tests.hub import Hub

PASSWORD = "another-person-looks"
PEOPLE = f"""
from django.contrib.auth.models import User
User.objects.create_superuser("ben", password={PASSWORD!r})
"""


@pytest.fixture(scope="module")
def fleet(start_hub: Callable[..., AbstractContextManager[Hub]]) -> Iterator[Fleet]:
    with start_hub(SECOND_APPROVAL="key-override", WEBHOOK_PRIVATE_ADDRESSES="127.0.0.1") as hub, Fleet(hub) as fleet:
        fleet.mint("web-eu")
        hub.manage("shell", "-c", PEOPLE)
        yield fleet


@pytest.mark.contract("D9")
def test_an_override_is_proposed_by_mouse_and_approved_by_keyboard(console: Console, fleet: Fleet) -> None:
    fleet.accept(fleet.ask("rebuilt"))
    request = fleet.request("rebuilt").request
    page = console.page
    console.sign_in_with_the_form()
    console.open("/approvals/rebuilt/")
    page.get_by_text("Override the block").click()
    expect(page.get_by_text("It takes 2 people")).to_be_visible()
    page.get_by_label("Type the name of the cluster").fill("rebuilt")
    page.get_by_label("How you know").fill("Its admin read me the fingerprint.")
    page.get_by_role("button", name="Propose to accept this key for rebuilt").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Override: accept a key for rebuilt")
    expect(page.get_by_role("heading", name="1 of 2 people stand behind it")).to_be_visible()
    expect(page.get_by_text("Nobody approves their own.")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    shown = page.locator("section", has=page.get_by_role("heading", name="What it is decided on")).inner_text()
    assert request in shown

    assert violations(page, (Look(), Look("dark")), (DESK, PHONE)) == []
    page.set_viewport_size({"width": 1280, "height": 900})

    page.context.clear_cookies()
    console.sign_in_with_the_form("ben", PASSWORD)
    console.open("/")
    console.tab_to(page.get_by_role("link", name=re.compile("^Second approvals")).first)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Waits for you")).to_be_visible()
    console.tab_to(page.get_by_role("link", name="Override: accept a key for rebuilt"))
    page.keyboard.press("Enter")
    again = page.locator("section", has=page.get_by_role("heading", name="What it is decided on"))
    expect(again).to_have_text(re.compile("Its admin|rebuilt"))
    assert again.inner_text() == shown
    console.tab_to(page.get_by_role("button", name="Approve"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Done")
    expect(page.get_by_text("Carried out by ben")).to_be_visible()
    console.open("/second-approval/closed/")
    expect(page.locator("#list")).to_contain_text("Carried out")
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)
    doc = fleet.admin.get(f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{request}").json()
    assert doc["status"]["conditions"][0]["type"] == "Approved"


CHANNEL = """
from django.contrib.auth.models import User
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.notifications import services
admin = actor_for(User.objects.get(username="admin"), entry_point=EntryPoint.CLI, credential="cli")
services.new_secret = lambda: "{secret}"
services.create_channel(admin, "ops", "webhook", "http://127.0.0.1:{port}/")
"""
MINUTE_IS_OVER = """
import time
from ocmconsole.models import NotificationMessage
while not NotificationMessage.objects.update(sealed=True):
    time.sleep(0.1)
"""


@pytest.mark.contract("D11")
def test_a_message_leads_to_its_request_which_is_approved_after_sign_in_and_a_fresh_proof(
    console: Console, fleet: Fleet
) -> None:
    page, hub = console.page, fleet.hub
    with receivers.http_receiver() as receiver:
        hub.manage("shell", "-c", CHANNEL.format(port=receiver.port, secret=receivers.SECRET))
        fleet.ask("told")
        hub.manage("shell", "-c", MINUTE_IS_OVER)
        deadline = time.monotonic() + 120
        while not receiver.bodies:
            assert time.monotonic() < deadline, hub.log("server")
            time.sleep(0.1)
    message = json.loads(receiver.bodies[0])
    assert (message["type"], message["data"]["names"]) == ("request.waiting", ["told"])
    link = message["data"]["url"]
    assert link == f"{console.url}/approvals/told/", "nothing in it that acts, or that opens a page"

    page.goto(link)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(console.password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page).to_have_url(link)
    expect(page.get_by_role("heading", level=1)).to_contain_text("told")
    hub.manage("shell", "-c", GROW_OLD)
    page.get_by_role("button", name="Accept told").click()
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    assert not fleet.cluster("told")["spec"]["hubAcceptsClient"]
    page.get_by_label("Password").fill(console.password)
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("status")).to_contain_text("told is accepted")
    assert fleet.cluster("told")["spec"]["hubAcceptsClient"]
