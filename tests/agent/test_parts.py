"""Parts of the agent that decide without a hub: sums, patches, waits, kubeconfigs, what answers say."""

from __future__ import annotations

import asyncio
import base64
import gc
import logging
import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from registration.agent.client.api import Api, Refused, Unreachable
from registration.agent.client.attempts import Attempts, Log
from registration.agent.client.clock import AgentClock
from registration.agent.client.informer import Informer
from registration.agent.client.kubeconfig import (
    ApiEndpoint,
    Kubeconfig,
    KubeconfigError,
    Login,
    hub_kubeconfig,
    parse_kubeconfig,
)
from registration.agent.command import main
from registration.agent.options import AgentOptions
from registration.agent.steady_state import quantities
from registration.agent.steady_state.managed_cluster import ordered_claims
from registration.agent.steady_state.status import merge_patch

Answer = tuple[int, dict[str, str], bytes]
NOON = "Sat, 28 Nov 2026 12:00:00"
LOG = Log(logging.getLogger("tests.agent"))


def chance(seed: int = 1) -> random.Random:
    return random.Random(seed)  # noqa: S311 - jitter


# ------------------------------------------------------------------------------------------------------------ quantities


@pytest.mark.contract("G33")
@pytest.mark.parametrize(
    ("parts", "total"),
    [
        (["3800m"], "3800m"),
        (["3800m", "200m"], "4"),
        (["1500"], "1500"),
        (["1", "1999"], "2k"),
        (["15Gi", "512Mi"], "15872Mi"),
        (["16Gi", "16Gi"], "32Gi"),
        (["0", "4Gi"], "4Gi"),
        (["4Gi", "1"], "4294967297"),
        (["0"], "0"),
        (["1e3", "5"], "1005"),
        (["100n", "900n"], "1u"),
        (["0.5", "0.25"], "750m"),
        (["512", "512Ki"], "524800"),
        (["nonsense", "2"], "2"),
        (["16131068Ki"], "16131068Ki"),
    ],
)
def test_quantities_are_added_and_written_as_go_writes_them(parts: list[str], total: str) -> None:
    assert quantities.total({"x": part} for part in parts) == {"x": total}


# --------------------------------------------------------------------------------------------------------------- patches


@pytest.mark.contract("G39a", "W15")
def test_a_patch_has_what_differs_and_nothing_else() -> None:
    old = {"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": 1}
    new = {"a": 1, "b": {"c": 1, "d": 3, "g": 4}, "e": [1, 2]}
    assert merge_patch(old, new) == {"b": {"d": 3, "g": 4}, "e": [1, 2], "f": None}
    assert merge_patch(new, new) == {}


# ---------------------------------------------------------------------------------------------------------------- claims


@pytest.mark.contract("G34", "S24", "S49")
def test_reserved_claims_come_first_and_of_the_others_no_more_than_asked_for() -> None:
    claims = {f"custom-{number:02}": "x" for number in range(25)}
    claims |= {
        "product.open-cluster-management.io": "Other",
        "id.k8s.io": "1",
        "region.cloud.example": "eu",
        "empty": "",
    }
    options = AgentOptions(reserved_claim_suffixes=(".cloud.example",))
    names = [claim["name"] for claim in ordered_claims(claims, options)]
    assert names[:3] == ["id.k8s.io", "product.open-cluster-management.io", "region.cloud.example"]
    assert names[3:] == [f"custom-{number:02}" for number in range(20)]


# ----------------------------------------------------------------------------------------------------------------- waits


def attempts(seed: int = 1) -> Attempts:
    return Attempts("lease not renewed", LOG, chance(seed))


def test_waits_grow_to_a_bound_and_differ() -> None:
    one, other = attempts(), attempts(2)
    error = Unreachable("ConnectError")
    waits = [one.failed(error) for _ in range(12)]
    assert waits[0] < 1.3
    assert all(30 <= wait <= 45 for wait in waits[7:])
    assert waits != [other.failed(error) for _ in range(12)]


def test_a_hub_that_says_when_to_come_back_is_not_asked_before() -> None:
    assert attempts().failed(Refused(429, "TooManyRequests", "slow down", 120)) >= 120


def test_a_trouble_is_logged_when_it_is_new_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    tried = attempts()
    with caplog.at_level(logging.INFO):
        for status in (503, 503, 503, 401):
            tried.failed(Refused(status, "", "no"))
        tried.worked()
        tried.worked()
    assert [record.message for record in caplog.records] == [
        "lease not renewed: 503: no",
        "lease not renewed: 401: no",
        "lease not renewed: over, after 4 attempts",
    ]


# ----------------------------------------------------------------------------------------------------------- kubeconfigs


def test_the_hubs_kubeconfig_says_what_the_bootstrap_kubeconfig_said_of_the_hub(tmp_path: Path) -> None:
    endpoint = ApiEndpoint("https://hub.example:6443", "PEM", "hub-1", "http://proxy.example:3128", "hub.internal")
    (tmp_path / "tls.crt").write_text("CERTIFICATE")
    (tmp_path / "tls.key").write_text("KEY")
    found = parse_kubeconfig(hub_kubeconfig(endpoint), tmp_path)
    assert found == Kubeconfig(endpoint, Login(certificate="CERTIFICATE", key="KEY"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty, or no kubeconfig"),
        ("{", "it is not YAML"),
        ("current-context: a", "there is no context 'a'"),
        ("{current-context: a, contexts: [{name: a, context: {cluster: b}}]}", "there is no cluster 'b'"),
        (
            (
                "{current-context: a, contexts: [{name: a, context: {cluster: b, user: c}}], clusters: [{name: b, cluster: "
                "{server: nowhere}}], users: [{name: c, user: {token: t}}]}"
            ),
            "server 'nowhere' is no address",
        ),
        (
            (
                "{current-context: a, contexts: [{name: a, context: {cluster: b, user: c}}], clusters: [{name: b, cluster: "
                "{server: 'https://x', certificate-authority-data: '%'}}], users: [{name: c, user: {token: t}}]}"
            ),
            "certificate-authority-data is not base64 of PEM",
        ),
        (
            (
                "{current-context: a, contexts: [{name: a, context: {cluster: b, user: c}}], clusters: [{name: b, cluster: "
                "{server: 'https://x'}}], users: [{name: c, user: {username: t}}]}"
            ),
            "the user has neither token nor certificate with key",
        ),
    ],
)
def test_a_kubeconfig_that_says_nothing_usable_is_refused_with_the_part(text: str, words: str) -> None:
    with pytest.raises(KubeconfigError, match=words.replace("%", "%")):
        parse_kubeconfig(text, Path())


def test_a_token_file_is_read_anew_for_each_request(tmp_path: Path) -> None:
    login = Login(token_file=tmp_path / "token")
    (tmp_path / "token").write_text("one\n")
    assert login.bearer() == "one"
    (tmp_path / "token").write_text("two\n")
    assert login.bearer() == "two"


def test_wrong_options_and_a_missing_managed_cluster_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--cluster-name", "No_Name"], ["--client-cert-expiration-seconds", "60"]):
        with pytest.raises(SystemExit) as ended:
            main(options)
        assert ended.value.code == 2
    assert main(["--bootstrap-kubeconfig", "none", "--hub-kubeconfig-dir", "none"]) == 1
    assert "this is no pod" in capsys.readouterr().err


# --------------------------------------------------------------------------------------------------------------- answers


@contextmanager
def answering(*answers: Answer) -> Iterator[tuple[Api, list[str]]]:
    """An API that gives these answers one after the other, the last one for ever; and the paths that were asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, content = answers[min(len(asked), len(answers) - 1)]
            asked.append(self.path)
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """The test knows what was asked."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield Api(Kubeconfig(ApiEndpoint(url), Login(token="t")), AgentClock()), asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def status(code: int, reason: str) -> bytes:
    return f'{{"kind":"Status","code":{code},"reason":"{reason}","message":"in words"}}'.encode()


@pytest.mark.parametrize("code", [401, 403, 404, 409, 410, 422, 429, 500, 503])
def test_a_refusal_has_status_reason_words_and_when_to_come_back(code: int) -> None:
    refusal: Answer = (code, {"Retry-After": "7"}, status(code, "Because"))
    with answering(refusal) as (api, _), pytest.raises(Refused) as refused:
        asyncio.run(api.get("/x"))
    assert str(refused.value) == f"{code} Because: in words"
    assert (refused.value.status, refused.value.reason, refused.value.retry_after) == (code, "Because", 7)


@pytest.mark.parametrize("content", [b"<html>Bad Gateway</html>", b"[]", b""])
def test_a_refusal_of_something_else_than_a_kubernetes_api_is_one_too(content: bytes) -> None:
    with answering((502, {}, content)) as (api, _), pytest.raises(Refused, match="502: Bad Gateway"):
        asyncio.run(api.get("/x"))


@pytest.mark.parametrize("content", [b"<html>Welcome</html>", b"[1]", b'{"cut": '])
def test_a_success_that_is_no_document_is_no_answer(content: bytes) -> None:
    with (
        answering((200, {}, content)) as (api, _),
        pytest.raises(Unreachable, match="something else than a Kubernetes"),
    ):
        asyncio.run(api.get("/x"))


@pytest.mark.contract("G36")
@pytest.mark.parametrize("date", [f"{NOON} GMT, {NOON} GMT", f"{NOON} -0000", "soon"])
def test_a_date_that_names_no_moment_says_nothing_of_the_clocks(date: str) -> None:
    """A proxy that adds a date to its upstream's sends two."""
    with answering((200, {"Date": date}, b"{}")) as (api, _):
        assert asyncio.run(api.get("/x")) == {}
    assert api.ahead is None


def test_a_hub_that_is_not_there_is_unreachable() -> None:
    with answering((200, {}, b"{}")) as (api, _):
        pass
    with pytest.raises(Unreachable, match="ConnectError"):
        asyncio.run(api.get("/x"))


# --------------------------------------------------------------------------------------------------------------- watches


def test_a_request_that_is_cancelled_during_the_handshake_leaves_no_connection() -> None:
    async def cancel(port: int, has_connected: threading.Event) -> None:
        api = Api(Kubeconfig(ApiEndpoint(f"https://127.0.0.1:{port}"), Login()), AgentClock())
        request = asyncio.create_task(api.get("/api"))
        await asyncio.to_thread(has_connected.wait)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await api.close()

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        server.settimeout(60)
        has_connected = threading.Event()

        def read_all() -> bytes:
            connection, _ = server.accept()
            with connection:
                hello = connection.recv(1 << 16)
                has_connected.set()
                return hello + connection.recv(1)  # waits until the agent closes its side

        received = pool.submit(read_all)
        asyncio.run(cancel(server.getsockname()[1], has_connected))
        gc.collect()  # what is left open is a ResourceWarning, which fails this test
        assert received.result(timeout=60)[0] == 22  # a record of a TLS handshake


def watching(api: Api, until: int) -> list[dict[str, object]]:
    """The states that an informer goes through, until so many."""
    states: list[dict[str, object]] = []

    async def follow() -> None:
        changed = asyncio.Event()
        informer = Informer(api, "/things", {}, changed, LOG, chance())
        task = asyncio.create_task(informer.run())
        while len(states) < until:
            await asyncio.wait_for(changed.wait(), 120)
            changed.clear()
            states.append({name: doc["metadata"]["resourceVersion"] for name, doc in informer.objects.items()})
        task.cancel()
        await asyncio.wait([task])
        await api.close()

    asyncio.run(follow())
    return states


def event(type_: str, name: str, version: int, *, end: bool = False) -> bytes:
    annotations = '{"k8s.io/initial-events-end": "true"}' if end else "{}"
    meta = f'"name": "{name}", "resourceVersion": "{version}", "annotations": {annotations}'
    return f'{{"type": "{type_}", "object": {{"metadata": {{{meta}}}}}}}\n'.encode()


@pytest.mark.contract("W11", "W12")
def test_a_watch_goes_on_from_the_last_version_when_the_server_ends_it() -> None:
    first = event("ADDED", "a", 5) + event("BOOKMARK", "", 9, end=True)
    with answering((200, {}, first), (200, {}, event("MODIFIED", "a", 12)), (503, {}, b"")) as (api, asked):
        assert watching(api, 2) == [{"a": "5"}, {"a": "12"}]
    assert "sendInitialEvents=true" in asked[0]
    assert "resourceVersion=9" in asked[1]
    assert "sendInitialEvents" not in asked[1]


@pytest.mark.contract("W12", "D21")
@pytest.mark.parametrize("on_the_way", [False, True])
def test_a_version_that_the_server_forgot_begins_the_watch_anew(on_the_way: bool) -> None:
    """What was deleted meanwhile is gone then."""
    first = event("ADDED", "a", 5) + event("ADDED", "b", 6) + event("BOOKMARK", "", 9, end=True)
    gone = status(410, "Expired")
    refusal: Answer = (200, {}, b'{"type": "ERROR", "object": ' + gone + b"}\n") if on_the_way else (410, {}, gone)
    anew = event("ADDED", "b", 20) + event("BOOKMARK", "", 21, end=True)
    with answering((200, {}, first), refusal, (200, {}, anew), (503, {}, b"")) as (api, asked):
        assert watching(api, 2) == [{"a": "5", "b": "6"}, {"b": "20"}]
    assert "sendInitialEvents=true" in asked[2]


@pytest.mark.contract("W11")
def test_a_server_that_does_not_stream_its_state_is_listed_and_watched() -> None:
    listed = b'{"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a", "resourceVersion": "3"}}]}'
    refusal: Answer = (422, {}, status(422, "Invalid"))
    with answering(refusal, (200, {}, listed), (200, {}, event("DELETED", "a", 8)), (503, {}, b"")) as (api, asked):
        assert watching(api, 2) == [{"a": "3"}, {}]
    assert asked[1] == "/things"
    assert "resourceVersion=7" in asked[2]


def test_the_ca_of_a_kubeconfig_that_is_none_is_said() -> None:
    nonsense = base64.b64decode("Tm90IFBFTQ==").decode()
    with pytest.raises(KubeconfigError, match="cannot be used"):
        Api(Kubeconfig(ApiEndpoint("https://hub.example", nonsense), Login(token="t")), AgentClock())
