"""Agents' leases and watches answered between the connection and their paths, without an ASGI task for each request.

A task, its messages and its futures were two thirds of what a renewal costs the event loop. A connection of
``serving`` offers here each request that has come whole. One that is not exactly an agent's, that the limits hold back,
or that neither path answers at once takes the ordinary way: ``agent_exchange`` then finds the visit, counted once.

Invariants: those of ``lease_path`` and ``watch_path``; whatever ``agent_exchange`` counts, charges and remembers of an
agent's request is counted, charged and remembered here. Called by ``request_threads`` on the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, cast

from ocmconsole.kubeapi import clock, spans
from ocmconsole.kubeapi.access import authentication, request_limits
from ocmconsole.kubeapi.health import metrics
from ocmconsole.kubeapi.watch import follower, streams
from ocmconsole.kubeapi.watch.open_watches import Watcher
from ocmconsole.kubeapi.watch.waiting_streams import WaitingStream, Wire
from ocmconsole.server.agents import lease_path, watch_path
from ocmconsole.server.listeners import API
from ocmconsole.server.request_environ import environ_of

if TYPE_CHECKING:
    from uvicorn._types import HTTPScope

    from ocmconsole.kubeapi.watch.change_log import Standing
    from ocmconsole.server.agents.lease_path import AgentRequest, LeasePath
    from ocmconsole.server.agents.watch_path import AgentWatch
    from ocmconsole.server.reply import Headers

VISIT = "ocmconsole.visit"  # in the scope's extensions: of a request that was left to the ordinary way


class Answering(Wire, Protocol):
    """As ``serving.DirectAnswer``."""

    def ordinary(self) -> None: ...

    def whole(self, headers: Headers, body: bytes) -> None: ...

    def begin(self, headers: Headers, gone: Callable[[], None]) -> bool: ...


Ends = dict[Any, Callable[[], object]]  # of streams: what ends each


def take(
    callers: request_limits.Callers,
    leases: LeasePath,
    ends: Ends,
    scope: HTTPScope,
    body: bytes,
    wire: Answering,
) -> bool:
    """Whether the request is taken: then ``wire`` is used. ``ends`` is what a server that stops calls."""
    if spans.tracer is not None:  # each request is traced, by the exchange
        return False
    asked = lease_path.recognise(scope)
    watch = watch_path.recognise(scope) if asked is None else None
    client = asked or watch
    if client is None or (asked is not None and not leases.is_open(is_write=asked.is_write)):
        return False
    visit = request_limits.Visit.of(
        callers, {"REMOTE_ADDR": client.address, "ocmconsole.peer_certificate": client.certificate}
    )
    began = monotonic()
    if visit.digest is None or visit.account.delay(began):  # it waits its turn with the others
        return False
    try:
        visit.enter(has_certificate=True)
    except request_limits.HeldBackError:
        return False  # and is refused there
    direct = _Direct(leases, ends, scope, wire, visit, leases.leases.find(visit.digest, client.certificate), began)
    if asked is not None:
        direct.answer(asked, body)
    elif watch is not None:
        direct.open(watch)
    return True


class _Direct:
    """One request that was taken."""

    __slots__ = ("agent", "began", "ends", "leases", "scope", "visit", "wire")

    def __init__(
        self,
        leases: LeasePath,
        ends: Ends,
        scope: HTTPScope,
        wire: Answering,
        visit: request_limits.Visit,
        agent: Any,
        began: float,
    ) -> None:
        self.leases, self.ends, self.scope, self.wire = leases, ends, scope, wire
        self.visit, self.agent, self.began = visit, agent, began

    def _leave_it(self) -> None:
        """To the ordinary way."""
        cast("dict[str, Any]", self.scope["extensions"])[VISIT] = self.visit
        self.wire.ordinary()

    def _is_good(self) -> None:
        assert self.visit.digest is not None
        settle(self.leases, self.visit, self.visit.digest, self.agent)
        metrics.count_request(API, self.scope["method"], HTTPStatus.OK, monotonic() - self.began)
        self.visit.leave()

    def answer(self, asked: AgentRequest, body: bytes) -> None:
        def done(answer: bytes | None) -> None:
            if answer is None:
                self._leave_it()
                return
            self._is_good()
            self.wire.whole(headers_of_object(answer), answer)

        self.leases.begin(self.agent, asked, body, done)

    def open(self, watch: AgentWatch) -> None:
        def done(standing: Standing | None) -> None:
            if standing is None or not self._stream(watch, standing):
                self._leave_it()

        if not self.leases.begin_watch(self.agent, watch.asked, done):
            self._leave_it()

    def _stream(self, watch: AgentWatch, standing: Standing) -> bool:
        """False where the ordinary stream has something to send first, or the limits hold it back."""
        visit, digest = self.visit, self.visit.digest
        assert digest is not None
        may_go_on = asking(self.leases, digest, watch, self.scope)
        name = visit.payer.name or self.agent.actor.user
        watcher = Watcher(name, watch.program, clock.now())
        stream = streams.Stream(watch.scope, may_go_on, judged=standing.rights, standing=standing, watcher=watcher)
        with ExitStack() as held:
            waiting = WaitingStream.begin(stream, held, self.agent.until)
            if waiting is None:
                return False
            settle(self.leases, visit, digest, self.agent)
            try:
                held.enter_context(visit.watching())
            except request_limits.HeldBackError:
                return False
            if not self.wire.begin(watch_path.HEADERS, waiting.gone):
                return False
            self.ends[waiting] = waiting.end
            held.callback(self.ends.pop, waiting, None)
            waiting.held = held.pop_all()
        metrics.count_request(API, "GET", HTTPStatus.OK, monotonic() - self.began)
        visit.leave()
        waiting.start(self.wire)
        return True


def asking(leases: LeasePath, digest: bytes, watch: AgentWatch, scope: HTTPScope) -> Callable[[], Awaitable[bool]]:
    """Whether the watch may go on: by its path, else as any other."""

    async def may_go_on() -> bool:
        agent = leases.leases.find(digest, watch.certificate)
        if await leases.standing(agent, watch.asked) is not None:
            return True
        environ = environ_of(scope, API)
        return await follower.in_thread(authentication.may_still, environ, watch.asked, deleting=False)

    return may_go_on


def settle(leases: LeasePath, visit: request_limits.Visit, digest: bytes, agent: Any) -> None:
    """Charge who was answered without Django; who is new is known from now on."""
    if visit.account.name:
        visit.account.spend(lease_path.CPU_SECONDS)
    else:
        visit.settle(agent.actor, lease_path.NEW_CPU_SECONDS, is_refused=False)
    leases.leases.keep(digest, agent)


def headers_of_object(body: bytes) -> Headers:
    """Of an object in JSON, as ``responses.respond`` and ``_whole`` make them."""
    return [
        (b"cache-control", b"no-cache, private"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
