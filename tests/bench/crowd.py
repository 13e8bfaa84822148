"""Thousands of clusters at once: rows as the store would write them, without thousands of requests.

Only for benchmarks and tests of pages: no rule is asked, no change is logged and no audit written. ``fill`` makes what
pages read, ``seed`` a whole hub, in which ``manage.py check_wire`` finds nothing wrong. Run inside the hub's own Django,
by ``manage.py shell``, before it serves; heartbeats lie ahead, so that nobody falls silent while something is measured.
"""

from __future__ import annotations

import random
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters import object_writer
from clusters.kinds import CLUSTERSET_LABEL, LEASE, MANAGED_CLUSTER
from clusters.models import ClusterFacts, Lease, ManagedCluster
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.models import ManagedClusterSet
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.models import writing
from ocmconsole.kubeapi.schema import times
from registration import hub_setup
from tests.bench import companions
from tests.bench.companions import Issuer, Template, row_of
from tests.bench.placing import REGIONS

Doc = dict[str, Any]
Alter = Callable[[Doc], None]

BATCH = 1000
ROOT = companions.ROOT
SETS = ("stores-fr", "stores-de", "edge", "web", "payments", "erp", "ml", "core", "data", "lab")
VERSIONS = ("v1.31.4", "v1.32.9", "v1.33.5", "v1.33.8", "v1.34.1", "v1.34.2", "v1.34.10")
TAINTS = ("ocmconsole.io/maintenance", "dedicated", "cluster.open-cluster-management.io/unreachable")
# Of a thousand clusters, how many are in each state; the others are well. ``troubled`` times as many where few are made.
SHARES = {"expired": 1, "silent": 4, "unhealthy": 2, "skewed": 2, "disconnected": 3, "declined": 2, "joining": 3}
# Not let in, and not asked again since; they have nothing on the hub but themselves.
OUTSIDE = frozenset({"declined", "disconnected"})
CERTIFIED = frozenset({"well", "unhealthy", "silent", "skewed"})
SPEAKING = frozenset({"well", "unhealthy"})
SYNCHRONOUS = {"0": "OFF", "1": "NORMAL", "2": "FULL", "3": "EXTRA"}  # as SQLite numbers them


def admit(name: str, password: str) -> None:
    """A person who may see everything."""
    User.objects.create_superuser(name, password=password)


def entrust(name: str, password: str, clusterset: str) -> None:
    """A person who owns one set and sees nothing else."""
    owner = User.objects.create_user(name, password=password)
    for right in ("view", "join", "bind", "change"):
        assign_perm(f"clustersets.{right}_managedclusterset", owner, ManagedClusterSet.objects.get(name=clusterset))


class Made(NamedTuple):
    """A cluster of the crowd: its number and state, the documents of cluster and lease, and what the hub knows."""

    number: int
    name: str
    state: str
    cluster: Doc
    lease: Doc
    facts: ClusterFacts


def fill(count: int, *, troubled: int = 1, more: bool = False) -> None:
    """That many clusters in ten sets, or ``more`` beside those that are there, with leases and facts alone."""
    _fill(count, troubled=troubled, more=more)


def seed(count: int, listed: str, *, troubled: int = 1, alter: Alter = lambda _: None) -> None:
    """A whole hub that rests: clusters with all that the hub gives them, and certificates for their agents.

    The file ``listed`` gets the agents that may speak, a line of JSON each. The last line that this writes is how the
    database says it keeps what is committed. ``troubled=0``: all are well. ``alter`` may change
    the document of a ManagedCluster before it is stored.
    """
    hub_setup.migrate()
    hub_setup.ensure_hub()
    workqueue.drain()
    issuer = Issuer(Path(listed))
    template = Template.let_in()
    _fill(count, troubled=troubled, more=False, template=template, issuer=issuer, alter=alter)
    issuer.end()
    workqueue.drain()
    sys.stdout.write(f"\n{orjson.dumps(_durability()).decode()}\n")


def _durability() -> dict[str, str]:
    """As the database says it to a connection of the hub."""
    postgres = ("fsync", "synchronous_commit", "full_page_writes")
    sqlite = ("synchronous", "journal_mode")
    with connection.cursor() as cursor:

        def ask(question: str) -> str:
            cursor.execute(question)
            return str(cursor.fetchone()[0])

        if connection.vendor == "postgresql":
            return {name: ask(f"SHOW {name}") for name in postgres}
        found = {name: ask(f"PRAGMA {name}") for name in sqlite}
        return found | {"synchronous": SYNCHRONOUS[found["synchronous"]]}


def _fill(
    count: int,
    *,
    troubled: int,
    more: bool,
    template: Template | None = None,
    issuer: Issuer | None = None,
    alter: Alter = lambda _: None,
) -> None:
    chance, now = random.Random(count), timezone.now()  # noqa: S311 - the same crowd each time
    states = [state for state, share in SHARES.items() for _ in range(share * troubled)]
    states += ["well"] * (1000 - len(states))
    if not more:
        for name in SETS:
            verbs.create(ROOT, MANAGED_CLUSTER_SET, {"metadata": {"name": name}})
    first = ManagedCluster.objects.count()
    for start in range(first, first + count, BATCH):
        numbers = range(start, min(start + BATCH, first + count))
        with transaction.atomic(), writing():
            made = list(_clusters(numbers, states, chance, now))
            for each in made:
                alter(each.cluster)
            if issuer is not None:
                _certify(made, issuer, now)
            if template is not None:
                _complete(made, template)
            _insert(made)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as PostgreSQL does by itself a minute later


def _certify(made: list[Made], issuer: Issuer, now: datetime) -> None:
    wanted = {each.name: (each.facts, each.state in SPEAKING) for each in made if each.state in CERTIFIED}
    lifetimes = {name: (facts.certificate_not_after or now) - now for name, (facts, _) in wanted.items()}
    listed = {name for name, (_, is_speaking) in wanted.items() if is_speaking}
    for name, certificate in issuer.issue(lifetimes, listed, now).items():
        facts, _ = wanted[name]
        facts.certificate_fingerprint = certificate.fingerprint
        facts.certificate_not_before, facts.certificate_not_after = certificate.not_before, certificate.not_after


def _complete(made: list[Made], template: Template) -> None:
    """What the hub writes into documents, and the other objects of those that are let in."""
    accepted = [each for each in made if each.state not in OUTSIDE]
    for each in accepted:
        each.cluster["metadata"] |= template.metadata[MANAGED_CLUSTER]
        each.lease["metadata"] |= template.metadata[LEASE]
    template.insert([(each.number, each.name) for each in accepted])


def _insert(made: list[Made]) -> None:
    stored = [(each.cluster, row_of(MANAGED_CLUSTER, each.cluster)) for each in made]
    ManagedCluster.objects.bulk_create(row for _, row in stored)
    for part in MANAGED_CLUSTER.parts:
        part.model._default_manager.bulk_create(
            part.model(**{part.parent: row}, **columns) for doc, row in stored for columns in part.columns(doc)
        )
    leases: list[Any] = [row_of(LEASE, each.lease) for each in made]
    for row in leases:
        row.skew = 0  # the heartbeat lies ahead, and the clock is right
    Lease.objects.bulk_create(leases)
    ClusterFacts.objects.bulk_create(each.facts for each in made)


def _clusters(numbers: range, states: list[str], chance: random.Random, now: datetime) -> Iterator[Made]:
    for number in numbers:
        state, name = chance.choice(states), f"{chance.choice(SETS)}-{number:05}"
        since = now - timedelta(minutes=chance.randrange(10, 60 * 24 * 90))
        ends = now - timedelta(days=1) if state == "expired" else now + timedelta(days=chance.randrange(2, 365))
        beat = now - timedelta(minutes=30) if state == "silent" else now + timedelta(days=2)
        decision = state if state in OUTSIDE else "accepted"
        facts = ClusterFacts(
            cluster=name, decision=decision, decided_by="ana", decided_at=since, certificate_not_before=since,
            certificate_not_after=ends, certificate_fingerprint=f"SHA256:{number:064x}",
        )  # fmt: skip
        lease = _lease(name, since, beat, chance)
        yield Made(number, name, state, document(name, state, since, chance), lease, facts)


def _lease(name: str, since: datetime, beat: datetime, chance: random.Random) -> Doc:
    doc = object_writer.new_lease(name)
    doc["metadata"] |= {
        "namespace": name,
        "uid": str(uuid.UUID(int=chance.getrandbits(128))),
        "resourceVersion": "1",
        "creationTimestamp": times.timestamp(since),
    }
    doc["spec"]["renewTime"] = times.micro_timestamp(beat)
    return doc


def document(name: str, state: str, since: datetime, chance: random.Random) -> Doc:
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
            "message": "As the bench says. " * 2,
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
            "leaseDurationSeconds": 60,
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
