"""Bodies: judged before they are read, and bounded in all (D23)."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.kubeapi.access import request_limits
from ocmconsole.server import intake
from ocmconsole.server.intake import HAS_WHOLE_BODY, KIB, Budget, BusyError, Holding, Intake, Limits
from ocmconsole.server.request_threads import RequestThreads
from tests.serving.conftest import KNOWN, Serve
from tests.serving.listening import Site, read_all, read_until
from tests.serving.site import Feed
from tests.serving.test_request_threads import HEAD_END, eventually, get

pytestmark = pytest.mark.contract("D23")

LIMITS = Limits(body=1024 * KIB, stranger_body=64 * KIB, stranger_bodies=256 * KIB, bodies=4096 * KIB)
AS_KNOWN = f"Authorization: {KNOWN}"


@contextmanager
def half_sent(site: Site, length: int, *lines: str, sent: int = 0) -> Iterator[socket.socket]:
    with site.connect() as connection:
        head = get("/echo/x", f"Content-Length: {length}", *lines, method="POST")
        with suppress(ConnectionError):  # refused while it was sent
            connection.sendall(head + b"x" * sent)
        yield connection


class TestStrangers:
    def test_a_body_that_is_too_large_for_a_stranger_is_refused_before_it_comes(self, serve: Serve) -> None:
        with half_sent(serve("api", limits=LIMITS), 65 * KIB) as connection:
            head, _, body = read_all(connection).partition(HEAD_END)
        assert head.startswith(b"HTTP/1.1 413 ")
        assert json.loads(body)["reason"] == "RequestEntityTooLarge"

    def test_for_a_bad_credential_the_api_answers_itself(self, serve: Serve) -> None:
        """In the hub: 401."""
        with half_sent(serve("api", limits=LIMITS), 65 * KIB, "Authorization: Bearer nonsense") as connection:
            answer = read_until(connection, b'"thread"')
        assert b"HTTP/1.1 200" in answer
        assert f'"ocmconsole.body_too_large": {64 * KIB}'.encode() in answer

    def test_one_in_chunks_is_refused_at_the_limit(self, serve: Serve) -> None:
        with serve("api", limits=LIMITS).connect() as connection:
            connection.sendall(get("/echo/x", "Transfer-Encoding: chunked", method="POST"))
            connection.sendall(b"11000\r\n" + b"x" * 0x11000)  # more than 64 KiB, and no end
            assert f'"ocmconsole.body_too_large": {64 * KIB}'.encode() in read_until(connection, b'"thread"')

    def test_a_known_caller_may_send_it(self, serve: Serve) -> None:
        with half_sent(serve("api", limits=LIMITS), 65 * KIB, AS_KNOWN, sent=65 * KIB) as connection:
            body = read_until(connection, b'"certificate": null}').partition(HEAD_END)[2]
        assert len(base64.b64decode(json.loads(body)["body"])) == 65 * KIB

    def test_on_the_console_too(self, serve: Serve) -> None:
        with half_sent(serve("console", limits=LIMITS), 65 * KIB, "Cookie: ocmconsole_session=guessed") as connection:
            assert read_until(connection, HEAD_END).startswith(b"HTTP/1.1 413 ")

    def test_a_known_caller_has_a_limit_as_well(self, serve: Serve) -> None:
        with half_sent(serve("api", limits=LIMITS), 1025 * KIB, AS_KNOWN) as connection:
            assert f'"ocmconsole.body_too_large": {1024 * KIB}'.encode() in read_until(connection, b'"thread"')


class TestBudget:
    def test_half_sent_bodies_of_strangers_are_held_within_a_budget_and_the_others_are_answered(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fails without the budget: all hundred would be waited for, with 6 MiB in memory."""
        monkeypatch.setattr(intake, "STRANGER_SECONDS", 600.0)  # else the one that is let in is given up meanwhile
        site = serve("api", limits=LIMITS)
        with ExitStack() as stack:
            waiting = [stack.enter_context(half_sent(site, 63 * KIB, sent=32 * KIB)) for _ in range(100)]
            assert sum(is_refused(connection) for connection in waiting[1:]) == 99
            assert intake_of(site).strangers.total == 63 * KIB  # one address gets a quarter
            with half_sent(site, 3, AS_KNOWN, sent=3) as known, site.connect() as reader:
                assert b"200 OK" in read_until(known, HEAD_END)
                reader.sendall(get("/status/200"))
                assert b"200 OK" in read_until(reader, HEAD_END)
        assert eventually(lambda: intake_of(site).strangers.total == 0)

    def test_a_refusal_says_when_to_come_again(self, serve: Serve) -> None:
        site = serve("api", limits=LIMITS)
        with half_sent(site, 63 * KIB), half_sent(site, 63 * KIB) as second:
            head, _, body = read_all(second).partition(HEAD_END)
        assert head.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 1" in head
        assert b"connection: close" in head
        status = json.loads(body)
        assert (status["kind"], status["reason"]) == ("Status", "TooManyRequests")
        assert status["details"]["retryAfterSeconds"] == 1

    def test_one_known_caller_leaves_room_for_the_next(self, serve: Serve) -> None:
        site = serve("api", limits=LIMITS)
        with half_sent(site, 1024 * KIB, AS_KNOWN), half_sent(site, 1024 * KIB, AS_KNOWN) as second:
            assert read_until(second, HEAD_END).startswith(b"HTTP/1.1 429 ")
            assert intake_of(site).known.total == 1024 * KIB
        assert eventually(lambda: intake_of(site).known.total == 0)

    def test_a_body_counts_until_it_is_answered(self, serve: Serve, feed: Feed) -> None:
        site = serve("api", limits=LIMITS)
        with site.connect() as connection:
            connection.sendall(get("/held/feed", "Content-Length: 3", AS_KNOWN, method="POST") + b"one")
            assert feed.opened.wait(60)
            assert intake_of(site).known.total == intake.LEAST_HELD
            feed.closed.set()
            read_until(connection, b"done")
        assert eventually(lambda: intake_of(site).known.total == 0)

    @pytest.mark.usefixtures("feed")
    def test_a_stream_holds_nothing(self, serve: Serve) -> None:
        site = serve("api", limits=LIMITS)
        with site.connect() as connection:
            connection.sendall(get("/stream/feed", "Content-Length: 3", AS_KNOWN, method="POST") + b"one")
            read_until(connection, HEAD_END)
            assert intake_of(site).known.total == 0

    @given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 200 * KIB), st.booleans()), max_size=40))
    def test_the_books_always_balance(self, steps: list[tuple[str, int, bool]]) -> None:
        budget, open_now = Budget(512 * KIB), list[Holding]()
        for caller, size, ends in steps:
            holding = Holding(budget, caller)
            with suppress(BusyError):
                holding.grow_to(size)
            open_now.append(holding)
            if ends:
                open_now.pop(0).close()
            assert budget.total == sum(held.size for held in open_now) <= budget.limit
            assert all(held <= budget.limit // intake.SHARE for held in budget.held.values())
        for holding in open_now:
            holding.close()
            holding.close()
        assert budget.total == 0
        assert not budget.held


def intake_of(site: Site) -> Intake:
    assert isinstance(site.listener.app, RequestThreads)
    return site.listener.app.intake


def is_refused(connection: socket.socket) -> bool:
    try:
        return read_until(connection, HEAD_END).startswith(b"HTTP/1.1 429 ")
    except (ConnectionError, EOFError):  # cut while it was sending
        return True


class TestWhoIsCounted:
    """Without a server: bodies that never come, each from an address and with a cookie."""

    @staticmethod
    def held(size: int, *sent: tuple[str, str], name: str = "", is_here: bool = False) -> list[bool]:
        """Whether each body of so many bytes was let in beside those before it. ``name`` is whom a cookie signs in."""

        async def waiting(*_: Any) -> Any:
            await asyncio.Event().wait()

        async def judge(_: Any) -> str:
            return name

        async def main() -> list[bool]:
            reader = Intake(LIMITS, request_limits.site_of)
            scope: Any = {"headers": [(b"content-length", str(size).encode())]}
            scope["extensions"] = {HAS_WHOLE_BODY: lambda: is_here}
            tasks = []
            for address, cookie in sent:
                environ = {"REMOTE_ADDR": address, "ocmconsole.peer_certificate": None}
                environ |= {"HTTP_COOKIE": cookie} if cookie else {}
                tasks.append(asyncio.create_task(reader.read(scope, environ, waiting, judge, None)))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            let_in = [not task.done() for task in tasks]
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(each) for each in outcomes} <= {BusyError, asyncio.CancelledError}
            return let_in

        return asyncio.run(main())

    def test_addresses_of_one_ipv6_network_are_one_stranger(self) -> None:
        near, far = ("2001:db8::1", ""), ("2001:db8:0:1::1", "")
        assert self.held(63 * KIB, near, ("2001:db8::2", ""), far) == [True, False, True]

    def test_addresses_of_one_ipv6_network_wait_for_their_judgement_together(self) -> None:
        async def main() -> list[bool]:
            reader, gate = Intake(LIMITS, request_limits.site_of), asyncio.Event()

            async def judge(_: Any) -> bool:
                return await gate.wait()

            most = intake.MOST_JUDGED // intake.SHARE
            tasks = [
                asyncio.create_task(reader._judged({"REMOTE_ADDR": f"2001:db8::{number}"}, judge))
                for number in range(most + 1)
            ]
            await asyncio.sleep(0)
            gate.set()
            return [isinstance(each, BusyError) for each in await asyncio.gather(*tasks, return_exceptions=True)]

        assert asyncio.run(main()) == [False] * (intake.MOST_JUDGED // intake.SHARE) + [True]

    def test_a_new_cookie_each_time_is_the_same_person(self) -> None:
        sent = [(f"10.0.0.{number}", f"ocmconsole_session=x; other={number}") for number in range(3)]
        assert self.held(600 * KIB, *sent, name="session:1") == [True, False, False]

    def test_small_bodies_with_cookies_that_nobody_has_judged_count_for_the_address(self) -> None:
        size, most = intake.LEAST_HELD, LIMITS.bodies // intake.SHARE // intake.LEAST_HELD
        sent = [("10.0.0.1", f"ocmconsole_session={number}") for number in range(most + 1)]
        assert self.held(size, *sent, is_here=True) == [True] * most + [False]
        assert self.held(size, *sent, ("10.0.0.2", "a=b"), is_here=True)[-1]
