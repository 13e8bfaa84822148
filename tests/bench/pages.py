"""Pages of the console among ten thousand clusters, as a browser asks for them: signed in, compressed, one at a time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.bench import callers, machine
from tests.bench.row import Row
from tests.bench.rows import Scale
from tests.bench.seeds import Seeds
from tests.hub import Hub

ADMIN, OWNER, PASSWORD = "bench", "owner", "ten-thousand-clusters"
PAGES = {
    "list": "/clusters/",
    "latest changes": "/clusters/?sort=since",
    "filter": "/clusters/?status=attention&set=web",
    "claim and label": "/clusters/?claim=region%3Dlyon&label=env%3Dprod&sort=certificate",
    "search": "/clusters/?q=web-01",
    "palette": "/search/?q=web-01",
    "overview": "/",
}


def measure(made: Seeds, scale: Scale) -> Iterator[Row]:
    with made.hub(scale.clusters, first=_admit) as hub:
        yield _slowest(hub, scale.clusters, scale.rounds)


def _admit(hub: Hub) -> None:
    people = f"crowd.admit({ADMIN!r}, {PASSWORD!r}); crowd.entrust({OWNER!r}, {PASSWORD!r}, 'web')"
    hub.manage("shell", "-c", f"from tests.bench import crowd; {people}")


def _slowest(hub: Hub, clusters: int, rounds: int) -> Row:
    """The slowest page's 95th percentile, of two people; the detail has all of them, with their size as it was sent."""
    found, told = [], []
    for who, name in (("an admin", ADMIN), ("the owner of a set", OWNER)):
        with signed_in(hub, name) as browser:
            machine.settle()
            pages = [_page(browser, page, path, rounds) for page, path in PAGES.items()]
        found += [p95 for p95, _ in pages]
        told.append(f"{who}: {'; '.join(text for _, text in pages)}")
    return Row("page_p95_ms", max(found), f"among {clusters} clusters, {rounds} times each. As {'. As '.join(told)}")


def _page(browser: httpx.Client, page: str, path: str, rounds: int) -> tuple[float, str]:
    """Its 95th percentile in milliseconds, and what there is to tell of it."""
    before = machine.cpu_seconds()
    taken, size = _ask(browser, path, rounds)
    cpu = (machine.cpu_seconds() - before) / len(taken)
    p95 = callers.percentiles(taken)["p95"] * 1000
    return p95, f"{page} {p95:.0f} ms (CPU {cpu * 1000:.0f}), {size / 1024:.0f} kB"


@contextmanager
def signed_in(hub: Hub, name: str = ADMIN, password: str = PASSWORD) -> Iterator[httpx.Client]:
    """A signed-in client that draws nothing."""
    with httpx.Client(base_url=hub.console_url, timeout=60, headers={"Accept-Encoding": "gzip"}) as browser:
        _sign_in(browser, name, password)
        yield browser


def _sign_in(browser: httpx.Client, name: str, password: str) -> None:
    signing_in = browser.get("/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', signing_in.text)
    field = re.search(r'name="(login|username)"', signing_in.text)
    if token is None or field is None:
        raise callers.UnexpectedError(f"the sign-in page has no form: {signing_in.text[:300]}")
    form = {"csrfmiddlewaretoken": token[1], field[1]: name, "password": password}
    answer = browser.post("/login/", data=form, headers={"Referer": f"{browser.base_url}login/"})
    if answer.status_code != httpx.codes.FOUND:
        raise callers.UnexpectedError(f"signing in failed: {answer.status_code} {answer.text[:300]}")


def _ask(browser: httpx.Client, path: str, rounds: int) -> tuple[list[float], int]:
    taken, size = [], 0
    for number in range(rounds + 1):
        began = time.monotonic()
        answer = browser.get(path)
        if answer.status_code != httpx.codes.OK:
            raise callers.UnexpectedError(f"GET {path}: {answer.status_code} {answer.text[:300]}")
        if number:  # the first one fills what is read once
            taken.append(time.monotonic() - began)
        size = answer.num_bytes_downloaded
    return taken, size
