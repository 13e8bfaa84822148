"""What the hub knows about a request to join, and what it makes of it: Safe, Check or Blocked (console.md 4.4).

Three kinds of facts, never mixed: checked by the hub, recorded by the hub, reported by the agent. What could not be
computed counts as Check, never as Safe.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils import timezone

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ManagedCluster
from ocmconsole.corekinds.models import BootstrapToken
from ocmconsole.kubeapi.models import AuditEvent
from registration import identity, memory, queries
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import conditions, state_of
from registration.models import CertificateSigningRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusters.models import ClusterFacts
    from ocmconsole.kubeapi.errors import Doc
    from registration.memory import Asker
    from registration.models import Decline

State = CertificateSigningRequest.State
MOST_REQUESTS = 10  # G22: with so many an agent makes no more
SUPERSEDED_SHOWN = timedelta(hours=24)


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


class KeyHistory(StrEnum):
    """What the hub remembers of a key under the name that it asks for (D9)."""

    FIRST = "first key of this name"
    KNOWN = "accepted before"
    RENEWAL = "new, vouched for by the agent's own certificate"
    UNKNOWN = "never accepted for this name"


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
    asker: Asker
    history: KeyHistory
    reason: str = ""
    decline: Decline | None = None

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
    def fitting(self) -> list[Asked]:
        """Those that a person could choose by their key, newest first."""
        return [asked for asked in self.waiting if not asked.problems and asked.decline is None]

    @property
    def declines(self) -> list[Decline]:
        return list(memory.declines_of(self.name))

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
    created = _creations([*rows, *([cluster] if cluster else [])])
    return _weighed(
        Evidence(
            name,
            cluster,
            [_asked(row, created.get(row.uid)) for row in rows],
            _newest(cluster, rows, created),
            facts,
        )
    )


def _creations(rows: list[Any]) -> dict[str, AuditEvent]:
    """Who created each object: the audit remembers credential, address and client."""
    found = AuditEvent.objects.filter(
        resource__in=(CSR.resource, MANAGED_CLUSTER.resource),
        namespace="",
        name__in={row.name for row in rows},
        uid__in={row.uid for row in rows},
        verb="create",
        outcome=AuditEvent.Outcome.ALLOWED,
    )
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
    request, asker = memory.requested(doc), memory.asker_of(event, user=spec.get("username", ""))
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
        asker=asker,
        history=_history(row.cluster, request.key_fingerprint, is_renewal=memory.is_renewal(doc, asker, row.cluster)),
        reason=_decision_text(doc),
        decline=memory.decline_of(row.cluster, request.key_fingerprint, asker),
    )


def _history(cluster: str, fingerprint: str, *, is_renewal: bool) -> KeyHistory:
    is_known_name = memory.keys_of(cluster).exists()
    if is_known_name and not memory.is_stranger(cluster, fingerprint):
        return KeyHistory.KNOWN
    if is_renewal:
        return KeyHistory.RENEWAL
    return KeyHistory.UNKNOWN if is_known_name else KeyHistory.FIRST


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
    evidence.checked = [*_request_facts(evidence), *_memory_facts(evidence), *_name_facts(evidence)]
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
    older = queries.superseded_since(evidence.name, timezone.now() - SUPERSEDED_SHOWN)
    if len({asked.asker.same for asked in waiting}) > 1:
        yield Fact(ok=False, title="Different askers use this name right now",
                   text="Different credentials or addresses mean two askers, not one restarted agent.")  # fmt: skip
    elif len(keys) + older > 1:
        yield Fact(ok=False, title=f"The newest of {len(keys) + older} keys counts", weight=Verdict.CHECK,
                   text="One requester from one address: an agent that was restarted makes a new key.")  # fmt: skip
    else:
        yield Fact(ok=True, title="One key asks for this name")


def _memory_facts(evidence: Evidence) -> Iterable[Fact]:
    """D9, D10: what was decided before about these keys and those who show them."""
    for asked in evidence.waiting:
        if asked.decline is not None:
            what = "key" if asked.decline.fingerprint == asked.fingerprint else "credential"
            yield Fact(ok=False, title=f"This {what} was declined by {asked.decline.declined_by}",
                       text=asked.decline.reason)  # fmt: skip
    declines = [] if evidence.waiting else evidence.declines
    if declines:
        yield Fact(ok=False, title=f"It was declined by {declines[0].declined_by}", text=declines[0].reason)
    histories = {asked.history for asked in evidence.waiting}
    if KeyHistory.UNKNOWN in histories:
        weight = Verdict.CHECK if settings.OCMCONSOLE_ALLOW_REKEY else Verdict.BLOCKED
        yield Fact(
            ok=False,
            title=f"“{evidence.name}” is known, and not under this key",
            text="Its agent would renew with its certificate. Whoever asks now has lost that, or never had it.",
            weight=weight,
        )
    if KeyHistory.RENEWAL in histories:
        yield Fact(ok=True, title="The agent's own certificate vouches for the new key")
    if KeyHistory.KNOWN in histories:
        yield Fact(ok=True, title="The key was accepted for this name before")


def _name_facts(evidence: Evidence) -> Iterable[Fact]:
    if evidence.cluster is None:
        yield Fact(ok=False, title="There is no ManagedCluster of this name yet", weight=Verdict.CHECK)
    if not memory.keys_of(evidence.name).exists():
        yield _first_certificate(evidence)
    count = queries.request_count(evidence.name)
    if count >= MOST_REQUESTS:
        yield Fact(ok=False, title=f"There are {count} requests for this name", weight=Verdict.CHECK,
                   text="With ten, an agent makes no more; decided ones go after an hour.")  # fmt: skip
    if queries.is_foreign_namespace(evidence.name):
        yield Fact(ok=False, title=f"The namespace “{evidence.name}” is not this cluster's", weight=Verdict.CHECK,
                   text="The agent would get rights inside it.")  # fmt: skip


def _first_certificate(evidence: Evidence) -> Fact:
    """A certificate from before the hub remembered keys still says that the name is taken."""
    if evidence.facts.certificate_fingerprint:
        return Fact(ok=False, title=f"A certificate was issued for “{evidence.name}” before", weight=Verdict.CHECK,
                    text="An agent that still holds it would renew it instead of asking again.")  # fmt: skip
    return Fact(ok=True, title="No certificate was ever issued for this name")
