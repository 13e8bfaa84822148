"""What the hub knows about a request to join, and what it makes of it: Safe, Check or Blocked (console.md 4.4).

Three kinds of facts, never mixed: checked by the hub, recorded by the hub, reported by the agent. What could not be
computed counts as Check, never as Safe.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from clusters.models import ManagedCluster
from ocmconsole.corekinds.models import BootstrapToken, Namespace
from ocmconsole.kubeapi.models import AuditEvent
from registration import ca, identity, queries
from registration.kinds import conditions, request_pem, state_of
from registration.models import CertificateSigningRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusters.models import ClusterFacts
    from ocmconsole.kubeapi.errors import Doc

State = CertificateSigningRequest.State
BOOTSTRAP_USER = "system:bootstrap:"


class Verdict(StrEnum):
    SAFE = "safe"
    CHECK = "check"
    BLOCKED = "blocked"


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


@dataclass(frozen=True, slots=True)
class Asked:
    """One certificate request in words."""

    name: str
    resource_version: int
    asked: datetime
    requester: str
    groups: tuple[str, ...]
    cn: str
    organizations: tuple[str, ...]
    key: str
    fingerprint: str
    signer: str
    usages: tuple[str, ...]
    expires: str
    state: str
    problems: tuple[str, ...]
    recorded: Recorded
    reason: str = ""

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

    @property
    def waiting(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.is_waiting]

    @property
    def verdict(self) -> Verdict:
        weights = {fact.weight for fact in self.checked if not fact.ok}
        for verdict in (Verdict.BLOCKED, Verdict.CHECK):
            if verdict in weights:
                return verdict
        return Verdict.SAFE

    @property
    def why(self) -> str:
        """The worst fact in one sentence."""
        failed = [fact for fact in self.checked if not fact.ok]
        failed.sort(key=lambda fact: fact.weight is not Verdict.BLOCKED)
        if failed:
            return failed[0].title
        return f"All {len(self.checked)} hub-checked facts hold"


def of(name: str) -> Evidence:
    """Evidence about one name; the cluster or the requests may be missing."""
    cluster = ManagedCluster.objects.filter(name=name).first()
    rows = list(queries.requests_of(name))
    facts = queries.facts_of(name)
    created = _creations([*(row.uid for row in rows), *([cluster.uid] if cluster else [])])
    return _weighed(
        Evidence(
            name,
            cluster,
            [_asked(row, created.get(row.uid)) for row in rows],
            _newest(cluster, rows, created),
            facts,
        )
    )


def _creations(uids: list[str]) -> dict[str, AuditEvent]:
    """Who created each object: the audit remembers credential, address and client."""
    found = AuditEvent.objects.filter(uid__in=uids, verb="create", outcome=AuditEvent.Outcome.ALLOWED)
    return {event.uid: event for event in found}


def _newest(cluster: Any, rows: list[Any], created: dict[str, AuditEvent]) -> Recorded:
    newest = next((created[row.uid] for row in rows if row.uid in created), None)
    return _recorded(newest or (created.get(cluster.uid) if cluster else None))


def _recorded(event: AuditEvent | None) -> Recorded:
    if event is None:
        return Recorded()
    credential, minter = credential_text(event)
    return Recorded(event.user, credential, minter, event.address, event.user_agent, event.time)


def credential_text(event: AuditEvent) -> tuple[str, str]:
    """The credential in words, and who minted it."""
    kind, _, value = event.credential.partition(":")
    if kind == "bootstrap":
        token = BootstrapToken.objects.filter(pk=value).first()
        return (f"token {token.name or token.pk}", token.created_by) if token else (f"bootstrap token {value}", "")
    if kind == "jwt":
        return f"service account {event.user.removeprefix('system:serviceaccount:').replace(':', '/')}", ""
    return {"cert": "client certificate", "session": "console session"}.get(kind, "unknown credential"), ""


def _asked(row: CertificateSigningRequest, event: AuditEvent | None) -> Asked:
    doc = row.doc
    spec = doc["spec"]
    request = ca.parse_request(request_pem(doc))
    return Asked(
        name=row.name,
        resource_version=row.resource_version,
        asked=row.created,
        requester=spec.get("username", ""),
        groups=tuple(spec.get("groups") or ()),
        cn=request.common_name,
        organizations=tuple(request.organizations),
        key=request.key_text,
        fingerprint=request.key_fingerprint,
        signer=row.signer,
        usages=tuple(spec.get("usages") or ()),
        expires=lifetime_text(spec.get("expirationSeconds")),
        state=str(state_of(doc)),
        problems=tuple(
            identity.problems(request, cluster=row.cluster, signer=row.signer, usages=spec.get("usages") or [])
        ),
        recorded=_recorded(event),
        reason=_decision_text(doc),
    )


def _decision_text(doc: Doc) -> str:
    return next((condition.get("message", "") for condition in conditions(doc)), "")


def lifetime_text(seconds: int | None) -> str:
    """``365 days``, ``12 hours``; the hub's default when nothing was asked."""
    if not seconds:
        return "the hub's default lifetime"
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = round(seconds / size)
            return f"{count} {word}{'s' if count != 1 else ''}"
    return f"{seconds} seconds"


# ---------------------------------------------------------------- weighing


def _weighed(evidence: Evidence) -> Evidence:
    evidence.checked = [*_request_facts(evidence), *_name_facts(evidence)]
    return evidence


def _request_facts(evidence: Evidence) -> Iterable[Fact]:
    waiting = evidence.waiting
    if not waiting:
        yield Fact(ok=False, title="No certificate request is waiting", weight=Verdict.CHECK,
                   text="Accepting lets the cluster in; its certificate follows when it asks for one.")  # fmt: skip
        return
    problems = [problem for asked in waiting for problem in asked.problems]
    if problems:
        for problem in dict.fromkeys(problems):
            yield Fact(ok=False, title=f"A request does not fit: {problem}")
    else:
        yield Fact(ok=True, title=f"Common name and organization name exactly “{evidence.name}”")
        yield Fact(ok=True, title="Signer and usages are the ones for cluster agents")
        yield Fact(ok=True, title=f"The request is signed by its own key, {waiting[0].key}")
    keys = {asked.fingerprint for asked in waiting}
    askers = {(asked.requester, asked.source) for asked in waiting}
    if len(askers) > 1:
        yield Fact(ok=False, title="Different askers use this name right now",
                   text="Different credentials or addresses mean two askers, not one restarted agent.")  # fmt: skip
    elif len(keys) > 1:
        yield Fact(ok=False, title=f"The newest of {len(keys)} keys counts", weight=Verdict.CHECK,
                   text="One requester from one address: an agent that was restarted makes a new key.")  # fmt: skip
    else:
        yield Fact(ok=True, title="One key asks for this name")


def _name_facts(evidence: Evidence) -> Iterable[Fact]:
    if evidence.cluster is None:
        yield Fact(ok=False, title="There is no ManagedCluster of this name yet", weight=Verdict.CHECK)
    known = evidence.facts.certificate_fingerprint
    if known:
        yield Fact(ok=False, title=f"A certificate was issued for “{evidence.name}” before", weight=Verdict.CHECK,
                   text="An agent that still holds it would renew it instead of asking again.")  # fmt: skip
    else:
        yield Fact(ok=True, title="No certificate was ever issued for this name")
    namespace = Namespace.objects.filter(name=evidence.name).first()
    if namespace is not None and namespace.labels.get(identity.CLUSTER_LABEL) != evidence.name:
        yield Fact(ok=False, title=f"The namespace “{evidence.name}” is not this cluster's", weight=Verdict.CHECK,
                   text="The agent would get rights inside it.")  # fmt: skip
