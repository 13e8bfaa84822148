"""Builders of the objects that tests need. They go through verbs: what could not exist cannot be a fixture."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON, MANIFEST_WORK
from clusters.kinds import LEASE, LEASE_NAME, MANAGED_CLUSTER
from clusters.models import ManagedCluster, Serving
from clusters.tasks import sweep_leases
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from ocmconsole.core import defaults
from ocmconsole.core.kinds import NAMESPACE
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, MASTERS, Actor
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.models import Change
from ocmconsole.kubeapi.verbs import Edit
from registration import hub_setup
from registration.models import IssuedCertificate
from registration.pki import ca
from tests.kept import kept

Doc = dict[str, Any]

ADMIN = Actor(user="root", groups=(MASTERS, AUTHENTICATED))


def agent(cluster: str) -> Actor:
    """The agent of an accepted cluster, as its certificate names it."""
    group = f"system:open-cluster-management:{cluster}"
    return Actor(user=f"{group}:agent", groups=(group, AUTHENTICATED))


def document(kind: Kind, name: str, *, spec: Doc | None = None, **metadata: Any) -> Doc:
    doc: Doc = {"apiVersion": kind.storage.api_version, "kind": kind.kind, "metadata": {"name": name, **metadata}}
    return doc if spec is None else doc | {"spec": spec}


def create(kind: Kind, doc: Doc, *, by: Actor = ADMIN, namespace: str = "") -> Doc:
    made = verbs.create(by, kind, doc, namespace=namespace).doc
    assert made is not None
    return made


def cluster(name: str, *, accepted: bool = False, by: Actor = ADMIN, spec: Doc | None = None, **metadata: Any) -> Doc:
    spec = {"hubAcceptsClient": accepted, **(spec or {})}
    return create(MANAGED_CLUSTER, document(MANAGED_CLUSTER, name, spec=spec, **metadata), by=by)


def clusterset(name: str, *, selector: Doc | None = None, namespaces: tuple[str, ...] = ()) -> Doc:
    spec: Doc = {"clusterSelector": selector} if selector is not None else {}
    if namespaces:
        spec["managedNamespaces"] = [{"name": namespace} for namespace in namespaces]
    return create(MANAGED_CLUSTER_SET, document(MANAGED_CLUSTER_SET, name, spec=spec))


def binding(name: str, *, namespace: str, by: Actor = ADMIN) -> Doc:
    doc = document(MANAGED_CLUSTER_SET_BINDING, name, spec={"clusterSet": name})
    return create(MANAGED_CLUSTER_SET_BINDING, doc, by=by, namespace=namespace)


def namespace(name: str, **metadata: Any) -> Doc:
    return create(NAMESPACE, document(NAMESPACE, name, **metadata))


def addon(cluster: str, name: str = "addon", **metadata: Any) -> Doc:
    return create(MANAGED_CLUSTER_ADDON, document(MANAGED_CLUSTER_ADDON, name, spec={}, **metadata), namespace=cluster)


def work(cluster: str, name: str = "work", **metadata: Any) -> Doc:
    return create(MANIFEST_WORK, document(MANIFEST_WORK, name, spec={}, **metadata), namespace=cluster)


def let_go(kind: Kind, name: str, *, namespace: str = "") -> None:
    """Take every finalizer off; what is being deleted goes."""
    verbs.edit(ADMIN, kind, Key(namespace, name), lambda doc: doc["metadata"].pop("finalizers"))


def edit(kind: Kind, name: str, change: Edit, *, by: Actor = ADMIN, namespace: str = "", subresource: str = "") -> Doc:
    edited = verbs.edit(by, kind, Key(namespace, name), change, subresource=subresource).doc
    assert edited is not None
    return edited


def accept(name: str, *, by: Actor = ADMIN, accepts: bool = True) -> Doc:
    return edit(MANAGED_CLUSTER, name, lambda doc: doc["spec"].update(hubAcceptsClient=accepts), by=by)


def label(name: str, labels: Mapping[str, str | None] | None = None, *, by: Actor = ADMIN, **more: str) -> Doc:
    """Set labels of a cluster, or drop those whose value is None."""

    def change(doc: Doc) -> None:
        wanted = {**doc["metadata"].get("labels", {}), **(labels or {}), **more}
        doc["metadata"]["labels"] = {key: value for key, value in wanted.items() if value is not None}

    return edit(MANAGED_CLUSTER, name, change, by=by)


def said(name: str, type_: str, status: str, *, reason: str = "Said", message: str = "") -> Doc:
    """A condition as the agent of a cluster patches it."""
    now = timezone.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}

    def change(doc: Doc) -> None:
        present = doc.setdefault("status", {}).get("conditions") or []
        doc["status"]["conditions"] = [each for each in present if each["type"] != type_] + [condition]

    return edit(MANAGED_CLUSTER, name, change, subresource="status")


def available(name: str, status: str = "True") -> None:
    """The agent has joined and says how it is."""
    said(name, "ManagedClusterJoined", "True", reason="ManagedClusterJoined")
    said(name, "ManagedClusterConditionAvailable", status, reason="ManagedClusterAvailable")


def joined(*names: str) -> None:
    """Accepted clusters whose agents have joined, report that all is well, and renew their leases."""
    for name in names:
        cluster(name, accepted=True)
    settle()
    for name in names:
        available(name)
        renew(name)
    settle()


def renew(name: str, at: datetime | None = None) -> Doc:
    """A heartbeat; ``at`` is what the clock of the agent shows."""
    moment = (at or timezone.now()).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return edit(LEASE, LEASE_NAME, lambda doc: doc["spec"].update(renewTime=moment), namespace=name)


@kept
def staff(name: str) -> User:
    """Somebody for whom Django admin opens, and who may do nothing yet."""
    return User.objects.create_user(name, is_staff=True)


# ---------------------------------------------------------------- a hub's first start


def authority(home: Path, *names: str) -> None:
    """A CA for the home, a day old: the same one for all tests of the process that ask for these names of servers."""
    made = Path(os.environ["OCMCONSOLE_HOME"]) / "authorities" / "-".join(names or ("localhost",))
    ca.ensure_authority(made, list(names or ("localhost",)), now=timezone.now() - timedelta(days=1))
    shutil.copytree(made, home, dirs_exist_ok=True)


@kept
def first_start(_authority: bytes, _url: str) -> None:
    """Roles, namespaces and ConfigMaps; the settings name the home of the authority, and the URL."""
    defaults.ensure_defaults(Actor.controller("test"))
    hub_setup._ensure_registration_objects()
    settle()


@kept
def started(_home: Path) -> None:
    """All that the first start of a hub leaves in the home that the settings name."""
    hub_setup.ensure_hub()
    settle()


def hub(home: Path, settings: Any, *names: str) -> None:
    """What the first start of a hub leaves in its home and in the database; pytest-django's settings name the home."""
    settings.OCMCONSOLE_HOME = home
    authority(home, *names)
    first_start((home / "ca.crt").read_bytes(), settings.OCMCONSOLE_API_URL)


# ---------------------------------------------------------------- time and reconcilers


def serve_since(ago: timedelta) -> None:
    """The hub has been up for so long."""
    now = timezone.now()
    up = {"since": now - ago, "seen": now, "served": now, "gaps": []}
    Serving.objects.update_or_create(pk=1, defaults=up)


def settle() -> int:
    """Run the reconcilers until nothing is due; returns how many items they looked at."""
    return workqueue.drain(limit=500)


def sweep() -> None:
    """What the passing of time asks for, and the work it causes."""
    sweep_leases()
    settle()


def writes_of(act: Any, *arguments: Any) -> list[str]:
    """What a call wrote to the log, as ``verb resource name``."""
    newest = Change.objects.order_by("-revision").values_list("revision", flat=True).first() or 0
    act(*arguments)
    found = Change.objects.filter(revision__gt=newest).order_by("revision")
    return [f"{change.verb} {change.resource} {change.name}" for change in found]


def stored(name: str) -> ManagedCluster:
    row: ManagedCluster = ManagedCluster.objects.get(name=name)
    return row


def condition(doc: Doc, type_: str) -> tuple[str, str, str]:
    """Status, reason and message, empty when it is absent."""
    for each in (doc.get("status") or {}).get("conditions") or ():
        if each["type"] == type_:
            return each["status"], each["reason"], each["message"]
    return "", "", ""


def taints(name: str) -> list[str]:
    """``key:effect`` without the hub's domain."""
    found = stored(name).doc["spec"].get("taints") or []
    return [f"{taint['key'].removeprefix('cluster.open-cluster-management.io/')}:{taint['effect']}" for taint in found]


def certificate(cluster: str, fingerprint: str, *, begins: datetime, ends: datetime, **more: str) -> IssuedCertificate:
    """A row of the issuer, for pages that list what was issued."""
    told = {"common_name": cluster, "key_fingerprint": "k", "serial": "1"} | more
    return IssuedCertificate.objects.create(
        fingerprint=fingerprint, cluster=cluster, not_before=begins, not_after=ends, **told
    )
