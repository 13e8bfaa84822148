"""Placements have one rule: their name fits a label (K38). Decisions and scores have none (A12)."""

from __future__ import annotations

from functools import partial

from placements.kinds import PLACEMENT
from tests.entry_points.admission import row, scene
from tests.entry_points.admission.row import SUPERUSER, Allowed, Refused, Row

TEAM = scene.namespace("team")
SPEC = {"spec": {"numberOfClusters": 1}}
MORE = {"spec": {"numberOfClusters": 2}}
LONG = "p" * 64
TOO_LONG = Refused(
    422,
    f'Placement.cluster.open-cluster-management.io "{LONG}" is invalid: metadata.name: Invalid value: "{LONG}": '
    "must be no more than 63 characters: PlacementDecisions carry it as a label",
)
creates = partial(row.creates, kind=PLACEMENT, namespace="team", who=SUPERUSER, around=(TEAM,))
changes = partial(row.changes, kind=PLACEMENT, namespace="team", who=SUPERUSER, around=(TEAM,))

ROWS: list[Row] = [
    creates("a placement's name may have as many characters as a label", SPEC, Allowed(SPEC), "K38", "A12", name="p" * 63),
    creates("a placement's name has no more characters than a label", SPEC, TOO_LONG, "K38", name=LONG),
    changes("a placement of a longer name can still be changed", SPEC, MORE, Allowed(MORE), "K38", name=LONG),
]  # fmt: skip
