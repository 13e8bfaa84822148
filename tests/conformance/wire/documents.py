"""Documents and paths of every kind, as data: what the checks that hold for all kinds are run with.

`SAMPLES` is the list. A sample says how the kind differs from others in what Kubernetes lets differ.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.conformance.wire.api import Doc

CLUSTER_GROUP = "cluster.open-cluster-management.io"
ADDON_GROUP = "addon.open-cluster-management.io"
WORK_GROUP = "work.open-cluster-management.io"
CLUSTER = f"{CLUSTER_GROUP}/v1"
RBAC = "rbac.authorization.k8s.io/v1"
CERTIFICATES = "certificates.k8s.io/v1"
SIGNER = "kubernetes.io/kube-apiserver-client"
NOW = "2026-01-02T15:04:05.123456Z"

CLUSTERS = f"/apis/{CLUSTER}/managedclusters"
REQUESTS = f"/apis/{CERTIFICATES}/certificatesigningrequests"
NAMESPACES = "/api/v1/namespaces"
CLUSTER_ROLES = f"/apis/{RBAC}/clusterroles"
CLUSTER_ROLE_BINDINGS = f"/apis/{RBAC}/clusterrolebindings"
CUSTOM_VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]


@dataclass(frozen=True, eq=False)
class Sample:
    """``body`` is what comes beside metadata; ``change`` is a merge patch that alters it."""

    api_version: str
    plural: str
    kind: str
    body: Doc
    change: Doc
    columns: tuple[str, ...]
    namespaced: bool = True
    custom: bool = False
    # PUT without a resourceVersion, PUT of what is not there, a status of its own, a hub that writes to it as well
    unconditional: bool = True
    created_by_put: bool = False
    status: bool = False
    busy: bool = False
    unknown: str = "zz"
    short: tuple[str, ...] = ()
    prepare: Callable[[Doc], None] | None = None
    # The only namespace where it can be, for an Event that is about something there.
    place: str = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def qualified(self) -> str:
        """As refusals name it."""
        return f"{self.plural}.{self.stored_group}" if self.stored_group else self.plural

    @property
    def stored_group(self) -> str:
        """Events of both groups are core events underneath (W28). A kube-apiserver speaks of the group of the path."""
        return "" if self.plural == "events" else self.group

    @property
    def root(self) -> str:
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    @property
    def called(self) -> tuple[str, ...]:
        """How refusals begin."""
        return self.qualified, f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str, name: str = "") -> str:
        place = f"{self.root}/namespaces/{self.place or namespace}" if self.namespaced else self.root
        return f"{place}/{self.plural}/{name}" if name else f"{place}/{self.plural}"

    def doc(self, name: str, **metadata: Any) -> Doc:
        """``name`` may be empty, for a generateName among the metadata."""
        named = {"name": name} if name else {}
        made = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {**named, **metadata},
            **deepcopy(self.body),
        }
        if self.prepare:
            self.prepare(made)
        return made

    def __str__(self) -> str:
        return f"{self.plural}.{self.api_version.replace('/', '.')}"


def pem(common_name: str, *organizations: str, key: ec.EllipticCurvePrivateKey | None = None) -> bytes:
    """A PKCS#10 request."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject)
    request = signed.sign(key or ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)


def request_spec(request: bytes, **more: Any) -> Doc:
    usages = ["digital signature", "key encipherment", "client auth"]
    return {"request": base64.b64encode(request).decode(), "signerName": SIGNER, "usages": usages, **more}


def _named_like_its_set(doc: Doc) -> None:
    doc["spec"]["clusterSet"] = doc["metadata"].get("name", "any")


_RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
_ROLE = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}
_SUBJECTS = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ana"}]
_MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
_EVENT_COLUMNS = (
    "Last Seen",
    "Type",
    "Reason",
    "Object",
    "Subobject",
    "Source",
    "Message",
    "First Seen",
    "Count",
    "Name",
)
_BINDING_COLUMNS = ("Name", "Role", "Age", "Users", "Groups", "ServiceAccounts")

CONFIG_MAP = Sample(
    "v1", "configmaps", "ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}, ("Name", "Data", "Age"), short=("cm",)
)
SECRET = Sample(
    "v1",
    "secrets",
    "Secret",
    {"type": "Opaque", "data": {"a": "MQ=="}},
    {"data": {"a": "Mg=="}},
    ("Name", "Type", "Data", "Age"),
)
SERVICE_ACCOUNT = Sample(
    "v1",
    "serviceaccounts",
    "ServiceAccount",
    {"automountServiceAccountToken": True},
    {"automountServiceAccountToken": False},
    ("Name", "Age"),
    short=("sa",),
)
NAMESPACE = Sample(
    "v1",
    "namespaces",
    "Namespace",
    {},
    {"metadata": {"labels": {"a": "b"}}},
    ("Name", "Status", "Age"),
    namespaced=False,
    busy=True,
    short=("ns",),
)
EVENT = Sample("v1", "events", "Event", {"involvedObject": {"kind": "ConfigMap", "name": "a", "namespace": "default"}, "reason": "Tested", "message": "one", "type": "Normal"}, {"message": "two"}, _EVENT_COLUMNS, created_by_put=True, place="default", short=("ev",))  # fmt: skip
NEW_EVENT = Sample("events.k8s.io/v1", "events", "Event", {"regarding": {"kind": "ConfigMap", "name": "a", "namespace": "default"}, "reason": "Tested", "action": "Testing", "note": "one", "type": "Normal", "eventTime": NOW, "reportingController": "example.com/test", "reportingInstance": "test-0"}, {"series": {"count": 2, "lastObservedTime": NOW}}, _EVENT_COLUMNS, created_by_put=True, place="default", short=("ev",))  # fmt: skip
LEASE = Sample("coordination.k8s.io/v1", "leases", "Lease", {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 60, "renewTime": NOW}}, {"spec": {"holderIdentity": "b"}}, ("Name", "Holder", "Age"), unconditional=False, created_by_put=True, unknown="spec.zz")  # fmt: skip
ROLE = Sample(RBAC, "roles", "Role", {"rules": _RULES}, {"rules": []}, ("Name", "Created At"), created_by_put=True)
CLUSTER_ROLE = Sample(
    RBAC,
    "clusterroles",
    "ClusterRole",
    {"rules": _RULES},
    {"rules": []},
    ("Name", "Created At"),
    namespaced=False,
    created_by_put=True,
)
ROLE_BINDING = Sample(
    RBAC,
    "rolebindings",
    "RoleBinding",
    {**_ROLE, "subjects": _SUBJECTS},
    {"subjects": None},
    _BINDING_COLUMNS,
    created_by_put=True,
)
CLUSTER_ROLE_BINDING = Sample(
    RBAC,
    "clusterrolebindings",
    "ClusterRoleBinding",
    {**_ROLE, "subjects": _SUBJECTS},
    {"subjects": None},
    _BINDING_COLUMNS,
    namespaced=False,
    created_by_put=True,
)
REQUEST = Sample(CERTIFICATES, "certificatesigningrequests", "CertificateSigningRequest", {"spec": request_spec(pem("somebody", "people"))}, {"metadata": {"labels": {"a": "b"}}}, ("Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"), namespaced=False, unknown="spec.zz", status=True, short=("csr",))  # fmt: skip
MANAGED_CLUSTER = Sample(CLUSTER, "managedclusters", "ManagedCluster", {"spec": {"hubAcceptsClient": False}}, {"spec": {"leaseDurationSeconds": 90}}, ("Name", "Hub Accepted", "Managed Cluster URLs", "Joined", "Available", "Age"), namespaced=False, custom=True, unconditional=False, status=True, busy=True, unknown="spec.zz", short=("mcl", "mcls"))  # fmt: skip
CLUSTER_SET = Sample(f"{CLUSTER_GROUP}/v1beta2", "managedclustersets", "ManagedClusterSet", {"spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}}, {"spec": {"managedNamespaces": [{"name": "a"}]}}, ("Name", "Empty", "Age"), namespaced=False, custom=True, unconditional=False, status=True, busy=True, unknown="spec.zz", short=("mclset", "mclsets"))  # fmt: skip
SET_BINDING = Sample(f"{CLUSTER_GROUP}/v1beta2", "managedclustersetbindings", "ManagedClusterSetBinding", {"spec": {}}, {"metadata": {"labels": {"a": "b"}}}, ("Name", "Age"), custom=True, unconditional=False, status=True, busy=True, unknown="spec.zz", short=("mclsetbinding", "mclsetbindings"), prepare=_named_like_its_set)  # fmt: skip
PLACEMENT = Sample(f"{CLUSTER_GROUP}/v1beta1", "placements", "Placement", {"spec": {"numberOfClusters": 1}}, {"spec": {"numberOfClusters": 2}}, ("Name", "Succeeded", "Reason", "SelectedClusters"), custom=True, unconditional=False, status=True, busy=True, unknown="spec.zz")  # fmt: skip
DECISION = Sample(f"{CLUSTER_GROUP}/v1beta1", "placementdecisions", "PlacementDecision", {}, {"metadata": {"labels": {"a": "b"}}}, ("Name", "Age"), custom=True, unconditional=False, status=True)  # fmt: skip
SCORE = Sample(f"{CLUSTER_GROUP}/v1alpha1", "addonplacementscores", "AddOnPlacementScore", {}, {"metadata": {"labels": {"a": "b"}}}, ("Name", "Age"), custom=True, unconditional=False, status=True)  # fmt: skip
PROFILE = Sample("multicluster.x-k8s.io/v1alpha1", "clusterprofiles", "ClusterProfile", {"spec": {"clusterManager": {"name": "fleet"}}}, {"spec": {"displayName": "a"}}, ("Name", "Age"), custom=True, unconditional=False, status=True, unknown="spec.zz")  # fmt: skip
ADDON = Sample(f"{ADDON_GROUP}/v1beta1", "managedclusteraddons", "ManagedClusterAddOn", {"spec": {}}, {"metadata": {"labels": {"a": "b"}}}, ("Name", "Available", "Degraded", "Progressing"), custom=True, unconditional=False, status=True, unknown="spec.zz", short=("mca", "mcas"))  # fmt: skip
OLD_ADDON = Sample(f"{ADDON_GROUP}/v1alpha1", "managedclusteraddons", "ManagedClusterAddOn", {"spec": {"installNamespace": "a"}}, {"spec": {"installNamespace": "b"}}, ("Name", "Available", "Degraded", "Progressing"), custom=True, unconditional=False, status=True, unknown="spec.zz", short=("mca", "mcas"))  # fmt: skip
MANAGEMENT_ADDON = Sample(f"{ADDON_GROUP}/v1beta1", "clustermanagementaddons", "ClusterManagementAddOn", {"spec": {"addOnMeta": {"displayName": "a"}}}, {"spec": {"addOnMeta": {"displayName": "b"}}}, ("Name", "DISPLAY NAME"), namespaced=False, custom=True, unconditional=False, status=True, busy=True, unknown="spec.zz", short=("cma", "cmas"))  # fmt: skip
WORK = Sample(f"{WORK_GROUP}/v1", "manifestworks", "ManifestWork", {"spec": {"workload": {"manifests": [_MANIFEST]}}}, {"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}, ("Name", "Age"), custom=True, unconditional=False, status=True, unknown="spec.zz")  # fmt: skip

SAMPLES = (
    CONFIG_MAP, SECRET, SERVICE_ACCOUNT, NAMESPACE, EVENT, NEW_EVENT, LEASE, ROLE, CLUSTER_ROLE, ROLE_BINDING,
    CLUSTER_ROLE_BINDING, REQUEST, MANAGED_CLUSTER, CLUSTER_SET, SET_BINDING, PLACEMENT, DECISION, SCORE, PROFILE, ADDON,
    OLD_ADDON, MANAGEMENT_ADDON, WORK,
)  # fmt: skip
# One of each way to be stored and written, for what the machinery does alike for all.
FORMS = (CONFIG_MAP, NAMESPACE, NEW_EVENT, LEASE, ROLE, REQUEST, MANAGED_CLUSTER, OLD_ADDON, WORK)
CUSTOM = tuple(sample for sample in SAMPLES if sample.custom)
BUILT_IN = tuple(sample for sample in SAMPLES if not sample.custom)
