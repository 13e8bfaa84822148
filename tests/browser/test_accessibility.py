"""WCAG 2.2 A and AA: axe on every page in its states, themes and sizes; focus, reflow, spacing, targets.

One hub with a demonstration fleet serves the whole tour, and everybody signs in once. The table of pages is in tour.py;
a test holds it against Django's routes, so that a new page cannot be forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Literal, NamedTuple
from uuid import UUID

import axe_playwright_python
import pytest
from django.urls import URLPattern, URLResolver, get_resolver, resolve
from django.urls.exceptions import Resolver404
from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.browser import tour
from tests.browser.conftest import PATIENCE
from tests.browser.people import session
from tests.browser.tour import ADMIN, STRANGER, Tour
from tests.hub import Hub
from tests.selection import FULL

pytestmark = pytest.mark.browser

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
CHECKS = Path(__file__).with_name("wcag.js").read_text()
# No style sheets: axe would put those that another one imports into the page inline, which the page's policy forbids.
LOADED = {"preload": {"assets": ["media"]}}
RULES = LOADED | {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
# What axe leaves out in the ordinary run: rows of tables that repeat those before them.
REPEATED = "" if FULL else "tbody > tr:nth-child(n+9)"
RUN = """([without, options]) => axe.run(without ? {exclude: [[without]]} : document, {...options, resultTypes: ["violations"]}).then(found => found.violations.map(
    each => `${each.id} at ${each.nodes.map(node => node.target.join(" ")).join(", ")}`))"""
# A page of the console has it on its root, one of Django admin on its body.
CONTRAST = """high => {
    if (high) document.documentElement.dataset.contrast = 'high'; else delete document.documentElement.dataset.contrast;
    document.body.classList.toggle('oc-contrast-high', high);
}"""
DESK, PHONE, NARROWEST = 1440, 360, 320
HEIGHTS = {DESK: 900, PHONE: 760, NARROWEST: 640}


class Look(NamedTuple):
    theme: Literal["light", "dark"] = "light"
    high: bool = False


# Only colours differ between looks, so axe's other rules are asked once a size.
LOOKS = (Look(), Look("dark"), Look(high=True), Look("dark", high=True))
WIDTHS = (DESK, PHONE)
EVERYDAY = (LOOKS[:2], WIDTHS) if FULL else (LOOKS[:1], WIDTHS[:1])
# The ordinary run sees each page in one look and width, in this order again and again, so that some page is seen in each.
SEEN = tuple((look, width) for look in LOOKS for width in WIDTHS)


# ---------------------------------------------------------------- looking at a page


def violations(page: Page, looks: tuple[Look, ...] = EVERYDAY[0], widths: tuple[int, ...] = EVERYDAY[1]) -> list[str]:
    """What axe finds on the page as it is, in each look and size."""
    _equip(page)
    found = []
    for width in widths:
        _widen(page, width)
        for number, look in enumerate(looks):
            _put_on(page, look)
            told = page.evaluate(RUN, [REPEATED, COLOURS if number else RULES])
            found += [f"{look.theme}{' high contrast' * look.high} at {width} px: {each}" for each in told]
        found += _ask(page, "overflow", width)
    _put_on(page, LOOKS[0])
    return found


def _equip(page: Page) -> None:
    if not page.evaluate("'wcag' in window"):
        page.evaluate(AXE)
        page.evaluate(CHECKS)


def _widen(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": HEIGHTS[width]})


def _put_on(page: Page, look: Look) -> None:
    page.emulate_media(color_scheme=look.theme)
    page.evaluate(CONTRAST, look.high)


def _ask(page: Page, check: str, width: int) -> list[str]:
    told: list[str] = page.evaluate(f"wcag.{check}()")
    return [f"{width} px: {each}" for each in told]


# ---------------------------------------------------------------- the tour


@pytest.fixture(scope="module")
def guided(start_hub: Callable[..., AbstractContextManager[Hub]]) -> Iterator[Tour]:
    with start_hub(first=tour.FIRST) as hub, tour.prepared(hub) as found:
        yield found


@pytest.fixture(scope="module")
def windows(browser: Browser, guided: Tour) -> Iterator[Callable[[str], Page]]:
    """A page for each person, signed in at first use."""
    opened: dict[str, Page] = {}
    errors: list[str] = []

    def window(who: str) -> Page:
        if who not in opened:
            context = browser.new_context(locale="en-GB", reduced_motion="reduce")
            page = opened[who] = context.new_page()
            page.set_default_timeout(PATIENCE)
            page.on("pageerror", lambda error: errors.append(f"{page.url}: {error}"))
            page.on("console", lambda message: errors.extend(_complaints(page, message)))
            if who != STRANGER:
                context.add_cookies(session(guided.hub.console_url, who, guided.password(who)))
            if who == "wanda":
                tour.give_factors(guided)
        return opened[who]

    yield window
    for page in opened.values():
        page.context.close()
    assert errors == []


def _complaints(page: Page, message: ConsoleMessage) -> list[str]:
    """An error in the browser's console, but for the status of the page itself, which tests ask for."""
    is_of_page = message.text.startswith("Failed to load resource") and message.location["url"] == page.url
    return [f"{page.url}: {message.text}"] if message.type == "error" and not is_of_page else []


def seen(number: int) -> tuple[tuple[Look, ...], tuple[int, ...]]:
    """Looks and widths in which a page of the tour is seen."""
    look, width = SEEN[number % len(SEEN)]
    return (LOOKS, WIDTHS) if FULL else ((look,), (width,))


@pytest.mark.parametrize(("who", "path"), tour.addresses() if FULL else tour.pages())
def test_a_page_is_accessible(who: str, path: str, guided: Tour, windows: Callable[[str], Page]) -> None:
    page = windows(who)
    _widen(page, DESK)
    answer = page.goto(guided.address(path))
    assert answer is not None
    assert answer.status == tour.status(who, path)
    assert "\n".join(_everything(page, *seen(tour.addresses().index((who, path))))) == ""


def _just_signed_in(guided: Tour, windows: Callable[[str], Page]) -> Page:
    """Of an admin, for an act that needs a proof of the last five minutes."""
    page = windows(ADMIN)
    page.context.add_cookies(session(guided.hub.console_url, ADMIN, guided.password(ADMIN)))
    return page


def _to_what_to_run(guided: Tour, windows: Callable[[str], Page]) -> Page:
    page = _just_signed_in(guided, windows)
    page.goto(guided.address("/clusters/add/token/?name=new-02"))
    page.get_by_role("button", name="Mint token").click()
    page.get_by_role("heading", name="Run this on new-02").wait_for()
    return page


def _to_the_second_factor(guided: Tour, windows: Callable[[str], Page]) -> Page:
    windows("wanda")  # who has got one there
    page = windows(STRANGER)
    page.goto(guided.address("/login/"))
    page.get_by_label("User name").fill("wanda")
    page.get_by_label("Password").fill(guided.password("wanda"))
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/login/second/*")
    return page


def _to_what_a_taint_does(guided: Tour, windows: Callable[[str], Page]) -> Page:
    page = windows(ADMIN)
    page.goto(guided.address("/clusters/{healthy}/taints/"))
    page.get_by_label("Key").fill("rack/power")
    page.get_by_role("button", name="Show what it does").click()
    page.locator("#impact a").first.wait_for()
    return page


def _to_a_draft_with_something_pretended(guided: Tour, windows: Callable[[str], Page]) -> Page:
    page = windows(ADMIN)
    page.goto(guided.address("/placements/playground/?from=shop/checkout"))
    page.get_by_label("What to pretend").select_option("taint")
    page.get_by_label("Of which cluster or set").fill("web")
    page.get_by_label("What is pretended").fill("rack/power=off:NoSelect")
    page.get_by_role("button", name="Pretend", exact=True).click()
    page.locator(".oc-pretend").first.wait_for()
    return page


def _to_a_repair_manifest(guided: Tour, windows: Callable[[str], Page]) -> Page:
    page = _just_signed_in(guided, windows)
    page.goto(guided.address("/clusters/{healthy}/repair/"))
    page.get_by_role("button", name="Make the manifest").click()
    page.locator("summary", has_text="repair-").click()
    return page


@pytest.mark.parametrize(
    ("number", "go"),
    [
        (0, _to_what_to_run),
        (1, _to_the_second_factor),
        (2, _to_what_a_taint_does),
        (3, _to_a_draft_with_something_pretended),
        (4, _to_a_repair_manifest),
    ],
)
def test_a_page_after_an_act_is_accessible(
    number: int, go: Callable[[Tour, Callable[[str], Page]], Page], guided: Tour, windows: Callable[[str], Page]
) -> None:
    page = go(guided, windows)
    assert "\n".join(_everything(page, *seen(number))) == ""


def _everything(page: Page, looks: tuple[Look, ...], widths: tuple[int, ...]) -> list[str]:
    found = violations(page, looks, widths)
    if PHONE in widths:
        found += [*_ask(page, "thumbs", PHONE), *_focus(page, PHONE)]
        _widen(page, NARROWEST)
        found += _ask(page, "overflow", NARROWEST)
    _widen(page, DESK)
    return [*found, *_focus(page, DESK)]


def _focus(page: Page, width: int) -> list[str]:
    page.keyboard.press("Tab")  # from here on the browser shows focus
    return _ask(page, "focus", width)


@pytest.fixture(scope="module")
def held(guided: Tour, windows: Callable[[str], Page]) -> None:
    """A brake stands, begun by the hub: most clusters have fallen silent at once."""
    tour.cut_off(guided.hub, windows(ADMIN))


@pytest.mark.contract("D27")
@pytest.mark.parametrize("path", tour.HELD)
@pytest.mark.usefixtures("held")
def test_a_page_of_a_standing_brake_is_accessible(path: str, guided: Tour, windows: Callable[[str], Page]) -> None:
    page = windows(ADMIN)
    _widen(page, DESK)
    page.goto(guided.address(path))
    assert page.get_by_text(tour.HELD[path]).count()
    assert "\n".join(_everything(page, *seen([*tour.HELD].index(path)))) == ""


def test_every_page_of_the_console_is_on_the_tour(guided: Tour, windows: Callable[[str], Page]) -> None:
    """What is left over changes something, and answers no GET."""
    visited = {_route(path) for _, path in tour.addresses()}
    left = {route for route in _routes() if route not in visited | tour.AFTER_AN_ACT | tour.NO_PAGES.keys()}
    asking = windows(ADMIN).context.request
    answers = {route: asking.get(guided.filled(route), max_redirects=0).status for route in sorted(left)}
    assert {route: status for route, status in answers.items() if status != HTTPStatus.METHOD_NOT_ALLOWED} == {}


def _route(path: str) -> str:
    for value in (str(UUID(int=1)), "1"):  # a name may be anything, a number only a number
        with suppress(Resolver404):
            return resolve(re.sub(r"{[\w-]+}", value, path.partition("?")[0])).route
    return ""


def _routes(resolver: URLResolver | None = None, before: str = "") -> Iterator[str]:
    for entry in (resolver or get_resolver()).url_patterns:
        route = before + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield route
        elif not route.startswith("admin/"):  # Django's own pages, whose looks are Django's
            yield from _routes(entry, route)
