"""Structural schema of ManifestWork v1. Manifests are kept as they come; what they mean is for the agent to know."""

from __future__ import annotations

from ocmconsole.corekinds.schemas import condition_list
from ocmconsole.corekinds.shapes import flag, int32, int64, keyed, listing, structure, text, texts
from ocmconsole.kubeapi.errors import Doc

_SUBDOMAIN_PATTERN = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$"

_RESOURCE: Doc = {
    "group": text("Its API group."),
    "resource": text("Its resource, in plural."),
    "namespace": text("Its namespace; none when it is in none."),
    "name": text("Its name."),
}

_MANIFEST = structure(
    "Any Kubernetes object.",
    {"apiVersion": text("Its group and version."), "kind": text("What it is.")},
    required=("apiVersion", "kind"),
    **{"x-kubernetes-preserve-unknown-fields": True},
)

_DELETE_OPTION = structure(
    "What happens to the objects when the work is deleted.",
    {
        "propagationPolicy": text(
            "Whether they go, stay, or stay where a rule says so.",
            default="Foreground",
            enum=["Foreground", "Orphan", "SelectivelyOrphan"],
        ),
        "selectivelyOrphans": structure(
            "For SelectivelyOrphan.",
            {
                "orphaningRules": listing(
                    "Which objects stay.", structure("One object.", _RESOURCE, required=("name", "resource"))
                )
            },
        ),
        "ttlSecondsAfterFinished": int64("How long a completed work is kept."),
    },
)

_UPDATE_STRATEGY = structure(
    "How the agent changes an object that is there already.",
    {
        "type": text("How.", default="Update", enum=["Update", "CreateOnly", "ServerSideApply", "ReadOnly"]),
        "serverSideApply": structure(
            "For ServerSideApply.",
            {
                "force": flag("Whether to take fields from other managers."),
                "fieldManager": text("In whose name.", default="work-agent", pattern="^work-agent"),
                "ignoreFields": keyed(
                    "Fields that are left alone.",
                    structure(
                        "Some fields.",
                        {
                            "condition": text(
                                "When they are left alone.",
                                default="OnSpokePresent",
                                enum=["OnSpokePresent", "OnSpokeChange"],
                            ),
                            "jsonPaths": texts("As JSONPath."),
                            "jsonPointers": texts("As JSON pointers."),
                            "jqPathExpressions": texts("As expressions of jq."),
                        },
                        required=("condition",),
                    ),
                    ["condition"],
                ),
            },
        ),
    },
    required=("type",),
)

_FEEDBACK_RULE = structure(
    "What of an object's status is reported.",
    {
        "type": text("What is well known, or what paths name.", enum=["WellKnownStatus", "JSONPaths"]),
        "jsonPaths": keyed(
            "For JSONPaths.",
            structure(
                "One value.",
                {
                    "name": text("Under which name it is reported."),
                    "version": text("Version of the object in which the path holds."),
                    "path": text("Where it is."),
                },
                required=("name", "path"),
            ),
            ["name"],
        ),
    },
    required=("type",),
)

_CONDITION_RULE = structure(
    "A condition that the agent makes from an object's status.",
    {
        "condition": text("Its type."),
        "type": text("By what is well known, or by expressions.", enum=["WellKnownConditions", "CEL"]),
        "celExpressions": texts("For CEL: all must be true."),
        "message": text("What the condition says."),
        "messageExpression": text("An expression for what the condition says."),
    },
    required=("condition", "type"),
)

_MANIFEST_CONFIG = structure(
    "How one of the objects is treated.",
    {
        "resourceIdentifier": structure("Which one.", _RESOURCE, required=("name", "resource")),
        "feedbackRules": listing("What is reported of it.", _FEEDBACK_RULE),
        "feedbackScrapeType": text("How the agent looks.", default="Poll", enum=["Poll", "Watch"]),
        "updateStrategy": _UPDATE_STRATEGY,
        "conditionRules": keyed("Conditions to make from it.", _CONDITION_RULE, ["condition"]),
    },
    required=("resourceIdentifier",),
)


def _name(description: str) -> Doc:
    return text(description, minLength=1, maxLength=253, pattern=_SUBDOMAIN_PATTERN)


_EXECUTOR = structure(
    "With whose rights the agent works.",
    {
        "subject": structure(
            "Who it is.",
            {
                "type": text("What it is.", enum=["ServiceAccount"]),
                "serviceAccount": structure(
                    "For ServiceAccount.",
                    {"namespace": _name("Its namespace."), "name": _name("Its name.")},
                    required=("name", "namespace"),
                ),
            },
            required=("type",),
        )
    },
)

_VALUE = structure(
    "One reported value.",
    {
        "name": text("Its name."),
        "fieldValue": structure(
            "The value.",
            {
                "type": text("Its type.", enum=["Integer", "String", "Boolean", "JsonRaw"]),
                "integer": int64("For Integer."),
                "string": text("For String."),
                "boolean": flag("For Boolean."),
                "jsonRaw": text("For JsonRaw.", maxLength=1024),
            },
            required=("type",),
        ),
    },
    required=("fieldValue", "name"),
)

_MANIFEST_STATUS = structure(
    "One object.",
    {
        "resourceMeta": structure(
            "Which one.",
            {
                "ordinal": int32("Its place among the manifests."),
                "version": text("Version of its API."),
                "kind": text("What it is."),
                **_RESOURCE,
            },
            required=("ordinal",),
        ),
        "statusFeedback": structure("What is reported of it.", {"values": keyed("Values.", _VALUE, ["name"])}),
        "conditions": condition_list(list_map=True),
    },
    required=("resourceMeta",),
)

MANIFEST_WORK: Doc = structure(
    "Objects that the hub wants on a cluster. It is in the cluster's namespace; the cluster's agent applies them.",
    {
        "spec": structure(
            "The objects, and how to treat them.",
            {
                "workload": structure("The objects.", {"manifests": listing("Manifests.", _MANIFEST)}),
                "deleteOption": _DELETE_OPTION,
                "manifestConfigs": listing("How single objects are treated.", _MANIFEST_CONFIG),
                "executor": _EXECUTOR,
            },
        ),
        "status": structure(
            "What became of them.",
            {
                "conditions": condition_list(list_map=True),
                "resourceStatus": structure(
                    "Each object on its own.", {"manifests": listing("Objects.", _MANIFEST_STATUS)}
                ),
            },
        ),
    },
)
