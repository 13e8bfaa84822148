"""Who uses the console in these tests, and how they sign in."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Locator, Page

from tests.fleet import Fleet

VIEWER, VIEWERS_PASSWORD = "vera", "looking-is-not-deciding"


@dataclass(frozen=True)
class Console:
    """A browser's window on one hub's console."""

    page: Page
    url: str
    password: str

    def open(self, path: str) -> None:
        self.page.goto(f"{self.url}{path}")

    def sign_in(self, name: str = "admin", password: str = "") -> None:
        self.open("/login/")
        self.page.get_by_label("User name").fill(name)
        self.page.get_by_label("Password").fill(password or self.password)
        self.page.get_by_role("button", name="Sign in", exact=True).click()

    def tab_to(self, target: Locator) -> None:
        """Only with the keyboard; whoever gets there must also see it."""
        for _ in range(60):
            self.page.keyboard.press("Tab")
            if target.evaluate("element => element === document.activeElement"):
                assert target.evaluate("element => element.matches(':focus-visible')")
                return
        raise AssertionError(f"no way to {target} with the Tab key")


def introduce_viewer(fleet: Fleet) -> None:
    """A person who may look at clusters and decide nothing."""
    make = f"from django.contrib.auth.models import User; User.objects.create_user({VIEWER!r}, password={VIEWERS_PASSWORD!r})"
    fleet.hub.manage("shell", "-c", make)
    fleet.let_look(VIEWER)
