"""A client of one Kubernetes API as one identity: documents in and out, refusals and lost connections as HubError.

Called by everything here that asks a hub or the managed cluster. Bodies are JSON; upstream's agent sends built-in kinds
as protobuf, which says the same. HTTP/1.1, a connection for each watch: over HTTP/2 httpcore lets one watch wait for
what another one reads, so that an event is heard when the next comes.
"""

from __future__ import annotations

import email.utils
import json
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import httpx

from .clock import AgentClock
from .kubeconfig import Kubeconfig, KubeconfigError

Doc = dict[str, Any]
# Called with method, path, the status or one of the two texts below, and seconds.
Heard = Callable[[str, str, int | str, float], None]
# The first may also be the fault of a machine that runs more agents than it can carry.
NOT_CONNECTED, UNANSWERED = "no connection in time", "no answer"

USER_AGENT = f"ocmconsole-agent ({sys.platform})"
MERGE_PATCH = "application/merge-patch+json"
TIMEOUT = 32.0  # seconds for an answer: an API server gives a request 60 at most, a renewal should fail earlier
CONNECT = 10.0  # seconds for connection and handshake
LONGEST_LINE = 16 << 20  # bytes of one watch event; an object has 1.5 MB at most in etcd
# Seconds idle, seconds between probes, probes: a half-open connection is found within a minute and a half.
KEEPALIVE = (30, 20, 3)


class HubError(Exception):
    """Something that another attempt may mend. ``retry_after`` is in seconds, 0 unless the server named it."""

    retry_after = 0.0


class Unreachable(HubError):
    """No answer: no connection, no handshake, or none in time."""


class Refused(HubError):
    """An answer that says no. ``reason`` is the Status reason, such as ``Conflict``."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status, self.reason, self.retry_after = status, reason, retry_after


def ssl_context(kubeconfig: Kubeconfig) -> ssl.SSLContext:
    """Trust and credential. KubeconfigError when the key does not belong to the certificate, or the CA is no PEM."""
    try:
        return _ssl_context(kubeconfig)
    except ssl.SSLError as error:
        raise KubeconfigError(f"CA, certificate or key cannot be used: {error.reason or error}") from error


def _ssl_context(kubeconfig: Kubeconfig) -> ssl.SSLContext:
    endpoint, login = kubeconfig.endpoint, kubeconfig.login
    context = ssl.create_default_context(cadata=endpoint.authority or None)
    if endpoint.is_unverified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if login.certificate:
        load_pair(context, login.certificate, login.key)
    return context


def load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """A credential from PEM. ssl.SSLError when the key is not that of the certificate."""
    # OpenSSL wants a file; only this user can open it, and it is gone before anybody is asked.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
        pair.write(f"{certificate}\n{key}")
        pair.flush()
        context.load_cert_chain(pair.name)


def client_of(kubeconfig: Kubeconfig) -> httpx.AsyncClient:
    """Connections of its own. KubeconfigError when CA, certificate or key cannot be used."""
    context = ssl_context(kubeconfig)
    endpoint = kubeconfig.endpoint
    transport = httpx.AsyncHTTPTransport(
        verify=context,
        http2=False,
        proxy=endpoint.proxy or None,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=4),
        socket_options=_keepalive(),
    )
    return httpx.AsyncClient(base_url=endpoint.server, transport=transport, trust_env=False)


def _keepalive() -> list[tuple[int, int, int]]:
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    if sys.platform == "linux":
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        options += [(socket.IPPROTO_TCP, name, value) for name, value in zip(names, KEEPALIVE, strict=True)]
    return options


class Api:
    """One identity at one server. ``ahead`` is by how much the own clock is before the server's, once it answered."""

    def __init__(
        self,
        kubeconfig: Kubeconfig,
        clock: AgentClock,
        *,
        client: httpx.AsyncClient | None = None,
        headers: Mapping[str, str] | None = None,
        heard: Heard | None = None,
    ) -> None:
        """``client`` is one that several agents share; ``heard`` is called for each request."""
        self._login, self._clock = kubeconfig.login, clock
        self._tls_name = kubeconfig.endpoint.tls_name
        self._client, self._is_shared = client or client_of(kubeconfig), client is not None
        self._headers = {"Accept": "application/json", "User-Agent": USER_AGENT, **(headers or {})}
        self._heard = heard
        self.ahead: timedelta | None = None

    async def close(self) -> None:
        if not self._is_shared:
            await self._client.aclose()

    # ------------------------------------------------------------------------------------------------------ documents

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Doc:
        return await self._ask("GET", path, params=params)

    async def create(self, path: str, doc: Doc) -> Doc:
        return await self._ask("POST", path, doc)

    async def replace(self, path: str, doc: Doc) -> Doc:
        return await self._ask("PUT", path, doc)

    async def patch(self, path: str, change: Doc) -> Doc:
        return await self._ask("PATCH", path, change, content_type=MERGE_PATCH)

    async def status_code(self, path: str) -> int:
        """Of a GET, whatever it is. Unreachable without an answer."""
        request = self._request("GET", path, None, "", None, httpx.Timeout(TIMEOUT, connect=CONNECT))
        response = await self._send(request, stream=False)
        return response.status_code

    async def _ask(
        self,
        method: str,
        path: str,
        doc: Doc | None = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Doc:
        request = self._request(method, path, doc, content_type, params, httpx.Timeout(TIMEOUT, connect=CONNECT))
        response = await self._send(request, stream=False)
        if not response.is_success:
            raise refusal(response)
        return _document(response.content)

    # -------------------------------------------------------------------------------------------------------- streams

    async def events(self, path: str, params: Mapping[str, str], seconds: int) -> AsyncGenerator[Doc]:
        """Watch events until the server ends the stream, ``seconds`` after its beginning. Refused, also on the way."""
        timeout = httpx.Timeout(seconds + TIMEOUT, connect=CONNECT)
        response = await self._send(self._request("GET", path, None, "", params, timeout), stream=True)
        try:
            if not response.is_success:
                await response.aread()
                raise refusal(response)
            async with aclosing(_lines(response)) as lines:
                async for line in lines:
                    event = _document(line)
                    if event.get("type") == "ERROR":
                        raise _refusal_of(event.get("object") or {}, 500)
                    yield event
        except httpx.HTTPError as error:
            raise Unreachable(f"the watch broke off: {_words(error)}") from error
        finally:
            await response.aclose()

    # ------------------------------------------------------------------------------------------------------------ both

    def _request(
        self,
        method: str,
        path: str,
        doc: Doc | None,
        content_type: str,
        params: Mapping[str, str] | None,
        timeout: httpx.Timeout,
    ) -> httpx.Request:
        headers = dict(self._headers)
        content = None
        if doc is not None:
            headers["Content-Type"] = content_type
            content = json.dumps(doc, separators=(",", ":")).encode()
        try:
            token = self._login.bearer()
        except OSError as error:
            raise Unreachable(f"the token file cannot be read: {error}") from error
        if token:
            headers["Authorization"] = f"Bearer {token}"
        extensions: dict[str, Any] = {"trace": _Handshake()}
        if self._tls_name:
            extensions["sni_hostname"] = self._tls_name
        return self._client.build_request(
            method, path, params=params, content=content, headers=headers, timeout=timeout, extensions=extensions
        )

    async def _send(self, request: httpx.Request, *, stream: bool) -> httpx.Response:
        begun = time.monotonic()
        try:
            response = await self._client.send(request, stream=stream)
        except (httpx.HTTPError, ssl.SSLError, OSError) as error:
            self._note(request, NOT_CONNECTED if isinstance(error, httpx.ConnectTimeout) else UNANSWERED, begun)
            raise Unreachable(_words(error)) from error
        self._note(request, response.status_code, begun)
        self._compare_clocks(response)
        return response

    def _note(self, request: httpx.Request, outcome: int | str, begun: float) -> None:
        if self._heard is not None:
            self._heard(request.method, request.url.path, outcome, time.monotonic() - begun)

    def _compare_clocks(self, response: httpx.Response) -> None:
        try:
            date = email.utils.parsedate_to_datetime(response.headers["Date"])
        except (KeyError, ValueError):
            return
        if date.tzinfo is not None:  # of two dates, as a proxy may send them, Python makes one without a zone
            self.ahead = self._clock.now() - date


class _Handshake:
    """Trace of a request that closes the connection whose TLS handshake was cancelled; httpcore would leave it open."""

    _stream: Any = None  # httpcore.AsyncNetworkStream

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            self._stream = info["return_value"]
        elif event == "connection.start_tls.failed" and self._stream is not None:
            await self._stream.aclose()


async def _lines(response: httpx.Response) -> AsyncGenerator[bytes]:
    """Lines of a body as they end; one beyond any size that an API server allows ends the stream."""
    rest = bytearray()
    async for chunk in response.aiter_bytes():
        rest += chunk
        if len(rest) > LONGEST_LINE:
            raise Unreachable("a watch event is larger than any object can be")
        *lines, rest = rest.split(b"\n")
        for line in lines:
            yield bytes(line)


def _document(content: bytes) -> Doc:
    try:
        doc = json.loads(content)
    except ValueError as error:
        raise Unreachable("the answer is not JSON: something else than a Kubernetes API answers there") from error
    if not isinstance(doc, dict):
        raise Unreachable("the answer is no JSON object: something else than a Kubernetes API answers there")
    return doc


def refusal(response: httpx.Response) -> Refused:
    """What a response that is no success says, in the words of its Status or of HTTP."""
    try:
        doc = json.loads(response.content)
    except ValueError:
        doc = {}
    retry_after = response.headers.get("Retry-After", "")
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdecimal() else 0.0
    return _refusal_of(doc if isinstance(doc, dict) else {}, response.status_code, response.reason_phrase, seconds)


def _refusal_of(status: Doc, code: int, phrase: str = "", retry_after: float = 0) -> Refused:
    said = status.get("code")
    return Refused(
        said if isinstance(said, int) and not phrase else code,
        str(status.get("reason") or ""),
        str(status.get("message") or phrase),
        retry_after,
    )


def _words(error: Exception) -> str:
    """For the log: what failed, and for a certificate that is not trusted what may be done."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"the server's certificate is not trusted ({cause.verify_message}): the CA in the kubeconfig is another"
            )
        cause = cause.__cause__ or cause.__context__
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
