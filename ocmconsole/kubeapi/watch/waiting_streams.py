"""Watches that wait without a task: most of a hub's, of which each hears of one object that rarely changes.

A ``Stream`` that has nothing to send needs no generator, no task and no timeout of its own: the follower pushes what
comes (``Stream.push``), one timer tells when it ends, is due a bookmark or is to be judged again. Only what cannot be
written at once (the client does not read, rights may have ended) is sent by a task, which ends when nothing is left.

Invariants: those of ``streams``: no event is lost, repeated or out of order, and the lines are the same. A watch that
is due anything before what comes is refused by ``begin``: the ordinary stream replays. Lives on the follower's loop.
Called by ``server.agents.direct_answers``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.watch import follower, open_watches, streams

if TYPE_CHECKING:
    from ocmconsole.kubeapi.watch.change_log import ChangeEntry
    from ocmconsole.kubeapi.watch.streams import Stream

log = logging.getLogger(__name__)


class Wire(Protocol):
    """The connection of one watch, whose head is sent."""

    def write(self, chunks: Sequence[bytes]) -> bool:
        """As ``stream_response.Sink``."""
        ...

    async def room(self) -> None:
        """Wait until the client reads."""
        ...

    def finish(self, chunks: Sequence[bytes] = ()) -> bool:
        """These, and the stream is over; does nothing where the client has gone.

        False, with nothing done, where they have to wait.
        """
        ...

    def cut(self) -> None:
        """Close the connection without an end of the stream."""
        ...


class WaitingStream:
    """One watch. What is in ``held`` is called when it ends, the last first.

    ``until``, in seconds since the epoch, is when its credential ends.
    """

    def __init__(self, stream: Stream, followed: follower.Follower, until: float) -> None:
        self.stream, self.followed = stream, followed
        self.held: list[Callable[[], object]] = []
        self.checked = self.marked = monotonic()
        self.ends = self.checked + streams.lasting(stream)
        self.expires = self.checked + until - clock.now().timestamp()
        self.wire: Wire | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_over = False

    @classmethod
    def begin(cls, stream: Stream, until: float) -> WaitingStream | None:
        """Subscribed from its revision on, until it is released or over.

        None, and nothing done, where something is due before what comes.
        """
        followed, standing, named = (
            follower.follower(),
            stream.standing,
            int(stream.scope.options.resource_version or 0),
        )
        if standing is None or not followed.is_started or stream.scope.shape or stream.scope.deleting:
            return None
        if not standing.cuts.get(stream.kind.resource, 0) <= named <= standing.revision:
            return None
        listener = followed.listen(stream.topic)
        recent = followed.recent(stream.topic, named)
        if recent is None or recent:
            followed.forget(listener)
            return None
        stream.position, stream.listener = named, listener
        waiting = cls(stream, followed, until)
        waiting.held.append(partial(followed.forget, listener))
        if stream.watcher is not None:
            waiting.held.append(open_watches.note(stream.scope, stream.watcher))
        return waiting

    def release(self) -> None:
        while self.held:
            self.held.pop()()

    def start(self, wire: Wire) -> None:
        """The head was sent."""
        assert self.stream.listener is not None
        self.wire, self.stream.sink = wire, wire.write
        self.stream.listener.push, self.stream.listener.wake = self.stream.push, self._wake
        self._set_timer()
        if not self.stream.listener.queue.empty():
            self._wake()

    def end(self) -> None:
        """Because the server stops: what is there is sent, then a bookmark."""
        self.ends = 0.0
        self._wake()

    def gone(self) -> None:
        """The client has hung up."""
        self._close()

    def _set_timer(self) -> None:
        marks = self.marked + streams.BOOKMARK_SECONDS if self.stream.scope.options.bookmarks else self.ends
        at = min(self.ends, self.checked + streams.RECHECK_SECONDS, marks)
        self.timer = asyncio.get_running_loop().call_later(max(0.0, at - monotonic()), self._on_time)

    def _on_time(self) -> None:
        """A bookmark, or the end, is written at once; whether the watch may go on is asked by a task."""
        self.timer = None
        now = monotonic()
        if self.task is not None:
            self._set_timer() if now < self.ends else None
            return
        if now >= self.checked + streams.RECHECK_SECONDS:
            self.checked = now
            if self.stream.is_due(self.followed.ended_rights) or now > self.expires:
                self.stream.judged = -1
                self._wake()
                return
        if now >= self.ends:
            self._wake()
            return
        if self.stream.scope.options.bookmarks and now >= self.marked + streams.BOOKMARK_SECONDS:
            self.marked = now
            self._write([streams.here(self.stream)])
        self._set_timer()

    def _write(self, lines: list[bytes]) -> None:
        """Of what may be left out: the next bookmark says more."""
        if self.wire is not None:
            self.wire.write(lines)

    def _wake(self) -> None:
        """Something waits that was not pushed, or the watch is over."""
        if self.is_over or self.task is not None or self.wire is None:
            return
        listener = self.stream.listener
        assert listener is not None
        is_last = monotonic() >= self.ends and listener.queue.empty() and self.stream.judged >= 0
        if is_last and self._farewell():
            return
        listener.push = None
        self.task = asyncio.get_running_loop().create_task(self._catch_up())

    def _farewell(self) -> bool:
        """The last bookmark, at once; False where the client does not read."""
        wire = self.wire
        assert wire is not None
        if not wire.finish([streams.here(self.stream)] if self.stream.scope.options.bookmarks else []):
            return False
        self._close()
        return True

    async def _catch_up(self) -> None:
        """Everything that waits, at the client's pace; then it waits again without a task, or is over."""
        stream, wire = self.stream, self.wire
        listener = stream.listener
        assert wire is not None
        assert listener is not None
        try:
            while not self.is_over:
                batch: list[ChangeEntry] | None = [] if listener.queue.empty() else listener.queue.get_nowait()
                if batch is None or not await streams.is_still_allowed(stream, self.followed.ended_rights):
                    break
                await self._send([line async for line in streams.permitted(stream, batch)])
                if stream.is_over:
                    break
                if not listener.queue.empty():
                    continue
                if monotonic() < self.ends:
                    listener.push, self.task = stream.push, None
                    if self.timer is None:
                        self._set_timer()
                    return
                await self._send([streams.here(stream)] if stream.scope.options.bookmarks else [])
                break
        except stored_text.Unreadable as error:
            await self._send([streams.error_line(error)])
        except Exception:
            log.exception("a watch of %s is cut", stream.topic)
            if self._close():
                wire.cut()
            return
        self._finish()

    async def _send(self, lines: list[bytes]) -> None:
        wire = self.wire
        while lines and not self.is_over and wire is not None and not wire.write(lines):
            await wire.room()

    def _finish(self) -> None:
        wire = self.wire
        if self._close() and wire is not None:
            wire.finish()

    def _close(self) -> bool:
        if self.is_over:
            return False
        self.is_over, self.wire = True, None
        if self.timer is not None:
            self.timer.cancel()
        self.release()
        # Nothing of it waits for a look at garbage: hundreds end each second.
        stream, self.stream.sink = self.stream, None
        if stream.listener is not None:
            stream.listener.push = stream.listener.wake = None
        return True
