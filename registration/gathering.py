"""Reads what evidence needs about many names at once: a bounded number of queries, however many they are.

Reads only, decides nothing. Called by ``evidence``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Max, Min
from django.utils import timezone

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterFacts, ManagedCluster
from ocmconsole.corekinds.models import BootstrapToken, BootstrapTokenUse, Namespace
from ocmconsole.kubeapi.models import AuditEvent
from registration import identity, memory, queries
from registration.facts import EarlierCluster, Recorded
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import AcceptedKey, CertificateSigningRequest, Decline, IssuedCertificate

if TYPE_CHECKING:
    from django.db.models import QuerySet

SUPERSEDED_SHOWN = timedelta(hours=24)
AT_ONCE = timedelta(minutes=1)  # a roll-out by hand is slower, a script with a stolen token faster
ANY_NUMBER = 1000  # uses of a token from which it is one for any number of clusters
MOST_SUPERSEDED = 1_000  # notes that are read; an agent that restarts without end leaves one each time
BOOTSTRAP = "bootstrap:"
CERTIFICATE = "cert:"
WORDS = {"cert": "client certificate", "session": "console session"}
State = CertificateSigningRequest.State


@dataclass(frozen=True, slots=True)
class Use:
    """From where and when a bootstrap token was used."""

    address: str
    first: datetime
    last: datetime


@dataclass(slots=True)
class Gathered:
    """Rows by the name, uid or key that they belong to."""

    clusters: dict[str, ManagedCluster] = field(default_factory=dict)
    requests: dict[str, list[CertificateSigningRequest]] = field(default_factory=dict)
    creations: dict[str, AuditEvent] = field(default_factory=dict)
    tokens: dict[str, BootstrapToken] = field(default_factory=dict)
    uses: dict[str, list[Use]] = field(default_factory=dict)
    # Of tokens for any number of clusters: when each of these came, in order.
    brought: dict[str, list[datetime]] = field(default_factory=dict)
    facts: dict[str, ClusterFacts] = field(default_factory=dict)
    keys: dict[str, list[AcceptedKey]] = field(default_factory=dict)
    closed_keys: dict[str, set[str]] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    elsewhere: dict[str, set[str]] = field(default_factory=dict)
    declines: dict[str, list[Decline]] = field(default_factory=dict)
    gave_way: dict[str, dict[str, str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    foreign: set[str] = field(default_factory=set)
    lives: dict[str, list[EarlierCluster]] = field(default_factory=dict)

    def creation_of(self, row: Any) -> AuditEvent | None:
        return self.creations.get(row.uid) if row is not None else None

    def recorded(self, event: AuditEvent | None) -> Recorded:
        if event is None:
            return Recorded()
        token = self.tokens.get(event.credential)
        minter = token.created_by if token else ""
        source, client = event.address, event.user_agent
        return Recorded(event.user, self._credential(event), minter, source, client, event.time, token)

    def _credential(self, event: AuditEvent) -> str:
        """In words."""
        kind, _, value = event.credential.partition(":")
        if kind == "bootstrap":
            token = self.tokens.get(event.credential)
            return f"token {token.name or token.pk}" if token else f"bootstrap token {value}"
        if kind == "jwt":
            account = event.user.removeprefix("system:serviceaccount:").replace(":", "/")
            return f"service account {account}"
        return WORDS.get(kind, "unknown credential")


def of(names: Collection[str]) -> Gathered:
    """Everything about these names."""
    found = Gathered()
    found.clusters = {row.name: row for row in ManagedCluster.objects.filter(name__in=names)}
    found.requests = _by("cluster", queries.requests_of_all(names))
    rows = [*found.clusters.values(), *(row for each in found.requests.values() for row in each)]
    found.creations = _creations(rows)
    credentials = {event.credential for event in found.creations.values()}
    _read_tokens(found, {each for each in credentials if each.startswith(BOOTSTRAP)})
    _read_memory(found, names, credentials)
    _read_counts(found, names)
    found.lives = _lives(names, {row.uid for row in found.clusters.values()})
    return found


def _by(attribute: str, rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[getattr(row, attribute)].append(row)
    return dict(found)


def _creations(rows: list[Any]) -> dict[str, AuditEvent]:
    """Who created each object: the audit remembers credential, address and client (ADR 2)."""
    found = AuditEvent.objects.filter(
        resource__in=(CSR.resource, MANAGED_CLUSTER.resource),
        namespace="",
        name__in={row.name for row in rows},
        uid__in={row.uid for row in rows},
        verb="create",
        outcome=AuditEvent.Outcome.ALLOWED,
    )
    return {event.uid: event for event in found.defer("diff", "groups")}


def _read_tokens(found: Gathered, credentials: set[str]) -> None:
    rows = BootstrapToken.objects.counted().filter(pk__in={each.removeprefix(BOOTSTRAP) for each in credentials})
    found.tokens = {f"{BOOTSTRAP}{row.pk}": row for row in rows}
    _read_brought(found)
    users = {f"system:bootstrap:{each.removeprefix(BOOTSTRAP)}" for each in credentials}
    uses = (
        AuditEvent.objects.filter(
            user__in=users,
            credential__in=credentials,
            verb="create",
            outcome=AuditEvent.Outcome.ALLOWED,
            resource__in=(CSR.resource, MANAGED_CLUSTER.resource),
        )
        .values_list("credential", "address")
        .annotate(first=Min("time"), last=Max("time"))
    )
    for credential, address, first, last in uses:
        found.uses.setdefault(credential, []).append(Use(address, first, last))


def _read_brought(found: Gathered) -> None:
    """Those that came near to one of the names in time, so that a token's long past is not read."""
    unlimited = [
        row.pk
        for row in found.tokens.values()
        if not row.cluster and (row.max_uses is None or row.max_uses >= ANY_NUMBER)
    ]
    moments = [event.time for event in found.creations.values()]
    if not unlimited or not moments:
        return
    near = (min(moments) - AT_ONCE, max(moments) + AT_ONCE)
    uses = BootstrapTokenUse.objects.filter(token__in=unlimited, since__range=near).order_by("since")
    for token, since in uses.values_list("token", "since"):
        found.brought.setdefault(f"{BOOTSTRAP}{token}", []).append(since)


def _read_memory(found: Gathered, names: Collection[str], credentials: set[str]) -> None:
    """D9, D10: keys, certificates and declines; and where else in the fleet the keys that ask now are known."""
    found.facts = {each.cluster: each for each in ClusterFacts.objects.filter(cluster__in=names)}
    found.keys = _by("cluster", AcceptedKey.objects.filter(cluster__in=names).order_by("-accepted_at", "-pk"))
    revoked = IssuedCertificate.objects.filter(revoked_at__isnull=False)
    found.closed_keys = memory.closed_keys(names)
    shown = {each.removeprefix(CERTIFICATE) for each in credentials if each.startswith(CERTIFICATE)}
    found.revoked = {f"{CERTIFICATE}{pk}" for pk in revoked.filter(pk__in=shown).values_list("pk", flat=True)}
    standing = Decline.objects.filter(cluster__in=names, lifted_at=None).order_by("-declined_at", "-pk")
    found.declines = _by("cluster", standing)
    asking = {row.key_fingerprint for each in found.requests.values() for row in each if row.state == State.PENDING}
    accepted = AcceptedKey.objects.filter(fingerprint__in=asking).values_list("fingerprint", "cluster")
    waiting = CertificateSigningRequest.objects.filter(
        key_fingerprint__in=asking, state=State.PENDING, addon="", signer=identity.SIGNER
    ).values_list("key_fingerprint", "cluster")
    for fingerprint, cluster in (*accepted, *waiting):
        found.elsewhere.setdefault(fingerprint, set()).add(cluster)


def _read_counts(found: Gathered, names: Collection[str]) -> None:
    every = CertificateSigningRequest.objects.filter(cluster__in=names)
    found.counts = _counted("cluster", every)
    found.gave_way = _gave_way({name for name, rows in found.requests.items() if any(map(_is_pending, rows))})
    namespaces = Namespace.objects.filter(name__in=names)
    found.foreign = {row.name for row in namespaces if row.labels.get(identity.CLUSTER_LABEL) != row.name}


def _is_pending(row: CertificateSigningRequest) -> bool:
    return row.state == State.PENDING


def _gave_way(names: set[str]) -> dict[str, dict[str, str]]:
    """By name, requests that gave way of late, each with the one to which it did."""
    notes = queries.superseded(timezone.now() - SUPERSEDED_SHOWN).filter(name__in=names).order_by("-time", "-pk")
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for name, diff in notes.values_list("name", "diff")[:MOST_SUPERSEDED] if names else ():
        found[name] |= {entry["old"]: entry["new"] for entry in diff if entry.get("path") == queries.GAVE_WAY}
    return dict(found)


def _counted(column: str, rows: QuerySet[Any]) -> Counter[str]:
    return Counter(dict(rows.order_by().values_list(column).annotate(Count("pk"))))


def _lives(names: Collection[str], present: set[str]) -> dict[str, list[EarlierCluster]]:
    """Earlier clusters of the names, newest first: an object's uid is never used again."""
    events = AuditEvent.objects.filter(
        resource=MANAGED_CLUSTER.resource,
        namespace="",
        name__in=names,
        verb__in=("create", "delete"),
        outcome=AuditEvent.Outcome.ALLOWED,
    )
    found: dict[tuple[str, str], EarlierCluster] = {}
    for name, uid, verb, user, time in events.order_by("time", "pk").values_list("name", "uid", "verb", "user", "time"):
        if not uid or uid in present:
            continue
        life = found.get((name, uid))
        if life is None and verb == "create":
            found[name, uid] = EarlierCluster(uid, time, user)
        elif life is not None and verb == "delete" and life.removed_at is None:
            found[name, uid] = EarlierCluster(uid, life.since, life.by, time, user)
    lives: dict[str, list[EarlierCluster]] = defaultdict(list)
    for (name, _), life in reversed(found.items()):
        lives[name].append(life)
    return dict(lives)
