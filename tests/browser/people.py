"""Who uses the console in these tests, and how they sign in."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
from playwright.sync_api import Locator, Page, expect

from tests.fleet import Fleet

if TYPE_CHECKING:
    from playwright._impl._api_structures import SetCookieParam

VIEWER, VIEWERS_PASSWORD = "vera", "looking-is-not-deciding"
# To whom tests give rights; hers only look like vera's before they do.
GRANTEE = "gita"
TOKENS = ("web-eu", "stores", "policies", "to-revoke")
SHARED_SECONDS = 100  # a test may go on for as long again before some pages ask a person to sign in again
_sessions: dict[tuple[str, str], tuple[float, list[SetCookieParam]]] = {}


def session(url: str, name: str, password: str) -> list[SetCookieParam]:
    """Cookies of somebody who is signed in; many tests share a session, so nobody may end it."""
    opened, cookies = _sessions.get((url, name), (0.0, []))
    if time.monotonic() - opened > SHARED_SECONDS or not cookies:
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            client.get("/login/")
            token = client.cookies["ocmconsole_csrf"]
            client.post("/login/", data={"login": name, "password": password, "csrfmiddlewaretoken": token})
            assert "ocmconsole_session" in client.cookies, f"{name} could not sign in"
            cookies = [{"name": key, "value": value, "url": url} for key, value in client.cookies.items()]
        _sessions[url, name] = (time.monotonic(), cookies)
    return cookies


@dataclass(frozen=True)
class Console:
    """A browser's window on one hub's console."""

    page: Page
    url: str
    password: str

    def open(self, path: str) -> None:
        self.page.goto(f"{self.url}{path}")

    def sign_in(self, name: str = "admin", password: str = "") -> None:
        """Signed in from the next page on. The form itself has tests of its own."""
        self.page.context.add_cookies(session(self.url, name, password or self.password))

    def sign_in_with_the_form(self, name: str = "admin", password: str = "") -> None:
        """A session that this test may end."""
        self.open("/login/")
        self.page.get_by_label("User name").fill(name)
        self.page.get_by_label("Password").fill(password or self.password)
        self.page.get_by_role("button", name="Sign in", exact=True).click()

    def tab_to(self, target: Locator) -> None:
        """Only with the keyboard; anyone who gets there must also see it."""
        for _ in range(80):
            self.page.keyboard.press("Tab")
            if target.evaluate("element => element === document.activeElement"):
                # A live refresh may fall between the two questions: it gives the focus back.
                expect(target.and_(self.page.locator(":focus-visible"))).to_have_count(1)
                return
        raise AssertionError(f"no way to {target} with the Tab key")


MAKE = f"""
from django.contrib.auth.models import User
from django.core.management import call_command
for name in ({VIEWER!r}, {GRANTEE!r}):
    User.objects.create_user(name, password={VIEWERS_PASSWORD!r})
for name in {TOKENS!r}:
    call_command("bootstrap_token", "create", "--name", name, "--uses", "500")
"""


# The newest session began ten minutes ago: acts of ``signin.stepup`` need a new proof.
GROW_OLD = """
from ocmconsole.models import Session
from ocmconsole.signin.sessions import SessionStore
row = Session.objects.exclude(began=None).latest("began")
data = row.get_decoded() | {"account_authentication_methods": []}
data["session_began"] -= 600
Session.objects.filter(pk=row.pk).update(session_data=SessionStore(row.session_key).encode(data))
"""


def introduce(fleet: Fleet) -> None:
    """A person who may look at clusters and decide nothing, and the tokens that agents come with: all in one process."""
    minted = re.findall(r"^token=(\S+)", fleet.hub.manage("shell", "-c", MAKE), re.MULTILINE)
    fleet.tokens |= dict(zip(TOKENS, minted, strict=True))
    for name in (VIEWER, GRANTEE):
        fleet.let_look(name)
