"""A ClusterProfile stays with its cluster manager (I2); all else of it may be changed by those with the right to."""

from __future__ import annotations

from functools import partial

from clustersets.profiles.profile_kinds import CLUSTER_PROFILE
from tests.entry_points.admission import row, scene
from tests.entry_points.admission.row import SUPERUSER, Allowed, Doc, Refused, Row

TEAM = scene.namespace("team")
STAYS = Refused(
    422,
    'ClusterProfile.multicluster.x-k8s.io "p1" is invalid: spec.clusterManager: Invalid value: "object": '
    "ClusterManager is immutable",
)
creates = partial(row.creates, kind=CLUSTER_PROFILE, name="p1", namespace="team", who=SUPERUSER, around=(TEAM,))
changes = partial(row.changes, kind=CLUSTER_PROFILE, name="p1", namespace="team", who=SUPERUSER, around=(TEAM,))


def managed_by(name: str, **more: str) -> Doc:
    return {"spec": {"clusterManager": {"name": name}, **more}}


SHOWN = managed_by("fleet", displayName="Shop one")

ROWS: list[Row] = [
    creates(
        "anybody's cluster manager may describe a cluster", managed_by("fleet"), Allowed(managed_by("fleet")), "I2"
    ),
    changes("a profile never turns to another cluster manager", managed_by("fleet"), managed_by("other"), STAYS, "I2"),
    changes("a profile's name for people may change", managed_by("fleet"), SHOWN, Allowed(SHOWN), "I2"),
]
