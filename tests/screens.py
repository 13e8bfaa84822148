"""``make screens``: pictures of every page of the console, light and dark, into docs/screens.

The fleet is made through the API. Only its ages are written into the database, which nobody can wait for.
"""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

from tests import hub as hubs
from tests import tools
from tests.browser.conftest import ARGUMENTS
from tests.fleet import Fleet, add_more, eventually, populate
from tests.hub import ROOT, Hub

Theme = Literal["light", "dark"]

SCREENS = ROOT / "docs" / "screens"
THEMES: tuple[Theme, ...] = ("light", "dark")
WIDE, NARROW = (1440, 900), (360, 760)
TALLEST = 1400
PAGES = {
    "approvals": "/approvals/",
    "request": "/approvals/payments/",
    "request-safe": "/approvals/eu-web-07/",
    "request-check": "/approvals/store-113/",
    "clusters": "/clusters/",
    "cluster": "/clusters/erp-de-01/",
    "cluster-silent": "/clusters/store-fr-0412/",
    "not-found": "/clusters/nobody/",
    "admin": "/admin/",
    "admin-clusters": "/admin/clusters/managedcluster/",
}
ON_PHONES = ("approvals", "request", "clusters", "cluster")
# Minutes since each asked, or since its agent was heard.
ASKED = {"payments": 2, "lab-17": 5, "store-113": 64, "store-204": 26, "edge-lyon-02": 18, "edge-porto-02": 17}
ASKED |= {"eu-web-07": 4, "eu-web-08": 4, "lab-nl-05": 190}
HEARD = {"payments-eu": 2.2, "store-fr-0412": 11}
SETTLED = 60 * 24 * 12
AGING = (
    ("clusters_managedcluster", "name", ("created", "accepted_since", "available_since", "clock_since", "wire")),
    (
        "clusters_clusterfacts",
        "cluster",
        ("first_seen", "decided_at", "certificate_not_before", "certificate_not_after"),
    ),
    ("registration_certificatesigningrequest", "cluster", ("created", "decided_at", "wire")),
    ("kubeapi_auditevent", "name", ("time",)),
    ("kubeapi_auditevent", "substr(name, 1, length(name) - 6)", ("time",)),
)
INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")


def age(home: Path) -> None:
    """Give every cluster a past: its own instants, and those in the documents, move back together."""
    with closing(sqlite3.connect(home / "hub.sqlite3", timeout=30)) as database, database:
        database.create_function("earlier", 2, _earlier)
        names = [name for (name,) in database.execute("SELECT name FROM clusters_managedcluster")]
        for name in names:
            for table, of, columns in AGING:
                changes = ", ".join(f"{column} = earlier({column}, ?)" for column in columns)
                past = [ASKED.get(name, SETTLED)] * len(columns)
                statement = f"UPDATE {table} SET {changes} WHERE {of} = ?"  # noqa: S608 - from the table above
                database.execute(statement, [*past, name])
        for name, minutes in HEARD.items():
            database.execute(
                "UPDATE clusters_lease SET renew_time = renew_time - ? WHERE namespace = ?", (minutes * 60e6, name)
            )
        database.execute("UPDATE clusters_serving SET since = earlier(since, ?)", [SETTLED])


def _earlier(text: str | None, minutes: float) -> str | None:
    """Every instant in a text, by so many minutes."""
    return text and INSTANT.sub(lambda found: _shifted(found[0], minutes), text)


def _shifted(instant: str, minutes: float) -> str:
    separator = instant[10]
    return (datetime.fromisoformat(instant) - timedelta(minutes=minutes)).isoformat(separator)


@contextmanager
def hub_with_fleet() -> Iterator[Hub]:
    with (
        tempfile.TemporaryDirectory(prefix="ocmconsole-screens-") as folder,
        hubs.serve(Path(folder), HUB_NAME="hub-eu-1", ENVIRONMENT="Production") as hub,
    ):
        with Fleet(hub) as fleet:
            populate(fleet)
            add_more(fleet)
            age(hub.home)
            eventually(lambda: fleet.must_be_silent("store-fr-0412"))
        yield hub


def main() -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    with hub_with_fleet() as hub, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=tools.chromium(), args=ARGUMENTS, chromium_sandbox=os.geteuid() != 0
        )
        for theme in THEMES:
            with _page(browser, hub, theme, WIDE) as page:
                _shoot(page, hub, theme, PAGES)
            with _page(browser, hub, theme, NARROW) as page:
                _shoot(page, hub, f"{theme}-phone", ON_PHONES)
        browser.close()


@contextmanager
def _page(browser: Browser, hub: Hub, theme: Theme, size: tuple[int, int]) -> Iterator[Page]:
    """Signed in."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, locale="en-GB", reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(f"{hub.console_url}/login/")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(hub.admin_password)
    page.get_by_role("button", name="Sign in").click()
    yield page
    context.close()


def _shoot(page: Page, hub: Hub, theme: str, names: Iterable[str]) -> None:
    """The window grows to the page: what sticks to an edge then sticks to the edge of the picture."""
    size = page.viewport_size
    assert size is not None
    for name in names:
        page.set_viewport_size(size)
        page.goto(f"{hub.console_url}{PAGES[name]}")
        height = page.evaluate("document.documentElement.scrollHeight")
        page.set_viewport_size({"width": size["width"], "height": min(max(height, size["height"]), TALLEST)})
        page.screenshot(path=SCREENS / f"{name}-{theme}.png")


if __name__ == "__main__":
    main()
