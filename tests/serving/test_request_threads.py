"""The request thread pool and its streams, over real sockets."""

from __future__ import annotations

import base64
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from ocmconsole.server import intake, serving
from tests.serving.conftest import KNOWN, Serve
from tests.serving.listening import LOOP_NAMES, read_all, read_until
from tests.serving.site import CHUNK, Feed, feeds

HEAD_END = b"\r\n\r\n"


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60, trust_env=False) as client:
        yield client


def get(path: str, *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *lines, "", ""]).encode("latin-1")


def eventually(condition: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


# ---------------------------------------------------------------- requests


class TestRequests:
    def test_django_sees_the_request(self, serve: Serve, client: httpx.Client) -> None:
        site = serve("console")
        answer = client.post(
            site.url("/echo/a%20b/%C3%A4?q=1&q=%C3%BC"), content=b"body\0", headers={"X-One": "1", "Cookie": "k=v"}
        ).json()
        assert (answer["path"], answer["rest"]) == ("/echo/a b/ä", "a b/ä")
        assert answer["query"] == {"q": ["1", "ü"]}
        assert base64.b64decode(answer["body"]) == b"body\0"
        assert answer["cookies"] == {"k": "v"}
        assert answer["certificate"] is None
        meta = answer["meta"]
        assert meta["REQUEST_METHOD"] == "POST"
        assert meta["HTTP_X_ONE"] == "1"
        assert meta["CONTENT_LENGTH"] == "5"
        assert meta["REMOTE_ADDR"] == "127.0.0.1"
        assert meta["ocmconsole.listener"] == "console"
        assert meta["wsgi.url_scheme"] == "http"
        assert meta["SERVER_PORT"] == str(site.port)

    def test_a_path_that_is_no_utf8_is_not_a_failure(self, serve: Serve, client: httpx.Client) -> None:
        assert client.get(serve().url("/echo/%ff%2Fx")).json()["rest"] == "%FF/x"

    def test_the_api_has_no_cookies(self, serve: Serve, client: httpx.Client) -> None:
        answer = client.get(serve("api").url("/echo/x"), headers={"Cookie": "ocmconsole_session=stolen"}).json()
        assert answer["cookies"] == {}
        assert "HTTP_COOKIE" not in answer["meta"]
        assert answer["meta"]["ocmconsole.listener"] == "api"

    def test_repeated_headers_are_joined_and_underscores_are_no_hyphens(
        self, serve: Serve, client: httpx.Client
    ) -> None:
        headers = [("X-G", "a"), ("X-G", "b"), ("X_Forged", "1"), ("Cookie", "a=1"), ("Cookie", "b=2")]
        answer = client.get(serve().url("/echo/x"), headers=headers).json()
        assert answer["meta"]["HTTP_X_G"] in {"a,b", "a, b"}
        assert "HTTP_X_FORGED" not in answer["meta"]
        assert answer["cookies"] == {"a": "1", "b": "2"}

    def test_no_header_becomes_the_certificate_or_the_listener(self, serve: Serve, client: httpx.Client) -> None:
        headers = {"ocmconsole.peer-certificate": "x", "ocmconsole.listener": "api", "ocmconsole.body-too-large": "1"}
        answer = client.get(serve().url("/echo/x"), headers=headers).json()
        assert answer["certificate"] is None
        assert answer["meta"]["ocmconsole.listener"] == "console"
        assert answer["meta"]["ocmconsole.body_too_large"] == 0

    def test_a_chunked_body_is_put_together(self, serve: Serve, client: httpx.Client) -> None:
        answer = client.post(serve().url("/echo/x"), content=iter([b"one", b"two"])).json()
        assert base64.b64decode(answer["body"]) == b"onetwo"
        assert answer["meta"]["CONTENT_LENGTH"] == "6"

    def test_trailers_are_not_headers(self, serve: Serve) -> None:
        """A proxy strips forged headers from the head; nobody looks at what comes after the body."""
        with serve().connect() as connection:
            connection.sendall(
                get("/echo/x", "Transfer-Encoding: chunked", "Connection: close", method="POST")
                + b"2\r\nhi\r\n0\r\nX-SSL-Client-Cert: forged\r\n\r\n"
            )
            assert b"forged" not in read_all(connection)

    def test_a_head_without_end_is_refused(self, serve: Serve) -> None:
        with serve().connect() as connection:
            connection.sendall(get("/echo/x", *(f"X-{number}: {'x' * 1000}" for number in range(80)))[:-2])
            assert read_until(connection, HEAD_END).startswith(b"HTTP/1.1 400 ")

    def test_an_expecting_client_gets_100_continue(self, serve: Serve) -> None:
        with serve().connect() as connection:
            head = get("/echo/x", "Expect: 100-continue", "Content-Length: 2", "Connection: close", method="POST")
            connection.sendall(head)
            assert read_until(connection, HEAD_END) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(b"hi")
            assert base64.b64encode(b"hi") in read_all(connection)

    def test_pipelined_requests_are_answered_in_order(self, serve: Serve) -> None:
        with serve(threads=2).connect() as connection:
            connection.sendall(get("/slow") + get("/echo/second") + get("/echo/third", "Connection: close"))
            answer = read_all(connection)
        assert answer.count(b"HTTP/1.1 200 OK") == 3
        assert answer.index(b"django-console") < answer.index(b'"second"') < answer.index(b'"third"')


class TestLargeBodies:
    def test_a_body_of_exactly_the_limit_is_read(self, serve: Serve, client: httpx.Client) -> None:
        answer = client.post(serve("api", largest_body=4096).url("/echo/x"), content=b"x" * 4096).json()
        assert len(base64.b64decode(answer["body"])) == 4096

    @pytest.mark.parametrize("chunked", [False, True])
    @pytest.mark.parametrize("size", [4097, 2_000_000])
    def test_the_api_decides_itself_about_a_body_that_is_too_large(
        self, serve: Serve, client: httpx.Client, size: int, chunked: bool
    ) -> None:
        """Of a caller who shows a credential: it may say first that this caller may not do this at all."""
        content: Any = iter([b"x" * size]) if chunked else b"x" * size
        response = client.post(serve("api").url("/echo/x"), content=content, headers={"Authorization": KNOWN})
        answer = response.json()
        assert answer["meta"]["ocmconsole.body_too_large"] == 4096
        assert answer["body"] == ""
        assert answer["meta"]["CONTENT_LENGTH"] == "0"
        assert response.headers["connection"] == "close"

    def test_without_any_credential_it_is_refused_at_once(self, serve: Serve) -> None:
        with serve("api").connect() as connection:
            connection.sendall(get("/echo/x", "Content-Length: 4097", method="POST"))
            head, _, body = read_all(connection).partition(HEAD_END)
        assert head.startswith(b"HTTP/1.1 413 ")
        assert b'"message":"Request entity too large: limit is 4096"' in body

    def test_the_console_refuses_a_body_that_is_too_large(self, serve: Serve, client: httpx.Client) -> None:
        assert client.post(serve("console").url("/echo/x"), content=b"x" * 4097).status_code == 413

    @pytest.mark.parametrize(
        ("credential", "expected"),
        [([f"Authorization: {KNOWN}"], b'"ocmconsole.body_too_large": 4096'), ([], b"HTTP/1.1 413 ")],
    )
    def test_a_client_that_asks_first_is_refused_before_it_sends(
        self, serve: Serve, credential: list[str], expected: bytes
    ) -> None:
        head = get("/echo/x", "Expect: 100-continue", "Content-Length: 5000", *credential, method="POST")
        with serve("api").connect() as connection:
            connection.sendall(head)
            answer = read_all(connection)
        assert b"100 Continue" not in answer
        assert expected in answer

    def test_a_body_that_never_comes_is_given_up(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(intake, "STRANGER_SECONDS", 0.1)
        with serve().connect() as connection:
            connection.sendall(get("/echo/x", "Content-Length: 10", method="POST") + b"x")
            with suppress(ConnectionResetError):  # closed or reset: the same to a client
                assert read_all(connection) == b""


# ---------------------------------------------------------------- answers


class TestAnswers:
    def test_head_has_the_length_and_no_body(self, serve: Serve, client: httpx.Client) -> None:
        response = client.head(serve().url("/status/200"))
        assert (response.headers["content-length"], response.content) == ("4", b"")

    @pytest.mark.parametrize("code", [204, 304])
    def test_without_content_there_is_no_body_and_no_length(self, serve: Serve, code: int) -> None:
        with serve().connect() as connection:
            connection.sendall(get(f"/status/{code}") + get("/status/200", "Connection: close"))
            first, _, rest = read_all(connection).partition(HEAD_END)
        assert first.startswith(f"HTTP/1.1 {code} ".encode())
        assert b"content-length" not in first
        assert b"transfer-encoding" not in first
        assert rest.startswith(b"HTTP/1.1 200 OK")

    def test_every_cookie_is_a_header_of_its_own(self, serve: Serve, client: httpx.Client) -> None:
        assert client.get(serve().url("/cookies")).headers.get_list("set-cookie") == ["a=1; Path=/", "b=2; Path=/"]

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_view_that_fails_is_a_500_and_the_thread_goes_on(self, serve: Serve, client: httpx.Client) -> None:
        site = serve()
        assert client.get(site.url("/boom")).status_code == 500
        assert client.get(site.url("/status/200")).status_code == 200

    def test_a_large_export_arrives_whole(self, serve: Serve, client: httpx.Client, feed: Feed) -> None:
        content = client.get(serve().url("/export/feed?count=40")).content
        assert content == b"".join(bytes([number]) * 65536 for number in range(40))
        assert feed.closed.is_set()

    def test_an_export_that_fails_has_no_last_chunk(self, serve: Serve) -> None:
        with serve().connect() as connection:
            connection.sendall(get("/broken-export"))
            answer = read_all(connection)
        assert b"one line" in answer
        assert not answer.endswith(b"0\r\n\r\n")

    def test_an_export_stops_when_its_reader_leaves(self, serve: Serve, client: httpx.Client, feed: Feed) -> None:
        site = serve()
        with site.connect() as connection:
            connection.sendall(get("/export/feed?count=100000"))
            read_until(connection, b"\0" * 100)
        assert feed.closed.wait(60)
        assert feed.produced < 1000
        assert client.get(site.url("/status/200")).status_code == 200


# ---------------------------------------------------------------- threads and connections


class TestThreads:
    def test_the_number_of_threads_is_fixed(self, serve: Serve, client: httpx.Client) -> None:
        site = serve(threads=3)
        with ThreadPoolExecutor(12) as callers:
            names = list(callers.map(lambda _: client.get(site.url("/slow")).text, range(12)))
        assert len(set(names)) == 3

    def test_a_client_that_leaves_harms_nobody(
        self, serve: Serve, client: httpx.Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        site = serve()
        for content in (get("/slow"), get("/echo/x", "Content-Length: 9", method="POST") + b"x", b"GET /slow HT", b""):
            with site.connect() as connection:
                connection.sendall(content)
        assert client.get(site.url("/status/200")).status_code == 200
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]

    def test_a_request_that_outlives_the_server_is_cut_off_without_an_answer(
        self, serve: Serve, feed: Feed, caplog: pytest.LogCaptureFixture
    ) -> None:
        site = serve("api", ending=serving.GracefulStop(seconds=0.2))
        with site.connect() as working, site.connect() as waiting:
            working.sendall(get("/held/feed"))
            assert feed.opened.wait(60)
            waiting.sendall(get("/status/200"))  # there is one thread
            site.listener.should_exit = True
            for connection in (working, waiting):
                with pytest.raises((ConnectionResetError, EOFError)):
                    read_until(connection, HEAD_END)
        feed.closed.set()
        assert "Exception in ASGI application" not in caplog.text


# ---------------------------------------------------------------- streams


@pytest.mark.parametrize("loop", LOOP_NAMES)
class TestStreams:
    def test_headers_come_at_once_and_chunks_as_they_are_made(self, serve: Serve, feed: Feed, loop: str) -> None:
        with serve("api", loop=loop).connect() as connection:
            connection.sendall(get("/stream/feed"))
            head = read_until(connection, HEAD_END).lower()
            assert b"transfer-encoding: chunked" in head
            assert b"cache-control: no-cache, private" in head
            assert b"content-length" not in head
            for line in (b"one\n", b"two\n"):
                feed.put(line)
                assert read_until(connection, line)
            feed.put(None)
            assert read_until(connection, b"0\r\n\r\n")
            connection.sendall(get("/status/200", "Connection: close"))
            assert read_all(connection).endswith(b"body")

    def test_a_stream_holds_no_thread(self, serve: Serve, client: httpx.Client, feed: Feed, loop: str) -> None:
        site = serve(threads=1, loop=loop)
        with client.stream("GET", site.url("/stream/feed")):
            assert client.get(site.url("/status/200")).status_code == 200
            assert not feed.closed.is_set()

    def test_a_stream_ends_when_its_reader_leaves(
        self, serve: Serve, client: httpx.Client, feed: Feed, loop: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with client.stream("GET", serve(loop=loop).url("/stream/feed")):
            assert feed.opened.wait(60)
        assert feed.closed.wait(60)
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]

    def test_a_stream_ends_too_when_a_request_waits_behind_it(self, serve: Serve, feed: Feed, loop: str) -> None:
        with serve(loop=loop).connect() as connection:
            connection.sendall(get("/stream/feed") + get("/status/200"))
            assert feed.opened.wait(60)
            feed.put(b"one\n")
            read_until(connection, b"one\n")
        deadline = time.monotonic() + 60
        while not feed.closed.wait(0.05) and time.monotonic() < deadline:
            feed.put(b"a bookmark\n")  # reading is paused, so the next write finds out
        assert feed.closed.is_set()

    def test_streams_end_cleanly_when_the_server_stops(self, serve: Serve, feed: Feed, loop: str) -> None:
        """At once: longer than the server would wait for them the client has no patience."""
        site = serve(loop=loop, ending=serving.GracefulStop(seconds=600))
        with site.connect() as connection:
            connection.sendall(get("/stream/feed"))
            assert feed.opened.wait(60)
            site.listener.should_exit = True
            assert read_all(connection).endswith(b"0\r\n\r\n")
        assert feed.closed.is_set()

    def test_a_stream_that_fails_is_cut_and_logged(
        self, serve: Serve, feed: Feed, loop: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        site = serve(loop=loop)
        with site.connect() as connection:
            connection.sendall(get("/stream/feed?how=failing"))
            answer = read_all(connection)
        assert b"one\n" in answer
        assert not answer.endswith(b"0\r\n\r\n")
        assert feed.closed.is_set()
        assert "the stream broke" in caplog.text

    def test_head_opens_no_stream(self, serve: Serve, client: httpx.Client, feed: Feed, loop: str) -> None:
        response = client.head(serve(loop=loop).url("/stream/feed"))
        assert response.headers["content-type"] == "application/json"
        assert not feed.opened.is_set()

    def test_a_slow_reader_holds_the_producer_back(self, serve: Serve, feed: Feed, loop: str) -> None:
        site = serve(loop=loop)
        with site.connect(receive_buffer=65536) as connection:
            connection.sendall(get("/stream/feed?how=flood"))
            assert eventually(lambda: settled(feed))
            held = feed.produced
            assert held * len(CHUNK) < 32 * 1024 * 1024
            while feed.produced == held:
                connection.recv(65536)
        assert feed.closed.wait(60)

    def test_five_hundred_idle_streams_cost_no_thread(
        self, serve: Serve, client: httpx.Client, loop: str, settings: Any
    ) -> None:
        settings.OCMCONSOLE_LIMIT_STRANGERS = 0  # this site authenticates nobody
        serving._allow_many_connections()
        site = serve("api", threads=2, loop=loop)
        client.get(site.url("/status/200"))
        before = os_threads()
        opened: list[socket.socket] = []
        try:
            for number in range(500):
                feeds[str(number)] = Feed()
                opened.append(site.connect())
                opened[-1].sendall(get(f"/stream/{number}"))
            assert eventually(lambda: all(feed.opened.is_set() for feed in feeds.values()))
            assert os_threads() <= before + 1  # the second thread of the pool may have started
            feeds["499"].put(b"last\n")
            assert read_until(opened[-1], b"last\n")
            assert client.get(site.url("/status/200")).status_code == 200
        finally:
            for connection in opened:
                connection.close()
        assert eventually(lambda: all(feed.closed.is_set() for feed in feeds.values()))
        feeds.clear()


def settled(feed: Feed) -> bool:
    """Nothing more was produced for a while."""
    before = feed.produced
    time.sleep(0.2)
    return before == feed.produced > 0


def os_threads() -> int:
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except FileNotFoundError:  # not Linux
        return threading.active_count()
