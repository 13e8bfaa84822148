"""Structural schemas of the core kinds as data, and the shapes that the kinds of other apps share.

One declaration prunes, defaults, validates and feeds ``kubectl explain``; metadata is added by the machinery. Types and
formats are those of Kubernetes; rules that need more than one field are in ``admission``. Reviews and token requests,
which are never stored, follow at the end.
"""

from __future__ import annotations

from typing import Any

from ocmconsole.corekinds.shapes import (
    QUALIFIED_PATTERN,
    anything,
    flag,
    int32,
    int64,
    keyed,
    listing,
    mapping,
    micro_moment,
    moment,
    structure,
    text,
    texts,
)
from ocmconsole.kubeapi.errors import Doc

RBAC_GROUP = "rbac.authorization.k8s.io"
# Values of maps in built-in kinds, which Go reads into texts and bytes that cannot be null.
_NULL_IS_EMPTY: Doc = {"type": "string", "default": ""}
_NULL_IS_NO_BYTES: Doc = {**_NULL_IS_EMPTY, "format": "byte"}


# Shared with other apps


def condition_list(*, list_map: bool) -> Doc:
    """Conditions in the form of metav1.Condition (T2). ``list_map``: at most one of each type."""
    condition = structure(
        "One aspect of the current state.",
        {
            "type": text("Which aspect this is.", maxLength=316, pattern=QUALIFIED_PATTERN),
            "status": text("Whether it holds.", enum=["True", "False", "Unknown"]),
            "reason": text(
                "Why, in one word for programs.",
                minLength=1,
                maxLength=1024,
                pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            ),
            "message": text("Why, for people. May be empty.", maxLength=32768),
            "lastTransitionTime": moment("When the status last became another one."),
            "observedGeneration": int64("The generation of the object that this says something about.", minimum=0),
        },
        required=("lastTransitionTime", "message", "reason", "status", "type"),
    )
    description = "What was found out about the object, one entry for each aspect."
    if list_map:
        return keyed(description, condition, ["type"])
    return {"type": "array", "description": description, "items": condition}


def label_selector(description: str = "Selects objects by their labels; all parts must match.") -> Doc:
    """metav1.LabelSelector. Operators are not checked here, as upstream (T3)."""
    requirement = structure(
        "A condition on one label.",
        {
            "key": text("The label's key."),
            "operator": text("In, NotIn, Exists or DoesNotExist."),
            "values": texts("Values for In and NotIn; empty for the others."),
        },
        required=("key", "operator"),
    )
    return structure(
        description,
        {
            "matchLabels": mapping("Labels that must have exactly these values.", {"type": "string"}),
            "matchExpressions": listing("Conditions on labels; all of them must hold.", requirement),
        },
        **{"x-kubernetes-map-type": "atomic"},
    )


def _object_reference(description: str) -> Doc:
    fields = {
        "kind": "Kind of the object.",
        "namespace": "Namespace of the object; empty for kinds without namespaces.",
        "name": "Name of the object.",
        "uid": "The object's uid, which no later object of the same name has.",
        "apiVersion": "Group and version of the object.",
        "resourceVersion": "State of the object that is meant.",
        "fieldPath": "A part of the object, as a path.",
    }
    return structure(
        description,
        {name: text(meaning) for name, meaning in fields.items()},
        **{"x-kubernetes-map-type": "atomic"},
    )


# core/v1

NAMESPACE: Doc = structure(
    "A room for names: deleting it deletes all that is inside. Each accepted cluster has one of its own name.",
    {
        "spec": structure(
            "What is wanted of the namespace.",
            {"finalizers": texts("Who must be done before the namespace may go; set by the server.")},
        ),
        "status": structure(
            "Where the namespace stands in its life.",
            {
                "phase": text("Active or Terminating."),
                "conditions": keyed(
                    "Why the namespace is not gone yet.",
                    structure(
                        "One aspect of the current state.",
                        {
                            "type": text("Which aspect this is."),
                            "status": text("True, False or Unknown."),
                            "reason": text("Why, in one word for programs."),
                            "message": text("Why, for people."),
                            "lastTransitionTime": moment("When the status last became another one."),
                        },
                        required=("type", "status"),
                    ),
                    ["type"],
                    **{"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "type"},
                ),
            },
        ),
    },
)

SECRET: Doc = structure(
    "Small pieces of data that few may read: tokens, keys, passwords.",
    {
        "data": mapping("The secret bytes by key.", _NULL_IS_NO_BYTES),
        "stringData": mapping(
            "The same as plain text, for writing only: moved into data, over what is there.", _NULL_IS_EMPTY
        ),
        "type": text("What the data is for; decides which keys must be there.", default="Opaque"),
        "immutable": flag("When true, the data can never be changed again."),
    },
)

CONFIG_MAP: Doc = structure(
    "Configuration as texts by key.",
    {
        "data": mapping("Texts by key.", _NULL_IS_EMPTY),
        "binaryData": mapping("Bytes by key; no key may also be in data.", _NULL_IS_NO_BYTES),
        "immutable": flag("When true, the data can never be changed again."),
    },
)

SERVICE_ACCOUNT: Doc = structure(
    "An identity for a program, which proves itself by tokens of this account.",
    {
        "secrets": keyed(
            "Secrets that belong to the account.",
            _object_reference("A secret of the same namespace."),
            ["name"],
            **{"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"},
        ),
        "imagePullSecrets": listing(
            "Secrets for pulling images. Kept for others, of no use to the hub.",
            structure(
                "A secret of the same namespace.",
                {"name": text("Name of the secret.")},
                **{"x-kubernetes-map-type": "atomic"},
            ),
        ),
        "automountServiceAccountToken": flag("Whether pods get a token. Kept for others, of no use to the hub."),
    },
)


def _event_source(description: str) -> Doc:
    fields = {"component": text("The program."), "host": text("The machine it runs on.")}
    return structure(description, fields)


_EVENT_SERIES = structure(
    "How often the same happened again, when it did.",
    {"count": int32("How often so far."), "lastObservedTime": micro_moment("When it happened last.")},
)
_EVENT_FIELDS: Doc = {
    "eventTime": micro_moment("When it happened first."),
    "reason": text("What happened, in one word for programs."),
    "type": text("Normal or Warning; more may come."),
    "action": text("What was done about it, in one word for programs."),
    "series": _EVENT_SERIES,
    "related": _object_reference("Another object that has a part in it."),
    "reportingInstance": text("Which one of several such programs told this."),
}

EVENT_CORE: Doc = structure(
    "Something that happened to an object, told by the program that saw it. Forgotten after a while.",
    {
        **_EVENT_FIELDS,
        "involvedObject": _object_reference("What it happened to."),
        "message": text("What happened, for people."),
        "source": _event_source("Who told this."),
        "firstTimestamp": moment("When it happened first, with the precision of a second."),
        "lastTimestamp": moment("When it happened last, with the precision of a second."),
        "count": int32("How often it happened."),
        "reportingComponent": text("The program that told this."),
    },
    required=("involvedObject",),
)

EVENT: Doc = structure(
    "Something that happened to an object, told by the program that saw it. Forgotten after a while.",
    {
        **_EVENT_FIELDS,
        "regarding": _object_reference("What it happened to."),
        "note": text("What happened, for people.", maxLength=1024),
        "reportingController": text("The program that told this."),
        "deprecatedSource": _event_source("Who told this, as core events have it."),
        "deprecatedFirstTimestamp": moment("When it happened first, as core events have it."),
        "deprecatedLastTimestamp": moment("When it happened last, as core events have it."),
        "deprecatedCount": int32("How often it happened, as core events have it."),
    },
    required=("eventTime",),
)


SERVICE: Doc = structure(
    "A name for what runs somewhere. Nothing runs here, so there are none.",
    {"spec": anything("What the name stands for."), "status": anything("Where it is reached.")},
)


# rbac.authorization.k8s.io/v1

_POLICY_RULE = structure(
    "Some verbs on some resources, or on some paths that are no resources.",
    {
        "verbs": texts("What may be done; * is everything."),
        "apiGroups": texts('Groups of the resources; "" is the core group and * every group.'),
        "resources": texts("Resources, or parts of them such as managedclusters/status; * is every one."),
        "resourceNames": texts("Names of single objects; empty means all."),
        "nonResourceURLs": texts("Paths such as /version; a * at the end stands for any rest."),
    },
)
_RULES = listing("What the role permits.", _POLICY_RULE)

ROLE: Doc = structure("Permissions inside one namespace.", {"rules": _RULES})

CLUSTER_ROLE: Doc = structure(
    "Permissions for the whole hub, or for any namespace in which it is bound.",
    {
        "rules": _RULES,
        "aggregationRule": structure(
            "Fills the rules with those of other cluster roles.",
            {"clusterRoleSelectors": listing("Which cluster roles; any selector may match.", label_selector())},
        ),
    },
)

_BINDING: Doc = {
    "subjects": listing(
        "Who gets the permissions.",
        structure(
            "A user, a group or a service account.",
            {
                "kind": text("User, Group or ServiceAccount."),
                "apiGroup": text(f'{RBAC_GROUP} for users and groups, "" for service accounts.'),
                "name": text("Name of the subject."),
                "namespace": text("Namespace of a service account."),
            },
            required=("kind", "name"),
            **{"x-kubernetes-map-type": "atomic"},
        ),
    ),
    "roleRef": structure(
        "The role whose permissions are given. Cannot be changed.",
        {
            "apiGroup": text("Group of the role.", default=RBAC_GROUP),
            "kind": text("Role or ClusterRole."),
            "name": text("Name of the role."),
        },
        required=("kind", "name"),
        **{"x-kubernetes-map-type": "atomic"},
    ),
}

ROLE_BINDING: Doc = structure(
    "Gives the permissions of a role to subjects, inside one namespace.", _BINDING, required=("roleRef",)
)
CLUSTER_ROLE_BINDING: Doc = structure(
    "Gives the permissions of a cluster role to subjects, everywhere.", _BINDING, required=("roleRef",)
)


# apiextensions.k8s.io/v1

CUSTOM_RESOURCE_DEFINITION: Doc = structure(
    "Describes a kind that the hub serves. For reading: the hub's kinds are fixed.",
    {"spec": anything("Names, scope and versions of the kind."), "status": anything("Whether the kind is served.")},
    required=("spec",),
)


# Reviews: questions that the hub answers at once


def _extra(description: str) -> Doc:
    return mapping(description, {"type": "array", "items": {"type": "string"}})


_USER_INFO = structure(
    "An identity.",
    {
        "username": text("Name of the user."),
        "uid": text("The user's uid, if known."),
        "groups": texts("Groups that the user is in."),
        "extra": _extra("What else the authenticator said."),
    },
)
_SELECTOR_ATTRIBUTES: Doc = {
    "rawSelector": text("The selector as the request has it."),
    "requirements": listing(
        "The selector taken apart; all parts must match.",
        structure(
            "A condition on one key.",
            {"key": text("The key."), "operator": text("The operator."), "values": texts("The values.")},
            required=("key", "operator"),
        ),
    ),
}
_ACCESS_QUESTION: Doc = {
    "resourceAttributes": structure(
        "A request for a resource.",
        {
            "namespace": text("The namespace; empty for all, or for kinds without namespaces."),
            "verb": text("get, list, watch, create, update, patch, delete; * is every one."),
            "group": text("Group of the resource; * is every group."),
            "version": text("Version of the resource; * is every version."),
            "resource": text("The resource; * is every one."),
            "subresource": text("A part of the resource, such as status."),
            "name": text("Name of one object; empty for all."),
            "fieldSelector": structure("The request's field selector.", _SELECTOR_ATTRIBUTES),
            "labelSelector": structure("The request's label selector.", _SELECTOR_ATTRIBUTES),
        },
    ),
    "nonResourceAttributes": structure(
        "A request for a path that is no resource.", {"path": text("The path."), "verb": text("The HTTP verb.")}
    ),
}
_ACCESS_SUBJECT: Doc = {
    "user": text("Name of the user asked about."),
    "groups": texts("Groups of the user asked about."),
    "uid": text("The user's uid."),
    "extra": _extra("What else is known of the user."),
}


def _access_review(description: str, **more: Any) -> Doc:
    status = structure(
        "The answer.",
        {
            "allowed": flag("Whether the request is permitted."),
            "denied": flag("Whether it is expressly forbidden."),
            "reason": text("Why."),
            "evaluationError": text("What went wrong in finding out; the answer may hold nevertheless."),
        },
        required=("allowed",),
    )
    spec = structure("The question: one of the two requests.", {**_ACCESS_QUESTION, **more})
    return structure(description, {"spec": spec, "status": status})


SELF_SUBJECT_ACCESS_REVIEW: Doc = _access_review("May I? Asked and answered in one request.")
SUBJECT_ACCESS_REVIEW: Doc = _access_review("May this user? Asked and answered in one request.", **_ACCESS_SUBJECT)
LOCAL_SUBJECT_ACCESS_REVIEW: Doc = _access_review(
    "May this user, in this namespace? Asked and answered in one request.", **_ACCESS_SUBJECT
)

SELF_SUBJECT_RULES_REVIEW: Doc = structure(
    "What may I do in a namespace? Asked and answered in one request.",
    {
        "spec": structure("The question.", {"namespace": text("The namespace asked about.")}),
        "status": structure(
            "The answer.",
            {
                "resourceRules": listing("What is permitted on resources.", _POLICY_RULE),
                "nonResourceRules": listing("What is permitted on paths that are no resources.", _POLICY_RULE),
                "incomplete": flag("Whether there may be more than is listed."),
                "evaluationError": text("What went wrong in finding out."),
            },
        ),
    },
)

SELF_SUBJECT_REVIEW: Doc = structure(
    "Who am I? Asked and answered in one request.",
    {"status": structure("The answer.", {"userInfo": _USER_INFO})},
)

TOKEN_REVIEW: Doc = structure(
    "Whose token is this? Asked and answered in one request.",
    {
        "spec": structure(
            "The question.",
            {"token": text("The token."), "audiences": texts("For whom the token should be; any of them will do.")},
        ),
        "status": structure(
            "The answer.",
            {
                "authenticated": flag("Whether the token is good."),
                "user": _USER_INFO,
                "audiences": texts("For whom the token is, of those asked about."),
                "error": text("Why the token could not be checked."),
            },
        ),
    },
)

TOKEN_REQUEST: Doc = structure(
    "A new token of a service account.",
    {
        "spec": structure(
            "What is wanted.",
            {
                "audiences": texts("For whom the token is; empty for the hub itself."),
                "expirationSeconds": int64("How long the token should last; 3600 when absent."),
                "boundObjectRef": structure(
                    "An object with whose end the token ends too.",
                    {
                        "kind": text("Kind of the object, such as Secret."),
                        "apiVersion": text("Group and version of the object."),
                        "name": text("Name of the object."),
                        "uid": text("The object's uid."),
                    },
                ),
            },
        ),
        "status": structure(
            "The token.",
            {
                "token": text("The token itself, shown only here."),
                "expirationTimestamp": moment("When it ends."),
            },
        ),
    },
)


# operator.open-cluster-management.io/v1

CLUSTER_MANAGER: Doc = structure(
    "The hub itself, for clients that ask its operator about it. This hub has no operator; nothing follows from it.",
    {
        "spec": anything("How upstream's operator would deploy a hub."),
        "status": anything("What belongs to the hub."),
    },
)
