"""CustomResourceDefinitions of the kinds that this hub serves: clients look them up, nobody adds any (C26, C28, C33).

They are written from the registry of kinds when first asked for, and stored nowhere: an upgrade of the hub is what
changes them. Only kinds that upstream defines in this way have one. That of ClusterManager, a stub, is there as long
as the object is (D8): ``clusteradm clean`` deletes both and calls the hub clean when it finds neither.
"""

from __future__ import annotations

import uuid
from functools import cache
from typing import TYPE_CHECKING

from ocmconsole.core import wire
from ocmconsole.core.kinds import CLUSTER_MANAGER, SCHEMA_FILES
from ocmconsole.kubeapi import kinds, verbs, virtual_resources
from ocmconsole.kubeapi.formats import schema_files
from ocmconsole.kubeapi.kinds import Key, Kind, Served, Version
from ocmconsole.kubeapi.models import Resource
from ocmconsole.kubeapi.publish import discovery
from ocmconsole.kubeapi.schema.compiled_schema import published

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import PrinterColumn

GROUP = "apiextensions.k8s.io"
PLURAL = "customresourcedefinitions"
THE_HUB = "cluster-manager"
REFUSAL = "this hub serves the kinds that it was built with; it takes no definitions of others and gives up none"

_VERSION = Version(
    group=GROUP,
    version="v1",
    schema=schema_files.load(
        SCHEMA_FILES / "customresourcedefinitions.v1.yaml",
        name="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    ),
    columns=wire.CUSTOM_RESOURCE_DEFINITION_COLUMNS,
)
CUSTOM_RESOURCE_DEFINITION = Kind(
    kind="CustomResourceDefinition",
    plural=PLURAL,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    namespaced=False,
    versions=(_VERSION,),
    model=Resource,  # type: ignore[type-abstract] # none is ever stored
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    custom=True,  # so that kubectl does not compute strategic patches of what nobody changes
)


def readable_definitions() -> list[Doc]:
    """Those that can be read now."""
    found = all_definitions()
    if verbs.find(CLUSTER_MANAGER, Key("", THE_HUB)) is None:
        return [doc for doc in found if doc["metadata"]["name"] != CLUSTER_MANAGER.resource]
    return found


@cache
def all_definitions() -> list[Doc]:
    """By name."""
    return [definition(kind) for kind in sorted(kinds.all_kinds(), key=lambda kind: kind.resource) if kind.custom]


def definition(kind: Kind) -> Doc:
    """The CustomResourceDefinition of a kind."""
    names: Doc = {
        "plural": kind.plural,
        "singular": kind.singular or kind.kind.lower(),
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
    }
    names |= {"shortNames": list(kind.short_names)} if kind.short_names else {}
    names |= {"categories": list(kind.categories)} if kind.categories else {}
    born = discovery.version()["buildDate"]
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {
            "name": kind.resource,
            "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, kind.resource)),
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": born,
        },
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [_version(kind, version) for version in kind.versions if version.group == kind.group],
        },
        "status": {
            "acceptedNames": names,
            "conditions": [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found", born),
                _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", born),
            ],
            "storedVersions": [kind.storage.version],
        },
    }


def _version(kind: Kind, version: Version) -> Doc:
    described: Doc = {
        "name": version.version,
        "served": True,
        "storage": version is kind.storage,
        "schema": {"openAPIV3Schema": _schema(version)},
    }
    if kind.has_status:
        described["subresources"] = {"status": {}}
    if columns := [_column(column) for column in version.columns if isinstance(column.value, str)]:
        described["additionalPrinterColumns"] = columns
    if version.warning:
        described |= {"deprecated": True, "deprecationWarning": version.warning}
    return described


def _schema(version: Version) -> Doc:
    """As a definition writes it: metadata is only said to be an object."""
    whole = published(version.schema.root)
    typed = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return {**whole, "type": "object", "properties": typed | whole.get("properties", {})}


def _column(column: PrinterColumn) -> Doc:
    shown: Doc = {"name": column.name, "type": column.type, "jsonPath": column.value}
    more = {"format": column.format, "description": column.description, "priority": column.priority}
    return shown | {name: value for name, value in more.items() if value}


def _condition(type_: str, reason: str, message: str, since: str) -> Doc:
    return {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since}


virtual_resources.register_collection(
    virtual_resources.Collection(Served(CUSTOM_RESOURCE_DEFINITION, _VERSION), readable_definitions, REFUSAL)
)
