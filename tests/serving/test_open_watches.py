"""Who watches decisions through this server is on the page of their Placement, whichever way the watch was opened."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.hub import Hub
from tests.serving.test_request_threads import eventually

GROUP = "cluster.open-cluster-management.io"
PLACE = f"/apis/{GROUP}/v1beta1/namespaces/watched"


@pytest.fixture
def placement(hub: Hub) -> str:
    """``p1``, with its decision; the revision before the latter."""
    made = {"apiVersion": f"{GROUP}/v1beta1", "kind": "Placement", "metadata": {"name": "p1"}, "spec": {}}
    with hub.admin() as admin:
        admin.post("/api/v1/namespaces", json={"metadata": {"name": "watched"}}).raise_for_status()
        with admin.stream("GET", f"{PLACE}/placementdecisions?watch=true&timeoutSeconds=60") as decisions:
            stored = admin.post(f"{PLACE}/placements", json=made).raise_for_status().json()
            assert next(decisions.iter_lines())
    revision: str = stored["metadata"]["resourceVersion"]
    return revision


@pytest.fixture
def browser(hub: Hub) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=hub.console_url, trust_env=False, timeout=100) as client:
        page = client.get("/", follow_redirects=True)
        form = {
            "login": "admin",
            "password": hub.admin_password,
            "csrfmiddlewaretoken": client.cookies["ocmconsole_csrf"],
        }
        assert client.post(page.url.path, data=form, headers={"Origin": hub.console_url}).status_code == 302
        yield client


def test_the_page_names_clients_that_watch(hub: Hub, browser: httpx.Client, placement: str) -> None:
    """Also where the watch is opened on the event loop: from a revision, with a certificate that is known."""

    def page() -> str:
        return browser.get("/placements/watched/p1/").raise_for_status().text

    assert eventually(lambda: "No watch is open." in page())  # the one that has made the placement has just ended
    place = f"{PLACE}/placementdecisions?watch=true&timeoutSeconds=60"
    with hub.client(pair=hub.admin_pair(), **{"User-Agent": "argocd/v3"}) as client:
        for revision in ("", f"&resourceVersion={placement}"):
            with client.stream("GET", place + revision) as watching:
                lines = watching.iter_lines()  # what is left of it holds the stream open
                assert next(lines)
                assert "“argocd" in page()
