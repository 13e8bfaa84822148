"""What a hub has stored, read beside it: whether log and rows agree, and in what two hubs differ."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from tests.hub import Hub

Doc = dict[str, Any]
Place = tuple[str, str, str]

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# Keys, tokens and the CA are each hub's own.
OWN = {"Secret", "ConfigMap"}
# A cluster let in again gets a fresh lease (K15), which speaks for its clock, only if reconcilers saw it sent away.
OF_TIME = "ManagedClusterConditionClockSynced"
# How often a placement was decided, and so how many Events say so, depends on how work has folded.
SCHEDULER = "placement-controller"
BY_CHANCE = ("uid", "resourceVersion", "managedFields")


def assert_log_agrees(hub: Hub) -> None:
    """Every revision is given once, rows are where the log ends, and what is audited has its entry."""
    from ocmconsole.kubeapi import kinds

    assert "agree" in hub.manage("check_wire")
    with hub.reading() as query:
        log = query("SELECT revision, resource, verb, namespace, name, wire FROM kubeapi_change ORDER BY revision")
        counter = query("SELECT value FROM kubeapi_revision")
        rows = {
            (kind.resource, *row)
            for kind in kinds.all_kinds()
            for row in query(f"SELECT namespace, name, resource_version, wire FROM {kind.model._meta.db_table}")  # noqa: S608 - Django's own names
        }
        recorded = {row[0] for row in query("SELECT revision FROM kubeapi_auditevent WHERE revision IS NOT NULL")}
    revisions = [change[0] for change in log]
    assert revisions == list(range(2, len(log) + 2)), "a number was given to no write, or to two"
    assert counter == [(revisions[-1],)]
    assert _followed(log) == rows
    audited = {kind.resource for kind in kinds.all_kinds() if kind.audited}
    assert recorded == {change[0] for change in log if change[1] in audited}


def _followed(log: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """The objects that are there when the log has been followed to its end."""
    newest = {(resource, namespace, name): change for change in log for _, resource, _, namespace, name, _ in [change]}
    return {
        (resource, namespace, name, revision, wire)
        for revision, resource, verb, namespace, name, wire in newest.values()
        if verb != "DELETED"
    }


# ---------------------------------------------------------------- work


def work_left(hub: Hub) -> list[tuple[Any, ...]]:
    with hub.reading() as query:
        return query("SELECT reconciler, namespace, name, due, attempts FROM kubeapi_workitem")


def overdue(items: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What should have been done by now, or has failed."""
    return [item for item in items if item[4] or _moment(item[3]) < datetime.now(UTC)]


def _moment(stored: datetime | str) -> datetime:
    return stored if isinstance(stored, datetime) else datetime.fromisoformat(stored).replace(tzinfo=UTC)


# ---------------------------------------------------------------- states


def state(hub: Hub) -> dict[Place, Doc]:
    """All objects of all kinds by place, without what chance and the clock have put into them."""
    from ocmconsole.kubeapi import kinds

    with hub.reading() as query:
        found = {
            (kind.resource, namespace, name): json.loads(TIME.sub("<time>", wire))
            for kind in kinds.all_kinds()
            for namespace, name, wire in query(f"SELECT namespace, name, wire FROM {kind.model._meta.db_table}")  # noqa: S608 - Django's own names
        }
    return {place: _comparable(doc) for place, doc in found.items() if doc.get("reportingComponent") != SCHEDULER}


def _comparable(doc: Doc) -> Doc:
    for name in BY_CHANCE:
        doc["metadata"].pop(name, None)
    for reference in doc["metadata"].get("ownerReferences") or ():
        reference.pop("uid")
    if doc["kind"] in OWN:
        doc["data"] = sorted(doc.get("data") or {})
    status = doc.get("status") or {}
    if conditions := status.get("conditions"):
        status["conditions"] = [each for each in conditions if each["type"] != OF_TIME]
    doc["status"] = {name: value for name, value in status.items() if value}
    return doc


def facts(hub: Hub) -> list[tuple[Any, ...]]:
    with hub.reading() as query:
        return sorted(query("SELECT cluster, decision, decided_by, renewal_withheld FROM clusters_clusterfacts"))


def differences(found: dict[Place, Doc], expected: dict[Place, Doc]) -> dict[Place, tuple[Doc | None, Doc | None]]:
    """Places where two states differ, with both sides."""
    return {
        place: (found.get(place), expected.get(place))
        for place in sorted(found.keys() | expected.keys())
        if found.get(place) != expected.get(place)
    }


def decided(hub: Hub) -> dict[str, list[str]]:
    """By name of a PlacementDecision the clusters in it."""
    with hub.reading() as query:
        rows = query("SELECT name, wire FROM placements_placementdecision ORDER BY name")
    named = {name: (json.loads(wire).get("status") or {}).get("decisions") or [] for name, wire in rows}
    return {name: [each["clusterName"] for each in found] for name, found in named.items()}
