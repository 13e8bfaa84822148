"""Registers ManagedCluster, ClusterClaim and Lease: names, columns, and what of a document becomes columns of rows."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusters import claims, wire
from clusters.models import ClusterClaim, ClusterTaint, Lease, ManagedCluster, ReportedClaim
from ocmconsole.core import protobuf_fields
from ocmconsole.kubeapi import clock, kinds
from ocmconsole.kubeapi.formats import schema_files
from ocmconsole.kubeapi.kinds import ChildRows, Kind, Subresource, Version
from ocmconsole.kubeapi.schema import conditions, times
from ocmconsole.kubeapi.storage import audit_acts

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

GROUP = "cluster.open-cluster-management.io"
REGISTER = "register.open-cluster-management.io"
SCHEMA_FILES = Path(__file__).with_name("schemas")

CLUSTER_LABEL = "open-cluster-management.io/cluster-name"
CLUSTERSET_LABEL = f"{GROUP}/clusterset"
SKIP_CLOCK_CHECK = "registration.open-cluster-management.io/skip-clock-sync-check"
LEASE_NAME = "managed-cluster-lease"
# What holds a deleted cluster until its rights are gone (H4), and until what is in its namespace is (H27).
API_RESOURCE_CLEANUP = f"{GROUP}/api-resource-cleanup"
RESOURCE_CLEANUP = f"{GROUP}/resource-cleanup"
OWN_FINALIZERS = (API_RESOURCE_CLEANUP, RESOURCE_CLEANUP)  # of the hub on a ManagedCluster
DEFAULT_LEASE_SECONDS = 60  # upstream's default
# A day. Upstream takes any number up to 2^31, and agents write it: a cluster must not be able to be silent for years.
# The document keeps what was written (D12); the hub waits no longer than five times this.
LONGEST_LEASE_SECONDS = 86_400
SECOND = 1_000_000  # microseconds
VERSION = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?", re.ASCII)
LARGEST_PART = 10**6  # one part of a version number, as sorted
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ACCEPTS_CLIENT = "hubAcceptsClient"
ACCEPTS_CLIENT_PATH = f"spec.{ACCEPTS_CLIENT}"  # as causes of a refusal, diffs and limits of rights name the field
# D9: on a ManagedCluster, the fingerprint of the one key that a user has allowed although the name has other keys.
ACCEPT_KEY = "registration.ocmconsole.io/accept-key"


class TaintEffect(StrEnum):
    """What a taint does to placements that do not tolerate it."""

    NO_SELECT = "NoSelect"
    NO_SELECT_IF_NEW = "NoSelectIfNew"
    PREFER_NO_SELECT = "PreferNoSelect"


MAINTENANCE_TAINT = "ocmconsole.io/maintenance"  # a key; a person sets it, with any effect
# H21: the hub sets and removes these two; whether a taint is one of them: ``is_hub_taint``.
UNREACHABLE_TAINT = {"key": f"{GROUP}/unreachable", "effect": TaintEffect.NO_SELECT.value}
UNAVAILABLE_TAINT = {"key": f"{GROUP}/unavailable", "effect": TaintEffect.NO_SELECT.value}
HUB_TAINTS = (UNREACHABLE_TAINT, UNAVAILABLE_TAINT)


class ConditionType(StrEnum):
    """Conditions of a cluster that the hub reads or writes."""

    ACCEPTED = "HubAcceptedManagedCluster"
    JOINED = "ManagedClusterJoined"
    AVAILABLE = "ManagedClusterConditionAvailable"
    CLOCK_SYNCED = "ManagedClusterConditionClockSynced"
    DELETING = "Deleting"


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def parse_instant(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def conditions_of(doc: Doc) -> list[Doc]:
    return list((doc.get("status") or {}).get("conditions") or ())


def spec_of(doc: Doc) -> Doc:
    """A cluster without a spec is valid and means: not accepted."""
    return dict(doc.get("spec") or {})


def is_accepted(doc: Doc | None) -> bool:
    """Whether the hub lets the cluster in now, by ``spec.hubAcceptsClient``; False for no document.

    The column ``ManagedCluster.hub_accepts_client`` holds the same for rows and queries. The column ``accepted`` is
    something else: the status of the condition HubAcceptedManagedCluster, empty while it was never accepted.
    """
    return doc is not None and bool(spec_of(doc).get(ACCEPTS_CLIENT))


def is_deleting(doc: Doc) -> bool:
    return bool(doc["metadata"].get("deletionTimestamp"))


def accept_command(name: str, *, accepted: bool = True) -> str:
    """The kubectl command that accepts a cluster, or disconnects it."""
    patch = json.dumps({"spec": {ACCEPTS_CLIENT: accepted}}, separators=(",", ":"))
    return f"kubectl patch managedcluster {name} --type=merge -p '{patch}'"


def taints_of(doc: Doc) -> list[Doc]:
    """A new list of the taints in the document's order; empty if it has none."""
    return list(spec_of(doc).get("taints") or ())


def is_same_taint(taint: Doc, other: Doc) -> bool:
    """Whether key, value and effect are equal; no value is the empty one."""
    return all((taint.get(part) or "") == (other.get(part) or "") for part in ("key", "value", "effect"))


def is_hub_taint(taint: Doc) -> bool:
    """H21: whether the hub sets and removes exactly this taint. One of the same key with another effect is not its."""
    return any(is_same_taint(taint, own) for own in HUB_TAINTS)


def maintenance_taint(doc: Doc) -> Doc | None:
    """The taint because of which the cluster is in maintenance; None if it is not."""
    return next((taint for taint in taints_of(doc) if taint["key"] == MAINTENANCE_TAINT), None)


def finalizers_of(doc: Doc) -> list[str]:
    return list(doc["metadata"].get("finalizers") or ())


def label_of(doc: Doc, label: str) -> str:
    return str((doc["metadata"].get("labels") or {}).get(label, ""))


def _project_cluster(row: ManagedCluster, doc: Doc) -> None:
    spec = spec_of(doc)
    row.hub_accepts_client = is_accepted(doc)
    seconds = spec.get("leaseDurationSeconds") or 0
    row.lease_duration_seconds = min(seconds, LONGEST_LEASE_SECONDS) if seconds > 0 else DEFAULT_LEASE_SECONDS
    row.accepted, row.accepted_since = _condition(doc, ConditionType.ACCEPTED)
    row.joined, _ = _condition(doc, ConditionType.JOINED)
    row.available, row.available_since = _condition(doc, ConditionType.AVAILABLE)
    row.available_message = "" if row.available == "True" else _message(doc, ConditionType.AVAILABLE)
    row.deleting_message = _message(doc, ConditionType.DELETING)
    maintenance = maintenance_taint(doc)
    row.in_maintenance = maintenance is not None
    row.maintenance_since = times.time_of(maintenance.get("timeAdded")) if maintenance else None
    row.clock_synced, row.clock_since = _condition(doc, ConditionType.CLOCK_SYNCED)
    row.ignores_clock = (doc["metadata"].get("annotations") or {}).get(SKIP_CLOCK_CHECK) == "true"
    row.clusterset = label_of(doc, CLUSTERSET_LABEL)
    version = (doc.get("status") or {}).get("version") or {}
    row.kubernetes_version = str(version.get("kubernetes") or "")[:64]
    row.kubernetes_order = order_of(row.kubernetes_version)


def order_of(version: str) -> int:
    """``v1.34.2`` as a number that orders as versions do; 0 for what is none."""
    found = VERSION.match(version)
    total = 0
    for part in found.groups(default="0") if found else ():
        total = total * LARGEST_PART + min(int(part), LARGEST_PART - 1)
    return total


def _taint_rows(doc: Doc) -> list[dict[str, Any]]:
    """The taints as columns of rows of their own."""
    return [
        {
            "key": taint["key"],
            "value": taint.get("value") or "",
            "effect": taint["effect"],
            "added": times.time_of(taint.get("timeAdded")),
        }
        for taint in taints_of(doc)
    ]


def _condition(doc: Doc, type_: str) -> tuple[str, datetime | None]:
    found = conditions.find_condition(conditions_of(doc), type_)
    if found is None:
        return "", None
    return found["status"], times.time_of(found.get("lastTransitionTime"))


def _message(doc: Doc, type_: str) -> str:
    return str((conditions.find_condition(conditions_of(doc), type_) or {}).get("message", ""))


def _project_lease(row: Lease, doc: Doc) -> None:
    """``lease_documents.renewed`` makes the same columns of an agent's plain renewal."""
    spec = spec_of(doc)
    renewed = times.time_of(spec.get("renewTime"))
    row.duration = spec.get("leaseDurationSeconds")
    row.renew_time = microseconds(renewed) if renewed else None
    row.skew = microseconds(clock.now()) - row.renew_time if row.renew_time is not None else None


MANAGED_CLUSTER = kinds.register(
    Kind(
        kind="ManagedCluster",
        has_permissions=True,
        plural="managedclusters",
        singular="managedcluster",
        short_names=("mcl", "mcls"),
        namespaced=False,
        versions=(
            Version(
                group=GROUP,
                version="v1",
                schema=schema_files.load(
                    SCHEMA_FILES / "managedclusters.v1.yaml",
                    name="io.open-cluster-management.cluster.v1.ManagedCluster",
                ),
                columns=wire.MANAGED_CLUSTER_COLUMNS,
            ),
        ),
        model=ManagedCluster,
        subresources=(Subresource("status"),),
        custom=True,
        project=_project_cluster,
        parts=(ChildRows(ReportedClaim, "cluster", claims.columns), ChildRows(ClusterTaint, "cluster", _taint_rows)),
    )
)

CLUSTER_CLAIM = kinds.register(
    Kind(
        kind="ClusterClaim",
        plural="clusterclaims",
        singular="clusterclaim",
        namespaced=False,
        versions=(
            Version(
                group=GROUP,
                version="v1alpha1",
                schema=schema_files.load(
                    SCHEMA_FILES / "clusterclaims.v1alpha1.yaml",
                    name="io.open-cluster-management.cluster.v1alpha1.ClusterClaim",
                ),
                columns=wire.CLUSTER_CLAIM_COLUMNS,
            ),
        ),
        model=ClusterClaim,
        custom=True,
    )
)

LEASE = kinds.register(
    Kind(
        kind="Lease",
        plural="leases",
        singular="lease",
        namespaced=True,
        versions=(
            Version(
                group="coordination.k8s.io",
                version="v1",
                schema=schema_files.load(SCHEMA_FILES / "leases.v1.yaml", name="io.k8s.api.coordination.v1.Lease"),
                columns=wire.LEASE_COLUMNS,
                protobuf=protobuf_fields.LEASE,
            ),
        ),
        model=Lease,
        create_on_update=True,
        project=_project_lease,
        audited=False,
        retention_seconds=120,
        timed={"skew": "renew_time"},
    )
)

# Acts that the audit names (D11) besides the generic verbs.
audit_acts.declare("managedcluster:accept", "Accepted", refused="Acceptance refused")
audit_acts.declare("managedcluster:disconnect", "Disconnected", refused="Disconnecting refused")
audit_acts.declare("managedcluster:detach", "Removal ended without the agent", refused="Ending the removal refused")
