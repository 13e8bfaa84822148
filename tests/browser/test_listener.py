"""The console's listener towards strangers: cookies, forged forms, foreign names, and the API that is not there."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.hub import Hub


@pytest.fixture
def stranger(hub: Hub) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=hub.console_url, trust_env=False, timeout=60) as client:
        yield client


def sign_in(client: httpx.Client, hub: Hub) -> httpx.Response:
    client.get("/login/")
    form = {
        "login": "admin",
        "password": hub.admin_password,
        "csrfmiddlewaretoken": client.cookies["ocmconsole_csrf"],
    }
    return client.post("/login/", data=form)


def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(stranger: httpx.Client, hub: Hub) -> None:
    cookies = sign_in(stranger, hub).headers.get_list("set-cookie")
    (session,) = [cookie for cookie in cookies if cookie.startswith("ocmconsole_session=")]
    assert "HttpOnly" in session
    assert "SameSite=Lax" in session


def test_a_form_without_its_token_changes_nothing_and_says_so(stranger: httpx.Client, hub: Hub) -> None:
    sign_in(stranger, hub)
    answer = stranger.post("/clusters/anything/disconnect/")
    assert answer.status_code == 403
    assert "Nothing was changed" in answer.text


@pytest.mark.parametrize(
    "path", ["/api", "/api/v1/namespaces", "/apis", "/apis/cluster.open-cluster-management.io/v1", "/readyz"]
)
def test_the_api_is_not_served_here(stranger: httpx.Client, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("path", ["/", "/login/", "/approvals/", "/clusters/", "/admin/", "/static/vendor/console.css"])
def test_pages_are_not_served_by_the_api(hub: Hub, path: str) -> None:
    with hub.client() as client:
        answer = client.get(path)
    assert answer.status_code in {401, 403, 404}
    assert answer.json()["kind"] == "Status"


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1.", "[::1].evil.example"])
def test_another_name_is_refused(stranger: httpx.Client, name: str) -> None:
    assert stranger.get("/login/", headers={"Host": name}).status_code == 400


def test_pages_may_not_be_framed_and_types_not_guessed(stranger: httpx.Client) -> None:
    headers = stranger.get("/login/").headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"


def test_pages_and_admin_are_styled_by_this_hub_alone(stranger: httpx.Client) -> None:
    for path in (
        "/static/vendor/console.css",
        "/static/vendor/icons.svg",
        "/static/js/theme.js",
        "/static/admin/css/base.css",
    ):
        assert stranger.get(path).status_code == 200
