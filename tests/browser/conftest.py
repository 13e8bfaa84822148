"""A page in Debian's Chromium, driven by Playwright, with every request confined to this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.people import Console, introduce
from tests.fleet import Fleet
from tests.hub import Hub

ARGUMENTS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
    "--no-first-run",
]

PATIENCE = 60_000  # milliseconds: the machine runs a hub, perhaps its worker, and a browser at once
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="package")
def browser(chromium: Path) -> Iterator[Browser]:
    # This folder's and not the session's: while Playwright runs, its event loop makes Django refuse the ORM in this thread.
    with sync_playwright() as playwright:
        sandbox = os.geteuid() != 0  # Chromium's sandbox refuses root
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS, chromium_sandbox=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty profile at 1280 x 900. A script error on the page fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not errors, f"script errors: {errors}"


@pytest.fixture(scope="session")
def fleet(start_hub: Callable[[], AbstractContextManager[Hub]]) -> Iterator[Fleet]:
    """On a hub of its own: what other suites leave behind would fill the pages."""
    with start_hub() as hub, Fleet(hub) as fleet:
        introduce(fleet)
        yield fleet


@pytest.fixture(scope="session")
def hub(fleet: Fleet) -> Hub:
    """The same one: to start a hub takes longer than most of these tests."""
    return fleet.hub


@pytest.fixture
def console(page: Page, fleet: Fleet) -> Console:
    return Console(page, fleet.hub.console_url, fleet.hub.admin_password)


@pytest.fixture
def scriptless(browser: Browser, fleet: Fleet) -> Iterator[Console]:
    """A browser with JavaScript switched off."""
    context = browser.new_context(java_script_enabled=False, locale="en-GB")
    yield Console(context.new_page(), fleet.hub.console_url, fleet.hub.admin_password)
    context.close()
