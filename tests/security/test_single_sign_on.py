"""Single sign-on: whom a provider may bring in, and as whom they never come."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from django.utils import timezone

from ocmconsole.core.models import AccessRequest, BootstrapToken
from ocmconsole.core.rbac import rule_index
from ocmconsole.signin import names
from registration.models import ApprovalPolicy
from tests import factories as make
from tests.actors import grant, person, rule
from tests.hub import Hub
from tests.security import provider as providers
from tests.security.provider import CLIENT, SECRET, Provider


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providers.serve() as provider:
        yield provider


@pytest.fixture(scope="module")
def site(start_hub: Callable[..., AbstractContextManager[Hub]], provider: Provider) -> Iterator[Hub]:
    asked = {
        "OIDC_ISSUER": provider.url,
        "OIDC_CLIENT_ID": CLIENT,
        "OIDC_CLIENT_SECRET": SECRET,
        "OIDC_NAME": "Example",
        "AUTO_APPROVED_USERS": "listed",
    }
    with start_hub(**asked) as hub:
        yield hub


@pytest.fixture
def browser(site: Hub) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.console_url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def bound(site: Hub) -> None:
    """Somebody whom only RBAC knows."""
    binding = {
        "metadata": {"name": "of-a-certificate"},
        "roleRef": {"apiGroup": rule_index.GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": rule_index.GROUP, "kind": "User", "name": "bound"}],
    }
    with site.admin() as admin:
        admin.post(f"/apis/{rule_index.GROUP}/v1/clusterrolebindings", json=binding).raise_for_status()


def leave(browser: httpx.Client, query: str = "") -> dict[str, str]:
    """To the provider: what the hub asks it, from the address that the page goes on to."""
    assert "Sign in with Example" in browser.get("/login/").text
    form = {"csrfmiddlewaretoken": browser.cookies["ocmconsole_csrf"], "next": "/account/"}
    page = browser.post(f"/login/sso/{query}", data=form)
    (address,) = re.findall(r'http-equiv="refresh" content="0;url=([^"]+)"', page.text)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(html.unescape(address)).query).items()}
    assert asked["code_challenge_method"] == "S256"
    return asked


def arrive(browser: httpx.Client, asked: dict[str, str], code: str) -> httpx.Response:
    return browser.get(asked["redirect_uri"], params={"code": code, "state": asked["state"]})


def audited(site: Hub, columns: str, outcome: str) -> list[tuple[object, ...]]:
    with site.reading() as ask:
        return ask(f"SELECT {columns} FROM kubeapi_auditevent WHERE outcome = '{outcome}' ORDER BY id")  # noqa: S608 - the test's own words


@pytest.mark.contract("D11", "D2")
def test_a_first_sign_in_makes_an_account_without_any_right(
    site: Hub, browser: httpx.Client, provider: Provider
) -> None:
    provider.people["zoe"] = {"sub": "1", "preferred_username": "zoe", "email": "zoe@example.com"}
    answer = arrive(browser, leave(browser), "zoe")
    assert (answer.status_code, answer.headers["location"]) == (302, "/account/")
    assert provider.asked[-1]["code_verifier"]
    assert "connected with Example" in browser.get("/account/").text
    assert browser.get("/admin/login/").status_code == 403
    with site.reading() as ask:
        row = "SELECT is_staff, is_superuser, password FROM auth_user WHERE username = 'zoe'"
        ((staff, superuser, password),) = ask(row)
    assert not staff
    assert not superuser
    assert password.startswith("!")
    made = audited(site, 'act, name, "user"', "allowed")
    assert ("user:create", "zoe", "system:ocmconsole:single-sign-on") in made
    assert ("session:create", "zoe", "zoe") in made

    again = httpx.Client(base_url=site.console_url, timeout=60)
    provider.people["zoe"]["preferred_username"] = "admin"  # the subject counts, not what it calls itself now
    arrive(again, leave(again), "zoe")
    assert ">zoe<" in again.get("/account/").text
    again.close()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("admin", "exists already"),
        ("ADMIN", "exists already"),
        ("\uff41dmin", "exists already"),
        ("system:masters", "the hub's own"),
        ("open-cluster-management:c1", "the hub's own"),
        ("a b", "valid username"),
        ("", "gave no user name"),
        ("Bound", "rights or records here"),
        ("listed", "rights or records here"),
    ],
)
@pytest.mark.usefixtures("bound")
def test_nobody_comes_in_under_a_name_that_is_not_his(
    site: Hub, browser: httpx.Client, provider: Provider, name: str, why: str
) -> None:
    provider.people["mallory"] = {"sub": f"m-{name}"[:100], "preferred_username": name, "email": "admin@example.com"}
    answer = arrive(browser, leave(browser), "mallory")
    assert answer.status_code == 403
    assert why in html.unescape(answer.text)
    assert browser.get("/account/").status_code == 302
    assert any("single sign-on" in str(reason) for (reason,) in audited(site, "reason", "denied"))


@pytest.mark.usefixtures("fresh_hub")
def test_a_name_on_record_is_spoken_for_in_any_case() -> None:
    now = timezone.now()
    make.namespace("shop")
    grant(person("Bound-There"), rule("get", "secrets"), namespace="shop")
    BootstrapToken.objects.create(id="abcdef", hash="x", created_by="Minter", created=now, expires=now)
    ends = {"created": now, "expires": now, "reason": "x"}
    ApprovalPolicy.objects.create(name="p", created_by="Author", acts_as="Keeper", **ends)
    AccessRequest.objects.create(user="Asker", verb="get", resource="secrets", reason="x", at=now)
    for name in ("bound-there", "minter", "author", "keeper", "asker", "ASKER"):
        assert names.is_spoken_for(name), name
    for name in ("somebody-else", "mint", "cluster-admin", "default"):
        assert not names.is_spoken_for(name), name


def test_an_account_that_exists_is_not_connected(site: Hub, browser: httpx.Client, provider: Provider) -> None:
    provider.people["eve"] = {"sub": "eve", "preferred_username": "eve"}
    browser.get("/login/")
    form = {
        "csrfmiddlewaretoken": browser.cookies["ocmconsole_csrf"],
        "login": "admin",
        "password": site.admin_password,
    }
    browser.post("/login/", data=form)
    form = {"csrfmiddlewaretoken": browser.cookies["ocmconsole_csrf"]}
    page = browser.post("/login/sso/?process=connect", data=form).text
    (address,) = re.findall(r'http-equiv="refresh" content="0;url=([^"]+)"', page)
    asked = {key: values[0] for key, values in parse_qs(urlsplit(html.unescape(address)).query).items()}
    assert arrive(browser, asked, "eve").status_code == 403
    with site.reading() as ask:
        assert ask("SELECT uid FROM socialaccount_socialaccount WHERE uid = 'eve'") == []


@pytest.mark.parametrize("change", [{"state": "another"}, {"redirect_uri": None}])
def test_an_answer_that_nobody_asked_for_opens_nothing(
    browser: httpx.Client, provider: Provider, change: dict[str, str | None]
) -> None:
    provider.people["yan"] = {"sub": "2", "preferred_username": "yan"}
    asked = leave(browser)
    if "state" in change:
        assert "not signed in" in arrive(browser, asked | {"state": "another"}, "yan").text
    else:
        assert (
            "not signed in" in browser.get(asked["redirect_uri"], params={"error": "no", "state": asked["state"]}).text
        )
    assert browser.get("/account/").status_code == 302


def test_a_provider_that_says_nonsense_is_an_answer_and_not_an_error(browser: httpx.Client, provider: Provider) -> None:
    provider.people["odd"] = {"preferred_username": "odd"}  # nobody knows whom that means
    answer = arrive(browser, leave(browser), "odd")
    assert answer.status_code == 502
    assert "not signed in" in answer.text


def test_a_provider_that_is_away_is_an_answer_and_not_an_error(
    start_hub: Callable[..., AbstractContextManager[Hub]],
) -> None:
    with (
        start_hub(OIDC_ISSUER="http://127.0.0.1:9", OIDC_CLIENT_ID=CLIENT) as hub,
        httpx.Client(base_url=hub.console_url, timeout=60) as browser,
    ):
        browser.get("/login/")
        answer = browser.post("/login/sso/", data={"csrfmiddlewaretoken": browser.cookies["ocmconsole_csrf"]})
        assert answer.status_code == 502
        assert "not signed in" in answer.text


# ---------------------------------------------------------------- a fresh proof


def send(browser: httpx.Client, path: str, **fields: str) -> httpx.Response:
    return browser.post(path, data={"csrfmiddlewaretoken": browser.cookies["ocmconsole_csrf"], **fields})


def prove(browser: httpx.Client, place: str, code: str) -> httpx.Response:
    """Go where the hub leads for a proof, and come back from the provider."""
    page = send(browser, place).text
    (address,) = re.findall(r'http-equiv="refresh" content="0;url=([^"]+)"', page)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(html.unescape(address)).query).items()}
    assert (asked["prompt"], asked["max_age"]) == ("login", "0")
    return arrive(browser, asked, code)


@pytest.mark.parametrize("said", [{}, {"auth_time": time.time() - 600}, {"auth_time": "now"}])
def test_a_provider_that_asked_nobody_gives_no_fresh_proof(
    site: Hub, browser: httpx.Client, provider: Provider, said: dict[str, object]
) -> None:
    """Not by the sign-in, nor when the hub wants one for an act."""
    name = f"stale-{len(provider.people)}"
    provider.people[name] = {"sub": name, "preferred_username": name, **said}
    arrive(browser, leave(browser), name)
    assert f">{name}<" in browser.get("/account/").text
    place = browser.get("/account/app/activate/").headers["location"]
    assert place.startswith("/login/sso/")
    if said:
        refused = prove(browser, place, name)
        assert refused.status_code == 403
        assert "confirmed you without asking you again" in refused.text
        assert any("without asking" in str(reason) for (reason,) in audited(site, "reason", "denied"))
        assert browser.get("/account/app/activate/").status_code == 302
    provider.people[name].pop("auth_time", None)
    if said:
        provider.people[name]["auth_time"] = time.time()
    done = prove(browser, place, name)
    assert (done.status_code, done.headers["location"]) == (302, "/account/app/activate/")
    assert browser.get("/account/app/activate/").status_code == 200
    assert f">{name}<" in browser.get("/account/").text


def test_a_sign_in_at_which_the_provider_asked_is_a_proof(browser: httpx.Client, provider: Provider) -> None:
    provider.people["prompt"] = {"sub": "prompt", "preferred_username": "prompt", "auth_time": time.time()}
    arrive(browser, leave(browser), "prompt")
    assert browser.get("/account/app/activate/").status_code == 200


def test_a_form_that_was_sent_is_kept_until_the_provider_has_asked(
    site: Hub, browser: httpx.Client, provider: Provider
) -> None:
    provider.people["minter"] = {"sub": "minter", "preferred_username": "minter", "auth_time": time.time() - 600}
    arrive(browser, leave(browser), "minter")
    binding = {
        "metadata": {"name": "minter"},
        "roleRef": {"apiGroup": rule_index.GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": rule_index.GROUP, "kind": "User", "name": "minter"}],
    }
    with site.admin() as admin:
        admin.post(f"/apis/{rule_index.GROUP}/v1/clusterrolebindings", json=binding).raise_for_status()
    browser.get("/tokens/mint/")
    sent = send(browser, "/tokens/mint/", lifetime="1h", uses="", cluster="", name="for all")
    provider.people["minter"]["auth_time"] = time.time()
    back = prove(browser, sent.headers["location"], "minter").headers["location"]
    assert "was kept and is not done yet" in browser.get(back).text
    done = send(browser, back.partition("?")[0], next="/tokens/mint/")
    assert done.status_code == 200
    assert "for all" in done.text


def test_another_identity_at_the_provider_proves_nothing(browser: httpx.Client, provider: Provider) -> None:
    for name in ("first", "second"):
        provider.people[name] = {"sub": name, "preferred_username": name, "auth_time": time.time() - 600}
    arrive(browser, leave(browser), "first")
    provider.people["second"]["auth_time"] = time.time()
    refused = prove(browser, browser.get("/account/app/activate/").headers["location"], "second")
    assert (refused.status_code, "did not confirm the account" in refused.text) == (403, True)
    assert browser.get("/account/app/activate/").status_code == 302
    assert ">first<" in browser.get("/account/").text
