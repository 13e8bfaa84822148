"""What every hub has from its first start: namespaces, the roles that Kubernetes ships, a ClusterManager (H1, D8).

``ensure_defaults`` runs at each start and is idempotent. A role or binding keeps what people added to it, gets back
what they took away, and is left alone when its autoupdate annotation says so, as in Kubernetes.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ocmconsole.core import definitions, kinds, reconcilers
from ocmconsole.core.rbac.rule_index import GROUP
from ocmconsole.core.tokens import token_formats, tokens
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from ocmconsole.kubeapi.kinds import Key

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind

NAMESPACES = ("default", "kube-system", "kube-public", "open-cluster-management", "open-cluster-management-hub")
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
BOOTSTRAPPING = {"kubernetes.io/bootstrapping": "rbac-defaults"}
AGGREGATE_TO = "rbac.authorization.k8s.io/aggregate-to-"

READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
HEALTH_PATHS = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
DISCOVERY_PATHS = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *HEALTH_PATHS]
ISSUER_PATHS = [
    token_formats.PROVIDER_PATH,
    f"{token_formats.PROVIDER_PATH}/",
    token_formats.KEY_SET_PATH,
    f"{token_formats.KEY_SET_PATH}/",
]


def rule(groups: list[str], resources: list[str], verbs: list[str]) -> Doc:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def paths(listed: list[str], verbs: list[str]) -> Doc:
    return {"nonResourceURLs": listed, "verbs": verbs}


RULES = {
    "cluster-admin": [rule(["*"], ["*"], ["*"]), paths(["*"], ["*"])],
    "system:aggregate-to-admin": [
        rule([GROUP], ["roles", "rolebindings"], [*READ, *WRITE]),
        rule(["authorization.k8s.io"], ["localsubjectaccessreviews"], ["create"]),
    ],
    "system:aggregate-to-edit": [
        rule([""], ["configmaps", "secrets", "serviceaccounts"], [*READ, *WRITE]),
        rule([""], ["serviceaccounts/token"], ["create"]),
        rule([""], ["serviceaccounts"], ["impersonate"]),
        rule(["", "events.k8s.io"], ["events"], WRITE),
        rule(["coordination.k8s.io"], ["leases"], [*READ, *WRITE]),
    ],
    "system:aggregate-to-view": [
        rule([""], ["configmaps", "events", "namespaces", "serviceaccounts", "services"], READ),
        rule(["events.k8s.io"], ["events"], READ),
    ],
    "system:basic-user": [
        rule(["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
        rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
    ],
    "system:discovery": [paths(DISCOVERY_PATHS, ["get"])],
    "system:public-info-viewer": [paths(HEALTH_PATHS, ["get"])],
    "system:service-account-issuer-discovery": [paths(ISSUER_PATHS, ["get"])],
}
# Each gathers the rules of roles with its own label, and is gathered by the next larger one.
LABELS = {
    "edit": {f"{AGGREGATE_TO}admin": "true"},
    "view": {f"{AGGREGATE_TO}edit": "true"},
    "system:aggregate-to-admin": {f"{AGGREGATE_TO}admin": "true"},
    "system:aggregate-to-edit": {f"{AGGREGATE_TO}edit": "true"},
    "system:aggregate-to-view": {f"{AGGREGATE_TO}view": "true"},
}
AGGREGATED = ("admin", "edit", "view")
GROUPS = {
    "cluster-admin": [MASTERS],
    "system:basic-user": [AUTHENTICATED],
    "system:discovery": [AUTHENTICATED],
    "system:public-info-viewer": [AUTHENTICATED, UNAUTHENTICATED],
    "system:service-account-issuer-discovery": [tokens.SERVICE_ACCOUNTS],
}

# This hub runs no add-on manager, which clusteradm reads here.
CLUSTER_MANAGER_SPEC: Doc = {
    "deployOption": {"mode": "Default"},
    "addOnManagerConfiguration": {"featureGates": [{"feature": "AddonManagement", "mode": "Disable"}]},
}
# The parts that `clusteradm get hub-info` asks for by the names that it finds in the status, and without a name fails
# (C15). They are parts of one program here, so it finds no deployment under any of them and prints none.
PARTS = (
    "cluster-manager-registration-controller",
    "cluster-manager-registration-webhook",
    "cluster-manager-work-webhook",
    "cluster-manager-placement-controller",
)


def ensure_defaults(actor: Actor) -> None:
    """Create what is missing, repair what lost something."""
    for namespace in NAMESPACES:
        _ensure(actor, kinds.NAMESPACE, {"metadata": {"name": namespace}})
    for name, rules in RULES.items():
        _ensure(actor, kinds.CLUSTER_ROLE, {"metadata": _metadata(name), "rules": rules}, gains="rules")
    for name in AGGREGATED:
        selectors = [{"matchLabels": {f"{AGGREGATE_TO}{name}": "true"}}]
        doc = {"metadata": _metadata(name), "aggregationRule": {"clusterRoleSelectors": selectors}}
        _ensure(actor, kinds.CLUSTER_ROLE, doc)
    for name, groups in GROUPS.items():
        _ensure(actor, kinds.CLUSTER_ROLE_BINDING, _binding(name, groups), gains="subjects")
    _ensure_cluster_manager(actor)
    for namespace in NAMESPACES:
        reconcilers.reconcile_namespace(Key("", namespace))  # agents that join early ask kube-public for the CA


def _ensure_cluster_manager(actor: Actor) -> None:
    """Created again at the next start after a deletion (``clusteradm clean`` deletes it)."""
    _ensure(actor, kinds.CLUSTER_MANAGER, {"metadata": {"name": definitions.THE_HUB}, "spec": CLUSTER_MANAGER_SPEC})
    deployments = [_related("apps", "deployments", name, "open-cluster-management-hub") for name in PARTS]
    defined = [
        _related(definitions.GROUP, definitions.PLURAL, doc["metadata"]["name"])
        for doc in definitions.all_definitions()
    ]
    status = {"relatedResources": deployments + defined}
    key = Key("", definitions.THE_HUB)
    verbs.edit(actor, kinds.CLUSTER_MANAGER, key, lambda doc: doc.update(status=status), subresource="status")


def _related(group: str, resource: str, name: str, namespace: str = "") -> Doc:
    return {"group": group, "version": "v1", "resource": resource, "namespace": namespace, "name": name}


def _metadata(name: str) -> Doc:
    return {"name": name, "labels": BOOTSTRAPPING | LABELS.get(name, {}), "annotations": {AUTOUPDATE: "true"}}


def _binding(name: str, groups: list[str]) -> Doc:
    return {
        "metadata": _metadata(name),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
    }


def _ensure(actor: Actor, kind: Kind, wanted: Doc, *, gains: str = "") -> None:
    key = Key("", wanted["metadata"]["name"])
    found = verbs.find(kind, key)
    if found is None:
        with suppress(errors.AlreadyExists):
            verbs.create(actor, kind, wanted)
    elif gains and (found["metadata"].get("annotations") or {}).get(AUTOUPDATE) == "true":
        present = found.get(gains) or []
        if lost := [item for item in wanted[gains] if item not in present]:
            verbs.edit(actor, kind, key, lambda doc: doc.update({gains: [*(doc.get(gains) or []), *lost]}))
