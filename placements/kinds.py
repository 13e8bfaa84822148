"""Registers Placement, PlacementDecision and AddOnPlacementScore."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clusters.kinds import GROUP, label_of, spec_of
from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.formats import schema_files
from ocmconsole.kubeapi.kinds import Kind, PrinterColumn, Subresource, Version
from ocmconsole.kubeapi.storage import audit_acts
from placements import wire
from placements.models import AddOnPlacementScore, Placement, PlacementDecision
from placements.scheduler import relevance

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import Resource

SCHEMA_FILES = Path(__file__).with_name("schemas")
STATUS = (Subresource("status"),)

# Labels of a PlacementDecision (P24).
PLACEMENT_LABEL = f"{GROUP}/placement"
GROUP_NAME_LABEL = f"{GROUP}/decision-group-name"
GROUP_INDEX_LABEL = f"{GROUP}/decision-group-index"
# P2: on a Placement with the value "true": another scheduler decides.
DISABLE_ANNOTATION = f"{GROUP}/experimental-scheduling-disable"


def is_disabled(doc: Doc) -> bool:
    """P2: another scheduler decides."""
    return (doc["metadata"].get("annotations") or {}).get(DISABLE_ANNOTATION) == "true"


def _project_placement(row: Placement, doc: Doc) -> None:
    row.cluster_sets = list(spec_of(doc).get("clusterSets") or ())
    row.reads = sorted(relevance.reads(spec_of(doc)))


def _project_decision(row: PlacementDecision, doc: Doc) -> None:
    row.placement = label_of(doc, PLACEMENT_LABEL)


def _kind(
    name: str, version: str, model: type[Resource], *, columns: tuple[PrinterColumn, ...] = (), project: object = None
) -> Kind:
    plural = f"{name.lower()}s"
    schema = schema_files.load(
        SCHEMA_FILES / f"{plural}.{version}.yaml", name=f"io.open-cluster-management.cluster.{version}.{name}"
    )
    return kinds.register(
        Kind(
            kind=name,
            plural=plural,
            singular=name.lower(),
            namespaced=True,
            versions=(Version(group=GROUP, version=version, schema=schema, columns=columns),),
            model=model,
            subresources=STATUS,
            custom=True,
            project=project,  # type: ignore[arg-type] # each takes the rows of its own model
        )
    )


BRAKE_BEGUN = audit_acts.declare("placement:hold-evictions", "Evictions of silent clusters held by the hub")
BRAKE_KEPT = audit_acts.declare(
    "placement:keep-holding-evictions", "Evictions of silent clusters held", refused="Holding evictions refused"
)
BRAKE_ENDED = audit_acts.declare(
    "placement:release-evictions", "Evictions of silent clusters released", refused="Releasing evictions refused"
)

PLACEMENT = _kind("Placement", "v1beta1", Placement, columns=wire.PLACEMENT_COLUMNS, project=_project_placement)
PLACEMENT_DECISION = _kind("PlacementDecision", "v1beta1", PlacementDecision, project=_project_decision)
ADD_ON_PLACEMENT_SCORE = _kind("AddOnPlacementScore", "v1alpha1", AddOnPlacementScore)
