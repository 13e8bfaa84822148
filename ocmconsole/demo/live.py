"""A demonstration fleet on a hub that serves: made now, without a past, and removed again, a slice at a time.

``make`` and ``remove`` compare what is there with what the row wants, so that they may be called again and again, also
after a process has died. Both act as the person who asked, through verbs and services; the clusters' agents act with
the credentials that agents have. Called by the reconciler of ``ocmconsole.demo.reconcilers``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from random import Random
from time import monotonic
from typing import Any

from django.contrib.auth.models import Group, User

from clusters import services as clusters
from clusters.kinds import CLUSTER_LABEL, MANAGED_CLUSTER, OWN_FINALIZERS
from clusters.models import FleetMinute, HeartbeatDay, ManagedCluster, Transition
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.models import ManagedClusterSet
from ocmconsole.accounts import people
from ocmconsole.core.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NAMESPACE
from ocmconsole.core.models import BootstrapToken, Namespace
from ocmconsole.core.tokens import bootstrap_terms, token_formats, tokens
from ocmconsole.demo.agents import JOINED, KLUSTERLET, MARK, UNWELL, WELL, Agent
from ocmconsole.demo.families import BY_PREFIX, SETS, Names
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.models import DemoFleet
from registration import queries
from registration.approvals import services
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR

# How many clusters there are of each state. The silent ones are heard once and then never again.
STATES = {"healthy": 30, "unwell": 2, "silent": 2, "maintenance": 2, "waiting": 4}
PREFIX = "demo-"  # of every name: the hub remembers names and their keys, and a real cluster may want the others
TOKEN_LIFETIME = timedelta(days=1)  # nobody has its secret
TOKEN_NAME = "demonstration fleet"  # noqa: S105 - what the token is for
ROWS_AT_ONCE = 500  # of records, in one transaction
REASON = "Removed with the demonstration fleet."


def planned(seed: int = 1) -> dict[str, dict[str, str]]:
    """The clusters by name, each with its family, state, address and version."""
    names = Names(Random(seed))  # noqa: S311 - it makes up a fleet, no secrets
    found = {}
    for state in (state for state, count in STATES.items() for _ in range(count)):
        family = names.family()
        name = f"{PREFIX}{names.next(family)}"
        found[name] = {
            "family": family.prefix,
            "state": state,
            "address": names.address(family),
            "version": names.version(),
        }
    return found


# ---------------------------------------------------------------- making


@dataclass
class Newcomer(Agent):
    """An agent whose bootstrap token is known by its id: the secret was not kept."""

    token_id: str = ""

    @cached_property
    def bootstrap(self) -> Actor:  # of no secret
        groups = (token_formats.BOOTSTRAPPERS, tokens.JOINING, AUTHENTICATED)
        return Actor(
            user=f"system:bootstrap:{self.token_id}",
            groups=groups,
            credential=f"{bootstrap_terms.PREFIX}{self.token_id}",
            address=self.address,
            user_agent=KLUSTERLET,
            bearers=sum(STATES.values()),
        )


def make(fleet: DemoFleet, actor: Actor, seconds: float) -> bool:
    """Go on for so long, but one cluster at least; True when all are there. Raises ApiError."""
    until = monotonic() + seconds
    _make_surroundings(fleet, actor)
    open_ = 0
    for name, plan in fleet.clusters.items():
        if monotonic() > until:
            return False
        open_ += not _is_complete(fleet, actor, name, plan)
    return not open_


def _make_surroundings(fleet: DemoFleet, actor: Actor) -> None:
    """Sets that are not there yet, and a token for the clusters.

    What will be made is noted first, and a token is found by its name: a process may die in between.
    """
    if "tokens" in fleet.made:
        return
    wanted = dict.fromkeys(BY_PREFIX[plan["family"]].clusterset for plan in fleet.clusters.values())
    present = set(ManagedClusterSet.objects.filter(name__in=wanted).values_list("name", flat=True))
    if "sets" not in fleet.made:
        fleet.made["sets"] = [name for name in SETS if name in wanted and name not in present]
        fleet.save(update_fields=["made"])
    for name in (name for name in fleet.made["sets"] if name not in present):
        doc = {"apiVersion": MANAGED_CLUSTER_SET.storage.api_version, "kind": MANAGED_CLUSTER_SET.kind}
        verbs.create(actor, MANAGED_CLUSTER_SET, doc | {"metadata": {"name": name}})
    if not _tokens(fleet):
        tokens.require_mint(actor)
        tokens.issue_bootstrap_token(actor, name=TOKEN_NAME, ttl=TOKEN_LIFETIME, max_uses=len(fleet.clusters))
    fleet.made["tokens"] = _tokens(fleet)
    fleet.save(update_fields=["made"])


def _tokens(fleet: DemoFleet) -> list[str]:
    """Ids of the tokens made for the fleet that nobody has revoked, be they noted or not."""
    found = BootstrapToken.objects.filter(revoked_at=None, created__gte=fleet.created, name=TOKEN_NAME)
    noted = BootstrapToken.objects.filter(revoked_at=None, pk__in=fleet.made.get("tokens", []))
    return sorted({*found.values_list("pk", flat=True), *noted.values_list("pk", flat=True)})


def _is_complete(fleet: DemoFleet, actor: Actor, name: str, plan: dict[str, str]) -> bool:
    """Take the cluster's next steps; False when one of them has to wait for the hub's reconcilers."""
    agent = Newcomer(
        name=name,
        family=BY_PREFIX[plan["family"]],
        tokens={},
        address=plan["address"],
        version=plan["version"],
        token_id=fleet.made["tokens"][0],
    )
    row = ManagedCluster.objects.filter(name=name).first()
    request = queries.requests_of(name).first()
    if row is None:
        agent.register()
    if request is None and (row is None or not row.available):
        agent.request()
    if plan["state"] == "waiting" or (row is not None and row.available):
        return True
    if row is None or not row.hub_accepts_client:
        services.accept_cluster(actor, name)
        if plan["state"] == "maintenance":
            clusters.start_maintenance(actor, name, reason="A new disk.")
        return False
    if request is None or not request.doc.get("status", {}).get("certificate"):
        return False
    agent.request_name = request.name
    return _has_reported(agent, plan["state"])


def _has_reported(agent: Agent, state: str) -> bool:
    """Heartbeat, then status; False while the hub has not made the agent's lease or rights."""
    try:
        if state == "silent":
            agent.beat()
        else:
            agent.beats_on()
        agent.report(JOINED, UNWELL if state == "unwell" else WELL)
    except (errors.Forbidden, errors.NotFound):
        return False
    return True


# ---------------------------------------------------------------- removing


def remove(fleet: DemoFleet, actor: Actor, seconds: float) -> bool:
    """Go on for so long, but one thing at least; True when nothing is left but audit and keys. Raises ApiError."""
    until = monotonic() + seconds
    for _ in _removal(fleet, actor):
        if monotonic() > until:
            return False
    return not left(fleet).exists()


def _removal(fleet: DemoFleet, actor: Actor) -> Iterator[None]:
    """After each thing that was removed; what is gone already takes no step. Clusters first, by their reconcilers."""
    for row in left(fleet):
        _remove_cluster(actor, row)
        yield
    if left(fleet).exists():
        return
    for request in queries.requests_of_all(list(fleet.clusters)):
        _delete(actor, CSR, request.name)
        yield
    yield from _surroundings_removed(fleet, actor)
    yield from _forgotten(list(fleet.clusters))


def left(fleet: DemoFleet) -> Any:
    """Its clusters that are still there: of its names, and marked by their agents."""
    return ManagedCluster.objects.filter(name__in=fleet.clusters, labels__has_key=MARK).order_by("name")


def _remove_cluster(actor: Actor, row: Any) -> None:
    """Nobody is there to clean up after an add-on or a work, so what waits for that is given up."""
    key = Key("", row.name)
    try:
        if row.deleted_at is None:
            clusters.remove_cluster(actor, row.name, revoke=row.hub_accepts_client)
            return
        clusters.detach_cluster(actor, row.name, reason=REASON)
        verbs.edit(actor, MANAGED_CLUSTER, key, _let_go)
    except errors.NotFound:
        return  # it went meanwhile


def _let_go(doc: Any) -> None:
    """Of finalizers on the cluster itself, the hub's own stay: they end by its reconcilers."""
    doc["metadata"]["finalizers"] = [each for each in doc["metadata"].get("finalizers") or [] if each in OWN_FINALIZERS]


def _surroundings_removed(fleet: DemoFleet, actor: Actor) -> Iterator[None]:
    made = fleet.made
    kept = set(ManagedCluster.objects.filter(name__in=fleet.clusters).values_list("name", flat=True))
    gone = sorted(set(fleet.clusters) - kept)
    left = Namespace.objects.filter(name__in=gone)  # a removed cluster leaves its namespace (H11)
    theirs = [row.name for row in left if row.labels.get(CLUSTER_LABEL) == row.name]
    used = set(ManagedCluster.objects.values_list("clusterset", flat=True).distinct())
    unused = sorted(set(made.get("sets", [])) - used)  # somebody may have put a cluster of their own into one
    for kind, names in (
        (NAMESPACE, [*theirs, *made.get("namespaces", [])]),
        (CLUSTER_ROLE_BINDING, made.get("roles", [])),
        (CLUSTER_ROLE, made.get("roles", [])),
        (MANAGED_CLUSTER_SET, unused),
    ):
        there = kind.model._default_manager.filter(name__in=names, deleted_at=None)  # noqa: SLF001 - Django's documented name
        for name in list(there.order_by("name").values_list("name", flat=True)):
            _delete(actor, kind, name)
            yield
    for pk in _tokens(fleet):
        tokens.revoke_bootstrap_token(actor, pk)
        yield
    for holder in _holders(made):
        people.delete_account(actor, holder)
        yield


def _holders(made: dict[str, list[str]]) -> Iterator[User | Group]:
    yield from User.objects.filter(username__in=made.get("users", []))
    yield from Group.objects.filter(name__in=made.get("groups", []))


def _delete(actor: Actor, kind: Kind, name: str) -> None:
    try:
        verbs.delete(actor, kind, Key("", name))
    except errors.NotFound:
        return


def _forgotten(names: list[str]) -> Iterator[None]:
    """The figures of a hub are those of its real clusters; the audit keeps every act, and the register every key."""
    found = [HeartbeatDay.objects.filter(cluster__in=names), Transition.objects.filter(cluster__in=names)]
    if not ManagedCluster.objects.exists():
        found.append(FleetMinute.objects.all())
    for rows in found:
        while pks := list(rows.values_list("pk", flat=True)[:ROWS_AT_ONCE]):
            rows.model._default_manager.filter(pk__in=pks).delete()  # noqa: SLF001 - as above
            yield
