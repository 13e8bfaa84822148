"""Agents whose requests the ordinary path has let in: who they are, and what they may, as this process remembers it.

Invariant: memory never decides alone. Each batch reads in the database how often rights or credentials have changed
(``Revision.rights``): a batch of writes under the counter's lock, in the transaction that it is written by, a batch of
reads before its rows. Who was not examined since the last change is examined again, there and then: one query for all
certificates of the batch, and the RBAC index, which follows the log. Revoking a certificate, deleting a binding and
deactivating an account each count one change in their own transaction. So whatever was acknowledged before a batch
began is in force for it, in every process and without a message that could be lost; and what is acknowledged later
waits for the counter, and so came after the batch.

An identity is its whole certificate: the key is the digest of all its bytes, which the TLS of this connection has
proven or a trusted proxy passes on. Names outside of ``system:`` are people's, whose accounts may be deactivated, and
are never remembered; nor are members of ``system:masters``, nor certificates that are not in the register.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from clusters.kinds import LEASE, LEASE_NAME
from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.access import authentication, request_limits
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key

# Of 1,400 bytes each; the one that was not used for longest is forgotten. Who is not known to the limits takes the
# ordinary path, so more would be of no use.
MOST_AGENTS = request_limits.MOST_CREDENTIALS
MOST_PLACES = 8  # verbs and namespaces that are remembered of one agent; its own namespace needs two
CERTIFICATE = "cert:"  # how ``Actor.credential`` begins for a certificate


@dataclass(slots=True, eq=False)
class KnownAgent:
    """``permitted``: verb and namespace, and as of how many changes of rights. ``until``: seconds since the epoch."""

    actor: Actor
    fingerprint: str
    until: float = 0.0
    permitted: dict[tuple[str, str], int] = field(default_factory=dict)


class KnownAgents:
    """By digest of the certificate. All but ``may`` is called on the event loop, that on a batch's thread."""

    def __init__(self) -> None:
        self._agents: OrderedDict[bytes, KnownAgent] = OrderedDict()

    def learn(self, digest: bytes, actor: Actor) -> None:
        """After a request that the ordinary path has answered. Nothing is permitted by that."""
        is_agents = actor.user.startswith("system:") and actor.credential.startswith(CERTIFICATE)
        if not is_agents or actor.is_master or actor.impersonator or digest in self._agents:
            return
        # Of the actor only this: it also holds the request from which it came.
        who = Actor(user=actor.user, groups=actor.groups, credential=actor.credential)
        self._agents[digest] = KnownAgent(who, actor.credential.removeprefix(CERTIFICATE))
        if len(self._agents) > MOST_AGENTS:
            self._agents.popitem(last=False)

    def forget(self, digest: bytes) -> None:
        """After a refusal of the credential."""
        self._agents.pop(digest, None)

    def find(self, digest: bytes) -> KnownAgent | None:
        agent = self._agents.get(digest)
        if agent is not None:
            self._agents.move_to_end(digest)
        return agent


def may(asked: Iterable[tuple[KnownAgent, str]], verb: str, rights: int) -> list[bool]:
    """For each agent and namespace, whether the agent may do this with the lease there.

    ``rights`` is how often rights have changed, read in the present transaction. A no says only that the ordinary path
    must be asked: other authorizers may allow it, and it knows the words of a refusal.
    """
    asked, now = list(asked), clock.now().timestamp()
    due = [each for each in asked if not _is_examined(*each, verb, rights)]
    if due:
        _examine(due, verb, rights)
    return [_is_examined(agent, namespace, verb, rights) and now <= agent.until for agent, namespace in asked]


def _is_examined(agent: KnownAgent, namespace: str, verb: str, rights: int) -> bool:
    return agent.permitted.get((verb, namespace), -1) >= rights


def _examine(due: list[tuple[KnownAgent, str]], verb: str, rights: int) -> None:
    honoured = authentication.honoured_certificates({agent.fingerprint for agent, _ in due})
    tables = rule_index.index.catch_up()
    for agent, namespace in due:
        asked = verbs.attributes(LEASE, verb, Key(namespace, LEASE_NAME))
        expires = honoured.get(agent.fingerprint)
        decision = tables.decide(agent.actor, asked) if expires is not None else None
        if expires is None or decision is None or not decision.allowed or decision.is_limited:
            agent.permitted.pop((verb, namespace), None)
            continue
        if len(agent.permitted) >= MOST_PLACES:
            agent.permitted.clear()
        agent.until = expires.timestamp()
        agent.permitted[verb, namespace] = rights
