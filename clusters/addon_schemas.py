"""Structural schemas of ManagedClusterAddOn and ClusterManagementAddOn, both versions of both (T9).

v1alpha1 is stored. The versions share most parts; ``addon_wire`` converts what they say differently.
"""

from __future__ import annotations

from ocmconsole.corekinds.schemas import condition_list
from ocmconsole.corekinds.shapes import LABEL_PATTERN, int32, int64, keyed, listing, structure, text, texts
from ocmconsole.kubeapi.errors import Doc

_SIGNER_PATTERN = r"^([a-z0-9][a-z0-9-]*[a-z0-9]\.)+[a-z]+\/[a-z0-9-\.]+$"
_AMOUNT_PATTERN = "^((100|[0-9]{1,2})%|[0-9]+)$"

# ---------------------------------------------------------------- references to configurations

_TYPE: Doc = {
    "group": text("API group of the configuration.", default=""),
    "resource": text("Its resource, in plural.", minLength=1),
}
_PLACE: Doc = {
    "namespace": text("Namespace of the configuration; none when it is in none."),
    "name": text("Name of the configuration.", minLength=1),
}
_BY_TYPE = ["group", "resource"]

_CONFIG = structure("One configuration.", {**_TYPE, **_PLACE}, required=("name", "resource"))
_CONFIGS = listing("Configurations to use instead of the default ones.", _CONFIG)


def _hashed(description: str) -> Doc:
    return structure(description, {**_PLACE, "specHash": text("Hash of its spec.")}, required=("name",))


_DESIRED = _hashed("The configuration that is wanted.")
_APPLIED = _hashed("The configuration that was applied last.")
_KNOWN_GOOD = _hashed("The last configuration that worked.")

_META = structure(
    "The add-on for people.",
    {"displayName": text("Its name."), "description": text("What it does.")},
)
_COORDINATES = structure(
    "Where the add-on's configuration is.",
    {
        "crdName": text("Name of the definition of its type."),
        "crName": text("Name of the configuration."),
        "lastObservedGeneration": int64("Generation of the configuration that was seen last."),
    },
)

# ---------------------------------------------------------------- ManagedClusterAddOn


def _subject(units: str) -> Doc:
    """Whom a certificate names; ``units`` is what the version calls the organisational units, if it has them."""
    more = {units: texts("Organisational units.")} if units else {}
    return structure("Whom the certificate names.", {"user": text("The user."), "groups": texts("Groups."), **more})


_SIGNER = text("Who signs.", minLength=5, maxLength=571, pattern=_SIGNER_PATTERN)
_DRIVER = text("How the agent gets its credential.", enum=["csr", "token"])

_REGISTRATION_V1ALPHA1 = structure(
    "A certificate that the add-on's agent needs.",
    {"signerName": _SIGNER, "subject": _subject("organizationUnit")},
    required=("signerName",),
)
_REGISTRATION_V1BETA1 = structure(
    "A credential that the add-on's agent needs.",
    {
        "type": text("Whether it is for the hub or signed by others.", enum=["kubeClient", "customSigner"]),
        "kubeClient": structure("A credential for the hub's API.", {"subject": _subject(""), "driver": _DRIVER}),
        "customSigner": structure(
            "A certificate by another signer.",
            {"signerName": _SIGNER, "subject": _subject("organizationUnits")},
            required=("signerName",),
        ),
    },
    required=("type",),
)

_OBJECT = structure(
    "One object.",
    {
        "group": text("Its API group."),
        "resource": text("Its resource, in plural."),
        "namespace": text("Its namespace; none when it is in none."),
        "name": text("Its name."),
    },
    required=("group", "name", "resource"),
)
_OBSERVED: Doc = {
    "lastObservedGeneration": int64("Generation of the configuration that was seen last."),
    "desiredConfig": _DESIRED,
    "lastAppliedConfig": _APPLIED,
}
_REFERENCE_V1ALPHA1 = structure(
    "A configuration in use.", {**_TYPE, **_PLACE, **_OBSERVED}, required=("name", "resource")
)
_REFERENCE_V1BETA1 = structure("A configuration in use.", {**_TYPE, **_OBSERVED}, required=("resource",))


def _addon_status(registration: Doc, reference: Doc, more: Doc) -> Doc:
    return structure(
        "What was found out about the add-on on this cluster.",
        {
            "conditions": condition_list(list_map=True),
            "relatedObjects": listing("Objects that belong to the add-on.", _OBJECT),
            "addOnMeta": _META,
            "supportedConfigs": keyed(
                "Types of configurations that the add-on takes.",
                structure("One type.", _TYPE, required=("resource",)),
                _BY_TYPE,
            ),
            "configReferences": listing("Configurations in use.", reference),
            "namespace": text("Where the add-on's agent runs on the cluster."),
            "registrations": listing("Credentials that the add-on's agent needs.", registration),
            "healthCheck": structure(
                "How the add-on shows that it is well.",
                {"mode": text("By a lease or in its own way.", default="Lease", enum=["Lease", "Customized"])},
            ),
            **more,
        },
    )


def _addon(spec: Doc, status: Doc) -> Doc:
    return structure(
        "An add-on that is installed on the cluster of this namespace.",
        {"spec": structure("What is wanted of it.", spec), "status": status},
        required=("spec",),
    )


MANAGED_CLUSTER_ADDON_V1ALPHA1 = _addon(
    {
        "installNamespace": text(
            "Where its agent runs on the cluster.",
            default="open-cluster-management-agent-addon",
            maxLength=63,
            pattern=LABEL_PATTERN,
        ),
        "configs": _CONFIGS,
    },
    _addon_status(
        _REGISTRATION_V1ALPHA1,
        _REFERENCE_V1ALPHA1,
        {"addOnConfiguration": _COORDINATES, "kubeClientDriver": _DRIVER},
    ),
)
MANAGED_CLUSTER_ADDON_V1BETA1 = _addon(
    {"configs": _CONFIGS}, _addon_status(_REGISTRATION_V1BETA1, _REFERENCE_V1BETA1, {})
)

# ---------------------------------------------------------------- ClusterManagementAddOn

_AMOUNT: Doc = {"x-kubernetes-int-or-string": True, "pattern": _AMOUNT_PATTERN}
_ROLLOUT: Doc = {
    "minSuccessTime": text("How long a success must last before the rollout goes on.", default="0"),
    "progressDeadline": text(
        "How long a cluster may take before it counts as failed.", default="None", pattern="^([0-9]+[hms])+$|^None$"
    ),
    "maxFailures": {**_AMOUNT, "default": 0, "description": "How many clusters may fail before the rollout stops."},
}
_FIRST_GROUPS: Doc = {
    "mandatoryDecisionGroups": listing(
        "Groups of clusters that come first, and must succeed.",
        structure("One group.", {"groupName": text("Its name."), "groupIndex": int32("Its number.")}),
    )
}
_STRATEGY = structure(
    "How a new configuration reaches the clusters.",
    {
        "type": text(
            "All at once, a number at a time, or group after group.",
            default="All",
            enum=["All", "Progressive", "ProgressivePerGroup"],
        ),
        "all": structure("For All.", _ROLLOUT),
        "progressive": structure(
            "For Progressive.",
            {**_FIRST_GROUPS, **_ROLLOUT, "maxConcurrency": {**_AMOUNT, "description": "How many at a time."}},
        ),
        "progressivePerGroup": structure("For ProgressivePerGroup.", {**_FIRST_GROUPS, **_ROLLOUT}),
    },
    default={"type": "All"},
)
_PLACEMENT: Doc = {
    "namespace": text("Namespace of the placement.", minLength=1),
    "name": text("Name of the placement.", minLength=1),
}
_INSTALL_STRATEGY = structure(
    "On which clusters the add-on is installed.",
    {
        "type": text("By hand, or wherever placements say.", default="Manual", enum=["Manual", "Placements"]),
        "placements": keyed(
            "Placements that say where.",
            structure(
                "One placement.",
                {**_PLACEMENT, "configs": _CONFIGS, "rolloutStrategy": _STRATEGY},
                required=("name", "namespace"),
            ),
            ["namespace", "name"],
        ),
    },
    default={"type": "Manual"},
)
_SUPPORTED = keyed(
    "Types of configurations that the add-on takes.",
    structure(
        "One type.",
        {
            **_TYPE,
            "defaultConfig": structure("What is used when nothing else is said.", _PLACE, required=("name",)),
        },
        required=("resource",),
    ),
    _BY_TYPE,
)
_DEFAULTS = keyed("Configurations that are used when nothing else is said.", _CONFIG, _BY_TYPE)
_DEFAULT_REFERENCES = listing(
    "Default configurations as they are now.",
    structure("One configuration.", {**_TYPE, "desiredConfig": _DESIRED}, required=("resource",)),
)
_PROGRESSIONS = listing(
    "How far the installation has come, for each placement.",
    structure(
        "One placement.",
        {
            **_PLACEMENT,
            "configReferences": listing(
                "Configurations on their way.",
                structure(
                    "One configuration.",
                    {
                        **_TYPE,
                        "desiredConfig": _DESIRED,
                        "lastAppliedConfig": _APPLIED,
                        "lastKnownGoodConfig": _KNOWN_GOOD,
                    },
                    required=("resource",),
                ),
            ),
            "conditions": condition_list(list_map=True),
        },
        required=("name", "namespace"),
    ),
)


def _management(spec: Doc, references: str) -> Doc:
    status = {references: _DEFAULT_REFERENCES, "installProgressions": _PROGRESSIONS}
    return structure(
        "An add-on that can be installed on clusters.",
        {
            "spec": structure(
                "What the add-on is.", {"addOnMeta": _META, **spec, "installStrategy": _INSTALL_STRATEGY}
            ),
            "status": structure("What was found out about it.", status),
        },
        required=("spec",),
    )


CLUSTER_MANAGEMENT_ADDON_V1ALPHA1 = _management(
    {"addOnConfiguration": _COORDINATES, "supportedConfigs": _SUPPORTED}, "defaultconfigReferences"
)
CLUSTER_MANAGEMENT_ADDON_V1BETA1 = _management({"defaultConfigs": _DEFAULTS}, "defaultConfigReferences")
