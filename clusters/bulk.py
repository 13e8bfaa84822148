"""One act on many clusters: what it would do to each, and what became of each; each a write and a decision of its own.

A refusal stops nothing else. Acts are those of ``services``; called by the page of the ticked rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from clusters import maintenance, queries, rights, services
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.links import explain_url

if TYPE_CHECKING:
    from datetime import datetime

    from ocmconsole.kubeapi.actor import Actor

MOST = 100
TYPED_ABOVE = 20
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


@dataclass(frozen=True, slots=True)
class Done:
    """One cluster after it; ``refusal`` is empty where it was done."""

    name: str
    refusal: str = ""


def plan(actor: Actor, act: Act, names: Iterable[str]) -> list[Step]:
    """For those of the names that the actor may see, at most ``MOST``; a bounded number of queries."""
    rows = list(queries.clusters_for(actor).filter(name__in=list(names)).defer("wire")[:MOST])
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


def start_maintenance(
    actor: Actor, names: Iterable[str], *, reason: str, until: datetime | None, effect: str
) -> list[Done]:
    def start(name: str) -> None:
        services.start_maintenance(actor, name, reason=reason, until=until, effect=effect)

    return _each(names, start)


def end_maintenance(actor: Actor, names: Iterable[str]) -> list[Done]:
    return _each(names, lambda name: services.end_maintenance(actor, name))


def add_label(actor: Actor, names: Iterable[str], *, key: str, value: str) -> list[Done]:
    """Who has the label keeps it as it is: to replace a value is not to add one."""
    return _each(names, lambda name: services.set_label(actor, name, key, value))


def _each(names: Iterable[str], act: Callable[[str], None]) -> list[Done]:
    found = []
    for name in names:
        try:
            act(name)
        except errors.ApiError as error:
            found.append(Done(name, error.message))
        else:
            found.append(Done(name))
    return found


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
