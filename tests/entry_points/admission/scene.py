"""What a row of the table of admission finds when its way opens, and what it leaves there."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from guardian.shortcuts import assign_perm

from clusters.models import ClusterFacts, ManagedCluster
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from ocmconsole.core.kinds import NAMESPACE
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import admission, verbs
from ocmconsole.kubeapi.access.actor import MASTERS
from ocmconsole.kubeapi.formats import apply
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.watch import change_log
from ocmconsole.kubeapi.writes import store
from ocmconsole.kubeapi.writes.store import Write
from registration import hub_setup
from registration.pki import agent_names
from tests import factories as make
from tests.actors import grant, person
from tests.api import entry
from tests.api.entry import Entry
from tests.entry_points.admission.row import Doc, Row, Sort, Who

MANAGER = "the-table"
LONG_AGO = "2026-01-02T03:04:05Z"
LISTED = (ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding)


# ---------------------------------------------------------------- what else there is


def ending_namespace(name: str = "c1") -> Callable[[], Any]:
    def end() -> None:
        make.namespace(name, finalizers=["example.com/hold"])
        verbs.delete(make.ADMIN, NAMESPACE, Key("", name))

    return end


def namespace(name: str) -> Callable[[], Any]:
    return lambda: make.namespace(name)


def clusterset(name: str) -> Callable[[], Any]:
    return lambda: make.clusterset(name)


def binding(name: str, namespace: str) -> Callable[[], Any]:
    return lambda: make.binding(name, namespace=namespace)


def other_cluster(name: str, *, accepted: bool) -> Callable[[], Any]:
    return lambda: make.cluster(name, accepted=accepted)


def sent_away(name: str) -> Callable[[], Any]:
    """It is not accepted any more; what it had is still there."""

    def send() -> None:
        make.cluster(name, accepted=True)
        make.settle()
        make.accept(name, accepts=False)

    return send


# ---------------------------------------------------------------- what is stored


def store_old(row: Row) -> None:
    """Exactly as the row says, past all rules: some of it is older than they are. The table's manager owns all of it."""
    if row.old is None:
        return
    doc = apply.apply(
        None,
        identified(row, row.old),
        manager=MANAGER,
        force=True,
        api_version=row.kind.storage.api_version,
        schema=row.kind.storage.schema.root,
        now=LONG_AGO,
    )
    doc["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": LONG_AGO, "generation": 1}
    key = Key(row.namespace, row.name)
    store.commit(
        [Write(row.kind, key, None, None, doc, make.ADMIN, "create", admission.act(row.kind, "create", None, doc))]
    )


def identified(row: Row, doc: Doc) -> Doc:
    """With kind, name and place."""
    place = {"name": row.name} | ({"namespace": row.namespace} if row.namespace else {})
    typed = {"apiVersion": row.kind.storage.api_version, "kind": row.kind.kind}
    return {**typed, **doc, "metadata": {**place, **doc.get("metadata", {})}}


def stored(row: Row) -> Doc | None:
    return verbs.find(row.kind, Key(row.namespace, row.name))


def everything() -> list[Any]:
    """What a refusal leaves as it was: objects, facts, and the number of the last change."""
    wires = [list(model._default_manager.order_by("pk").values_list("wire", flat=True)) for model in LISTED]
    return [*wires, list(ClusterFacts.objects.order_by("pk").values()), change_log.newest_revision()]


# ---------------------------------------------------------------- who


@dataclass(frozen=True)
class Caller:
    """``name`` stands in messages and in the audit; ``user`` is the Django user of a person."""

    name: str
    entry: Entry
    user: Any = None


def admit(who: Who) -> Caller:
    """With the credential of the row's sort and the rights of the row."""
    if who.rules:
        grant(person(who.name), *who.rules)
    match who.sort:
        case Sort.PERSON:
            return Caller(who.name, entry.person(who.name, *([MASTERS] if who.masters else [])), _person(who))
        case Sort.BOOTSTRAP:
            token = tokens.issue_bootstrap_token(make.ADMIN, ttl=timedelta(hours=1), cluster=who.name)
            name = f"system:bootstrap:{token.partition('.')[0]}"
            grant(person(name), *hub_setup.BOOTSTRAP_RULES)
            return Caller(name, Entry({"HTTP_AUTHORIZATION": f"Bearer {token}"}))
        case Sort.HUB:  # no credential is ever issued for its names (D24)
            return Caller(who.name, Entry({}))
        case _:
            group = agent_names.group_of(who.name.split(":")[2])
            return Caller(who.name, entry.person(who.name, group, agent_names.MANAGED_CLUSTERS))


def _person(who: Who) -> Any:
    user = User.objects.create_user(who.name, is_staff=True, is_superuser=who.masters)
    holder: Any = user
    if who.by_group:
        holder = Group.objects.create(name="team")
        user.groups.add(holder)
    for permission, name in who.permissions:
        model = ManagedCluster if permission.startswith("clusters.") else ManagedClusterSet
        assign_perm(permission, holder, *([model._default_manager.get(name=name)] if name else []))
    return user
