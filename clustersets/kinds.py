"""Registers ManagedClusterSet and ManagedClusterSetBinding. Each tuple of versions begins with the stored one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.kinds import GROUP, spec_of
from clustersets import schemas, wire
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.kinds import Kind, Subresource, Version
from ocmconsole.kubeapi.schema import Schema

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

DEFAULT_SET = "default"
GLOBAL_SET = "global"


def _project_set(row: ManagedClusterSet, doc: Doc) -> None:
    row.manages_namespaces = bool(spec_of(doc).get("managedNamespaces"))


def _project_binding(row: ManagedClusterSetBinding, doc: Doc) -> None:
    row.cluster_set = doc["metadata"]["name"]  # A8: they are the same, and a name is never too long


def _schema(root: Doc, kind: str) -> Schema:
    return Schema(root, name=f"io.open-cluster-management.cluster.v1beta2.{kind}")


SET_VERSIONS = (
    Version(
        group=GROUP,
        version="v1beta2",
        schema=_schema(schemas.MANAGED_CLUSTER_SET, "ManagedClusterSet"),
        columns=wire.MANAGED_CLUSTER_SET_COLUMNS,
    ),
)
BINDING_VERSIONS = (
    Version(
        group=GROUP,
        version="v1beta2",
        schema=_schema(schemas.MANAGED_CLUSTER_SET_BINDING, "ManagedClusterSetBinding"),
    ),
)

MANAGED_CLUSTER_SET = kinds.register(
    Kind(
        kind="ManagedClusterSet",
        plural="managedclustersets",
        singular="managedclusterset",
        short_names=("mclset", "mclsets"),
        namespaced=False,
        versions=SET_VERSIONS,
        model=ManagedClusterSet,
        subresources=(Subresource("status"),),
        custom=True,
        project=_project_set,
    )
)

MANAGED_CLUSTER_SET_BINDING = kinds.register(
    Kind(
        kind="ManagedClusterSetBinding",
        plural="managedclustersetbindings",
        singular="managedclustersetbinding",
        short_names=("mclsetbinding", "mclsetbindings"),
        namespaced=True,
        versions=BINDING_VERSIONS,
        model=ManagedClusterSetBinding,
        subresources=(Subresource("status"),),
        custom=True,
        project=_project_binding,
    )
)
