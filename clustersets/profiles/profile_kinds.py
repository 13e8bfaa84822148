"""Registers ClusterProfile, and the one rule that its definition has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from clusters.kinds import spec_of
from clustersets.models import ClusterProfile
from ocmconsole.kubeapi import admission, errors, kinds
from ocmconsole.kubeapi.formats import schema_files
from ocmconsole.kubeapi.kinds import Kind, Subresource, Version

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

GATE = "ClusterProfile"
GROUP = "multicluster.x-k8s.io"
SCHEMA_FILE = Path(__file__).with_name("schemas") / "clusterprofiles.v1alpha1.yaml"

# I1: no short names. It prints its age alone, as its definition has no columns.
CLUSTER_PROFILE = kinds.register(
    Kind(
        kind="ClusterProfile",
        plural="clusterprofiles",
        singular="clusterprofile",
        namespaced=True,
        versions=(
            Version(
                group=GROUP,
                version="v1alpha1",
                schema=schema_files.load(SCHEMA_FILE, name="io.x-k8s.multicluster.v1alpha1.ClusterProfile"),
            ),
        ),
        model=ClusterProfile,
        subresources=(Subresource("status"),),
        custom=True,
    )
)


def is_on() -> bool:
    """D25: while the gate is off the hub writes no profiles, and those that exist stay."""
    return bool(settings.OCMCONSOLE_FEATURE_GATES[GATE])


@admission.validator(CLUSTER_PROFILE)
def cluster_manager_is_immutable(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """I2: ``spec.clusterManager`` of a ClusterProfile is immutable. Raises Invalid."""
    if old is not None and spec_of(old).get("clusterManager") != spec_of(new).get("clusterManager"):
        cause = errors.invalid_field("spec.clusterManager", '"object"', "ClusterManager is immutable")
        raise errors.is_invalid(GROUP, CLUSTER_PROFILE.kind, new["metadata"]["name"], [cause])
