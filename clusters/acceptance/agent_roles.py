"""The objects that give a cluster's agents their rights on the hub, as documents (H4, H7, H13, H14). Pure.

``reconcilers`` keeps what is stored equal to these, ``withdrawal`` takes away; nothing else writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.kinds import CLUSTER_LABEL, GROUP, REGISTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ocmconsole.kubeapi.errors import Doc

RBAC = "rbac.authorization.k8s.io"
PREFIX = "open-cluster-management:managedcluster:"
REGISTRATION_ROLE = f"{PREFIX}registration"
WORK_ROLE = f"{PREFIX}work"
WORK_FINALIZER = f"{GROUP}/manifest-work-cleanup"
CERTIFICATES = "managedclusters/clientcertificates"
# A cluster of such a name would own a role that all clusters share.
TAKEN_NAMES = frozenset({"registration", "work"})


def role_name(cluster: str) -> str:
    """Of the ClusterRole and of its binding."""
    return f"{PREFIX}{cluster}"


def cluster_of(role: str) -> str:
    """The cluster whose own role is so called, or ""."""
    name = role.removeprefix(PREFIX)
    return "" if name == role or name in TAKEN_NAMES else name


def registration_binding_name(cluster: str) -> str:
    return f"{PREFIX}{cluster}:registration"


def work_binding_name(cluster: str) -> str:
    return f"{PREFIX}{cluster}:work"


# ---------------------------------------------------------------- rules


def _rule(groups: Iterable[str], resource: str, *verbs: str, names: Iterable[str] = ()) -> Doc:
    rule: Doc = {"apiGroups": list(groups), "resources": [resource], "verbs": list(verbs)}
    if named := list(names):
        rule["resourceNames"] = named
    return rule


def accepted_rules(cluster: str, *, may_renew: bool = True) -> list[Doc]:
    """``may_renew`` is false while somebody has taken that rule away on purpose (D5)."""
    rules = [
        _rule(["certificates.k8s.io"], "certificatesigningrequests", "create", "get", "list", "watch"),
        _rule([REGISTER], CERTIFICATES, "renew"),
        _rule([GROUP], "managedclusters", "get", "list", "update", "watch", names=[cluster]),
        _rule([GROUP], "managedclusters/status", "patch", "update", names=[cluster]),
    ]
    return rules if may_renew else [rule for rule in rules if rule["resources"] != [CERTIFICATES]]


def denied_rules(cluster: str) -> list[Doc]:
    """H7: the agent of an un-accepted cluster may read its own cluster, and so learn of it."""
    return [_rule([GROUP], "managedclusters", "get", "list", "watch", names=[cluster])]


def allows_renewal(role: Doc) -> bool:
    """Whether some rule of a role lets its holder renew certificates (H36)."""
    return any(
        _covers(rule, "verbs", "renew")
        and _covers(rule, "apiGroups", REGISTER)
        and _covers(rule, "resources", CERTIFICATES, "*/clientcertificates")
        and not rule.get("resourceNames")
        for rule in role.get("rules") or ()
    )


def _covers(rule: Doc, field: str, *wanted: str) -> bool:
    return not {"*", *wanted}.isdisjoint(rule.get(field) or ())


# ---------------------------------------------------------------- documents


def cluster_role(cluster: str, rules: list[Doc], labels: Mapping[str, str]) -> Doc:
    return {"metadata": _metadata(role_name(cluster), cluster, labels), "rules": rules}


def cluster_role_binding(cluster: str, labels: Mapping[str, str]) -> Doc:
    return _binding(role_name(cluster), role_name(cluster), cluster, labels)


def registration_binding(cluster: str, labels: Mapping[str, str]) -> Doc:
    return _binding(registration_binding_name(cluster), REGISTRATION_ROLE, cluster, labels)


def work_binding(cluster: str, labels: Mapping[str, str]) -> Doc:
    binding = _binding(work_binding_name(cluster), WORK_ROLE, cluster, labels)
    binding["metadata"]["finalizers"] = [WORK_FINALIZER]
    return binding


def shared_roles(labels: Mapping[str, str]) -> list[Doc]:
    """What every accepted cluster's agents may do in their own namespace (H13)."""
    addons = "addon.open-cluster-management.io"
    work = "work.open-cluster-management.io"
    return [
        {
            "metadata": {"name": REGISTRATION_ROLE, "labels": {**labels, CLUSTER_LABEL: ""}},
            "rules": [
                _rule(["coordination.k8s.io"], "leases", "get", "list", "watch", "update"),
                _rule([addons], "managedclusteraddons", "get", "list", "watch"),
                _rule([addons], "managedclusteraddons/status", "patch", "update"),
                _rule(["events.k8s.io"], "events", "create"),
            ],
        },
        {
            "metadata": {"name": WORK_ROLE, "labels": {**labels, CLUSTER_LABEL: ""}},
            "rules": [
                _rule(["", "events.k8s.io"], "events", "create", "patch", "update"),
                _rule([work], "manifestworks", "get", "list", "watch", "update", "patch"),
                _rule([work], "manifestworks/status", "patch", "update"),
            ],
        },
    ]


def _metadata(name: str, cluster: str, labels: Mapping[str, str]) -> Doc:
    return {"name": name, "labels": {**labels, CLUSTER_LABEL: cluster}}  # K25: a new map for each object


def groups_of(cluster: str) -> tuple[str, ...]:
    """Whose members are the cluster's agents."""
    return f"system:open-cluster-management:{cluster}", f"open-cluster-management:{cluster}"


def _binding(name: str, role: str, cluster: str, labels: Mapping[str, str]) -> Doc:
    return {
        "metadata": _metadata(name, cluster, labels),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in groups_of(cluster)],
    }
