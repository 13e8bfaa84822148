"""Reads what evidence needs about many names at once: a bounded number of queries, however many they are.

Reads only, decides nothing. Called by ``assessment``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache, reduce
from heapq import nlargest
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import accumulate, pairwise
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import Exists, Max, Min, OuterRef, Q, Subquery

from clusters.acceptance import obstacles
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterFacts, ManagedCluster
from ocmconsole.core.models import BootstrapToken, BootstrapTokenUse, Namespace
from ocmconsole.kubeapi import (
    clock,
    request_cache,
)
from ocmconsole.kubeapi.models import AuditEvent
from registration import queries
from registration.evidence.evidence_items import EarlierCluster, Recorded
from registration.keys import key_history
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import AcceptedKey, CertificateSigningRequest, Decline, IssuedCertificate
from registration.pki import agent_names

if TYPE_CHECKING:
    from django.db.models import QuerySet

AT_A_TIME = 1_000  # names of one statement
SUPERSEDED_SHOWN = timedelta(hours=24)  # since the request gave way
AT_ONCE = timedelta(minutes=1)  # a roll-out by hand is slower, a script with a stolen token faster
ANY_NUMBER = 1000  # uses of a token from which it is one for any number of clusters
MOST_RANGES = 50  # of time in one statement, each an OR: SQLite takes less than a thousand
MOST_SUPERSEDED = 1_000  # notes that are read; an agent that restarts without end leaves one each time
RANGES = {IPv4Address: 16, IPv6Address: 48}  # bits of the network that a site would have
BOOTSTRAP = "bootstrap:"
CERTIFICATE = "cert:"
WORDS = {"cert": "client certificate", "session": "console session"}
State = CertificateSigningRequest.State


class Entry(NamedTuple):
    """An audit entry of a creation or deletion, without its diff."""

    resource: str
    name: str
    uid: str
    verb: str
    user: str
    impersonator: str
    credential: str
    address: str
    user_agent: str
    time: datetime


class Uses:
    """From where and when a bootstrap token was used: rows of address, first and last time."""

    def __init__(self, rows: Iterable[tuple[str, datetime, datetime]]) -> None:
        ordered = sorted(rows, key=lambda row: row[1])
        self._firsts = [first for _, first, _ in ordered]
        self._lasts = list(accumulate((last for _, _, last in ordered), max))
        self._networks: dict[str, datetime] = {}
        for address, first, _ in ordered:
            self._networks.setdefault(network_of(address), first)

    def networks_before(self, moment: datetime) -> set[str]:
        """Networks (``network_of``) from which it had been used; addresses that cannot be read are left out."""
        return {network for network, first in self._networks.items() if network and first < moment}

    def last_before(self, moment: datetime) -> datetime | None:
        """When it was used last, at most ``moment``; None when it had not been used."""
        count = bisect_left(self._firsts, moment)
        return min(self._lasts[count - 1], moment) if count else None


NEVER_USED = Uses(())


@lru_cache(maxsize=4_096)
def network_of(address: str) -> str:
    """The network that a site would have; an address is never proof of one. "" when it cannot be read."""
    try:
        found = ip_address(address)
    except ValueError:
        return ""
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return str(ip_network((found, RANGES[type(found)]), strict=False))


@dataclass(slots=True)
class Gathered:
    """Rows by the name, uid or key that they belong to."""

    clusters: dict[str, ManagedCluster] = field(default_factory=dict)
    requests: dict[str, list[CertificateSigningRequest]] = field(default_factory=dict)
    creations: dict[str, Entry] = field(default_factory=dict)
    tokens: dict[str, BootstrapToken] = field(default_factory=dict)
    uses: dict[str, Uses] = field(default_factory=dict)
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
    namespaces: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    lives: dict[str, list[EarlierCluster]] = field(default_factory=dict)

    def creation_of(self, row: Any) -> Entry | None:
        return self.creations.get(row.uid) if row is not None else None

    def recorded(self, event: Entry | None) -> Recorded:
        if event is None:
            return Recorded()
        token = self.tokens.get(event.credential)
        minter = token.created_by if token else ""
        source, client = event.address, event.user_agent
        return Recorded(event.user, self._credential(event), minter, source, client, event.time, token)

    def _credential(self, event: Entry) -> str:
        """In words."""
        kind, _, value = event.credential.partition(":")
        if kind == "bootstrap":
            token = self.tokens.get(event.credential)
            return f"token {token.name or token.pk}" if token else f"bootstrap token {value}"
        if kind == "jwt":
            account = event.user.removeprefix("system:serviceaccount:").replace(":", "/")
            return f"service account {account}"
        return WORDS.get(kind, "unknown credential")


def evidence_for_decision(name: str) -> Gathered:
    """As ``gather_evidence``, of one name; what it reads, the checks of the decision do not read again."""
    found = gather_evidence([name], also=obstacles.columns())
    for cluster in found.clusters.values():
        obstacles.remember(cluster)
        request_cache.remember_row(MANAGED_CLUSTER, cluster)
    for request in found.requests.get(name, []):
        request_cache.remember_row(CSR, request)
    key_history.remember(name, found.keys.get(name, []), found.declines.get(name, []))
    return found


def gather_evidence(names: Collection[str], *, also: Mapping[str, Exists] | None = None) -> Gathered:
    """Everything about these names. ``also`` are further columns of the clusters."""
    found = Gathered()
    _read_clusters(found, names, also or {})
    _read_requests(found, names)
    _read_audit(found, names)
    _read_tokens(found)
    _read_memory(found, names)
    return found


class Origin(NamedTuple):
    """Who made the newest request of a name, from where and when, or its cluster if none has asked.

    ``token`` is the id of a bootstrap token, or "".
    """

    name: str
    token: str
    source: str
    asked: datetime | None


def origins(names: Sequence[str]) -> dict[str, Origin]:
    """By name, for a filter over very many: three queries for each ``AT_A_TIME`` of them, and nothing is weighed."""
    found: dict[str, Origin] = {}
    for start in range(0, len(names), AT_A_TIME):
        found |= _origins(names[start : start + AT_A_TIME])
    return found


def _origins(names: Sequence[str]) -> dict[str, Origin]:
    clusters = ManagedCluster.objects.filter(name__in=names).values_list("name", "uid", "created")
    created = {name: (uid, at) for name, uid, at in clusters}
    requests: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for cluster, name, uid in queries.requests_of_all(names).values_list("cluster", "name", "uid"):
        requests[cluster].append((name, uid))
    asked = {name for each in requests.values() for name, _ in each}
    made = _lives_and_requests({*names, *asked}).filter(verb="create")
    entries = {entry.uid: entry for entry in map(Entry._make, made.values_list(*Entry._fields))}
    found = {}
    for name in names:
        own, at = created.get(name, ("", None))
        uids = (*(uid for _, uid in requests[name]), own)
        entry = next((entries[uid] for uid in uids if uid and uid in entries), None)
        if entry is None:
            found[name] = Origin(name, "", "", at)
        else:
            kind, _, token = entry.credential.partition(":")
            found[name] = Origin(name, token if kind == "bootstrap" else "", entry.address, entry.time)
    return found


def _by(attribute: str, rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[getattr(row, attribute)].append(row)
    return dict(found)


def _read_clusters(found: Gathered, names: Collection[str], also: Mapping[str, Exists]) -> None:
    """Clusters with what hangs on their name, in one statement; of names that have no cluster, what there is as well.

    Declines and notes are read for those names only that have some.
    """
    notes = queries.superseded_notes(clock.now() - SUPERSEDED_SHOWN)
    rows: Any = ManagedCluster.objects.filter(name__in=names).select_related("facts").annotate(
        is_declined=Exists(Decline.objects.filter(cluster=OuterRef("name"), lifted_at=None)),
        has_notes=Exists(notes.filter(name=OuterRef("name"))),
        namespace_labels=Subquery(Namespace.objects.filter(name=OuterRef("name")).values("labels")[:1]),
        **also,
    )  # fmt: skip
    known: dict[str, Any] = {row.name: row for row in rows}
    found.clusters = known
    found.facts = {name: row.facts for name, row in known.items() if row.facts is not None}
    alone = set(names) - known.keys()
    found.facts |= {each.cluster: each for each in ClusterFacts.objects.filter(cluster__in=alone)}
    labels = {name: row.namespace_labels for name, row in known.items() if row.namespace_labels is not None}
    labels |= dict(Namespace.objects.filter(name__in=alone).values_list("name", "labels"))
    found.namespaces = set(labels)
    found.foreign = {name for name, each in labels.items() if each.get(agent_names.CLUSTER_LABEL) != name}
    declined = alone | {name for name, row in known.items() if row.is_declined}
    standing = Decline.objects.filter(cluster__in=declined, lifted_at=None).order_by("-declined_at", "-pk")
    found.declines = _by("cluster", standing)
    found.gave_way = _gave_way(notes, alone | {name for name, row in known.items() if row.has_notes})


def _gave_way(notes: QuerySet[AuditEvent], names: set[str]) -> dict[str, dict[str, str]]:
    """By name, requests that gave way of late, each with the one to which it did."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    newest = notes.filter(name__in=names).order_by("-time", "-pk")
    for name, diff in newest.values_list("name", "diff")[:MOST_SUPERSEDED]:
        found[name] |= {entry["old"]: entry["new"] for entry in diff if entry.get("path") == queries.GAVE_WAY}
    return dict(found)


def _read_requests(found: Gathered, names: Collection[str]) -> None:
    """Those of the names, newest first; and under which other names the keys that ask now ask too (D9)."""
    wanted = set(names)
    agents = CertificateSigningRequest.objects.filter(addon="", signer=agent_names.SIGNER)
    asking = agents.filter(state=State.PENDING)
    keys = asking.filter(cluster__in=wanted).values("key_fingerprint")
    shared = Q(state=State.PENDING, addon="", signer=agent_names.SIGNER, key_fingerprint__in=keys)
    rows = CertificateSigningRequest.objects.filter(Q(cluster__in=wanted) | shared)
    for row in rows.order_by("-created", "-resource_version"):
        is_agents = not row.addon and row.signer == agent_names.SIGNER
        if is_agents and row.state == State.PENDING:
            found.elsewhere.setdefault(row.key_fingerprint, set()).add(row.cluster)
        if row.cluster in wanted:
            found.counts[row.cluster] += 1
            if is_agents:
                found.requests.setdefault(row.cluster, []).append(row)


# ---------------------------------------------------------------- the audit


def _read_audit(found: Gathered, names: Collection[str]) -> None:
    """Who created each object: the audit remembers credential, address and client (ADR 2); and earlier clusters."""
    asked = [row for rows in found.requests.values() for row in rows]
    entries = _lives_and_requests({*names, *(row.name for row in asked)})
    present = {row.uid for row in found.clusters.values()}
    uids = present | {row.uid for row in asked}
    lives: dict[tuple[str, str], EarlierCluster] = {}
    for entry in map(Entry._make, entries.order_by("time", "pk").values_list(*Entry._fields)):
        if entry.verb == "create" and entry.uid in uids:
            found.creations[entry.uid] = entry
        elif entry.resource == MANAGED_CLUSTER.resource and entry.uid and entry.uid not in present:
            _note_life(lives, entry)
    for (name, _), life in reversed(lives.items()):
        found.lives.setdefault(name, []).append(life)


def _lives_and_requests(names: Collection[str]) -> QuerySet[AuditEvent]:
    """When clusters and requests of these names were made and deleted, and by whom."""
    return AuditEvent.objects.filter(
        resource__in=(CSR.resource, MANAGED_CLUSTER.resource),
        namespace="",
        name__in=names,
        verb__in=("create", "delete"),
        outcome=AuditEvent.Outcome.ALLOWED,
    )


def _note_life(lives: dict[tuple[str, str], EarlierCluster], entry: Entry) -> None:
    """An object's uid is never used again."""
    key = (entry.name, entry.uid)
    life = lives.get(key)
    if life is None and entry.verb == "create":
        lives[key] = EarlierCluster(entry.uid, entry.time, entry.user)
    elif life is not None and entry.verb == "delete" and life.removed_at is None:
        lives[key] = EarlierCluster(entry.uid, life.since, life.by, entry.time, entry.user)


def _is_pending(row: CertificateSigningRequest) -> bool:
    return row.state == State.PENDING


# ---------------------------------------------------------------- tokens


def _read_tokens(found: Gathered) -> None:
    credentials = {entry.credential for entry in found.creations.values() if entry.credential.startswith(BOOTSTRAP)}
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
        )
        .values_list("credential", "address")
        .annotate(first=Min("time"), last=Max("time"))
    )
    by_credential: dict[str, list[tuple[str, datetime, datetime]]] = defaultdict(list)
    for credential, *use in uses:
        by_credential[credential].append(tuple(use))
    found.uses = {credential: Uses(each) for credential, each in by_credential.items()}


def _read_brought(found: Gathered) -> None:
    """Of tokens for any number, who came near in time to one of the names: never a token's long past between them."""
    unlimited = {
        credential
        for credential, token in found.tokens.items()
        if not token.cluster and (token.max_uses is None or token.max_uses >= ANY_NUMBER)
    }
    moments = [entry.time for entry in found.creations.values() if entry.credential in unlimited]
    if not moments:
        return
    near = reduce(or_, (Q(since__range=each) for each in ranges_around(moments, AT_ONCE, most=MOST_RANGES)))
    tokens = [credential.removeprefix(BOOTSTRAP) for credential in unlimited]
    uses = BootstrapTokenUse.objects.filter(near, token__in=tokens).order_by("since")
    for token, since in uses.values_list("token", "since"):
        found.brought.setdefault(f"{BOOTSTRAP}{token}", []).append(since)


def ranges_around(moments: Collection[datetime], reach: timedelta, *, most: int) -> list[tuple[datetime, datetime]]:
    """At most ``most`` ranges of time, in order, that hold ``reach`` before and after each moment; as short as can be.

    The widest gaps between the moments are what they leave out. ``moments`` is not empty.
    """
    ordered = sorted(moments)
    gaps = ((later - earlier, earlier, later) for earlier, later in pairwise(ordered) if later - earlier > 2 * reach)
    cuts = sorted(nlargest(most - 1, gaps), key=lambda gap: gap[1])
    begins = [ordered[0], *(later for _, _, later in cuts)]
    ends = [*(earlier for _, earlier, _ in cuts), ordered[-1]]
    return [(begin - reach, end + reach) for begin, end in zip(begins, ends, strict=True)]


# ---------------------------------------------------------------- what is remembered


def _read_memory(found: Gathered, names: Collection[str]) -> None:
    """D9: keys and certificates; and where else in the fleet the keys that ask now were let in."""
    wanted = set(names)
    asking = {row.key_fingerprint for rows in found.requests.values() for row in rows if _is_pending(row)}
    keys = AcceptedKey.objects.filter(Q(cluster__in=wanted) | Q(fingerprint__in=asking))
    for key in keys.order_by("-accepted_at", "-pk"):
        if key.fingerprint in asking:
            found.elsewhere.setdefault(key.fingerprint, set()).add(key.cluster)
        if key.cluster in wanted:
            found.keys.setdefault(key.cluster, []).append(key)
    found.closed_keys = key_history.closed_keys(found.keys)  # asked of names with keys alone
    credentials = {entry.credential for entry in found.creations.values()}
    shown = {each.removeprefix(CERTIFICATE) for each in credentials if each.startswith(CERTIFICATE)}
    revoked = IssuedCertificate.objects.filter(revoked_at__isnull=False, pk__in=shown)
    found.revoked = {f"{CERTIFICATE}{pk}" for pk in revoked.values_list("pk", flat=True)}
