"""A fleet behind a proxy, as a process of its own: heartbeats and watches of many agents over connections that they share.

``python -m tests.bench.proxy_agents``, started by ``fleets``. One thread on epoll, without asyncio: what the asking costs
leaves two cores to the hub. Lines of JSON come in, the first one a ``Plan``; ``take`` is answered with what has happened
since the last one.

Each agent renews its lease (GET, then PUT) once in a period and opens its three watches anew once in their lifetime,
as real ones do, whether the hub has answered those before or not: what is late is late, and counts from when it was due.
A request that failed is made again a few seconds later. Watches are held shorter than by agents and opened at the rate
of all: fewer are open at one time. One that the hub ends early is opened again at once, from where it was.
"""

from __future__ import annotations

import gc
import heapq
import json
import os
import random
import select
import socket
import ssl
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench import machine, pooled

PATHS = (
    "/apis/cluster.open-cluster-management.io/v1/managedclusters?fieldSelector=metadata.name%3D{0}",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests?labelSelector=open-cluster-management.io%2Fcluster-name%3D{0}",
    "/apis/addon.open-cluster-management.io/v1beta1/namespaces/{0}/managedclusteraddons?",
)
WATCHES = len(PATHS)
RETRY = (2.0, 5.0)  # seconds after which a failed request is made again
SOON = (0.2, 2.0)  # seconds after which a watch that was ended early is opened again
RECONNECT = 0.3  # seconds after a refused connection
OPENERS = 64  # handshakes at one time
LOOK = 0.002  # seconds of a wait, at most
EARLY = 1.0  # seconds before its end, at which a watch was ended early
LATEST = 4_000  # sampled latencies of each sort that are told
READ, WRITE = select.EPOLLIN, select.EPOLLOUT
REVISION = b'"resourceVersion":"'


@dataclass(frozen=True)
class Plan:
    """``servers`` are host:port; the first ``clusters`` lines of ``agents`` are the fleet, shown in a fixed disorder."""

    servers: list[str]
    ca: str
    agents: str
    clusters: int
    period: float = 60.0
    lifetime: float = 450.0
    held: float = 12.0
    renewing: int = 256
    watches: int = WATCHES
    offset: int = 0
    step: int = 1
    heartbeats: bool = True


@dataclass(slots=True, eq=False)
class Act:
    """One heartbeat, or one watch of an agent. ``due`` is when it should have begun."""

    agent: int
    kind: str
    due: float
    path: str = ""
    revision: bytes = b""
    held: int = 0  # seconds of a watch, if not those of the plan


class Link:
    """One connection; ``act`` is what it carries now."""

    __slots__ = ("act", "agent", "buffer", "fd", "is_open", "is_put", "is_streaming", "pool", "role", "sock", "until")

    def __init__(self, pool: Pool, sock: ssl.SSLSocket, agent: int = 0, role: int = 0) -> None:
        self.pool, self.sock, self.fd = pool, sock, sock.fileno()
        self.agent, self.role = agent, role
        self.act: Act | None = None
        self.buffer = b""
        self.is_open = self.is_put = self.is_streaming = False
        self.until = 0.0


@dataclass(eq=False)
class Pool:
    wanted: int
    made: int = 0
    free: deque[Link] = field(default_factory=deque)
    waiting: deque[Act] = field(default_factory=deque)


def lines_of(plan: Plan) -> list[dict[str, str]]:
    """Name, certificate and key of each agent of this process, in a disorder that is the same each time."""
    with Path(plan.agents).open("rb") as file:
        lines = [json.loads(line) for line in file]
    lines = lines[: plan.clusters][plan.offset :: plan.step]
    random.Random(1).shuffle(lines)  # noqa: S311 - as it says
    return lines


class Fleet:
    """All of it. Times are of the monotonic clock."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        lines = lines_of(plan)
        host = plan.servers[0]
        self.heads = [pooled.head_lines(host, each["certificate"]) for each in lines]
        self.names = [each["name"] for each in lines]
        self.leases = [pooled.LEASE.format(name) for name in self.names]
        self.count = len(lines)
        self.servers = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in plan.servers)]
        self.turn = 0
        self.tls = ssl.create_default_context(cafile=plan.ca)
        self.epoll = select.epoll()
        self.links: dict[int, Link] = {}
        opens = plan.watches * self.count / plan.lifetime
        self.renewals = Pool(min(plan.renewing, max(8, self.count)))
        self.watches = Pool(round(opens * plan.held * 1.8) + 4 if plan.watches else 0)
        self.opening, self.openers = 0, OPENERS
        self.later: list[tuple[float, int, Callable[[], None]]] = []
        self.number = 0
        self.revision = b"0"
        self.renewing: set[int] = set()  # agents that wait for the answer to a heartbeat
        self.is_cut = False
        self.pace = 1.0
        self.has_watches = True
        self.forget()
        self.clear()
        now = time.monotonic()
        self.next_beat, self.beat = now, 0
        self.next_open, self.open_turn = now, 0
        self.every_beat = plan.period / self.count
        self.every_open = 1 / opens if plan.watches else 0.0

    # ---------------------------------------------------------------- what is told

    def clear(self) -> None:
        self.taken: dict[str, list[float]] = {"GET": [], "PUT": [], "pair": [], "watch": []}
        self.failures: Counter[str] = Counter()
        self.due: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.began, self.cpu = time.monotonic(), time.process_time()

    def forget(self) -> None:
        """Nobody was heard since now."""
        self.heard: set[int] = set()
        self.back: Counter[int] = Counter()  # watches of an agent that were answered since
        self.since, self.last, self.last_back = time.monotonic(), 0.0, 0.0

    def told(self) -> dict[str, Any]:
        now = time.monotonic()
        found = {
            "seconds": now - self.began,
            "cpu": time.process_time() - self.cpu,
            "due": dict(self.due),
            "done": {sort: len(each) for sort, each in self.taken.items()},
            "ms": {sort: _spread(each) for sort, each in self.taken.items() if each},
            "failures": dict(self.failures.most_common(8)),
            "ended": dict(self.ended),
            "heard": len(self.heard),
            "last_heard": self.last - self.since if self.heard else 0.0,
            "agents": self.count,
            "waiting": {"renewals": len(self.renewals.waiting), "watches": len(self.watches.waiting)},
            "links": {
                "renewals": self.renewals.made,
                "watches": self.watches.made,
                "streams": sum(each.is_streaming for each in self.links.values()),
            },
        }
        self.clear()
        return found

    # ---------------------------------------------------------------- the loop

    def run(self) -> None:
        commands = sys.stdin.fileno()
        os.set_blocking(commands, False)
        self.epoll.register(commands, READ)
        pending = b""
        while True:
            for fd, _ in self.epoll.poll(self._wait()):
                if fd != commands:
                    if (link := self.links.get(fd)) is not None:
                        self._ready(link)
                    continue
                if not (read := os.read(commands, 65_536)):
                    return
                pending += read
                *whole, pending = pending.split(b"\n")
                for line in whole:
                    self._command(json.loads(line))
            self._tick()

    def _wait(self) -> float:
        now = time.monotonic()
        nearest = min(self.next_beat, self.next_open or now + LOOK, self.later[0][0] if self.later else now + LOOK)
        return max(0.0, min(LOOK, nearest - now))

    def _command(self, said: dict[str, Any]) -> None:
        what = said["do"]
        if what == "take":
            sys.stdout.write(json.dumps(self.told()) + "\n")
            sys.stdout.flush()
        elif what == "forget":
            self.forget()
        elif what == "cut":
            self._cut_off()
        elif what == "back":
            self._come_back()
        elif what == "watches":
            self.has_watches = said["on"]
        elif what == "pace":
            self.pace = said["times"]
            self._drop()

    def _tick(self) -> None:
        now = time.monotonic()
        while self.later and self.later[0][0] <= now:
            heapq.heappop(self.later)[2]()
        if self.is_cut:
            self.next_beat = self.next_open = now
            return
        self._connect()
        while self.plan.heartbeats and self.next_beat <= now:
            self._beat(self.beat % self.count, self.next_beat)
            self.beat += 1
            self.next_beat += self.every_beat / self.pace
        if not self.plan.heartbeats:
            self.next_beat = now + 1
        self._tick_watches(now)

    def _beat(self, agent: int, due: float) -> None:
        """An agent whose last heartbeat still waits begins no other."""
        if agent in self.renewing:
            self.due["left out"] += 1
        else:
            self.renewing.add(agent)
            self._due(self.renewals, Act(agent, "pair", due))

    def _tick_watches(self, now: float) -> None:
        if not self.has_watches:
            self.next_open = now + LOOK
        while self.plan.watches and self.revision != b"0" and self.next_open <= now:
            turn, self.open_turn = self.open_turn, self.open_turn + 1
            agent, path = turn // WATCHES % self.count, PATHS[turn % WATCHES]
            self._due(self.watches, Act(agent, "watch", self.next_open, path))
            self.next_open += self.every_open / self.pace
        if self.revision == b"0":
            self.next_open = now

    def _due(self, pool: Pool, act: Act) -> None:
        self.due[act.kind] += 1
        self._begin(pool, act)

    def _begin(self, pool: Pool, act: Act) -> None:
        if pool.free:
            self._carry(pool.free.pop(), act)
        else:
            pool.waiting.append(act)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.later, (time.monotonic() + seconds, self.number, act))

    # ---------------------------------------------------------------- connections

    def _connect(self) -> None:
        for pool in (self.renewals, self.watches):
            while pool.made < pool.wanted and self.opening < self.openers:
                self._open(pool)

    def _open(self, pool: Pool) -> None:
        pool.made += 1
        self.opening += 1
        self.turn += 1
        address = self.servers[self.turn % len(self.servers)]
        raw = socket.socket()
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.connect_ex(address)
        sock = self._wrapped(raw, self.tls, address[0])
        if sock is None:
            self._after(RECONNECT, lambda: self._forget_one(pool))
        else:
            self._add(Link(pool, sock))

    def _wrapped(self, raw: socket.socket, tls: ssl.SSLContext, name: str) -> ssl.SSLSocket | None:
        """None where the connection was refused at once."""
        try:
            return tls.wrap_socket(raw, server_hostname=name, do_handshake_on_connect=False)
        except OSError:
            raw.close()
            self.opening -= 1
            return None

    @staticmethod
    def _forget_one(pool: Pool) -> None:
        pool.made -= 1

    def _add(self, link: Link) -> None:
        self.links[link.fd] = link
        self.epoll.register(link.fd, READ | WRITE)

    def _shake(self, link: Link) -> None:
        try:
            link.sock.do_handshake()
        except ssl.SSLWantReadError:
            self.epoll.modify(link.fd, READ)
        except ssl.SSLWantWriteError:
            self.epoll.modify(link.fd, READ | WRITE)
        except OSError as error:
            self._lose(link, f"connect: {type(error).__name__}")
        else:
            self.epoll.modify(link.fd, READ)
            link.is_open = True
            self.opening -= 1
            self._free(link)

    def _free(self, link: Link) -> None:
        link.act, link.buffer, link.is_put, link.is_streaming = None, b"", False, False
        if link.pool.waiting:
            self._carry(link, link.pool.waiting.popleft())
        else:
            link.pool.free.append(link)

    def _lose(self, link: Link, why: str) -> None:
        """The hub is away, or has ended this connection. What it carried is made again."""
        if self.links.pop(link.fd, None) is None:
            return
        pool, act = link.pool, link.act
        if not link.is_open:
            self.opening -= 1
        elif act is None:
            with suppress(ValueError):
                pool.free.remove(link)
        with suppress(OSError, ValueError):
            self.epoll.unregister(link.fd)
        link.sock.close()
        is_refused = not link.is_open

        if is_refused:
            self._after(RECONNECT, lambda: self._forget_one(pool))
        else:
            self._forget_one(pool)
        if act is None:
            return
        if link.is_streaming:
            self._stream_ended(link, act)
        else:
            self._failed(act, why)

    def _failed(self, act: Act, why: str) -> None:
        self.failures[f"{act.kind}: {why}"] += 1
        self._again(act, RETRY)

    def _again(self, act: Act, pause: tuple[float, float]) -> None:
        if self.is_cut:
            return
        pool = self.renewals if act.kind == "pair" else self.watches
        wait = random.uniform(*pause)  # noqa: S311 - spreads them
        act.due = time.monotonic() + wait
        self._after(wait, lambda: None if self.is_cut else self._begin(pool, act))

    def _stream_ended(self, link: Link, act: Act) -> None:
        is_early = time.monotonic() < link.until - EARLY
        self.ended["early" if is_early else "whole"] += 1
        if is_early:
            self._again(act, SOON)

    # ---------------------------------------------------------------- requests

    def _carry(self, link: Link, act: Act) -> None:
        link.act, link.buffer, link.is_put, link.is_streaming = act, b"", False, False
        head = self.heads[act.agent]
        if act.kind == "pair":
            self._send(link, pooled.request("GET", self.leases[act.agent], head))
            return
        revision = act.revision or self.revision
        act.revision = revision
        held = act.held or self.plan.held
        query = f"&watch=true&allowWatchBookmarks=true&timeoutSeconds={held:.0f}&resourceVersion={revision.decode()}"
        self._send(link, pooled.request("GET", act.path.format(self.names[act.agent]) + query, head))

    def _send(self, link: Link, request: bytes) -> None:
        try:
            sent = link.sock.send(request)
        except OSError as error:  # also one that would block: a request of 3 KB never does on a connection that rests
            self._lose(link, f"send: {type(error).__name__}")
            return
        if sent != len(request):
            self._lose(link, "send: half")

    def _ready(self, link: Link) -> None:
        if not link.is_open:
            self._shake(link)
            return
        try:
            while True:
                if not (read := link.sock.recv(65_536)):
                    self._lose(link, "closed")
                    return
                link.buffer = link.buffer + read if link.buffer else read
                if not link.sock.pending():
                    break
        except ssl.SSLWantReadError:
            pass
        except OSError as error:
            self._lose(link, f"read: {type(error).__name__}")
            return
        if link.act is None:
            self._lose(link, "unasked")
        elif link.is_streaming:
            self._stream(link, link.act)
        else:
            self._answered(link, link.act)

    def _answered(self, link: Link, act: Act) -> None:
        seen = link.buffer
        end = seen.find(b"\r\n\r\n")
        if end < 0:
            return
        status, head = int(seen[9:12]), seen[:end].lower()
        if act.kind == "watch" and status == pooled.OK:
            self._opened(link, act, seen[end + 4 :])
            return
        at = head.find(b"content-length:")
        if at < 0:
            if not seen.endswith(pooled.END_OF_CHUNKS):
                return
            body = seen[end + 4 :]
        else:
            length = int(head[at + 15 :].partition(b"\r\n")[0])
            if len(seen) < end + 4 + length:
                return
            body = seen[end + 4 : end + 4 + length]
        closes = b"connection: close" in head
        if status != pooled.OK:
            link.act = None
            self._failed(act, f"{status} {body[:160].decode(errors='replace')}")
        elif not link.is_put and not closes:
            self._renew(link, act, body)
            return
        elif not link.is_put:  # a server that stops: the PUT goes to another one
            link.act = None
            self._again(act, (0.0, 0.1))
        else:
            self._renewed(act, body)
        if closes:
            link.act = None
            self._lose(link, "")
        else:
            self._free(link)

    def _renew(self, link: Link, act: Act, lease: bytes) -> None:
        now = time.monotonic()
        self.taken["GET"].append(now - act.due)
        link.is_put, link.buffer, link.until = True, b"", now
        body = pooled.renewed(lease)
        self._send(link, pooled.request("PUT", self.leases[act.agent], self.heads[act.agent], body))

    def _renewed(self, act: Act, lease: bytes) -> None:
        now = time.monotonic()
        self.renewing.discard(act.agent)
        self.taken["pair"].append(now - act.due)
        begin = lease.index(REVISION) + len(REVISION)
        self.revision = lease[begin : lease.index(b'"', begin)]
        if act.agent not in self.heard:
            self.heard.add(act.agent)
            self.last = now

    def _opened(self, link: Link, act: Act, rest: bytes) -> None:
        now = time.monotonic()
        self.taken["watch"].append(now - act.due)
        link.is_streaming, link.buffer, link.until = True, rest, now + (act.held or self.plan.held)
        if rest:
            self._stream(link, act)

    def _stream(self, link: Link, act: Act) -> None:
        """What is in it is forgotten, but for its end, and errors."""
        if b'"type":"ERROR"' in link.buffer:
            self.failures[f"watch: {link.buffer[:200].decode(errors='replace')}"] += 1
            act.revision = b""
        if link.buffer.endswith(pooled.END_OF_CHUNKS):
            self._stream_ended(link, act)
            self._free(link)
        else:
            link.buffer = link.buffer[-len(pooled.END_OF_CHUNKS) :]

    # ---------------------------------------------------------------- all at once

    def _cut_off(self) -> None:
        """As when the network is away: no agent says or hears anything."""
        self.is_cut = True
        for link in list(self.links.values()):
            link.act = None
            self._lose(link, "")
        for pool in (self.renewals, self.watches):
            pool.waiting.clear()
        self.renewing.clear()
        self.later.clear()
        self.renewals.made = self.watches.made = self.opening = 0

    def _drop(self) -> None:
        """What waits for a connection is left out, so that what follows begins without it."""
        self.renewing.difference_update(act.agent for act in self.renewals.waiting)
        for pool in (self.renewals, self.watches):
            pool.waiting.clear()

    def _come_back(self) -> None:
        """All of them in one moment; from then on in their turns."""
        self.is_cut = False
        now = time.monotonic()
        self.forget()
        for agent in range(self.count):
            self._beat(agent, now)
        self.next_beat = now + self.plan.period
        self.next_open = now


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    last = len(ordered) - 1
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: round(1000 * ordered[round(last * share)], 1) for name, share in at.items()}


def begin(kind: Callable[[Plan], Fleet]) -> None:
    machine.allow_many_files()
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as commands:
        plan = Plan(**json.loads(commands.readline()))
    fleet = kind(plan)
    gc.disable()  # what a fleet makes has no cycles, and a look at all of it takes long
    sys.stdout.write('{"ready": true}\n')
    sys.stdout.flush()
    fleet.run()


if __name__ == "__main__":
    begin(Fleet)
