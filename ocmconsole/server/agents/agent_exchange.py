"""Requests of agents that are answered without Django: their lease, and the watches with which they come back.

Where ``lease_path`` or ``watch_path`` does not answer, the request is one as any other (``exchange``).
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access import request_limits
from ocmconsole.kubeapi.health import metrics
from ocmconsole.kubeapi.watch import streams
from ocmconsole.kubeapi.watch.open_watches import Watcher
from ocmconsole.server import intake
from ocmconsole.server.agents import direct_answers, lease_path, watch_path
from ocmconsole.server.exchange import Exchange
from ocmconsole.server.listeners import API
from ocmconsole.server.reply import extension
from ocmconsole.server.request_environ import environ_of

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, HTTPScope

    from ocmconsole.server.agents.lease_path import LeasePath
    from ocmconsole.server.request_threads import RequestThreads


class AgentExchange(Exchange):
    """One request to a listener that has a lease path."""

    def __init__(
        self,
        application: RequestThreads,
        leases: LeasePath,
        scope: HTTPScope,
        receive: ASGIReceiveCallable,
        send: ASGISendCallable,
    ) -> None:
        super().__init__(application, scope, receive, send)
        self.leases = leases

    async def answer(self) -> None:
        """An agent's lease and its watches by paths of their own, anything else by Django. Raises ClientGoneError."""
        if (visit := extension(self.scope, direct_answers.VISIT)) is not None:
            await self._answer_counted(visit)
            return
        asked = lease_path.recognise(self.scope)
        watch = watch_path.recognise(self.scope) if asked is None else None
        if asked is not None:
            head = {"REMOTE_ADDR": asked.address, "ocmconsole.peer_certificate": asked.certificate}
            await self.within_limits(head, partial(self._answer_agent, asked), is_heartbeat=True)
        elif watch is not None:
            head = {"REMOTE_ADDR": watch.address, "ocmconsole.peer_certificate": watch.certificate}
            await self.within_limits(head, partial(self._answer_watch, watch))
        else:
            await super().answer()

    async def _answer_counted(self, visit: request_limits.Visit) -> None:
        """What ``direct_answers`` has counted and left: a lease for Django, a watch that is due something first."""
        watch = watch_path.recognise(self.scope)
        try:
            if watch is not None:
                await self._answer_watch(watch, visit)
            else:
                await self._answer_by_django(visit)
        except request_limits.HeldBackError as error:
            self._note(visit, error.limit)
            await self.hold_back(error)
        finally:
            visit.leave()

    async def _answer_by_django(self, visit: request_limits.Visit) -> None:
        status = await self.answer_by_django(environ_of(self.scope, self.application.listener), visit)
        if visit.digest is not None and status == HTTPStatus.UNAUTHORIZED:
            self.leases.leases.forget(visit.digest)

    async def _answer_agent(self, asked: lease_path.AgentRequest, visit: request_limits.Visit) -> None:
        """By the lease path, or else as any other."""
        began = monotonic()
        answer = await self._agents_answer(asked, visit)
        if answer is not None:
            headers, at_once = direct_answers.headers_of_object(answer), extension(self.scope, intake.ANSWER)
            if at_once is None or not at_once(headers, answer):
                await self.start(HTTPStatus.OK, headers)
                await self.send_body(answer, more=False)
            elif self.span is not None:
                self.span.answered(HTTPStatus.OK)
            metrics.count_request(API, self.scope["method"], HTTPStatus.OK, monotonic() - began)
            return
        await self._answer_by_django(visit)

    async def _answer_watch(self, asked: watch_path.AgentWatch, visit: request_limits.Visit) -> None:
        """By the watch path, or else as any other."""
        began, digest = monotonic(), visit.digest
        standing = None
        if digest is not None and not visit.account.delay(began):  # else it waits its turn with the others
            agent = self.leases.leases.find(digest, asked.certificate)
            standing = await self.leases.standing(agent, asked.asked)
        if digest is None or standing is None:
            await self.answer_by_django(environ_of(self.scope, self.application.listener), visit)
            return
        direct_answers.settle(self.leases, visit, digest, agent)

        may_go_on = direct_answers.asking(self.leases, digest, asked)
        watcher = Watcher(visit.payer.name, asked.program, clock.now())
        stream = streams.Stream(
            asked.scope, may_go_on, judged=standing.ended_rights, standing=standing, watcher=watcher
        )
        visit.leave()
        with visit.watching():
            metrics.count_request(API, "GET", HTTPStatus.OK, monotonic() - began)
            await self.drain(HTTPStatus.OK, watch_path.HEADERS, stream.events(), stream.attach, stream.end)

    async def _agents_answer(self, asked: lease_path.AgentRequest, visit: request_limits.Visit) -> bytes | None:
        """None where the ordinary path must answer, which then finds the request as it came."""
        digest = visit.digest
        if digest is None or visit.account.delay(monotonic()):  # it waits its turn with the others
            return None
        if not self.leases.is_open(is_write=asked.is_write):
            return None
        agent = self.leases.leases.find(digest, asked.certificate)
        if asked.is_write and agent.actor is None and not intake.has_whole_body(self.scope):
            return None  # whose body may be waited for is judged by its head (D23)
        body = await self._small_body() if asked.is_write else b""
        answer = await self.leases.answer(agent, asked, body)
        if answer is not None:
            direct_answers.settle(self.leases, visit, digest, agent)
        return answer

    async def _small_body(self) -> bytes:
        """Of ``lease_path.LARGEST_BODY`` at most, as the head declares; the ordinary path receives it once more.

        Raises ClientGoneError.
        """
        body, more = b"", True
        async with asyncio.timeout(intake.BODY_SECONDS) if not intake.has_whole_body(self.scope) else nullcontext():
            while more:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    raise intake.ClientGoneError
                body += message["body"]  # type: ignore[typeddict-item] # an HTTPRequestEvent
                more = message["more_body"]  # type: ignore[typeddict-item] # likewise
        self.receive = _again({"type": "http.request", "body": body, "more_body": False}, self.receive)
        return body


def _again(message: ASGIReceiveEvent, receive: ASGIReceiveCallable) -> ASGIReceiveCallable:
    """Receives a message once more, then what follows."""
    left = [message]

    async def received() -> ASGIReceiveEvent:
        return left.pop() if left else await receive()

    return received
