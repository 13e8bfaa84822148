"""Batches of the lease path: many leases read by one query, many renewals written by one transaction.

And many watches of agents let in by one query. Called by ``server.agents.lease_path`` on a thread for reads, one for
watches and one for writes, which keep their database connections.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from django.db import close_old_connections, connection

from clusters.kinds import LEASE, LEASE_NAME
from clusters.renewals import known_agents, lease_documents
from clusters.renewals.known_agents import KnownAgent, KnownAgents
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.watch import change_log
from ocmconsole.kubeapi.writes import renewals

if TYPE_CHECKING:
    from datetime import datetime

    from ocmconsole.kubeapi.access.authorization import Attributes
    from ocmconsole.kubeapi.watch.change_log import Standing
    from ocmconsole.kubeapi.writes.renewals import Renewal
    from ocmconsole.server.agents.lease_path import Renewing

MOST_TEXTS = 16_384  # leases of 1 KiB each that were read or renewed last; an agent's PUT follows its GET


class LeaseBatches:
    """As ``lease_path.Leases`` says."""

    def __init__(self) -> None:
        self._agents = KnownAgents()
        self._texts: OrderedDict[str, str] = OrderedDict()  # by namespace
        self._lock = threading.Lock()  # of the texts, which both threads use

    def find(self, digest: bytes, certificate: bytes) -> KnownAgent:
        return self._agents.find(digest, certificate)

    def known(self, digest: bytes) -> KnownAgent | None:
        return self._agents.known(digest)

    def keep(self, digest: bytes, agent: KnownAgent) -> None:
        self._agents.keep(digest, agent)

    def forget(self, digest: bytes) -> None:
        self._agents.forget(digest)

    def read(self, asked: Sequence[tuple[KnownAgent, str]]) -> list[bytes | None]:
        """The texts of leases, None where the ordinary path must answer."""
        close_old_connections()
        known_agents.meet(agent for agent, _ in asked)
        permitted = known_agents.may(asked, "get", known_agents.ends_by_now())
        texts = _stored(
            {namespace for (_, namespace), is_permitted in zip(asked, permitted, strict=True) if is_permitted}
        )
        self._remember(texts)
        return [
            texts[namespace].encode() if is_permitted and namespace in texts else None
            for (_, namespace), is_permitted in zip(asked, permitted, strict=True)
        ]

    def watch(self, asked: Sequence[tuple[KnownAgent, Attributes]]) -> list[Standing | None]:
        """Where the log stands, for those who may; None where the ordinary path must answer."""
        close_old_connections()
        known_agents.meet(agent for agent, _ in asked)
        standing = change_log.standing()
        permitted = known_agents.may_watch(asked, standing.ended_rights)
        return [standing if is_permitted else None for is_permitted in permitted]

    def renew(self, asked: Sequence[Renewing]) -> list[bytes | None]:
        """The texts of leases as they are stored now, None where nothing was written for that request."""
        close_old_connections()
        known_agents.meet(each.agent for each in asked)
        mine = self._proposed(asked)
        begun = {
            renewal.key.namespace: (renewal, each.agent) for renewal, each in zip(mine, asked, strict=True) if renewal
        }

        def refused(ended_rights: int, left: Sequence[Renewal]) -> list[Renewal]:
            agents = [(begun[renewal.key.namespace][1], renewal.key.namespace) for renewal in left]
            permitted = known_agents.may(agents, "update", ended_rights)
            return [renewal for renewal, is_permitted in zip(left, permitted, strict=True) if not is_permitted]

        todo = [renewal for renewal, _ in begun.values()]
        done = {
            renewal.key.namespace: renewal.text
            for renewal in renewals.commit(LEASE, lease_documents.COLUMNS, todo, refused)
        }
        self._remember(done)
        self._forget(begun.keys() - done.keys())
        return [
            done[renewal.key.namespace].encode() if renewal is not None and renewal.key.namespace in done else None
            for renewal in mine
        ]

    def _proposed(self, asked: Sequence[Renewing]) -> list[Renewal | None]:
        """What each wants to write, in order; one for a namespace, as who comes second has an old version.

        A text in memory is an old one where another process has renewed the lease; then the present one is read.
        """
        now = clock.now()
        found: list[Renewal | None] = []
        known = self._known_texts({each.namespace for each in asked})
        begun = set()
        old = {}
        for at, each in enumerate(asked):
            renewal = _renewed(each, known, now) if each.namespace not in begun else None
            found.append(renewal)
            if renewal is not None:
                begun.add(each.namespace)
            elif each.namespace not in begun:
                old[each.namespace] = at
        present = _stored(old.keys()) if old else {}
        for namespace, at in old.items():
            if namespace in begun or present.get(namespace) == known.get(namespace):
                continue
            found[at] = _renewed(asked[at], present, now)
        return found

    def _known_texts(self, namespaces: Iterable[str]) -> dict[str, str]:
        with self._lock:
            return {name: self._texts[name] for name in namespaces if name in self._texts}

    def _remember(self, texts: dict[str, str]) -> None:
        with self._lock:
            for namespace, text in texts.items():
                self._texts[namespace] = text
                self._texts.move_to_end(namespace)
            while len(self._texts) > MOST_TEXTS:
                self._texts.popitem(last=False)

    def _forget(self, namespaces: set[str]) -> None:
        with self._lock:
            for namespace in namespaces:
                self._texts.pop(namespace, None)


def _renewed(asked: Renewing, texts: Mapping[str, str], now: datetime) -> Renewal | None:
    text = texts.get(asked.namespace)
    if text is None:
        return None
    return lease_documents.renewed(asked.body, asked.media, text, manager=asked.manager, now=now)


def _stored(namespaces: Collection[str]) -> dict[str, str]:
    """Texts of leases by namespace. One query by keys."""
    if not namespaces:
        return {}
    table = connection.ops.quote_name(LEASE.model._meta.db_table)  # noqa: SLF001 - Django's documented name
    places = ", ".join(["%s"] * len(namespaces))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT namespace, wire FROM {table} WHERE namespace IN ({places}) AND name = %s",  # noqa: S608 - as above
            [*namespaces, LEASE_NAME],
        )
        return dict(cursor.fetchall())
