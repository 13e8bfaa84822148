"""Ten thousand clusters at once, for pages: rows as the store would write them, without ten thousand requests.

Only for benchmarks: no rule is asked, no change is logged and no audit written. Run inside the hub's own Django, by
``manage.py shell``; heartbeats lie ahead, so that nobody falls silent while pages are measured.
"""

from __future__ import annotations

import random
import sys
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters.kinds import CLUSTER_LABEL, CLUSTERSET_LABEL, LEASE_NAME, MANAGED_CLUSTER, microseconds
from clusters.models import ClusterFacts, Lease, ManagedCluster
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.models import ManagedClusterSet
from ocmconsole.core.kinds import NAMESPACE
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, MASTERS, Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import writing
from ocmconsole.kubeapi.schema import times
from ocmconsole.kubeapi.storage import reader
from tests.bench.placing import REGIONS

Doc = dict[str, Any]

BATCH = 1000
SETS = ("stores-fr", "stores-de", "edge", "web", "payments", "erp", "ml", "core", "data", "lab")
VERSIONS = ("v1.31.4", "v1.32.9", "v1.33.5", "v1.33.8", "v1.34.1", "v1.34.2", "v1.34.10")
TAINTS = ("ocmconsole.io/maintenance", "dedicated", "cluster.open-cluster-management.io/unreachable")
# Of a thousand clusters, how many are in each state; the others are well. ``troubled`` times as many where few are made.
SHARES = {"expired": 1, "silent": 4, "unhealthy": 2, "skewed": 2, "disconnected": 3, "declined": 2, "joining": 3}
ROOT = Actor(user="root", groups=(MASTERS, AUTHENTICATED))


def admit(name: str, password: str) -> None:
    """A person who may see everything."""
    User.objects.create_superuser(name, password=password)


def entrust(name: str, password: str, clusterset: str) -> None:
    """A person who owns one set and sees nothing else."""
    owner = User.objects.create_user(name, password=password)
    for right in ("view", "join", "bind", "change"):
        assign_perm(f"clustersets.{right}_managedclusterset", owner, ManagedClusterSet.objects.get(name=clusterset))


def fill(count: int, *, troubled: int = 1, more: bool = False, lease_seconds: int = 60) -> None:
    """That many clusters in ten sets, or ``more`` beside those that are there."""
    chance, now = random.Random(count), timezone.now()  # noqa: S311 - the same crowd each time
    states = [state for state, share in SHARES.items() for _ in range(share * troubled)]
    states += ["well"] * (1000 - len(states))
    if not more:
        for name in SETS:
            verbs.create(ROOT, MANAGED_CLUSTER_SET, {"metadata": {"name": name}})
    first = ManagedCluster.objects.count()
    for start in range(first, first + count, BATCH):
        with transaction.atomic(), writing():
            _insert(
                list(_clusters(range(start, min(start + BATCH, first + count)), states, chance, now, lease_seconds))
            )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as PostgreSQL does by itself a minute later


def give_namespaces() -> None:
    """One for each cluster, as an acceptance makes it: Events about the cluster are kept there."""
    now = timezone.now()
    rows = []
    for name in ManagedCluster.objects.order_by("name").values_list("name", flat=True):
        metadata = {"name": name, "uid": str(uuid.uuid4()), "resourceVersion": "1", "labels": {CLUSTER_LABEL: name}}
        doc = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": metadata | {"creationTimestamp": times.timestamp(now)},
        }
        doc |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        rows.append(reader.row_of(NAMESPACE, Key("", name), doc, orjson.dumps(doc).decode(), 1))
    with transaction.atomic(), writing():
        NAMESPACE.model.objects.bulk_create(rows, batch_size=BATCH)


def beat(listed: str, *, hours: int) -> None:
    """The clusters that a file lists have renewed their leases last so many hours from now; writes when that was done."""
    names = orjson.loads(Path(listed).read_bytes())
    at = microseconds(timezone.now() + timedelta(hours=hours))
    with transaction.atomic(), writing():
        for start in range(0, len(names), BATCH):
            Lease.objects.filter(namespace__in=names[start : start + BATCH]).update(renew_time=at)
    sys.stdout.write(f"\n{timezone.now().isoformat()}\n")


def _insert(made: list[tuple[Doc, Lease, ClusterFacts]]) -> None:
    stored = [
        (doc, reader.row_of(MANAGED_CLUSTER, _key(doc), doc, orjson.dumps(doc).decode(), 1)) for doc, _, _ in made
    ]
    ManagedCluster.objects.bulk_create(row for _, row in stored)
    for part in MANAGED_CLUSTER.parts:
        part.model._default_manager.bulk_create(
            part.model(**{part.parent: row}, **columns) for doc, row in stored for columns in part.columns(doc)
        )
    Lease.objects.bulk_create(lease for _, lease, _ in made)
    ClusterFacts.objects.bulk_create(facts for _, _, facts in made)


def _key(doc: Doc) -> Key:
    return Key("", doc["metadata"]["name"])


def _clusters(
    numbers: range, states: list[str], chance: random.Random, now: datetime, lease_seconds: int
) -> Iterator[tuple[Doc, Lease, ClusterFacts]]:
    for number in numbers:
        state, name = chance.choice(states), f"{chance.choice(SETS)}-{number:05}"
        since = now - timedelta(minutes=chance.randrange(10, 60 * 24 * 90))
        ends = now - timedelta(days=1) if state == "expired" else now + timedelta(days=chance.randrange(2, 365))
        beat = now - timedelta(minutes=30) if state == "silent" else now + timedelta(days=2)
        lease = Lease(
            uid=str(uuid.UUID(int=chance.getrandbits(128))), namespace=name, name=LEASE_NAME, created=since,
            resource_version=1, wire="{}", renew_time=microseconds(beat), skew=0,
        )  # fmt: skip
        decision = state if state in {"declined", "disconnected"} else "accepted"
        facts = ClusterFacts(
            cluster=name, decision=decision, decided_by="ana", decided_at=since, certificate_not_before=since,
            certificate_not_after=ends, certificate_fingerprint=f"SHA256:{number:064x}",
        )  # fmt: skip
        yield document(name, state, since, chance, lease_seconds), lease, facts


def document(name: str, state: str, since: datetime, chance: random.Random, lease_seconds: int = 60) -> Doc:
    at = times.timestamp(since)
    taints = [{"key": chance.choice(TAINTS), "effect": "NoSelect", "timeAdded": at}] if chance.random() < 0.05 else []
    statuses = {
        "HubAcceptedManagedCluster": "False" if state in {"declined", "disconnected"} else "True",
        "ManagedClusterJoined": "False" if state == "joining" else "True",
        "ManagedClusterConditionAvailable": {"silent": "Unknown", "unhealthy": "False"}.get(state, "True"),
        "ManagedClusterConditionClockSynced": "False" if state == "skewed" else "True",
    }
    conditions = [
        {
            "type": type_,
            "status": status,
            "reason": "Bench",
            "message": "As the bench says. " * 4,
            "lastTransitionTime": at,
        }
        for type_, status in statuses.items()
    ]
    labels = {
        CLUSTERSET_LABEL: name.rpartition("-")[0],
        "region": chance.choice(REGIONS),
        "env": chance.choice(("prod", "stage")),
    }
    claims = {"id.k8s.io": name, "platform.open-cluster-management.io": "VMware", "region": labels["region"]}
    return {
        "apiVersion": MANAGED_CLUSTER.storage.api_version,
        "kind": MANAGED_CLUSTER.kind,
        "metadata": {
            "name": name,
            "uid": str(uuid.UUID(int=chance.getrandbits(128))),
            "resourceVersion": "1",
            "creationTimestamp": at,
            "labels": labels,
        },
        "spec": {
            "hubAcceptsClient": state not in {"declined", "disconnected"},
            "leaseDurationSeconds": lease_seconds,
            "taints": taints,
        },
        "status": {
            "conditions": conditions,
            "version": {"kubernetes": chance.choice(VERSIONS)},
            "capacity": {"cpu": "96", "memory": "384Gi", "pods": "750"},
            "allocatable": {"cpu": "92", "memory": "371Gi", "pods": "750"},
            "clusterClaims": [{"name": each, "value": value} for each, value in claims.items()],
        },
    }
