"""Coming in: with a password, with a passkey, by keyboard alone, without scripts; and what a session's end looks like."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from tests.browser.people import GROW_OLD, Console
from tests.browser.test_accessibility import violations
from tests.fleet import Fleet

NAME, PASSWORD = "pia", "passkeys-are-for-pia"
MAKE = f"from django.contrib.auth.models import User; User.objects.create_user({NAME!r}, password={PASSWORD!r}, is_staff=True)"
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}
LISTEN = """addEventListener("securitypolicyviolation", (event) => {
  (window.violations ??= []).push(`${location.pathname} ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});"""


@pytest.fixture(scope="module")
def pia(fleet: Fleet) -> None:
    fleet.hub.manage("shell", "-c", MAKE)


@pytest.fixture
def local(page: Page, fleet: Fleet, pia: None) -> Console:
    """Under the name localhost, where browsers allow passkeys without HTTPS; a device that has them is plugged in."""
    session: CDPSession = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    session.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    return Console(page, fleet.hub.console_url.replace("127.0.0.1", "localhost"), PASSWORD)


def sign_out(page: Page) -> None:
    page.locator("summary", has_text="User menu").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def confirm(page: Page) -> None:
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm").click()


def test_a_passkey_signs_in_alone_and_makes_the_password_half_of_it(local: Console, fleet: Fleet) -> None:
    page = local.page
    local.sign_in_with_the_form(NAME)
    local.open("/account/")
    fleet.hub.manage("shell", "-c", GROW_OLD)
    page.get_by_role("link", name="Add a passkey").click()
    confirm(page)
    page.get_by_role("textbox", name="Name").fill("Laptop")
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    expect(page.locator(".oc-codes li")).to_have_count(10)
    code = page.locator(".oc-codes li").first.inner_text()
    assert violations(page) == []
    page.get_by_role("link", name="I have kept them").click()
    expect(page.locator("#main")).to_contain_text("10 left")

    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.locator("summary", has_text="User menu")).to_contain_text(NAME)

    sign_out(page)
    local.sign_in_with_the_form(NAME)
    expect(page.get_by_role("heading", name="One more proof")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.locator("summary", has_text="User menu")).to_contain_text(NAME)

    sign_out(page)
    local.sign_in_with_the_form(NAME)
    page.get_by_label("Code of your app, or a recovery code").fill(code)
    page.get_by_role("button", name="Sign in with the code").click()
    local.open("/account/passkeys/")
    expect(page.get_by_role("cell", name="Laptop", exact=True)).to_be_visible()
    page.get_by_role("link", name="Remove Laptop").click()
    fleet.hub.manage("shell", "-c", GROW_OLD)
    page.get_by_role("button", name="Remove it").click()
    page.get_by_role("link", name="Use a security key").click()
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_text("You have none.")).to_be_visible()


def test_signing_in_needs_no_mouse(console: Console) -> None:
    console.open("/login/?next=/account/")
    page = console.page
    expect(page.get_by_label("User name")).to_be_focused()
    page.keyboard.type("admin")
    page.keyboard.press("Tab")
    page.keyboard.type(console.password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Account", level=1)).to_be_visible()
    console.tab_to(page.get_by_role("link", name="Change it"))
    page.keyboard.press("Enter")
    expect(page.get_by_label("Current password")).to_be_visible()


def test_signing_in_and_preferences_need_no_script(scriptless: Console) -> None:
    page = scriptless.page
    scriptless.open("/preferences/")
    expect(page.get_by_role("button", name="passkey")).to_be_hidden()
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(scriptless.password)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Dark").check()
    page.get_by_label("Compact").check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("html")).to_have_attribute("data-density", "compact")
    page.get_by_label("As the system").first.check()
    page.get_by_label("Comfortable").check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")


def test_the_end_of_a_session_is_announced_and_can_be_put_off(console: Console) -> None:
    page = console.page
    page.route("**/session/", lambda route: route.fulfill(json={"seconds": 60, "at_last": 9000}))
    console.sign_in()
    console.open("/")
    dialog = page.get_by_role("dialog", name=re.compile("You will be signed out at"))
    expect(dialog).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Enter")  # the first button has the focus
    expect(dialog).to_be_hidden()


def test_who_signs_in_again_near_the_end_has_a_new_session_and_is_back(console: Console) -> None:
    page = console.page
    console.sign_in_with_the_form()
    page.route("**/session/", lambda route: route.fulfill(json={"seconds": 60, "at_last": 60}))
    console.open("/help/")
    dialog = page.get_by_role("dialog", name=re.compile("You will be signed out at"))
    expect(dialog).to_contain_text("what you have written here and not sent is lost")
    dialog.get_by_role("button", name="Sign in again").click()
    page.unroute("**/session/")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(console.password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page).to_have_url(f"{console.url}/help/")


def test_a_failed_look_at_the_session_is_made_again_and_signs_nobody_out(console: Console) -> None:
    page = console.page
    page.clock.install()
    console.sign_in_with_the_form()
    page.route("**/session/", lambda route: route.abort())
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/session/")):
        console.open("/help/")
    page.route("**/session/", lambda route: route.fulfill(json={"seconds": 60, "at_last": 60}))
    dialog = page.get_by_role("dialog")
    while not dialog.is_visible():
        page.clock.fast_forward(31_000)
    expect(dialog).to_contain_text("You will be signed out at")
    page.unroute("**/session/")
    page.route("**/session/", lambda route: route.fulfill(status=503))
    with page.expect_response("**/session/"):
        page.clock.fast_forward(61_000)
    expect(dialog).to_contain_text("You will be signed out at")
    page.context.clear_cookies()
    page.unroute("**/session/")
    page.clock.fast_forward(31_000)
    expect(dialog).to_contain_text("You are signed out")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()  # what is written on the page can be copied


PAGES = [
    "/", "/approvals/", "/clusters/", "/help/", "/search/?q=a", "/account/", "/account/password/", "/account/passkeys/",
    "/account/sessions/", "/preferences/", "/logout/", "/nothing-here/", "/admin/", "/admin/auth/user/", "/admin/auth/user/add/",
    "/admin/auth/user/1/change/", "/admin/auth/user/1/password/", "/admin/auth/group/add/", "/admin/kubeapi/auditevent/",
    "/admin/clusters/managedcluster/", "/admin/clusters/managedcluster/add/",
]  # fmt: skip


@pytest.fixture(scope="module")
def listening(browser: Browser, fleet: Fleet) -> Iterator[Console]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    context.add_init_script(LISTEN)
    console = Console(context.new_page(), fleet.hub.console_url, fleet.hub.admin_password)
    console.sign_in()
    yield console
    context.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_needs_nothing_that_the_policy_forbids(listening: Console, path: str) -> None:
    said: list[str] = []
    listening.page.on("console", lambda message: said.append(message.text))
    listening.open(path)
    listening.page.wait_for_load_state("networkidle") if path.startswith(
        "/admin/"
    ) else listening.page.wait_for_timeout(150)
    assert listening.page.evaluate("window.violations ?? []") == []
    assert not [text for text in said if "Content Security Policy" in text]


def test_the_policy_is_in_force(listening: Console) -> None:
    listening.open("/help/")
    listening.page.evaluate(
        "document.body.append(Object.assign(document.createElement('style'), {textContent: 'p {}'}))"
    )
    listening.page.wait_for_function("window.violations?.length")
