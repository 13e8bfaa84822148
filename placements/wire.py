"""Printer columns of Placement; decisions and scores declare none and show their age. Pure."""

from __future__ import annotations

from clusters.wire import condition_column
from ocmconsole.kubeapi.kinds import PrinterColumn

PLACEMENT_COLUMNS = (
    condition_column("Succeeded", "PlacementSatisfied", "Whether as many clusters are chosen as were asked for."),
    PrinterColumn(
        "Reason",
        "string",
        '.status.conditions[?(@.type=="PlacementSatisfied")].reason',
        description="Why condition PlacementSatisfied has its status.",
    ),
    PrinterColumn(
        "SelectedClusters",
        "integer",
        ".status.numberOfSelectedClusters",
        description="How many clusters are chosen.",
    ),
)
