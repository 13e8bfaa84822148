"""One act on many clusters: what it would do to each, then each a write and a decision of its own.

A refusal stops nothing else. Acts are those of ``services``; called by the page of the ticked rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from clusters import maintenance, queries, rights, services
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.kubeapi import bulkjobs
from ocmconsole.kubeapi.links import explain_url

if TYPE_CHECKING:
    from ocmconsole.kubeapi.actor import Actor
    from ocmconsole.kubeapi.bulkjobs import Arguments
    from ocmconsole.kubeapi.models import BulkJob

NAMES_IN_COMMAND = 10


class Act(StrEnum):
    MAINTENANCE = "maintenance"
    END = "end"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class Step:
    """One cluster before the act; ``obstacle`` is why nothing can be done, or need be."""

    name: str
    now: str
    obstacle: str = ""
    explain_url: str = ""


def plan(actor: Actor, act: Act, names: Iterable[str]) -> list[Step]:
    """For those of the names that the actor may see, at most ``bulkjobs.MOST``; a bounded number of queries."""
    rows = list(queries.clusters_for(actor).filter(name__in=list(names)).defer("wire")[: bulkjobs.MOST])
    changeable = rights.changeable(actor, (row.name for row in rows))
    return [_step(act, row, may=row.name in changeable) for row in rows]


def _step(act: Act, row: Any, *, may: bool) -> Step:
    now = "in maintenance" if row.in_maintenance else "not in maintenance"
    if not may:
        text = "takes clusters.change_managedcluster"
        return Step(row.name, now, text, explain_url("patch", rights.RESOURCE, name=row.name))
    if row.deleted_at is not None:
        return Step(row.name, now, "it is being removed")
    if act is Act.END and not row.in_maintenance:
        return Step(row.name, now, "there is nothing to end")
    return Step(row.name, now)


def _start_maintenance(actor: Actor, name: str, told: Arguments) -> str:
    until = datetime.fromisoformat(told["until"]) if told["until"] else None
    services.start_maintenance(actor, name, reason=told["reason"], until=until, effect=told["effect"])
    return ""


def _end_maintenance(actor: Actor, name: str, told: Arguments) -> str:  # noqa: ARG001 - the signature of acts
    services.end_maintenance(actor, name)
    return ""


def _add_label(actor: Actor, name: str, told: Arguments) -> str:
    """Who has the label keeps it as it is: to replace a value is not to add one."""
    services.set_label(actor, name, told["key"], told["value"])
    return ""


ACTS = {
    act: bulkjobs.register(
        bulkjobs.Act(
            name=f"clusters.{act}",
            title=title,
            done=done,
            resource=MANAGED_CLUSTER.resource,
            page="clusters:detail",
            back=("clusters:list", "Clusters"),
            perform=perform,
        )
    )
    for act, title, done, perform in (
        (Act.MAINTENANCE, "Start maintenance", "in maintenance", _start_maintenance),
        (Act.END, "End maintenance", "out of maintenance", _end_maintenance),
        (Act.LABEL, "Add a label", "labelled", _add_label),
    )
}


def start(actor: Actor, act: Act, names: Iterable[str], **told: Any) -> BulkJob:
    return bulkjobs.start(actor, ACTS[act], {name: {} for name in names}, **told)


def commands(
    actor: Actor, act: Act, names: list[str], *, key: str = "", value: str = "", reason: str = "", effect: str = ""
) -> list[str]:
    """What one would type instead; of many clusters, for the first few."""
    shown = names[:NAMES_IN_COMMAND]
    more = [f"# and the same for {len(names) - len(shown)} more"] if len(names) > len(shown) else []
    if act is Act.LABEL:
        return [f"kubectl label managedclusters {' '.join(shown)} {key or 'KEY'}={value or 'VALUE'}", *more]
    if act is Act.END:
        return []
    found = {row.name: row.doc for row in queries.clusters_for(actor).filter(name__in=shown)}
    return [*maintenance.commands(found, effect=effect, reason=reason), *more]
