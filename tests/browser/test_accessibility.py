"""WCAG 2.2 A and AA by axe: every page, in states that differ, light and dark, on a desk and on a phone."""

from __future__ import annotations

from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize

from tests.browser.people import VIEWER, VIEWERS_PASSWORD, Console
from tests.fleet import Fleet, populate

SIZES: list[ViewportSize] = [{"width": 1440, "height": 900}, {"width": 360, "height": 760}]
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
PAGES = [
    "/approvals/",
    "/approvals/?verdict=blocked",
    "/approvals/?q=nothing-like-it",
    "/approvals/?all=safe",
    "/approvals/?source=nowhere",
    "/approvals/-/decided/",
    "/approvals/-/superseded/",
    "/approvals/-/together/?act=accept&all=safe",
    "/approvals/-/together/?act=decline&all=safe&select=payments",
    "/approvals/store-204/",
    "/approvals/payments/",
    "/approvals/lab-17/",
    "/approvals/store-113/",
    "/approvals/eu-web-07/",
    "/approvals/edge-porto-02/",
    "/approvals/lab-nl-05/",
    "/clusters/",
    "/clusters/?status=healthy",
    "/clusters/?q=nothing-like-it",
    "/clusters/?status=attention&set=default&sort=-since",
    "/clusters/_bulk/?act=maintenance&cluster=eu-web-01&cluster=erp-de-01",
    "/clusters/_bulk/?act=label&cluster=eu-web-01",
    "/clusters/erp-de-01/",
    "/clusters/erp-de-01/health/",
    "/clusters/erp-de-01/identity/",
    "/clusters/erp-de-01/taints/",
    "/clusters/erp-de-01/claims/",
    "/clusters/erp-de-01/sets/",
    "/clusters/erp-de-01/events/",
    "/clusters/erp-de-01/yaml/",
    "/clusters/erp-de-01/yaml/edit/",
    "/clusters/erp-de-01/maintenance/",
    "/clusters/erp-de-01/remove/",
    "/clusters/lab-nl-04/remove/",
    "/clusters/eu-web-01/disconnect/",
    "/clusters/core-se-03/reconnect/",
    "/clusters/ml-batch-02/",
    "/clusters/core-se-03/",
    "/clusters/lab-nl-04/",
    "/clusters/data-eu-11/",
    "/clusters/nobody/",
    "/sets/",
    "/sets/?view=map",
    "/sets/_new/",
    "/sets/default/",
    "/sets/default/_add/",
    "/sets/default/_delete/",
    "/sets/global/bindings/",
    "/sets/global/people/",
    "/sets/global/definition/",
    "/clusters/erp-de-01/set/?to=default",
    "/namespaces/",
    "/namespaces/default/",
    "/namespaces/_bind/?set=global&namespace=default",
    "/claims/",
    "/claims/?label=env",
]


@pytest.fixture(scope="session")
def full_fleet(fleet: Fleet) -> Fleet:
    populate(fleet)
    return fleet


def violations(page: Page) -> list[str]:
    """In both themes and sizes."""
    found = []
    for size in SIZES:
        page.set_viewport_size(size)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            for violation in Axe().run(page, options=RULES).response["violations"]:
                where = ", ".join(" ".join(node["target"]) for node in violation["nodes"])
                found.append(f"{page.url} {theme} {size['width']}: {violation['id']} at {where}")
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if overflow > 0:
            found.append(f"{page.url} {size['width']}: {overflow} px wider than the window")
    return found


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_violation(console: Console, full_fleet: Fleet, path: str) -> None:
    console.sign_in()
    console.open(path)
    assert violations(console.page) == []


def test_the_door_has_no_violation(console: Console) -> None:
    console.sign_in(password="wrong-horse")
    assert violations(console.page) == []


def test_a_refused_form_has_no_violation(console: Console, full_fleet: Fleet) -> None:
    console.sign_in()
    console.open("/approvals/eu-web-08/")
    console.page.get_by_text("Decline…").click()
    console.page.get_by_label("Reason").fill(" ")
    console.page.get_by_role("button", name="Decline eu-web-08").click()
    console.page.get_by_text("Say why").wait_for()
    assert violations(console.page) == []


def test_a_page_without_permission_has_no_violation(console: Console, full_fleet: Fleet) -> None:
    console.sign_in(VIEWER, VIEWERS_PASSWORD)
    console.open("/approvals/eu-web-07/")
    assert violations(console.page) == []
