"""What the rows of a hub say, read from the stored documents and the hub's own tables alone.

Figures and sentences of pages are compared with this. Nothing here may import the product's status words, queries,
buckets or counts: only models, of which values are read.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from clusters.models import ClusterFacts, FleetMinute, HeartbeatDay, Lease, ManagedCluster, Transition
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from ocmconsole.core.models import BootstrapToken, Namespace
from registration.models import CertificateSigningRequest, Decline, IssuedCertificate

Doc = dict[str, Any]
SET_LABEL = "cluster.open-cluster-management.io/clusterset"
MAINTENANCE = "ocmconsole.io/maintenance"
SIGNER = "kubernetes.io/kube-apiserver-client"
# Joined, accepted, not in maintenance: clusters from which heartbeats are expected.
IN_SERVICE = {
    "Silent", "Credential revoked", "Credential expired", "API unhealthy", "Late", "Clock skew", "Healthy", "Unknown",
}  # fmt: skip
MISSED = 3
QUIET = {"Healthy", "Maintenance", "Joining", "Unknown", "Declined"}


def documents(model: Any) -> dict[str, Doc]:
    """The stored text of every row by name, or by namespace and name."""
    found = {}
    for row in model.objects.values("namespace", "name", "wire"):
        key = "/".join(filter(None, (row["namespace"], row["name"])))
        found[key] = json.loads(row["wire"])
    return found


def table(model: Any, order: str = "pk") -> list[Doc]:
    """The columns of every row."""
    return [dict(row) for row in model.objects.order_by(order).values()]


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


@dataclass
class Rows:
    """``now`` is the moment at which the pages are looked at; their clock stands still there."""

    now: datetime
    clusters: dict[str, Doc] = field(default_factory=dict)
    sets: dict[str, Doc] = field(default_factory=dict)
    bindings: dict[str, Doc] = field(default_factory=dict)
    namespaces: dict[str, Doc] = field(default_factory=dict)
    requests: dict[str, Doc] = field(default_factory=dict)
    facts: dict[str, Doc] = field(default_factory=dict)
    leases: dict[str, Doc] = field(default_factory=dict)
    behind: dict[str, int] = field(default_factory=dict)
    issued: list[Doc] = field(default_factory=list)
    turns: list[Doc] = field(default_factory=list)
    tokens: list[Doc] = field(default_factory=list)
    declines: list[Doc] = field(default_factory=list)
    minutes: list[Doc] = field(default_factory=list)
    days: list[Doc] = field(default_factory=list)

    @classmethod
    def read(cls, now: datetime) -> Rows:
        leases = {key.partition("/")[0]: doc for key, doc in documents(Lease).items() if "managed-cluster-lease" in key}
        return cls(
            now=now,
            clusters=documents(ManagedCluster),
            sets=documents(ManagedClusterSet),
            bindings=documents(ManagedClusterSetBinding),
            namespaces=documents(Namespace),
            requests=documents(CertificateSigningRequest),
            facts={each["cluster"]: each for each in table(ClusterFacts)},
            leases=leases,
            behind=dict(Lease.objects.filter(name="managed-cluster-lease").values_list("namespace", "skew")),
            issued=table(IssuedCertificate, "not_after"),
            turns=table(Transition),
            tokens=table(BootstrapToken),
            declines=table(Decline),
            minutes=table(FleetMinute),
            days=table(HeartbeatDay),
        )

    # ------------------------------------------------------------ who may see what, as the demonstration grants it

    def seen_by(self, person: str) -> dict[str, Doc]:
        """Clusters by name. raj owns one set, mallory may nothing, the others see every cluster."""
        if person == "mallory":
            return {}
        if person == "raj":
            return {name: doc for name, doc in self.clusters.items() if self.set_of(doc) == "stores-fr"}
        return self.clusters

    # ------------------------------------------------------------ one cluster

    @staticmethod
    def set_of(doc: Doc) -> str:
        return str((doc["metadata"].get("labels") or {}).get(SET_LABEL, ""))

    @staticmethod
    def condition(doc: Doc, type_: str) -> Doc:
        found: list[Doc] = [each for each in (doc.get("status") or {}).get("conditions") or () if each["type"] == type_]
        return found[0] if found else {}

    @staticmethod
    def taints(doc: Doc) -> list[Doc]:
        return list((doc.get("spec") or {}).get("taints") or ())

    def in_maintenance(self, doc: Doc) -> bool:
        return any(taint["key"] == MAINTENANCE for taint in self.taints(doc))

    def heard(self, name: str) -> datetime | None:
        """When its agent renewed the lease last; a lease that only the hub has written says nothing."""
        renewed = (self.leases.get(name, {}).get("spec") or {}).get("renewTime")
        if not renewed or self.behind.get(name) is None:
            return None
        at = instant(renewed)
        return at if at >= instant(self.clusters[name]["metadata"]["creationTimestamp"]) else None

    def received(self, name: str) -> datetime | None:
        """When that renewal reached the hub, by the hub's clock; the renewal carries the time of the agent's."""
        at = self.heard(name)
        return at + timedelta(microseconds=self.behind[name]) if at else None

    # Levels of the cells of five minutes of a month, two bits each: 0 unknown, 1 heard in full, 2 late, 3 missed.
    def cells(self, name: str) -> list[int]:
        """Since the cluster was made, up to now, oldest first."""
        begin = max(self.now - timedelta(days=30), instant(self.clusters[name]["metadata"]["creationTimestamp"]))
        found = []
        for each in sorted((row for row in self.days if row["cluster"] == name), key=lambda row: row["day"]):
            packed = bytes(each["cells"])
            midnight = datetime(each["day"].year, each["day"].month, each["day"].day, tzinfo=UTC)
            for index in range(288):
                start = midnight + index * timedelta(minutes=5)
                if begin - timedelta(minutes=5) < start <= self.now:
                    found.append(packed[index // 4] >> 2 * (index % 4) & 3)
        return found

    def silences(self, name: str) -> int:
        """Runs of missed cells; one that only ignorance interrupts is one."""
        known = [cell for cell in self.cells(name) if cell]
        return sum(cell == MISSED and (not index or known[index - 1] != MISSED) for index, cell in enumerate(known))

    def word(self, name: str) -> str:  # noqa: PLR0911 - a line of the table is a return
        """The status word by the rules of docs/guide/status.md: the first line that applies."""
        doc, facts = self.clusters[name], self.facts.get(name, {})
        if "deletionTimestamp" in doc["metadata"]:
            return "Removing"
        decision = facts.get("decision", "")
        if not doc["spec"].get("hubAcceptsClient"):
            if decision == "declined":
                return "Declined"
            made = instant(doc["metadata"]["creationTimestamp"])
            is_of_this = facts.get("decided_at") is not None and facts["decided_at"] >= made
            was_accepted = self.condition(doc, "HubAcceptedManagedCluster") or (
                is_of_this and decision in {"accepted", "disconnected"}
            )
            return "Disconnected" if was_accepted else "Needs review"
        ends = facts.get("certificate_not_after")
        if facts.get("certificate_revoked_at"):
            return "Credential revoked"
        if self.condition(doc, "ManagedClusterJoined").get("status") != "True":
            return "Joining" if ends and ends > self.now else "Waiting for certificate"
        if ends and ends <= self.now:
            return "Credential expired"
        return self._speaking(name, doc)

    def _speaking(self, name: str, doc: Doc) -> str:
        available = self.condition(doc, "ManagedClusterConditionAvailable").get("status", "")
        heard, lease = self.heard(name), timedelta(seconds=doc["spec"].get("leaseDurationSeconds", 60))
        if available == "Unknown":
            return "Silent"
        if heard and self.now - heard > 2 * lease:
            return "Late"
        if self.condition(doc, "ManagedClusterConditionClockSynced").get("status") == "False":
            return "Clock skew"
        if available == "False":
            return "API unhealthy"
        if self.in_maintenance(doc):
            return "Maintenance"
        return "Healthy" if available == "True" else "Unknown"

    def words(self, person: str) -> Counter[str]:
        return Counter(self.word(name) for name in self.seen_by(person))

    def named(self, word: str) -> str:
        """The first cluster in that state."""
        return next(name for name in sorted(self.clusters) if self.word(name) == word)

    # ------------------------------------------------------------ who waits

    def waiting(self, person: str) -> set[str]:
        """Names that ask to join and about which nobody has decided."""
        seen = self.seen_by(person)
        turned = {each["cluster"] for each in self.declines if each["lifted_at"] is None}
        undecided = {name for name in seen if self.word(name) == "Needs review" and name not in turned}
        return undecided | {name for name in self.pending() if name in seen and not self._is_served(name)}

    def pending(self) -> set[str]:
        """Clusters of whose agents a certificate request has neither been approved nor denied."""
        return {
            doc["metadata"]["labels"]["open-cluster-management.io/cluster-name"]
            for doc in self.requests.values()
            if doc["spec"]["signerName"] == SIGNER
            and not (doc.get("status") or {}).get("conditions")
            and "open-cluster-management.io/cluster-name" in (doc["metadata"].get("labels") or {})
        }

    def _is_served(self, name: str) -> bool:
        """It is accepted and holds a certificate that counts, with which its agent renews by itself."""
        ends = self.facts.get(name, {}).get("certificate_not_after")
        return bool(self.clusters[name]["spec"].get("hubAcceptsClient") and ends and ends > self.now)

    # ------------------------------------------------------------ certificates

    def days_left(self, name: str) -> int:
        return int((self.facts[name]["certificate_not_after"] - self.now).days)

    def certificate_bucket(self, name: str) -> str:
        facts = self.facts.get(name, {})
        ends = facts.get("certificate_not_after")
        if ends is None:
            return "none"
        if facts["certificate_revoked_at"]:
            return "revoked"
        if ends <= self.now:
            return "ended"
        left = ends - self.now
        return "week" if left <= timedelta(days=7) else "month" if left <= timedelta(days=30) else "later"

    def certificates_of(self, person: str) -> list[Doc]:
        """Of agents; who sees every cluster sees also those of clusters that are gone."""
        agents = [each for each in self.issued if each["cluster"]]
        if person in {"admin", "ana", "li"}:
            return agents
        return [each for each in agents if each["cluster"] in self.seen_by(person)]

    # ------------------------------------------------------------ sets

    def members(self, name: str, person: str) -> set[str]:
        """Clusters of a set that the person may see."""
        selector = (self.sets[name].get("spec") or {}).get("clusterSelector") or {}
        seen = self.seen_by(person)
        if selector.get("selectorType", "ExclusiveClusterSetLabel") == "ExclusiveClusterSetLabel":
            return {each for each, doc in seen.items() if self.set_of(doc) == name}
        wanted = (selector.get("labelSelector") or {}).get("matchLabels") or {}
        return {each for each, doc in seen.items() if wanted.items() <= (doc["metadata"].get("labels") or {}).items()}


def day(moment: datetime) -> str:
    """As pages write dates: ``3 Nov 2026``."""
    return moment.astimezone(UTC).strftime("%d %b %Y").lstrip("0")


def span(length: timedelta) -> str:
    """Two units at most: ``3 d 4 h``, ``2 min 10 s``."""
    rest = max(0, int(length.total_seconds()))
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(filter(None, parts[:2])) or "0 s"


def rough(length: timedelta) -> str:
    """The largest unit alone: ``3 d``."""
    return " ".join(span(length).split()[:2])
