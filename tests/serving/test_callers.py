"""Limits for each identity (D23) over real sockets: who is held back, and who is not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.kubeapi.access import request_limits
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.server import intake
from tests.serving.conftest import Serve
from tests.serving.listening import Site, read_all
from tests.serving.site import Feed, feeds
from tests.serving.test_request_threads import get

pytestmark = pytest.mark.contract("D23")

Ask = Callable[..., httpx.Response]


@pytest.fixture
def limit(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings, with limits that a test can reach: one a second, and 20 at once. The clock hardly moves."""
    moments = count()
    monkeypatch.setattr(request_limits, "monotonic", lambda: next(moments) / 10**9)
    settings.OCMCONSOLE_LIMIT_REQUESTS = 1
    settings.OCMCONSOLE_LIMIT_BURST = 20
    settings.OCMCONSOLE_LIMIT_STRANGERS = 1
    settings.OCMCONSOLE_LIMIT_CPU = 0
    return settings


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60, trust_env=False) as client:
        yield client


def asking(client: httpx.Client, site: Site) -> Ask:
    def ask(user: str = "", query: str = "", **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {user}"} if user else {}
        return client.request(options.pop("method", "GET"), site.url(f"/known?{query}"), headers=headers, **options)

    return ask


def flooded(ask: Ask, user: str, **options: Any) -> httpx.Response:
    """The first answer that is not a success."""
    for _ in range(1_000):
        if (answer := ask(user, **options)).status_code != 200:
            return answer
    raise AssertionError("nothing was refused")


def test_a_flood_gets_429_and_the_others_go_on(serve: Serve, client: httpx.Client, limit: Any) -> None:
    ask = asking(client, serve("api"))
    assert [ask("eve").status_code for _ in range(20)] == [200] * 20  # a burst
    refused = flooded(ask, "eve")
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "1"
    status = refused.json()
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "TooManyRequests", 429)
    assert status["details"]["retryAfterSeconds"] == 1
    cause = {"reason": request_limits.REQUESTS, "message": "eve sent more than 1 requests a second"}
    assert status["details"]["causes"] == [cause]
    assert [ask(user).status_code for user in ("ana", "root", "")] == [200, 200, 200]


def test_superusers_are_not_held_back(serve: Serve, client: httpx.Client, limit: Any) -> None:
    ask = asking(client, serve("api"))
    assert [ask("root").status_code for _ in range(60)] == [200] * 60


def test_a_refused_body_is_not_waited_for_and_without_one_the_connection_goes_on(
    serve: Serve, client: httpx.Client, limit: Any
) -> None:
    site = serve("api", largest_body=10**7)
    flooded(asking(client, site), "eve")
    with site.connect() as connection:
        known = get("/known", "Authorization: Bearer eve")
        large = get("/known", "Authorization: Bearer eve", "Content-Length: 500000", method="POST")
        connection.sendall(known * 20 + large)
        answers = read_all(connection).split(b"HTTP/1.1 ")[1:]
        assert [b"connection: close" in each for each in answers] == [False] * 20 + [True]
        assert answers[-1].startswith(b"429 ")


def test_an_identity_that_costs_much_waits_without_a_thread(
    serve: Serve, limit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its share of CPU time is used up, so its next request waits; nobody else does. The test says when the wait is over."""
    waits, is_over = list[float](), threading.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        while not is_over.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.01)

    monkeypatch.setattr(request_limits, "asyncio", SimpleNamespace(sleep=sleep, Semaphore=asyncio.Semaphore))
    limit.OCMCONSOLE_LIMIT_CPU = 1
    with httpx.Client(timeout=60, trust_env=False) as client, ThreadPoolExecutor(1) as pool:
        ask = asking(client, serve("api"))
        assert ask("eve", "spent=1.02").status_code == 200  # the credit, and two seconds more
        late = pool.submit(ask, "eve")
        assert _eventually(lambda: bool(waits))
        assert [ask("ana").status_code for _ in range(10)] == [200] * 10
        assert not late.done()
        is_over.set()
        assert late.result().status_code == 200
    assert [each > 1.9 for each in waits] == [True]


def test_one_identity_has_so_many_requests_in_flight(serve: Serve, limit: Any) -> None:
    limit.OCMCONSOLE_LIMIT_IN_FLIGHT = 3
    feeds["held"] = Feed()
    site = serve("api", threads=8)
    with httpx.Client(timeout=60, trust_env=False) as client, ThreadPoolExecutor(3) as pool:
        ask = asking(client, site)
        ask("eve")  # from now on it is known who that is
        waiting = [pool.submit(ask, "eve", "hold=held") for _ in range(3)]
        application = site.listener.app
        assert _eventually(lambda: _in_flight(application) == 3)
        assert ask("eve").json()["details"]["causes"][0]["reason"] == request_limits.IN_FLIGHT
        assert ask("ana").status_code == 200
        feeds["held"].closed.set()
        assert [each.result().status_code for each in waiting] == [200] * 3
        assert ask("eve").status_code == 200
    feeds.clear()


def test_one_identity_does_not_take_all_threads(serve: Serve, limit: Any) -> None:
    """Its further requests wait for their turn, without a thread."""
    feeds["held"] = Feed()
    site = serve("api", threads=8)
    with httpx.Client(timeout=60, trust_env=False) as client, ThreadPoolExecutor(20) as pool:
        ask = asking(client, site)
        ask("eve")
        waiting = [pool.submit(ask, "eve", "hold=held") for _ in range(20)]
        assert _eventually(lambda: _in_flight(site.listener.app) == 20)
        assert _eventually(lambda: len(_busy()) == 2)
        assert ask("ana").status_code == 200
        assert len(_busy()) == 2
        feeds["held"].closed.set()
        assert [each.result().status_code for each in waiting] == [200] * 20
    feeds.clear()


def test_one_identity_has_so_many_open_watches(serve: Serve, client: httpx.Client, limit: Any, feed: Feed) -> None:
    limit.OCMCONSOLE_LIMIT_WATCHES = 2
    ask = asking(client, serve("api"))
    headers = {"Authorization": "Bearer eve"}
    with httpx.Client(timeout=60, trust_env=False) as other:
        url = str(ask("ana").url.copy_with(query=b"stream=feed"))
        with other.stream("GET", url, headers=headers) as one:
            with other.stream("GET", url, headers=headers) as two:
                assert (one.status_code, two.status_code) == (200, 200)
                refused = ask("eve", "stream=feed")
                assert refused.status_code == 429
                assert refused.json()["details"]["causes"][0]["reason"] == request_limits.WATCHES
                assert ask("eve").status_code == 200  # anything else goes on
            assert _eventually(lambda: _opens(other, url, headers))


def test_an_address_may_be_wrong_only_so_often(serve: Serve, client: httpx.Client, limit: Any) -> None:
    """Then it is refused before any thread looks at it; credentials that are known there go on."""
    ask = asking(client, serve("api"))
    assert ask("ana").status_code == 200
    assert ask("bad").status_code == 401
    while ask("bad").status_code == 401:
        pass
    refused = flooded(ask, "")
    assert refused.status_code == 429
    assert refused.json()["details"]["causes"][0]["reason"] == request_limits.STRANGERS
    assert ask("ana").status_code == 200


def test_health_is_answered_whatever_else_an_address_does(serve: Serve, client: httpx.Client, limit: Any) -> None:
    site = serve("api")
    ask = asking(client, site)
    while ask("bad").status_code == 401:
        pass
    assert client.get(site.url("/livez")).status_code == 200


def test_pages_know_no_limits_of_identities(serve: Serve, client: httpx.Client, limit: Any) -> None:
    ask = asking(client, serve("console"))
    assert [ask("eve").status_code for _ in range(60)] == [200] * 60


def _opens(client: httpx.Client, url: str, headers: dict[str, str]) -> bool:
    with client.stream("GET", url, headers=headers) as answer:
        return answer.status_code == 200


def _in_flight(application: Any) -> int:
    return sum(account.in_flight for account in application.callers._named.values())


def _busy() -> list[str]:
    """Threads of the pool that are in the view which waits."""
    import sys

    frames = sys._current_frames()
    found = []
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        while frame is not None and frame.f_code.co_name != "held":
            frame = frame.f_back
        if frame is not None:
            found.append(thread.name)
    return found


def _eventually(condition: Callable[[], bool], seconds: float = 60) -> bool:
    """A condition may change what it asks about, so what it once said holds."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


# ---------------------------------------------------------------- the table


def visited(
    table: request_limits.Callers, token: str, actor: Actor | None, address: str = "10.0.0.1"
) -> request_limits.Visit:
    environ = {"REMOTE_ADDR": address, "ocmconsole.peer_certificate": None, "HTTP_AUTHORIZATION": f"Bearer {token}"}
    visit = request_limits.Visit.of(table, environ)
    visit.enter(has_certificate=False)
    visit.settle(actor, 0.001, is_refused=actor is None)
    visit.leave()
    return visit


def test_two_certificates_of_one_user_are_one_identity() -> None:
    table = request_limits.Callers(2)
    actor = Actor("eve", credential="cert:1")
    assert visited(table, "one", actor).payer is visited(table, "two", actor).payer


def test_the_bearers_of_a_shared_token_count_for_each_address() -> None:
    table = request_limits.Callers(2)
    places = ("10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2", "::ffff:10.0.0.1")
    accounts = [
        visited(table, "t", Actor("system:bootstrap:t", credential="bootstrap:t", address=place), place).payer
        for place in places
    ]
    assert accounts[0] is not accounts[1]
    assert accounts[2] is accounts[3]  # one /64
    assert accounts[4] is accounts[0]


def test_a_token_for_many_clusters_has_ten_times_the_limits_and_no_more() -> None:
    table = request_limits.Callers(2)
    for bearers, times in ((1, 1), (5, 5), (1_000, request_limits.CROWD)):
        actor = Actor(f"system:bootstrap:{bearers}", credential=f"bootstrap:{bearers}", bearers=bearers)
        assert visited(table, str(bearers), actor).payer.times == times


def test_the_tables_are_bounded(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.OCMCONSOLE_LIMIT_STRANGERS = 0
    monkeypatch.setattr(request_limits, "MOST_CREDENTIALS", 50)
    monkeypatch.setattr(request_limits, "MOST_ADDRESSES", 40)
    table = request_limits.Callers(2)
    for number in range(200):
        visited(table, f"good{number}", Actor(f"user{number % 120}", credential="cert:x"), f"10.0.0.{number}")
        visited(table, f"bad{number}", None, f"10.0.1.{number}")
    sizes = [len(each) for each in (table._known, table._named, table._holders, table._failed, table._addresses)]
    assert sizes == [50, 50, 50, 40, 40]


def test_first_requests_at_the_same_time_are_learned_once() -> None:
    table = request_limits.Callers(2)
    environ = {"REMOTE_ADDR": "10.0.0.1", "ocmconsole.peer_certificate": b"cert"}
    visits = [request_limits.Visit.of(table, environ) for _ in range(3)]
    for visit in visits:
        visit.settle(Actor("eve", credential="cert:1"), 0.0, is_refused=False)
    assert len({id(visit.payer) for visit in visits}) == 1
    assert list(table._holders.values()) == [1]


# ---------------------------------------------------------------- spellings, and credentials that end


def sent(
    table: request_limits.Callers, actor: Actor | None, *, authorization: str = "", certificate: bytes | None = None
) -> str:
    """One request from one address; the limit that holds it back, or "" ."""
    environ = {"REMOTE_ADDR": "10.0.0.1", "ocmconsole.peer_certificate": certificate}
    visit = request_limits.Visit.of(table, environ | {"HTTP_AUTHORIZATION": authorization})
    try:
        visit.enter(has_certificate=certificate is not None)
    except request_limits.HeldBackError as error:
        return error.limit
    visit.settle(actor, 0.001, is_refused=actor is None)
    visit.leave()
    return ""


@pytest.mark.parametrize("spelling", ["bearer t", "BEARER t", "Bearer   t", "Bearer t ", "bEARER \tt\t"])
def test_a_token_is_one_credential_however_its_header_is_written(spelling: str) -> None:
    assert request_limits.digest_of(None, spelling, "10.0.0.1") == request_limits.digest_of(
        None, "Bearer t", "10.0.0.1"
    )
    assert request_limits.digest_of(None, "Bearer T", "10.0.0.1") != request_limits.digest_of(
        None, "Bearer t", "10.0.0.1"
    )


def test_a_body_counts_for_the_token_however_its_header_is_written() -> None:
    reader, table = intake.Intake(intake.Limits()), request_limits.Callers(2)
    holders = set()
    for written in ("Bearer t", "bearer   t"):
        environ = {"REMOTE_ADDR": "10.0.0.1", "ocmconsole.peer_certificate": None, "HTTP_AUTHORIZATION": written}
        digest = request_limits.Visit.of(table, environ).digest
        holders.add(reader._holding(environ, digest, known=True).caller)
    assert len(holders) == 1


def test_many_credentials_of_one_identity_gain_nothing(limit: Any) -> None:
    table, actor = request_limits.Callers(2), Actor("eve", credential="jwt:eve", address="10.0.0.1")
    answers = [sent(table, actor, authorization=f"Bearer {number}") for number in range(100)]
    assert answers.count("") <= 1 + 20 + 20  # the first, and what the identity and the address may send at once
    assert set(answers) == {"", request_limits.STRANGERS}


@pytest.mark.parametrize("groups", [(), ("system:masters",)])
def test_a_revoked_credential_is_its_addresss_and_the_new_one_of_that_user_goes_on(
    limit: Any, groups: tuple[str, ...]
) -> None:
    table, actor = request_limits.Callers(2), Actor("agent", groups, credential="cert:1")
    assert sent(table, actor, certificate=b"old") == sent(table, actor, certificate=b"new") == ""
    answers = [sent(table, None, certificate=b"old") for _ in range(100)]
    assert set(answers) == {"", request_limits.STRANGERS}
    assert answers.count("") <= 20
    assert sent(table, actor, certificate=b"new") == ""
    assert list(table._holders.values()) == [1]


def test_a_revoked_credential_is_refused_where_strangers_have_no_limit(limit: Any) -> None:
    limit.OCMCONSOLE_LIMIT_STRANGERS = 0
    table, actor = request_limits.Callers(2), Actor("agent", credential="cert:1")
    assert sent(table, actor, certificate=b"old") == ""
    assert {sent(table, None, certificate=b"old") for _ in range(100)} == {""}
    assert table._known == {}


@pytest.mark.parametrize("name", ["REQUESTS", "BURST"])
def test_an_identity_without_a_rate_or_burst_sends_as_much_as_it_likes(limit: Any, name: str) -> None:
    setattr(limit, f"OCMCONSOLE_LIMIT_{name}", 0)
    table, actor = request_limits.Callers(2), Actor("agent", credential="cert:1")
    assert {sent(table, actor, certificate=b"one") for _ in range(100)} == {""}


def test_what_two_requests_find_revoked_at_the_same_time_is_forgotten_once() -> None:
    table, actor = request_limits.Callers(2), Actor("agent", credential="cert:1")
    sent(table, actor, certificate=b"old")
    environ = {"REMOTE_ADDR": "10.0.0.1", "ocmconsole.peer_certificate": b"old"}
    for visit in [request_limits.Visit.of(table, environ) for _ in range(2)]:
        visit.settle(None, 0.0, is_refused=True)
        assert visit.payer.name == ""
    assert [len(each) for each in (table._known, table._named, table._holders)] == [0, 0, 0]


def test_an_address_has_so_many_requests_in_flight_whatever_certificates_it_shows(limit: Any) -> None:
    limit.OCMCONSOLE_LIMIT_IN_FLIGHT = 2
    table = request_limits.Callers(2)
    for number in range(2 * request_limits.CROWD + 1):
        environ = {"REMOTE_ADDR": "10.0.0.1", "ocmconsole.peer_certificate": b"%d" % number}
        visit = request_limits.Visit.of(table, environ)
        if number < 2 * request_limits.CROWD:
            visit.enter(has_certificate=True)
    with pytest.raises(request_limits.HeldBackError) as refused:
        visit.enter(has_certificate=True)
    assert refused.value.limit == request_limits.IN_FLIGHT


@given(st.lists(st.floats(0, 5), max_size=60))
def test_in_any_time_no_more_passes_than_the_burst_and_what_was_refilled(pauses: list[float]) -> None:
    account = request_limits.Callers(2)._account("eve", "", 1, 10.0, 0.0)
    now, passed = 0.0, 0
    for pause in pauses:
        now += pause
        passed += account.take(2.0, 10.0, now) == 0
    assert passed <= 10 + 2 * now + 1e-6
