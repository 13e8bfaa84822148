"""Field tables of the built-in kinds that typed clients send as protobuf (W1).

Numbers and names are those of the published proto2 definitions; types that no client sends (lists, Status) are left
out. The ``kinds`` of this app, of ``clusters`` and of ``registration`` hang them on their versions, ``reviews`` on its
endpoints; ``kubeapi.formats.protobuf`` reads them.
"""

from __future__ import annotations

from ocmconsole.kubeapi.formats.protobuf import Field, Message

# meta/v1

_OWNER_REFERENCE = Message(
    "OwnerReference",
    {
        1: Field("kind"),
        3: Field("name"),
        4: Field("uid"),
        5: Field("apiVersion"),
        6: Field("controller", "bool", pointer=True),
        7: Field("blockOwnerDeletion", "bool", pointer=True),
    },
)
_MANAGED_FIELDS = Message(
    "ManagedFieldsEntry",
    {
        1: Field("manager"),
        2: Field("operation"),
        3: Field("apiVersion"),
        4: Field("time", "time", pointer=True),
        6: Field("fieldsType"),
        7: Field("fieldsV1", "json", pointer=True),
        8: Field("subresource"),
    },
)
_OBJECT_META = Message(
    "ObjectMeta",
    {
        1: Field("name"),
        2: Field("generateName"),
        3: Field("namespace"),
        4: Field("selfLink"),
        5: Field("uid"),
        6: Field("resourceVersion"),
        7: Field("generation", "int64"),
        8: Field("creationTimestamp", "time"),
        9: Field("deletionTimestamp", "time", pointer=True),
        10: Field("deletionGracePeriodSeconds", "int64", pointer=True),
        11: Field("labels", map=True),
        12: Field("annotations", map=True),
        13: Field("ownerReferences", _OWNER_REFERENCE, repeated=True),
        14: Field("finalizers", repeated=True),
        17: Field("managedFields", _MANAGED_FIELDS, repeated=True),
    },
)
_METADATA = Field("metadata", _OBJECT_META)

_LABEL_REQUIREMENT = Message(
    "LabelSelectorRequirement", {1: Field("key"), 2: Field("operator"), 3: Field("values", repeated=True)}
)
_LABEL_SELECTOR = Message(
    "LabelSelector",
    {1: Field("matchLabels", map=True), 2: Field("matchExpressions", _LABEL_REQUIREMENT, repeated=True)},
)
_PRECONDITIONS = Message("Preconditions", {1: Field("uid", pointer=True), 2: Field("resourceVersion", pointer=True)})

# Its envelope names the group and version of whatever is deleted (W170).
DELETE_OPTIONS = Message(
    "DeleteOptions",
    {
        1: Field("gracePeriodSeconds", "int64", pointer=True),
        2: Field("preconditions", _PRECONDITIONS, pointer=True),
        3: Field("orphanDependents", "bool", pointer=True),
        4: Field("propagationPolicy", pointer=True),
        5: Field("dryRun", repeated=True),
        6: Field("ignoreStoreReadErrorWithClusterBreakingPotential", "bool", pointer=True),
    },
)

# core/v1

_NAMESPACE_CONDITION = Message(
    "NamespaceCondition",
    {
        1: Field("type"),
        2: Field("status"),
        4: Field("lastTransitionTime", "time"),
        5: Field("reason"),
        6: Field("message"),
    },
)
NAMESPACE = Message(
    "Namespace",
    {
        1: _METADATA,
        2: Field("spec", Message("NamespaceSpec", {1: Field("finalizers", repeated=True)})),
        3: Field(
            "status",
            Message(
                "NamespaceStatus", {1: Field("phase"), 2: Field("conditions", _NAMESPACE_CONDITION, repeated=True)}
            ),
        ),
    },
)
SECRET = Message(
    "Secret",
    {
        1: _METADATA,
        2: Field("data", "bytes", map=True),
        3: Field("type"),
        4: Field("stringData", map=True),
        5: Field("immutable", "bool", pointer=True),
    },
)
CONFIG_MAP = Message(
    "ConfigMap",
    {
        1: _METADATA,
        2: Field("data", map=True),
        3: Field("binaryData", "bytes", map=True),
        4: Field("immutable", "bool", pointer=True),
    },
)
_OBJECT_REFERENCE = Message(
    "ObjectReference",
    {
        1: Field("kind"),
        2: Field("namespace"),
        3: Field("name"),
        4: Field("uid"),
        5: Field("apiVersion"),
        6: Field("resourceVersion"),
        7: Field("fieldPath"),
    },
)
SERVICE_ACCOUNT = Message(
    "ServiceAccount",
    {
        1: _METADATA,
        2: Field("secrets", _OBJECT_REFERENCE, repeated=True),
        3: Field("imagePullSecrets", Message("LocalObjectReference", {1: Field("name")}), repeated=True),
        4: Field("automountServiceAccountToken", "bool", pointer=True),
    },
)
_EVENT_SOURCE = Message("EventSource", {1: Field("component"), 2: Field("host")})
_EVENT_SERIES = Message("EventSeries", {1: Field("count", "int32"), 2: Field("lastObservedTime", "micro-time")})

EVENT_CORE = Message(
    "Event",
    {
        1: _METADATA,
        2: Field("involvedObject", _OBJECT_REFERENCE),
        3: Field("reason"),
        4: Field("message"),
        5: Field("source", _EVENT_SOURCE),
        6: Field("firstTimestamp", "time"),
        7: Field("lastTimestamp", "time"),
        8: Field("count", "int32"),
        9: Field("type"),
        10: Field("eventTime", "micro-time"),
        11: Field("series", _EVENT_SERIES, pointer=True),
        12: Field("action"),
        13: Field("related", _OBJECT_REFERENCE, pointer=True),
        14: Field("reportingComponent"),
        15: Field("reportingInstance"),
    },
)

# events.k8s.io/v1

EVENT = Message(
    "Event",
    {
        1: _METADATA,
        2: Field("eventTime", "micro-time"),
        3: Field("series", _EVENT_SERIES, pointer=True),
        4: Field("reportingController"),
        5: Field("reportingInstance"),
        6: Field("action"),
        7: Field("reason"),
        8: Field("regarding", _OBJECT_REFERENCE),
        9: Field("related", _OBJECT_REFERENCE, pointer=True),
        10: Field("note"),
        11: Field("type"),
        12: Field("deprecatedSource", _EVENT_SOURCE),
        13: Field("deprecatedFirstTimestamp", "time"),
        14: Field("deprecatedLastTimestamp", "time"),
        15: Field("deprecatedCount", "int32"),
    },
)

# certificates.k8s.io/v1

_CSR_SPEC = Message(
    "CertificateSigningRequestSpec",
    {
        1: Field("request", "bytes"),
        2: Field("username"),
        3: Field("uid"),
        4: Field("groups", repeated=True),
        5: Field("usages", repeated=True),
        6: Field("extra", "strings", map=True),
        7: Field("signerName"),
        8: Field("expirationSeconds", "int32", pointer=True),
    },
)
_CSR_CONDITION = Message(
    "CertificateSigningRequestCondition",
    {
        1: Field("type"),
        2: Field("reason"),
        3: Field("message"),
        4: Field("lastUpdateTime", "time"),
        5: Field("lastTransitionTime", "time"),
        6: Field("status"),
    },
)
_CSR_STATUS = Message(
    "CertificateSigningRequestStatus",
    {1: Field("conditions", _CSR_CONDITION, repeated=True), 2: Field("certificate", "bytes")},
)
CERTIFICATE_SIGNING_REQUEST = Message(
    "CertificateSigningRequest", {1: _METADATA, 2: Field("spec", _CSR_SPEC), 3: Field("status", _CSR_STATUS)}
)

# coordination.k8s.io/v1

_LEASE_SPEC = Message(
    "LeaseSpec",
    {
        1: Field("holderIdentity", pointer=True),
        2: Field("leaseDurationSeconds", "int32", pointer=True),
        3: Field("acquireTime", "micro-time", pointer=True),
        4: Field("renewTime", "micro-time", pointer=True),
        5: Field("leaseTransitions", "int32", pointer=True),
        6: Field("strategy", pointer=True),
        7: Field("preferredHolder", pointer=True),
    },
)
LEASE = Message("Lease", {1: _METADATA, 2: Field("spec", _LEASE_SPEC)})

# authentication.k8s.io/v1

_BOUND_OBJECT = Message(
    "BoundObjectReference", {1: Field("kind"), 2: Field("apiVersion"), 3: Field("name"), 4: Field("uid")}
)
_TOKEN_REQUEST_SPEC = Message(
    "TokenRequestSpec",
    {
        1: Field("audiences", repeated=True),
        3: Field("boundObjectRef", _BOUND_OBJECT, pointer=True),
        4: Field("expirationSeconds", "int64", pointer=True),
    },
)
_TOKEN_REQUEST_STATUS = Message("TokenRequestStatus", {1: Field("token"), 2: Field("expirationTimestamp", "time")})
TOKEN_REQUEST = Message(
    "TokenRequest",
    {1: _METADATA, 2: Field("spec", _TOKEN_REQUEST_SPEC), 3: Field("status", _TOKEN_REQUEST_STATUS)},
)
_USER_INFO = Message(
    "UserInfo",
    {
        1: Field("username"),
        2: Field("uid"),
        3: Field("groups", repeated=True),
        4: Field("extra", "strings", map=True),
    },
)
_TOKEN_REVIEW_SPEC = Message("TokenReviewSpec", {1: Field("token"), 2: Field("audiences", repeated=True)})
_TOKEN_REVIEW_STATUS = Message(
    "TokenReviewStatus",
    {
        1: Field("authenticated", "bool"),
        2: Field("user", _USER_INFO),
        3: Field("error"),
        4: Field("audiences", repeated=True),
    },
)
TOKEN_REVIEW = Message(
    "TokenReview", {1: _METADATA, 2: Field("spec", _TOKEN_REVIEW_SPEC), 3: Field("status", _TOKEN_REVIEW_STATUS)}
)
SELF_SUBJECT_REVIEW = Message(
    "SelfSubjectReview",
    {1: _METADATA, 2: Field("status", Message("SelfSubjectReviewStatus", {1: Field("userInfo", _USER_INFO)}))},
)

# authorization.k8s.io/v1

_SELECTOR_REQUIREMENT = Message(
    "SelectorRequirement", {1: Field("key"), 2: Field("operator"), 3: Field("values", repeated=True)}
)
_SELECTOR_ATTRIBUTES = Message(
    "SelectorAttributes", {1: Field("rawSelector"), 2: Field("requirements", _SELECTOR_REQUIREMENT, repeated=True)}
)
_RESOURCE_ATTRIBUTES = Message(
    "ResourceAttributes",
    {
        1: Field("namespace"),
        2: Field("verb"),
        3: Field("group"),
        4: Field("version"),
        5: Field("resource"),
        6: Field("subresource"),
        7: Field("name"),
        8: Field("fieldSelector", _SELECTOR_ATTRIBUTES, pointer=True),
        9: Field("labelSelector", _SELECTOR_ATTRIBUTES, pointer=True),
    },
)
_ACCESS_QUESTION = {
    1: Field("resourceAttributes", _RESOURCE_ATTRIBUTES, pointer=True),
    2: Field(
        "nonResourceAttributes",
        Message("NonResourceAttributes", {1: Field("path"), 2: Field("verb")}),
        pointer=True,
    ),
}
_ACCESS_SUBJECT = {
    3: Field("user"),
    4: Field("groups", repeated=True),
    5: Field("extra", "strings", map=True),
    6: Field("uid"),
}
_ACCESS_STATUS = Message(
    "SubjectAccessReviewStatus",
    {1: Field("allowed", "bool"), 2: Field("reason"), 3: Field("evaluationError"), 4: Field("denied", "bool")},
)
_ACCESS_SPEC = Message("SubjectAccessReviewSpec", {**_ACCESS_QUESTION, **_ACCESS_SUBJECT})

SELF_SUBJECT_ACCESS_REVIEW = Message(
    "SelfSubjectAccessReview",
    {
        1: _METADATA,
        2: Field("spec", Message("SelfSubjectAccessReviewSpec", _ACCESS_QUESTION)),
        3: Field("status", _ACCESS_STATUS),
    },
)
SUBJECT_ACCESS_REVIEW = Message(
    "SubjectAccessReview", {1: _METADATA, 2: Field("spec", _ACCESS_SPEC), 3: Field("status", _ACCESS_STATUS)}
)
LOCAL_SUBJECT_ACCESS_REVIEW = Message("LocalSubjectAccessReview", SUBJECT_ACCESS_REVIEW.fields)
# Its status is the server's answer; what a client puts there is not read.
SELF_SUBJECT_RULES_REVIEW = Message(
    "SelfSubjectRulesReview",
    {1: _METADATA, 2: Field("spec", Message("SelfSubjectRulesReviewSpec", {1: Field("namespace")}))},
)

# rbac.authorization.k8s.io/v1

_POLICY_RULE = Message(
    "PolicyRule",
    {
        1: Field("verbs", repeated=True),
        2: Field("apiGroups", repeated=True),
        3: Field("resources", repeated=True),
        4: Field("resourceNames", repeated=True),
        5: Field("nonResourceURLs", repeated=True),
    },
)
_AGGREGATION_RULE = Message("AggregationRule", {1: Field("clusterRoleSelectors", _LABEL_SELECTOR, repeated=True)})
_SUBJECT = Message("Subject", {1: Field("kind"), 2: Field("apiGroup"), 3: Field("name"), 4: Field("namespace")})
_ROLE_REF = Message("RoleRef", {1: Field("apiGroup"), 2: Field("kind"), 3: Field("name")})

ROLE = Message("Role", {1: _METADATA, 2: Field("rules", _POLICY_RULE, repeated=True)})
CLUSTER_ROLE = Message("ClusterRole", {**ROLE.fields, 3: Field("aggregationRule", _AGGREGATION_RULE, pointer=True)})
ROLE_BINDING = Message(
    "RoleBinding",
    {1: _METADATA, 2: Field("subjects", _SUBJECT, repeated=True), 3: Field("roleRef", _ROLE_REF)},
)
CLUSTER_ROLE_BINDING = Message("ClusterRoleBinding", ROLE_BINDING.fields)
