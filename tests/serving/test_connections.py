"""What clients do with a connection besides asking once: keep it, fill it, neglect it, leave it half open."""

from __future__ import annotations

import base64
import gc
import gzip
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from ocmconsole.server import connections
from tests.serving.conftest import Serve
from tests.serving.listening import LOOP_NAMES, Site, read_all, read_until
from tests.serving.site import CHUNK, Feed
from tests.serving.test_request_threads import HEAD_END, eventually, get

MUCH = 20_000_000  # more than all buffers on its way

pytestmark = pytest.mark.parametrize("loop", LOOP_NAMES)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on the server waits a moment for a head, not half a minute: heads that are to come in time come before."""
    return lambda: monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that waits a moment for a reader, and not a minute."""
    monkeypatch.setattr(connections, "STALL_SECONDS", 1.0)


def answers(connection: socket.socket) -> Iterator[bytes]:
    """Bodies of answers with a length, one after the other."""
    seen = b""
    while True:
        while HEAD_END not in seen:
            seen += connection.recv(65536)
        head, _, seen = seen.partition(HEAD_END)
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(seen) < length:
            seen += connection.recv(65536)
        yield seen[:length]
        seen = seen[length:]


def ends(connection: socket.socket) -> bool:
    """The server has closed or reset it; nothing was said before."""
    with suppress(ConnectionResetError):
        return read_all(connection) == b""
    return True


class TestReuse:
    def test_a_connection_serves_many_requests(self, serve: Serve, loop: str) -> None:
        site = serve("api", loop=loop)
        with site.connect() as connection:
            found = answers(connection)
            for number in range(20):
                connection.sendall(get(f"/echo/{number}"))
                assert f'"rest": "{number}"'.encode() in next(found)
            assert len(site.listener.server_state.connections) == 1

    def test_a_closing_client_is_answered_and_let_go(self, serve: Serve, loop: str) -> None:
        with serve(loop=loop).connect() as connection:
            connection.sendall(get("/status/200", "Connection: close"))
            answer = read_all(connection)
        assert b"connection: close" in answer.lower()
        assert answer.endswith(b"body")

    def test_the_older_protocol_closes_after_each_answer(self, serve: Serve, loop: str) -> None:
        with serve(loop=loop).connect() as connection:
            connection.sendall(b"GET /status/200 HTTP/1.0\r\n\r\n")
            assert read_all(connection).endswith(b"body")

    def test_pipelined_bodies_belong_to_their_requests(self, serve: Serve, loop: str) -> None:
        """Several in one segment, with a length, in chunks and without any; one is cut in the middle of its head."""
        posted = get("/echo/1", "Content-Length: 3", method="POST") + b"one"
        chunked = get("/echo/2", "Transfer-Encoding: chunked", method="POST") + b"3\r\ntwo\r\n0\r\n\r\n"
        cut = get("/echo/4", "Content-Length: 4", method="POST") + b"four"
        with serve("api", threads=4, loop=loop).connect() as connection:
            connection.sendall(posted + chunked + get("/echo/3") + cut[:20])
            time.sleep(0.1)
            connection.sendall(cut[20:])
            found = answers(connection)
            for number, body in enumerate((b"one", b"two", b"", b"four"), start=1):
                answer = next(found)
                assert f'"rest": "{number}"'.encode() in answer
                assert f'"body": "{base64.b64encode(body).decode()}"'.encode() in answer

    def test_a_hundred_pipelined_requests_are_all_answered(self, serve: Serve, loop: str) -> None:
        with serve("api", threads=4, loop=loop).connect() as connection:
            connection.sendall(b"".join(get(f"/echo/{number}") for number in range(100)))
            found = answers(connection)
            for number in range(100):
                assert f'"rest": "{number}"'.encode() in next(found)


def connections_of(site: Site) -> list[connections.Connection]:
    """Those in memory. By ``type``: ``isinstance`` evaluates lazy objects that other tests left, and these may raise."""
    state = site.listener.server_state
    return [one for one in gc.get_objects() if type(one) is connections.Connection and one.server_state is state]


class TestMemory:
    def test_a_connection_that_ended_is_freed_without_the_garbage_collector(self, serve: Serve, loop: str) -> None:
        """What OpenSSL and the loop hold for it is not seen by the collector, which therefore comes too late (D23)."""
        site = serve("api", loop=loop)
        gc.disable()
        try:
            for _ in range(20):
                with site.connect() as connection:
                    connection.sendall(get("/echo/x", "Content-Length: 3", "Connection: close", method="POST") + b"one")
                    read_all(connection)
            assert eventually(lambda: len(connections_of(site)) <= 1)
        finally:
            gc.enable()


class TestSlowWriters:
    @pytest.mark.parametrize("begun", [b"", b"G", b"\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n"])
    def test_a_head_that_does_not_come_is_not_waited_for(
        self, serve: Serve, hurry: Callable[[], None], begun: bytes, loop: str
    ) -> None:
        hurry()
        with serve(loop=loop).connect() as connection:
            connection.sendall(begun)
            assert ends(connection)

    @pytest.mark.parametrize("begun", [b"G", b"\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n"])
    def test_nor_is_the_second_one(self, serve: Serve, hurry: Callable[[], None], begun: bytes, loop: str) -> None:
        with serve(loop=loop).connect() as connection:
            connection.sendall(get("/status/200"))
            read_until(connection, b"body")
            hurry()
            connection.sendall(begun)
            assert ends(connection)

    def test_byte_after_byte_gives_no_more_time(self, serve: Serve, hurry: Callable[[], None], loop: str) -> None:
        hurry()
        head, sent = get("/echo/x", *(f"X-{number}: x" for number in range(100))), 0
        with serve(loop=loop).connect() as connection, suppress(ConnectionError):
            for byte in head:
                connection.sendall(bytes([byte]))
                sent += 1
                time.sleep(0.02)
        assert sent < len(head)  # which takes 20 s

    def test_between_two_requests_a_client_may_be_silent(
        self, serve: Serve, hurry: Callable[[], None], loop: str
    ) -> None:
        with serve(loop=loop).connect() as connection:
            connection.sendall(get("/status/200"))
            read_until(connection, b"body")
            hurry()
            time.sleep(0.6)
            connection.sendall(get("/status/200"))
            read_until(connection, b"body")


class TestSlowReaders:
    @pytest.mark.usefixtures("stalled")
    def test_one_that_never_reads_is_cut_off_and_nobody_else(self, serve: Serve, feed: Feed, loop: str) -> None:
        site = serve(loop=loop)
        with site.connect() as quiet, site.connect(receive_buffer=65536) as connection:
            quiet.sendall(get("/status/200"))
            read_until(quiet, b"body")
            connection.sendall(get("/stream/feed?how=flood"))
            assert feed.closed.wait(60)
            assert eventually(lambda: len(site.listener.server_state.connections) == 1)
            quiet.sendall(get("/status/200"))
            assert read_until(quiet, b"body")

    @pytest.mark.usefixtures("stalled")
    def test_an_answer_that_is_ready_is_not_kept_for_ever(self, serve: Serve, loop: str) -> None:
        site = serve("api", loop=loop)
        with site.connect(receive_buffer=65536) as connection:
            connection.sendall(get(f"/large/{MUCH}"))
            assert eventually(lambda: site.listener.server_state.total_requests == 1)
            assert eventually(lambda: not site.listener.server_state.connections)

    @pytest.mark.usefixtures("stalled")
    def test_one_that_reads_slowly_gets_everything(self, serve: Serve, loop: str) -> None:
        with serve("api", loop=loop).connect(receive_buffer=65536) as connection:
            connection.sendall(get(f"/large/{MUCH}", "Connection: close"))
            seen, began = 0, time.monotonic()
            while chunk := connection.recv(65536):
                seen += len(chunk)
                time.sleep(4 * len(chunk) / MUCH)  # four seconds for all of it
            assert seen > MUCH
            assert time.monotonic() - began > 3 * connections.STALL_SECONDS


class TestHalfClosed:
    """Who has closed their side is gone, as for the reference; TLS has no half anyway."""

    def test_a_stream_ends(self, serve: Serve, feed: Feed, loop: str) -> None:
        with serve(loop=loop).connect() as connection:
            connection.sendall(get("/stream/feed"))
            assert feed.opened.wait(60)
            connection.shutdown(socket.SHUT_WR)
            assert feed.closed.wait(60)
            read_all(connection)

    def test_an_idle_connection_ends(self, serve: Serve, loop: str) -> None:
        with serve(loop=loop).connect() as connection:
            connection.sendall(get("/status/200"))
            read_until(connection, b"body")
            connection.shutdown(socket.SHUT_WR)
            assert ends(connection)


class TestCompression:
    """Large answers of the API to clients that accept it."""

    def large(self, site: Site, *headers: str) -> tuple[bytes, bytes]:
        """Head and body of an answer that is just large enough."""
        with site.connect() as connection:
            connection.sendall(get("/large/131072", "Connection: close", *headers))
            head, _, body = read_all(connection).partition(HEAD_END)
        return head.lower(), body

    @pytest.mark.parametrize("accepted", ["gzip", "deflate, gzip;q=0.5", "GZIP"])
    def test_a_large_answer_is_packed(self, serve: Serve, accepted: str, loop: str) -> None:
        head, body = self.large(serve("api", loop=loop), f"Accept-Encoding: {accepted}")
        assert b"content-encoding: gzip" in head
        assert b"vary: accept-encoding" in head
        assert f"content-length: {len(body)}".encode() in head
        assert len(gzip.decompress(body)) == 131_072

    @pytest.mark.parametrize("accepted", ["identity", "gzip;q=0", "deflate", "x-gzipped"])
    def test_not_for_who_does_not_accept_it(self, serve: Serve, accepted: str, loop: str) -> None:
        head, body = self.large(serve("api", loop=loop), f"Accept-Encoding: {accepted}")
        assert b"content-encoding" not in head
        assert len(body) == 131_072

    def test_pages_are_never_packed(self, serve: Serve, loop: str) -> None:
        head, _ = self.large(serve("console", loop=loop), "Accept-Encoding: gzip")
        assert b"content-encoding" not in head

    def test_a_small_answer_is_left_alone(self, serve: Serve, loop: str) -> None:
        with serve("api", loop=loop).connect() as connection:
            connection.sendall(get("/large/131071", "Accept-Encoding: gzip", "Connection: close"))
            assert read_all(connection).endswith(b"x" * 131_071)

    def test_a_stream_is_never_packed(self, serve: Serve, feed: Feed, loop: str) -> None:
        with serve("api", loop=loop).connect() as connection:
            connection.sendall(get("/stream/feed", "Accept-Encoding: gzip"))
            assert b"content-encoding" not in read_until(connection, HEAD_END).lower()
            feed.put(CHUNK * 4)
            read_until(connection, CHUNK)
            feed.put(None)
