"""Agents' leases and watches answered between the connection and their paths, without an ASGI task for each request.

A task, its messages and its futures were two thirds of what a renewal costs the event loop. A connection
(``connections``) offers here each request that has come whole, before it is parsed, where its head may be known by its
bytes (``known_heads``), and after. One that is not exactly an agent's, that the limits hold back, or that neither path
answers at once takes the ordinary way: ``agent_exchange`` then finds the visit, counted once.

Invariants: those of ``lease_path`` and ``watch_path``; whatever ``agent_exchange`` counts, charges and remembers of an
agent's request is counted, charged and remembered here. Called by ``request_threads`` on the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from ocmconsole.kubeapi import clock, spans
from ocmconsole.kubeapi.access import authentication, request_limits
from ocmconsole.kubeapi.health import metrics
from ocmconsole.kubeapi.watch import follower, streams
from ocmconsole.kubeapi.watch.open_watches import Watcher
from ocmconsole.kubeapi.watch.waiting_streams import WaitingStream, Wire
from ocmconsole.server.agents import known_heads, lease_path, watch_path
from ocmconsole.server.agents.known_heads import KnownHead
from ocmconsole.server.agents.lease_path import AgentRequest
from ocmconsole.server.agents.watch_path import AgentWatch
from ocmconsole.server.listeners import API

if TYPE_CHECKING:
    from uvicorn._types import HTTPScope

    from ocmconsole.kubeapi.watch.change_log import Standing
    from ocmconsole.server.agents.known_heads import WholeRequest
    from ocmconsole.server.agents.lease_path import LeasePath
    from ocmconsole.server.reply import Headers

VISIT = "ocmconsole.visit"  # in the scope's extensions: of a request that was left to the ordinary way


class Answering(Wire, Protocol):
    """As ``direct_answer.DirectAnswer``."""

    @property
    def data(self) -> bytes: ...

    @property
    def origin(self) -> bytes: ...

    def ordinary(self, extensions: dict[str, object]) -> bool: ...

    def whole(self, headers: Headers, body: bytes) -> None: ...

    def begin(self, headers: Headers, gone: Callable[[], None]) -> bool: ...


Ends = dict[Any, Callable[[], object]]  # of streams: what ends each


class DirectAnswers:
    """Of one listener. ``ends`` is what a server that stops calls."""

    def __init__(self, callers: request_limits.Callers, leases: LeasePath, ends: Ends) -> None:
        self.callers, self.leases, self.ends = callers, leases, ends
        self.heads = known_heads.KnownHeads()

    def take(self, scope: HTTPScope, body: bytes, wire: Answering) -> bool:
        """Whether the request is taken: then ``wire`` is used."""
        if spans.tracer is not None:  # each request is traced, by the exchange
            return False
        client = lease_path.recognise(scope) or watch_path.recognise(scope)
        if client is None:
            return False
        digest = request_limits.digest_of(client.certificate, "", client.address)
        assert digest is not None
        agent, request = self.leases.leases.find(digest, client.certificate), known_heads.taken_apart(wire.data)

        def remember() -> None:
            if request is not None:
                media = client.media if isinstance(client, AgentRequest) else b""
                self.heads.keep(request, wire.origin, KnownHead(digest, client.address, client.program, media))

        return self._take(client, body, agent, digest, lambda: wire, remember)

    def take_known(self, data: bytes, origin: bytes, wire: Callable[[], Answering]) -> bool:
        """The same for bytes that came alone, of which ``known_heads`` has the head; ``wire`` makes what is used."""
        if spans.tracer is not None or (request := known_heads.taken_apart(data)) is None:
            return False
        head = self.heads.find(request, origin)
        agent = None if head is None else self.leases.leases.known(head.digest)
        if head is None or agent is None:
            return False
        client = _asked_by(request, head, agent.certificate)
        return client is not None and self._take(client, request.body, agent, head.digest, wire, None)

    def _take(
        self,
        client: AgentRequest | AgentWatch,
        body: bytes,
        agent: Any,
        digest: bytes,
        wire: Callable[[], Answering],
        remember: Callable[[], None] | None,
    ) -> bool:
        if isinstance(client, AgentRequest) and not self.leases.is_open(is_write=client.is_write):
            return False
        visit = request_limits.Visit.of_digest(self.callers, digest, client.address)
        began = monotonic()
        if visit.account.delay(began):  # it waits its turn with the others
            return False
        try:
            visit.enter(has_certificate=True)
        except request_limits.HeldBackError:
            return False  # and is refused there
        direct = _Direct(self, wire(), visit, digest, agent, began, remember)
        if isinstance(client, AgentRequest):
            direct.answer(client, body)
        else:
            direct.open(client)
        return True


def _asked_by(request: WholeRequest, head: KnownHead, certificate: bytes) -> AgentRequest | AgentWatch | None:
    """As the paths' ``recognise``."""
    if not request.query:
        found = lease_path.PATH.fullmatch(request.path)
        if found is None:
            return None
        namespace = found[1].decode()
        return AgentRequest(namespace, certificate, head.address, request.is_write, head.media, head.program)
    asked = None if request.is_write else watch_path.asked_for(request.path, request.query)
    return None if asked is None else AgentWatch(certificate, head.address, *asked, head.program)


class _Direct:
    """One request that was taken. ``remember`` is called when it is answered."""

    __slots__ = ("agent", "answers", "began", "digest", "remember", "visit", "wire")

    def __init__(
        self,
        answers: DirectAnswers,
        wire: Answering,
        visit: request_limits.Visit,
        digest: bytes,
        agent: Any,
        began: float,
        remember: Callable[[], None] | None,
    ) -> None:
        self.answers, self.wire, self.visit, self.digest = answers, wire, visit, digest
        self.agent, self.began, self.remember = agent, began, remember

    def _leave_it(self) -> None:
        """To the ordinary way."""
        if not self.wire.ordinary({VISIT: self.visit}):
            self.visit.leave()

    def _is_good(self, method: str) -> None:
        metrics.count_request(API, method, HTTPStatus.OK, monotonic() - self.began)
        if self.remember is not None:
            self.remember()
        self.visit.leave()

    def answer(self, asked: AgentRequest, body: bytes) -> None:
        def done(answer: bytes | None) -> None:
            if answer is None:
                self._leave_it()
                return
            settle(self.answers.leases, self.visit, self.digest, self.agent)
            self._is_good("PUT" if asked.is_write else "GET")
            self.wire.whole(headers_of_object(answer), answer)

        self.answers.leases.begin(self.agent, asked, body, done)

    def open(self, watch: AgentWatch) -> None:
        def done(standing: Standing | None) -> None:
            if standing is None or not self._stream(watch, standing):
                self._leave_it()

        if not self.answers.leases.begin_watch(self.agent, watch.asked, done):
            self._leave_it()

    def _stream(self, watch: AgentWatch, standing: Standing) -> bool:
        """False where the ordinary stream has something to send first, or the limits hold it back."""
        visit = self.visit
        may_go_on = asking(self.answers.leases, self.digest, watch)
        name = visit.payer.name or self.agent.actor.user
        watcher = Watcher(name, watch.program, clock.now())
        stream = streams.Stream(
            watch.scope, may_go_on, judged=standing.ended_rights, standing=standing, watcher=watcher
        )
        waiting, is_begun = WaitingStream.begin(stream, self.agent.until), False
        if waiting is None:
            return False
        try:
            settle(self.answers.leases, visit, self.digest, self.agent)
            waiting.held.append(visit.watch())
            is_begun = self.wire.begin(watch_path.HEADERS, waiting.gone)
        except request_limits.HeldBackError:
            return False
        finally:
            if not is_begun:
                waiting.release()
        if not is_begun:
            return False
        self.answers.ends[waiting] = waiting.end
        waiting.held.append(partial(self.answers.ends.pop, waiting, None))
        self._is_good("GET")
        waiting.start(self.wire)
        return True


def asking(leases: LeasePath, digest: bytes, watch: AgentWatch) -> Callable[[], Awaitable[bool]]:
    """Whether the watch may go on: by its path, else as any other, where all that its request says of who asks counts.

    It has no header but those that ``AgentWatch`` keeps.
    """

    async def may_go_on() -> bool:
        agent = leases.leases.find(digest, watch.certificate)
        if await leases.standing(agent, watch.asked) is not None:
            return True
        environ: dict[str, object] = {
            "REMOTE_ADDR": watch.address,
            "ocmconsole.peer_certificate": watch.certificate,
            "HTTP_USER_AGENT": watch.program,
        }
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
