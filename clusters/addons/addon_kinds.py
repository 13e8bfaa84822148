"""Registers ManagedClusterAddOn, ClusterManagementAddOn and ManifestWork (T9).

The hub keeps them for the agents and controllers that give them meaning. It acts on them in two places only:
``health.addon_health`` follows their health, ``acceptance.resource_cleanup`` deletes them with their cluster.
"""

from __future__ import annotations

from pathlib import Path

from clusters.addons import addon_wire
from clusters.addons.addon_wire import ADDON_GROUP
from clusters.models import ClusterManagementAddOn, ManagedClusterAddOn, ManifestWork
from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.formats import schema_files
from ocmconsole.kubeapi.kinds import Kind, Subresource, Version
from ocmconsole.kubeapi.schema.compiled_schema import Schema

WORK_GROUP = "work.open-cluster-management.io"
STATUS = (Subresource("status"),)
SCHEMA_FILES = Path(__file__).with_name("schemas")


def _addon_schema(plural: str, version: str, kind: str) -> Schema:
    path = SCHEMA_FILES / f"{plural}.{version}.yaml"
    return schema_files.load(path, name=f"io.open-cluster-management.addon.{version}.{kind}")


MANAGED_CLUSTER_ADDON = kinds.register(
    Kind(
        kind="ManagedClusterAddOn",
        plural="managedclusteraddons",
        singular="managedclusteraddon",
        short_names=("mca", "mcas"),
        namespaced=True,
        versions=(
            Version(
                group=ADDON_GROUP,
                version="v1alpha1",
                schema=_addon_schema("managedclusteraddons", "v1alpha1", "ManagedClusterAddOn"),
                columns=addon_wire.MANAGED_CLUSTER_ADDON_COLUMNS,
            ),
            Version(
                group=ADDON_GROUP,
                version="v1beta1",
                schema=_addon_schema("managedclusteraddons", "v1beta1", "ManagedClusterAddOn"),
                columns=addon_wire.MANAGED_CLUSTER_ADDON_COLUMNS,
                from_storage=addon_wire.addon_from_v1alpha1,
                to_storage=addon_wire.addon_to_v1alpha1,
            ),
        ),
        model=ManagedClusterAddOn,
        subresources=STATUS,
        custom=True,
    )
)

CLUSTER_MANAGEMENT_ADDON = kinds.register(
    Kind(
        kind="ClusterManagementAddOn",
        plural="clustermanagementaddons",
        singular="clustermanagementaddon",
        short_names=("cma", "cmas"),
        namespaced=False,
        versions=(
            Version(
                group=ADDON_GROUP,
                version="v1alpha1",
                schema=_addon_schema("clustermanagementaddons", "v1alpha1", "ClusterManagementAddOn"),
                columns=addon_wire.CLUSTER_MANAGEMENT_ADDON_COLUMNS,
            ),
            Version(
                group=ADDON_GROUP,
                version="v1beta1",
                schema=_addon_schema("clustermanagementaddons", "v1beta1", "ClusterManagementAddOn"),
                columns=addon_wire.CLUSTER_MANAGEMENT_ADDON_COLUMNS_V1BETA1,
                from_storage=addon_wire.management_from_v1alpha1,
                to_storage=addon_wire.management_to_v1alpha1,
            ),
        ),
        model=ClusterManagementAddOn,
        subresources=STATUS,
        custom=True,
    )
)

MANIFEST_WORK = kinds.register(
    Kind(
        kind="ManifestWork",
        manifests=("spec", "workload", "manifests"),
        confidential=True,  # manifests may be Secrets
        plural="manifestworks",
        singular="manifestwork",
        namespaced=True,
        versions=(
            Version(
                group=WORK_GROUP,
                version="v1",
                schema=schema_files.load(
                    SCHEMA_FILES / "manifestworks.v1.yaml", name="io.open-cluster-management.work.v1.ManifestWork"
                ),
            ),
        ),
        model=ManifestWork,
        subresources=STATUS,
        custom=True,
    )
)
