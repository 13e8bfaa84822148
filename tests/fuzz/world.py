"""The hub that the cases meet: who may ask, what stands there, and a valid document of every kind served."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.conf import settings

from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.access.actor import MASTERS
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.models import WorkItem
from registration import hub_setup
from registration.pki import ca
from registration.pki.agent_names import MANAGED_CLUSTERS, group_of
from tests import factories
from tests.actors import grant, person, rule
from tests.fuzz.cases import Doc
from tests.security.callers import known

NAMESPACE = "fuzz"
CLUSTER = "c1"
STANDING = "standing"
APPROVED, DENIED, PENDING = "approved", "denied", "pending"
RBAC = "rbac.authorization.k8s.io"
ADDON = "addon.open-cluster-management.io"
OCM = "cluster.open-cluster-management.io"


@dataclass(frozen=True)
class Credential:
    certificate: bytes | None = None
    token: str = ""


# ---------------------------------------------------------------- documents


def _request_pem(secret: int = 7) -> str:
    """The same bytes in each run, so that the cases are."""
    key = ec.derive_private_key(secret, ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, group_of(CLUSTER)),
            x509.NameAttribute(NameOID.COMMON_NAME, f"{group_of(CLUSTER)}:agent1"),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    request = builder.sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


REQUEST = _request_pem()
RULES = [
    {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]},
    {"verbs": ["*"], "apiGroups": ["example.com"], "resources": ["*"]},
]
SUBJECTS = [
    {"kind": "User", "apiGroup": RBAC, "name": "jane"},
    {"kind": "ServiceAccount", "name": "robot", "namespace": NAMESPACE},
]
CONFIG = {"group": "example.com", "resource": "configs", "namespace": "apps", "name": "first"}
MOMENT, MICRO = "2026-11-21T02:21:11Z", "2026-11-21T02:21:11.000001Z"


def _managed_cluster(name: str) -> Doc:
    return {
        "spec": {
            "hubAcceptsClient": False,
            "leaseDurationSeconds": 60,
            "managedClusterClientConfigs": [{"url": "https://api.example.com", "caBundle": "YQ=="}],
            "taints": [{"key": "example.com/a", "value": "b", "effect": "NoSelect"}],
        }
    }


def _cluster_set(name: str) -> Doc:
    matched = {
        "matchLabels": {"a": name},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}],
    }
    selector = {"selectorType": "LabelSelector", "labelSelector": matched}
    return {"spec": {"clusterSelector": selector, "managedNamespaces": [{"name": "apps"}]}}


def _placement(_name: str) -> Doc:
    matched: Doc = {
        "matchLabels": {"env": "prod"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
    }
    selector = {"labelSelector": matched, "celSelector": {"celExpressions": ["true"]}}
    return {
        "spec": {
            "clusterSets": ["web"],
            "numberOfClusters": 3,
            "predicates": [{"requiredClusterSelector": selector}],
            "tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 300}],
            "prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "Steady"}, "weight": 3}]},
        }
    }


def _event(name: str) -> Doc:
    about = {"kind": "ConfigMap", "apiVersion": "v1", "namespace": NAMESPACE, "name": name}
    return {
        "involvedObject": about,
        "reason": "Seen",
        "message": "It was seen.",
        "type": "Normal",
        "count": 3,
        "firstTimestamp": MOMENT,
        "lastTimestamp": MOMENT,
        "source": {"component": "fuzz"},
        "series": {"count": 2, "lastObservedTime": MICRO},
    }


def _new_event(name: str) -> Doc:
    return {
        "regarding": {"kind": "ConfigMap", "namespace": NAMESPACE, "name": name},
        "eventTime": MICRO,
        "reason": "Seen",
        "action": "Looking",
        "note": "It was seen.",
        "type": "Normal",
        "reportingController": "example.com/fuzz",
        "reportingInstance": "fuzz-1",
    }


def _binding(kind: str) -> Callable[[str], Doc]:
    return lambda name: {"roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}, "subjects": SUBJECTS}


@dataclass(frozen=True)
class Site:
    """A collection, and what a valid object in it says besides its metadata."""

    group: str
    version: str
    plural: str
    content: Callable[[str], Doc]
    namespace: str = NAMESPACE

    @property
    def served(self) -> kinds.Served:
        served = kinds.find_served(self.group, self.version, self.plural)
        assert served is not None
        return served

    @property
    def nameless(self) -> frozenset[int]:
        """What a PUT or PATCH of the collection gets: custom kinds look for a name first."""
        return frozenset({400 if self.served.kind.custom else 405})

    @property
    def path(self) -> str:
        prefix = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = f"/namespaces/{self.namespace}" if self.served.kind.namespaced else ""
        return f"{prefix}{inside}/{self.plural}"

    @property
    def api_version(self) -> str:
        return self.served.version.api_version

    def document(self, name: str, **metadata: Any) -> Doc:
        typed = {"apiVersion": self.api_version, "kind": self.served.kind.kind}
        return {**typed, "metadata": {"name": name, **metadata}, **self.content(name)}

    def __repr__(self) -> str:
        return self.plural


CLUSTERS = Site(OCM, "v1", "managedclusters", _managed_cluster)
SETS = Site(OCM, "v1beta2", "managedclustersets", _cluster_set)
SET_BINDINGS = Site(OCM, "v1beta2", "managedclustersetbindings", lambda name: {"spec": {"clusterSet": name}})
PLACEMENTS = Site(OCM, "v1beta1", "placements", _placement)
DECISIONS = Site(OCM, "v1beta1", "placementdecisions", lambda _: {})
SCORES = Site(OCM, "v1alpha1", "addonplacementscores", lambda _: {})
PROFILES = Site(
    "multicluster.x-k8s.io",
    "v1alpha1",
    "clusterprofiles",
    lambda name: {"spec": {"displayName": name, "clusterManager": {"name": "fleet"}}},
)
CLAIMS = Site(OCM, "v1alpha1", "clusterclaims", lambda _: {"spec": {"value": "aws"}})
ADDONS = Site(ADDON, "v1alpha1", "managedclusteraddons", lambda _: {"spec": {"installNamespace": "apps"}})
NEW_ADDONS = Site(ADDON, "v1beta1", "managedclusteraddons", lambda _: {"spec": {"configs": [CONFIG]}})
ADDON_TYPES = Site(
    ADDON,
    "v1alpha1",
    "clustermanagementaddons",
    lambda name: {"spec": {"addOnMeta": {"displayName": name}, "supportedConfigs": [{"resource": "configs"}]}},
)
NEW_ADDON_TYPES = Site(ADDON, "v1beta1", "clustermanagementaddons", lambda _: {"spec": {"defaultConfigs": [CONFIG]}})
# Nothing free-form inside: what is mangled must be refused.
WORKS = Site(
    "work.open-cluster-management.io",
    "v1",
    "manifestworks",
    lambda _: {"spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "Any"}]}}},
)
LEASES = Site(
    "coordination.k8s.io",
    "v1",
    "leases",
    lambda name: {"spec": {"holderIdentity": name, "leaseDurationSeconds": 60, "renewTime": MICRO}},
)
NAMESPACES = Site("", "v1", "namespaces", lambda _: {})
CONFIG_MAPS = Site("", "v1", "configmaps", lambda _: {"data": {"a": "b"}, "binaryData": {"c": "YQ=="}})
SECRETS = Site("", "v1", "secrets", lambda _: {"type": "Opaque", "data": {"a": "YQ=="}, "stringData": {"b": "c"}})
ACCOUNTS = Site(
    "", "v1", "serviceaccounts", lambda _: {"secrets": [{"name": "s1"}], "automountServiceAccountToken": True}
)
EVENTS = Site("", "v1", "events", _event)
NEW_EVENTS = Site("events.k8s.io", "v1", "events", _new_event)
ROLES = Site(RBAC, "v1", "roles", lambda _: {"rules": RULES})
CLUSTER_ROLES = Site(RBAC, "v1", "clusterroles", lambda _: {"rules": RULES})
ROLE_BINDINGS = Site(RBAC, "v1", "rolebindings", _binding("Role"))
CLUSTER_ROLE_BINDINGS = Site(RBAC, "v1", "clusterrolebindings", _binding("ClusterRole"))
REQUESTS = Site(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    lambda _: {
        "spec": {
            "request": REQUEST,
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "client auth"],
            "expirationSeconds": 3600,
        }
    },
)
SITES = [
    CLUSTERS, SETS, SET_BINDINGS, PLACEMENTS, DECISIONS, SCORES, PROFILES, CLAIMS, ADDONS, ADDON_TYPES, WORKS, LEASES, NAMESPACES, CONFIG_MAPS, SECRETS, ACCOUNTS,
    EVENTS, NEW_EVENTS, ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS, REQUESTS,
]  # fmt: skip
# Those whose documents have something besides metadata that can be spoilt.
FILLED = [site for site in SITES if site.content("x")]


# ---------------------------------------------------------------- what stands there


def build() -> dict[str, Credential]:
    """A hub with an accepted cluster and one object of every kind; returns how its actors show themselves."""
    hub_setup.ensure_hub()
    factories.namespace(NAMESPACE)
    factories.cluster(CLUSTER, accepted=True, labels={"a": "b"})
    factories.settle()
    for site in SITES:
        if site is not NEW_EVENTS:
            _stand(site, STANDING)
    for secret, name in enumerate((APPROVED, DENIED, PENDING), start=11):
        _ask(name, secret)
    jane = person("jane")
    grant(jane, rule("get list watch", "configmaps"), namespace=NAMESPACE)
    agent = (group_of(CLUSTER), MANAGED_CLUSTERS)
    return {
        "admin": Credential(certificate=_certificate("admin", MASTERS)),
        "agent": Credential(certificate=_certificate(f"{group_of(CLUSTER)}:agent1", *agent)),
        "bootstrap": Credential(token=tokens.issue_bootstrap_token(factories.ADMIN, ttl=timedelta(hours=1))),
        "jane": Credential(certificate=_certificate("jane")),
        "stranger": Credential(certificate=b"no certificate"),
        "anonymous": Credential(),
    }


def _stand(site: Site, name: str) -> None:
    kind = site.served.kind
    doc = site.document(name, labels={"a": "b"}, annotations={"example.com/a": "b"})
    factories.create(kind, doc, namespace=site.namespace if kind.namespaced else "")


def _ask(name: str, secret: int) -> None:
    """With a key of its own: who denies a request declines its key (D10)."""
    doc = REQUESTS.document(name)
    factories.create(REQUESTS.served.kind, {**doc, "spec": {**doc["spec"], "request": _request_pem(secret)}})


def _certificate(user: str, *groups: str) -> bytes:
    authority = ca.client_authority(settings.OCMCONSOLE_HOME)
    pem, _ = authority.issue_client(user, groups, timedelta(hours=1), datetime.now(UTC))
    return known(x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER))


def work_off() -> list[str]:
    """Run the reconcilers over what the cases left; returns those that failed."""
    while workqueue.drain(limit=500):
        pass
    return [f"{item} after {item.attempts}" for item in WorkItem.objects.filter(attempts__gt=0)]
