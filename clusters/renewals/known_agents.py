"""Agents that show a certificate: who they are, and what they may, as this process remembers it.

Invariant: memory never decides alone. Each batch reads in the database how often rights or credentials may have ended
(``change_log.RightsCounts``): a batch of writes under the counter's lock, in the transaction that it is written by, a
batch of reads before its rows. Who was not examined since the last end is examined again, there and then, by the RBAC
index, which follows the log; where a credential may have ended by one query for all certificates of the batch too. Only
a yes is remembered, and a cluster that joins only gives rights. Revoking a certificate, deleting a binding and
deactivating an account each count one end in their own transaction. So whatever was acknowledged before a batch began
is in force for it, in every process and without a message that could be lost; and what is acknowledged later waits for
the counter, and so came after the batch.

An identity is its whole certificate: the key is the digest of all its bytes, which the TLS of this connection has
proven or a trusted proxy passes on. A certificate that the process has not seen before is read with all others of its
batch (``meet``): one query for the register, then the chain of those that are in it. Names outside of ``system:`` are
people's, whose accounts may be deactivated, and are never met; nor are members of ``system:masters``, nor certificates
that are not in the register: the ordinary path knows what to record of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from clusters.kinds import LEASE, LEASE_NAME
from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.access import authentication, request_limits
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.watch import change_log

# Of 1,400 bytes each, and 400 more for three watches; the one that was not used for longest is forgotten. Who is not
# known to the limits takes the ordinary path, so more would be of no use.
MOST_AGENTS = request_limits.MOST_CREDENTIALS
MOST_QUESTIONS = 12  # that are remembered of one agent; it needs two for its lease and one for each of its watches


@dataclass(slots=True, eq=False)
class KnownAgent:
    """``permitted``: what was asked, and as of how many ends of rights. ``until``: seconds since the epoch.

    ``honoured``: as of how many ended credentials its own had not, -1 where it is not known or not honoured.
    One that was not met yet has no ``actor``. ``certificate`` is what ``client_certificates`` remembers too.
    """

    fingerprint: str
    certificate: bytes = b""
    actor: Actor | None = None
    until: float = 0.0
    honoured: int = -1
    permitted: dict[Hashable, int] = field(default_factory=dict)


class KnownAgents:
    """By digest of the certificate. Called on the event loop; the functions below are, on the threads of batches."""

    def __init__(self) -> None:
        self._agents: OrderedDict[bytes, KnownAgent] = OrderedDict()

    def find(self, digest: bytes, certificate: bytes) -> KnownAgent:
        """Who shows this certificate, or a new one to be met, of whom nothing is kept."""
        return self.known(digest) or KnownAgent(digest.hex(), certificate)

    def known(self, digest: bytes) -> KnownAgent | None:
        agent = self._agents.get(digest)
        if agent is not None:
            self._agents.move_to_end(digest)
        return agent

    def keep(self, digest: bytes, agent: KnownAgent) -> None:
        """One that was met."""
        if digest in self._agents:
            return
        self._agents[digest] = agent
        if len(self._agents) > MOST_AGENTS:
            self._agents.popitem(last=False)

    def forget(self, digest: bytes) -> None:
        """After a refusal of the credential."""
        self._agents.pop(digest, None)


def meet(agents: Iterable[KnownAgent]) -> None:
    """Find out who the new ones are. Nothing is permitted by that; who is no agent in the register stays unknown.

    Not under the counter's lock: a chain takes 0.3 ms, and a process that has no RBAC index yet reads it here.
    """
    new = [agent for agent in agents if agent.actor is None]
    if not new:
        return
    found = authentication.actors_of_registered_certificates({agent.fingerprint: agent.certificate for agent in new})
    if found:
        rule_index.index.catch_up()  # which takes long the first time
    for agent in new:
        actor = found.get(agent.fingerprint)
        if actor is not None and not actor.is_master:
            agent.actor = actor


def ends_by_now() -> int:
    """How often rights may have ended. The RBAC index catches up by the way, not in a batch of writes."""
    counts = change_log.rights_counts()
    rule_index.index.as_of(counts.changes)
    return counts.ended_rights


def may(asked: Iterable[tuple[KnownAgent, str]], verb: str, ended_rights: int) -> list[bool]:
    """For each agent and namespace, whether the agent may do this with the lease there.

    ``ended_rights`` is how often rights may have ended, read in the present transaction. A no says only that the
    ordinary path must be asked: other authorizers may allow it, and it knows the words of a refusal.
    """
    questions = [(agent, (verb, namespace)) for agent, namespace in asked]
    return _permitted(questions, ended_rights, lambda place: verbs.attributes(LEASE, verb, Key(place[1], LEASE_NAME)))


def may_watch(asked: Iterable[tuple[KnownAgent, Attributes]], ended_rights: int) -> list[bool]:
    """For each agent, whether it may do what the attributes say; ``ended_rights`` and a no as of ``may``."""
    return _permitted(list(asked), ended_rights, lambda attributes: attributes)


def _permitted(
    asked: list[tuple[KnownAgent, Any]], ended_rights: int, spelled: Callable[[Any], Attributes]
) -> list[bool]:
    """``spelled`` makes the question of what is remembered for it."""
    now = clock.now().timestamp()
    due = [each for each in asked if each[0].actor is not None and not _is_examined(*each, ended_rights)]
    if due:
        _examine(due, spelled)
    return [_is_examined(agent, question, ended_rights) and now <= agent.until for agent, question in asked]


def _is_examined(agent: KnownAgent, question: Hashable, ended_rights: int) -> bool:
    return agent.permitted.get(question, -1) >= ended_rights


def _examine(due: list[tuple[KnownAgent, Any]], spelled: Callable[[Any], Attributes]) -> None:
    """The counts come first: what changes later counts one more."""
    counts = change_log.rights_counts()
    honoured = _honoured({agent for agent, _ in due}, counts.ended_credentials)
    tables = rule_index.index.as_of(counts.changes)
    for agent, question in due:
        actor = agent.actor
        decision = tables.decide(actor, spelled(question)) if agent in honoured and actor is not None else None
        if decision is None or not decision.allowed or decision.is_limited:
            agent.permitted.pop(question, None)
            continue
        if len(agent.permitted) >= MOST_QUESTIONS:
            agent.permitted.clear()
        agent.permitted[question] = counts.ended_rights


def _honoured(agents: set[KnownAgent], ended: int) -> set[KnownAgent]:
    """Those whose certificates have not ended; the register is asked for those that may have since they were looked up.

    What is remembered of an agent is written by several threads, of which one may be late: what this one finds counts.
    """
    found = {agent for agent in agents if agent.honoured == ended}
    old = agents - found
    if not old:
        return found
    register = authentication.honoured_certificates({agent.fingerprint for agent in old})
    for agent in old:
        expires = register.get(agent.fingerprint)
        agent.until, agent.honoured = (expires.timestamp(), ended) if expires is not None else (0.0, -1)
        if expires is not None:
            found.add(agent)
    return found
