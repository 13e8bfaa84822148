"""A fleet whose agents have connections of their own: ``proxy_agents`` without a proxy.

``python -m tests.bench.own_agents``, started by ``fleets``. Each agent has four TLS connections, as one over HTTP/1.1:
one for its lease and one for each watch, made with its certificate, from loopback addresses that have ports enough.
A watch lasts as long as an agent asks for and is opened again on its connection.
"""

from __future__ import annotations

import random
import socket
import ssl
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench import pooled
from tests.bench.proxy_agents import PATHS, RECONNECT, WATCHES, Act, Fleet, Link, Plan, Pool, begin, lines_of

LEASE_ROLE = WATCHES  # the other roles are places in ``PATHS``
LONGEST = (300, 600)  # seconds of a watch
SOURCE = 5_000  # agents that call from one address: 20,000 of the 28,232 ports that Linux has for them


class OwnFleet(Fleet):
    """``links`` of an agent are told apart by their ``role``; one that is free waits for its own act."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        host = plan.servers[0]
        self.heads = [pooled.head_lines(host)] * self.count
        self.contexts = [self._context(plan, line) for line in lines_of(plan)]
        # The last come first: leases, whose answers say from which revision watches go on.
        self.to_open = [(agent, role) for role in range(WATCHES + 1) for agent in range(self.count)]
        self.mine: dict[tuple[int, int], Link] = {}
        self.late: dict[tuple[int, int], Act] = {}
        self.number_of_process = plan.offset
        self.next_beat = time.monotonic() + plan.period  # when most are connected

    @staticmethod
    def _context(plan: Plan, line: dict[str, Any]) -> ssl.SSLContext:
        tls = ssl.create_default_context(cafile=plan.ca)
        with tempfile.NamedTemporaryFile("w", suffix=".pem", dir="/dev/shm") as pair:
            pair.write(line["certificate"] + line["key"])
            pair.flush()
            tls.load_cert_chain(Path(pair.name))
        return tls

    def _connect(self) -> None:
        while self.to_open and self.opening < self.openers:
            agent, role = self.to_open.pop()
            self._open_own(agent, role)

    def _open_own(self, agent: int, role: int) -> None:
        self.opening += 1
        server = self.servers[agent % len(self.servers)]
        raw = socket.socket()
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
        raw.bind((f"127.0.{1 + self.number_of_process}.{1 + agent // SOURCE}", 0))
        raw.connect_ex(server)
        sock = self._wrapped(raw, self.contexts[agent], server[0])
        if sock is None:
            self._after(RECONNECT, lambda: self.to_open.append((agent, role)))
            return
        self._add(Link(self.watches if role < LEASE_ROLE else self.renewals, sock, agent, role))

    def _free(self, link: Link) -> None:
        """First connected, or its act is over."""
        link.act, link.buffer, link.is_put, link.is_streaming = None, b"", False, False
        place = link.agent, link.role
        if place not in self.mine:
            self.mine[place] = link
            link.pool.made += 1
        act = self.late.pop(place, None)
        if act is None and link.role < LEASE_ROLE:
            act = self._watch(link.agent, link.role)
        elif act is None and link.agent not in self.heard:
            self.due["pair"] += 1
            act = Act(link.agent, "pair", time.monotonic())
        if act is not None:
            self._carry(link, act)

    def _watch(self, agent: int, role: int) -> Act:
        self.due["watch"] += 1
        return Act(agent, "watch", time.monotonic(), PATHS[role], held=random.randint(*LONGEST))  # noqa: S311 - spreads

    def _begin(self, pool: Pool, act: Act) -> None:  # noqa: ARG002 - an agent has its own
        place = act.agent, PATHS.index(act.path) if act.path else LEASE_ROLE
        link = self.mine.get(place)
        if link is not None and link.act is None and link.is_open:
            self._carry(link, act)
        else:
            self.late[place] = act

    def _lose(self, link: Link, why: str) -> None:
        super()._lose(link, why)
        self.mine.pop((link.agent, link.role), None)
        self._after(RECONNECT, lambda: self.to_open.append((link.agent, link.role)))

    def _tick_watches(self, now: float) -> None:
        self.next_open = now + 1


if __name__ == "__main__":
    begin(OwnFleet)
