"""What tests of the scheduler begin with: the set ``web``, bound in a namespace; its clusters; placements there."""

from __future__ import annotations

from typing import Any

from clusters.kinds import CLUSTERSET_LABEL
from placements.kinds import PLACEMENT
from tests import factories as make

Doc = dict[str, Any]
TEAM = "shop"


def bound_set() -> None:
    """A namespace with the set ``web``."""
    make.namespace(TEAM)
    make.clusterset("web")
    make.binding("web", namespace=TEAM)


def members(*names: str, within: str = "web", spec: Doc | None = None, **labels: str) -> None:
    """Clusters without taints: their agents report at once."""
    for name in names:
        make.cluster(name, labels={CLUSTERSET_LABEL: within, **labels}, spec=spec)
        make.said(name, "ManagedClusterConditionAvailable", "True")


def place(name: str = "p1", namespace: str = TEAM, **spec: Any) -> Doc:
    """A Placement, scheduled; as it was created."""
    made = make.create(PLACEMENT, make.document(PLACEMENT, name, spec=spec), namespace=namespace)
    make.settle()
    return made
