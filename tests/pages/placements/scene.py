"""Two sets, one of them bound into namespace shop, where placements are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER
from clusters.models import ManagedCluster, Serving
from placements.kinds import PLACEMENT
from tests import factories as make
from tests.actors import grant, person, rule
from tests.kept import kept

Doc = dict[str, Any]
TEAM = "shop"


@pytest.fixture(autouse=True)
@kept
def fleet() -> None:
    """``web`` has four clusters: two of them prod, one of these in maintenance; ``db`` has one and is not bound."""
    for name in ("web", "db"):
        make.clusterset(name)
    for name, of, env in (
        ("web-1", "web", "prod"),
        ("web-2", "web", "prod"),
        ("web-3", "web", "test"),
        ("web-4", "web", ""),
        ("db-1", "db", "prod"),
    ):
        make.cluster(name, labels={CLUSTERSET_LABEL: of} | ({"env": env} if env else {}))
        make.said(name, "ManagedClusterConditionAvailable", "True")
    taint = {"key": "ocmconsole.io/maintenance", "effect": "NoSelect"}
    make.edit(MANAGED_CLUSTER, "web-2", lambda doc: doc["spec"].update(taints=[taint]))
    for name in (TEAM, "ops"):
        make.namespace(name)
    make.binding("web", namespace=TEAM)
    make.settle()


def place(name: str = "p1", *, namespace: str = TEAM, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    more: Any = {"annotations": annotations} if annotations else {}
    make.create(PLACEMENT, make.document(PLACEMENT, name, spec=spec, **more), namespace=namespace)
    make.settle()


@contextmanager
def ago(hours: float) -> Iterator[datetime]:
    """Time stands still inside."""
    with time_machine.travel(timezone.now() - timedelta(hours=hours), tick=False):
        yield timezone.now()


def relabel(name: str, env: str) -> None:
    make.label(name, env=env)
    make.settle()


def matching(**labels: str) -> list[Doc]:
    return [{"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}]


def author(name: str = "li", namespace: str = TEAM) -> None:
    """Works with the placements of one namespace, and has no right on the hub."""
    grant(
        person(name),
        rule("get list watch create update patch delete", "placements", groups=GROUP),
        rule("get list watch", "placementdecisions", groups=GROUP),
        namespace=namespace,
    )


@contextmanager
def all_silent() -> Iterator[None]:
    """``p1`` has chosen; then all five clusters, which were well, fall silent at once. Time stands still inside."""
    make.serve_since(timedelta(days=1))
    place()
    names = list(ManagedCluster.objects.values_list("name", flat=True))
    for name in names:
        make.accept(name)
        make.available(name)
    make.settle()
    for name in names:
        make.renew(name)
    with time_machine.travel(timezone.now() + timedelta(seconds=301), tick=False):
        Serving.objects.update(seen=timezone.now(), served=timezone.now())
        make.sweep()
        yield
