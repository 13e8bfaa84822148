"""Registers ManagedClusterSet and ManagedClusterSetBinding. Each tuple of versions begins with the stored one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusters.kinds import GROUP, spec_of
from clustersets import wire
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.formats import schema_files
from ocmconsole.kubeapi.kinds import Kind, PrinterColumn, Subresource, Version, same, same_over

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

DEFAULT_SET = "default"
GLOBAL_SET = "global"
SCHEMA_FILES = Path(__file__).with_name("schemas")


def _project_set(row: ManagedClusterSet, doc: Doc) -> None:
    row.manages_namespaces = bool(spec_of(doc).get("managedNamespaces"))


def _project_binding(row: ManagedClusterSetBinding, doc: Doc) -> None:
    row.cluster_set = doc["metadata"]["name"]  # A8: a binding has the name of its set, and a name is never too long


def _version(version: str, kind: str, **more: Any) -> Version:
    path = SCHEMA_FILES / f"{kind.lower()}s.{version}.yaml"
    schema = schema_files.load(path, name=f"io.open-cluster-management.cluster.{version}.{kind}")
    return Version(group=GROUP, version=version, schema=schema, **more)


def _older(
    version: str,
    kind: str,
    *,
    shown: Callable[[Doc], Doc] = same,
    stored: Callable[[Doc, Doc | None], Doc] = same_over,
    columns: tuple[PrinterColumn, ...] = (),
) -> Version:
    """D1: older versions are served with a ``Warning`` header, in Kubernetes' words for deprecated versions."""
    api_version = f"{GROUP}/{version}"
    return _version(
        version,
        kind,
        columns=columns,
        from_storage=lambda doc: {**shown(doc), "apiVersion": api_version},
        to_storage=stored,
        warning=f"{api_version} {kind} is deprecated; use {GROUP}/v1beta2 {kind}",
    )


_SET = "ManagedClusterSet"
_BINDING = "ManagedClusterSetBinding"

SET_VERSIONS = (
    _version("v1beta2", _SET, columns=wire.MANAGED_CLUSTER_SET_COLUMNS),
    _older(
        "v1beta1",
        _SET,
        shown=wire.set_to_v1beta1,
        stored=wire.set_from_v1beta1,
        columns=wire.MANAGED_CLUSTER_SET_COLUMNS,
    ),
    _older(
        "v1alpha1",
        _SET,
        shown=wire.set_to_v1alpha1,
        stored=wire.set_from_v1alpha1,
        columns=wire.MANAGED_CLUSTER_SET_COLUMNS,
    ),
)
BINDING_VERSIONS = (
    _version("v1beta2", _BINDING),
    _older("v1beta1", _BINDING),
    _older("v1alpha1", _BINDING),
)

MANAGED_CLUSTER_SET = kinds.register(
    Kind(
        kind=_SET,
        has_permissions=True,
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
        kind=_BINDING,
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
