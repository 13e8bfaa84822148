"""What a ClusterProfile says of its cluster (I5, I9 to I12), made of documents alone. Pure.

Nothing here changes its arguments. What others wrote into a profile stays: other labels, conditions, ways to reach the
cluster, the name for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from clusters.kinds import CLUSTER_LABEL, CLUSTERSET_LABEL, ConditionType, conditions_of, label_of, spec_of
from clustersets.profiles.profile_kinds import CLUSTER_PROFILE, GROUP
from ocmconsole.kubeapi.schema import conditions
from ocmconsole.kubeapi.schema.conditions import Condition

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

MANAGER = "open-cluster-management"
MANAGER_LABEL = "x-k8s.io/cluster-manager"
SET_LABEL = f"{GROUP}/clusterset"
# I11: conditions of a profile, by that of the cluster which each repeats.
MIRRORED = {ConditionType.AVAILABLE: "ControlPlaneHealthy", ConditionType.JOINED: "Joined"}


def is_labelled(labels: Mapping[str, str]) -> bool:
    """I6: whether a profile with these labels is this hub's to delete."""
    return labels.get(MANAGER_LABEL) == MANAGER


def is_managed(profile: Doc) -> bool:
    """Whether this hub keeps what the profile says: its cluster manager, which is immutable, is this one."""
    return bool(spec_of(profile).get("clusterManager", {}).get("name") == MANAGER)


def labels_for(cluster: Doc) -> dict[str, str]:
    """I5, I12: labels of a profile of the cluster."""
    return {
        MANAGER_LABEL: MANAGER,
        CLUSTER_LABEL: cluster["metadata"]["name"],
        SET_LABEL: label_of(cluster, CLUSTERSET_LABEL),
    }


def new_profile(cluster: Doc) -> Doc:
    """I5: a document without status."""
    name = cluster["metadata"]["name"]
    return {
        "apiVersion": CLUSTER_PROFILE.storage.api_version,
        "kind": CLUSTER_PROFILE.kind,
        "metadata": {"name": name, "labels": labels_for(cluster)},
        "spec": {"displayName": name, "clusterManager": {"name": MANAGER}},
    }


def status_for(cluster: Doc, present: Doc, provider: str) -> Doc:
    """I9 to I11: a new status in place of ``present``. ``provider``: as in ``_providers``."""
    status = dict(present)
    version = ((cluster.get("status") or {}).get("version") or {}).get("kubernetes")
    parts = {
        "version": {"kubernetes": version} if version else {},
        "properties": properties_of(cluster),
        "conditions": _conditions(cluster, list(present.get("conditions") or ())),
        "accessProviders": _providers(cluster, list(present.get("accessProviders") or ()), provider),
    }
    for name, part in parts.items():
        if part:
            status[name] = part
        else:
            status.pop(name, None)
    return status


def properties_of(cluster: Doc) -> list[Doc]:
    """I10: the claims in their order. One without name or value says nothing and has no property."""
    claims = (cluster.get("status") or {}).get("clusterClaims") or ()
    return [{"name": each["name"], "value": each["value"]} for each in claims if each.get("name") and each.get("value")]


def _conditions(cluster: Doc, present: list[Doc]) -> list[Doc]:
    """I11: what the cluster lacks is not written; the time of a transition is the cluster's."""
    for type_, mirror in MIRRORED.items():
        found = conditions.find_condition(conditions_of(cluster), type_)
        if found is not None:
            wanted = Condition(mirror, found["status"], found["reason"], found["message"])
            present = conditions.set_condition(present, wanted, found["lastTransitionTime"])
    return present


def _providers(cluster: Doc, present: list[Doc], provider: str) -> list[Doc]:
    """Ways to reach the cluster, with the one that is called ``provider``; an empty name adds and removes none.

    It has server and authority of the cluster's first client configuration, and keeps what else others wrote into it.
    Without a configuration there is none.
    """
    if not provider:
        return present
    configs = spec_of(cluster).get("managedClusterClientConfigs") or ()
    if not configs:
        return [each for each in present if each["name"] != provider]
    place = {"server": configs[0]["url"], "certificate-authority-data": configs[0].get("caBundle")}
    old = next((each for each in present if each["name"] == provider), None)
    merged = {**((old or {}).get("cluster") or {}), **place}
    new = {"name": provider, "cluster": {name: value for name, value in merged.items() if value is not None}}
    return [new if each is old else each for each in present] if old is not None else [*present, new]
