"""What evidence about a request is made of: facts in three kinds, never mixed, and the verdict that they add up to.

Checked by the hub, recorded by the hub, reported by the agent. Plain values: ``evidence_queries`` reads,
``risk_checks`` judges, ``assessment`` puts them together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from registration.models import CertificateSigningRequest

if TYPE_CHECKING:
    from clusters.models import ClusterFacts, ManagedCluster
    from ocmconsole.core.models import BootstrapToken
    from ocmconsole.kubeapi.errors import Doc
    from registration.keys.key_history import Asker
    from registration.models import AcceptedKey, Decline
    from registration.pki.ca import Request

State = CertificateSigningRequest.State
SUPERSEDED = "Superseded"  # shown as the state of a pending request that gives way


class Verdict(StrEnum):
    SAFE = "safe"
    CHECK = "check"
    BLOCKED = "blocked"


RISK = {Verdict.BLOCKED: 0, Verdict.CHECK: 1, Verdict.SAFE: 2}


@dataclass(frozen=True, slots=True)
class Fact:
    """Something the hub checked itself. ``weight`` says what it means when it does not hold."""

    ok: bool
    title: str
    text: str = ""
    weight: Verdict = Verdict.BLOCKED


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where a request came from, as the hub saw it."""

    requester: str = ""
    credential: str = ""
    minter: str = ""
    source: str = ""
    client: str = ""
    asked: datetime | None = None
    token: BootstrapToken | None = None


class KeyHistory(StrEnum):
    """What the hub remembers of a key under the name that it asks for (D9)."""

    FIRST = "first key of this name"
    KNOWN = "accepted before"
    RENEWAL = "new, vouched for by the agent's own certificate"
    REPAIR = "new, vouched for by a repair token"
    UNKNOWN = "never accepted for this name"


@dataclass(frozen=True, slots=True)
class EarlierCluster:
    """An earlier cluster of the same name."""

    uid: str
    since: datetime
    by: str
    removed_at: datetime | None = None
    removed_by: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """One certificate request in words. ``api_url`` is what its cluster said of itself when it asked."""

    name: str
    uid: str
    resource_version: int
    asked: datetime
    doc: Doc
    request: Request
    requester: str
    groups: tuple[str, ...]
    signer: str
    usages: tuple[str, ...]
    expires: str
    state: str
    problems: tuple[str, ...]
    recorded: Recorded
    asker: Asker
    history: KeyHistory
    reason: str = ""
    decline: Decline | None = None

    @property
    def cn(self) -> str:
        return self.request.common_name

    @property
    def organizations(self) -> tuple[str, ...]:
        return tuple(self.request.organizations)

    @property
    def key(self) -> str:
        return self.request.key_text

    @property
    def fingerprint(self) -> str:
        return self.request.key_fingerprint

    @property
    def credential(self) -> str:
        return self.recorded.credential

    @property
    def source(self) -> str:
        return self.recorded.source

    @property
    def client(self) -> str:
        return self.recorded.client

    @property
    def is_waiting(self) -> bool:
        return self.state == State.PENDING


@dataclass(slots=True)
class Evidence:
    """Everything about one name that wants to join."""

    name: str
    cluster: ManagedCluster | None
    asked: list[Asked]
    recorded: Recorded
    facts: ClusterFacts
    checked: list[Fact] = field(default_factory=list)
    declines: list[Decline] = field(default_factory=list)
    keys: list[AcceptedKey] = field(default_factory=list)
    earlier: list[EarlierCluster] = field(default_factory=list)
    superseded: int = 0
    has_namespace: bool = False  # whether the hub has a namespace of this name, whosever it is

    @property
    def waiting(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.is_waiting]

    @property
    def is_accepted(self) -> bool:
        """Whether the hub lets the cluster in already: what waits is then about its certificate alone."""
        return self.cluster is not None and self.cluster.hub_accepts_client

    @property
    def verdict(self) -> Verdict:
        weights = {fact.weight for fact in self.failed}
        return min(weights, key=lambda weight: RISK[weight], default=Verdict.SAFE)

    @property
    def failed(self) -> list[Fact]:
        """What does not hold, worst first."""
        return sorted((fact for fact in self.checked if not fact.ok), key=lambda fact: RISK[fact.weight])

    @property
    def fitting(self) -> list[Asked]:
        """Those that a person could choose by their key, newest first."""
        return [asked for asked in self.waiting if not asked.problems and asked.decline is None]

    @property
    def askers(self) -> list[list[Asked]]:
        """Waiting requests by who made them: one credential from one address is one asker (K7)."""
        found: dict[Any, list[Asked]] = {}
        for asked in self.waiting:
            found.setdefault(asked.asker.same, []).append(asked)
        return list(found.values())

    @property
    def why(self) -> str:
        """The worst fact in one sentence."""
        failed = self.failed
        return failed[0].title if failed else f"All {len(self.checked)} hub-checked facts hold"

    @property
    def since(self) -> datetime | None:
        """When the newest of it was asked."""
        return self.recorded.asked or (self.cluster.created if self.cluster else None)
