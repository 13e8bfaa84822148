"""Acts on many selected clusters: what each would do to every one of them, and their registration as bulk jobs.

Clusters come in as a selection (names stored for the person, ``bulk_jobs.store_selection``) and go out as a job in
which each is a write and a decision of its own, so that a refusal stops no other. Apps register their acts with
``register``; the acts of this app are at the end. Called by the pages of the cluster list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Any

from django import forms
from django.http import QueryDict

from clusters import cluster_rights, queries, services
from clusters.fleet.filters import Filters
from clusters.fleet.listing import Listing
from clusters.forms import LabelForm, MaintenanceForm, RemoveManyForm, TaintForm
from clusters.kinds import MANAGED_CLUSTER, TaintEffect, taints_of
from clusters.models import ClusterPermission
from clusters.taints import maintenance, taint_rules
from ocmconsole.components.links import explain_url
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.control import bulk_jobs

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.control.bulk_jobs import Arguments
    from ocmconsole.kubeapi.models import BulkJob

NAMES_IN_COMMAND = 10  # names that the shown command repeats; a longer line is not read
ROWS_AT_ONCE = 1_000  # of one statement

FormValues = dict[str, Any]


class EmptyForm(forms.Form):
    """An act that asks for nothing."""


@dataclass(frozen=True, slots=True)
class ClusterAct:
    """One act on many clusters, or on many that wait to be let in.

    ``perform(actor, name, arguments)`` does one; ``arguments`` are ``arguments(form)``. ``permit`` is that of the job
    (``bulk_jobs.BulkAct``). ``allowed`` gives those of the names for
    which the actor holds the right, ``lacking`` is what the page says of the others, ``right`` the verb and resource
    that it explains. ``obstacle`` says why a cluster is left out, or nothing. ``effects`` are sentences shown before it
    is done. An act that cannot be undone is ``is_final``: its number of clusters is always typed. ``page`` is the route
    of a page of its own for the selection.
    """

    name: str
    title: str
    done: str
    perform: Callable[[Actor, str, Arguments], str] | None = None
    permit: Callable[[Actor, str], None] | None = None
    allowed: Callable[[Actor, Iterable[str]], set[str]] = cluster_rights.changeable
    lacking: str = f"takes {ClusterPermission.CHANGE}"
    right: tuple[str, str] = ("patch", cluster_rights.RESOURCE)
    obstacle: Callable[[Any], str] = lambda _: ""
    form: type[forms.Form] = EmptyForm
    arguments: Callable[[forms.Form], FormValues] = lambda _: {}
    commands: Callable[[Actor, list[str], FormValues], list[str]] = lambda *_: []
    effects: tuple[str, ...] = ()
    is_final: bool = False
    page: str = ""


ACTS: dict[str, ClusterAct] = {}


def register(act: ClusterAct) -> ClusterAct:
    """Offer the act for selected clusters, in the order of registration."""
    ACTS[act.name] = act
    if act.perform is not None:
        bulk_jobs.register(job_of(act, "clusters", page="clusters:detail", back=("clusters:list", "Clusters")))
    return act


def job_of(act: ClusterAct, app: str, *, page: str, back: tuple[str, str]) -> bulk_jobs.BulkAct:
    """The act as the job that does it to each; ``page`` and ``back`` are routes of one object and of their list."""
    assert act.perform is not None
    return bulk_jobs.BulkAct(
        name=f"{app}.{act.name}",
        title=act.title,
        done=act.done,
        resource=MANAGED_CLUSTER.resource,
        page=page,
        back=back,
        perform=act.perform,
        permit=act.permit,
    )


def allowed_acts(actor: Actor, names: Iterable[str]) -> dict[str, set[str]]:
    """By act those of the names that the actor holds its right to. Acts that share a right are looked up once."""
    wanted = set(names)
    found: dict[Callable[[Actor, Iterable[str]], set[str]], set[str]] = {}
    for act in ACTS.values():
        if act.allowed not in found:
            found[act.allowed] = act.allowed(actor, wanted) if wanted else set()
    return {act.name: found[act.allowed] for act in ACTS.values()}


# ---------------------------------------------------------------- what is selected


def names_of(actor: Actor, given: QueryDict) -> list[str]:
    """The clusters that a posted list selects and the actor may see, by name.

    ``all`` selects every cluster that the filter in ``query`` lets through now, on all pages; else ``cluster`` names
    those that are ticked.
    """
    if given.get("all"):
        return Listing(actor, Filters.read(QueryDict(given.get("query", ""))), clock.now()).names()
    asked = [name for name in dict.fromkeys(given.getlist("cluster")) if name and "\0" not in name]
    return sorted(row.name for row in _rows(actor, asked))


def _rows(actor: Actor, names: list[str]) -> Iterator[Any]:
    """The actor's clusters of these names, without their documents."""
    for start in range(0, len(names), ROWS_AT_ONCE):
        yield from queries.clusters_for(actor).filter(name__in=names[start : start + ROWS_AT_ONCE]).defer("wire")


# ---------------------------------------------------------------- what would happen


@dataclass(frozen=True, slots=True)
class BulkStep:
    """One cluster before the act; ``obstacle`` is why nothing can be done, or need be. ``row`` is that of its list."""

    name: str
    now: str = ""
    obstacle: str = ""
    explain_url: str = ""
    row: Any = None


@dataclass(slots=True)
class BulkPlan:
    """What an act would do to a selection."""

    steps: list[BulkStep] = field(default_factory=list)

    @property
    def possible(self) -> list[str]:
        return [step.name for step in self.steps if not step.obstacle]

    @property
    def left_out(self) -> list[tuple[str, int]]:
        """Why clusters are left out, with how many for each reason, the most first."""
        return Counter(step.obstacle for step in self.steps if step.obstacle).most_common()


def plan_act(actor: Actor, act: ClusterAct, names: Iterable[str]) -> BulkPlan:
    """For those of the names that the actor may see; a number of queries that grows by one in a thousand clusters."""
    rows = list(_rows(actor, list(names)))
    may = act.allowed(actor, (row.name for row in rows))
    return BulkPlan([_step(act, row, may=row.name in may) for row in rows])


def _step(act: ClusterAct, row: Any, *, may: bool) -> BulkStep:
    now = "in maintenance" if row.in_maintenance else "not in maintenance"
    if not may:
        verb, resource = act.right
        return BulkStep(row.name, now, act.lacking, explain_url(verb, resource, name=row.name))
    if row.deleted_at is not None:
        return BulkStep(row.name, now, "it is being removed")
    return BulkStep(row.name, now, act.obstacle(row))


def start_act(actor: Actor, act: ClusterAct, names: Iterable[str], arguments: Mapping[str, Any]) -> BulkJob:
    """Begin the job; few clusters are done when it returns, many are begun."""
    job = bulk_jobs.find_act(f"clusters.{act.name}")
    assert job is not None
    return bulk_jobs.start_job(actor, job, {name: {} for name in names}, **arguments)


def act_commands(actor: Actor, act: ClusterAct, names: list[str], arguments: FormValues) -> list[str]:
    """What one would type instead; of many clusters, for the first few."""
    shown = names[:NAMES_IN_COMMAND]
    found = act.commands(actor, shown, arguments)
    return (
        [*found, f"# and the same for {len(names) - len(shown)} more"] if found and len(names) > len(shown) else found
    )


# ---------------------------------------------------------------- the acts of this app


def _not_maintained(row: Any) -> str:
    if row.in_maintenance:
        return "it is in maintenance already, and keeps its reason and end"
    return "" if row.hub_accepts_client or row.accepted else "it was never accepted"


def _start_maintenance(actor: Actor, name: str, arguments: Arguments) -> str:
    until = datetime.fromisoformat(arguments["until"]) if arguments["until"] else None
    services.start_maintenance(
        actor, name, reason=arguments["reason"], until=until, effect=arguments["effect"], replace=False
    )
    return ""


def _maintenance_arguments(form: forms.Form) -> FormValues:
    until = form.cleaned_data["until"]
    kept = {name: form.cleaned_data[name] for name in ("reason", "effect")}
    return {**kept, "until": until.isoformat() if until else ""}


def _maintenance_commands(actor: Actor, names: list[str], arguments: FormValues) -> list[str]:
    return maintenance.maintenance_commands(
        _documents(actor, names), effect=arguments.get("effect", ""), reason=arguments.get("reason", "")
    )


def _taint_commands(actor: Actor, names: list[str], arguments: FormValues) -> list[str]:
    found = {name: taints_of(doc) for name, doc in _documents(actor, names).items()}
    wanted = {"key": arguments.get("key") or "KEY", "effect": arguments.get("effect") or TaintEffect.NO_SELECT.value}
    return taint_rules.taint_commands(
        found, {**wanted, **({"value": arguments["value"]} if arguments.get("value") else {})}
    )


def _documents(actor: Actor, names: list[str]) -> dict[str, Any]:
    return {row.name: row.doc for row in queries.clusters_for(actor).filter(name__in=names)}


def _label_commands(actor: Actor, names: list[str], arguments: FormValues) -> list[str]:  # noqa: ARG001 - as of acts
    label = f"{arguments.get('key') or 'KEY'}={arguments.get('value') or 'VALUE'}"
    return [f"kubectl label managedclusters {' '.join(names)} {quote(label)}"]


def _end_maintenance(actor: Actor, name: str, arguments: Arguments) -> str:  # noqa: ARG001 - the signature of acts
    services.end_maintenance(actor, name)
    return ""


def _add_label(actor: Actor, name: str, arguments: Arguments) -> str:
    """A cluster that has the label keeps its value: to replace a value is not to add one."""
    services.set_label(actor, name, arguments["key"], arguments["value"])
    return ""


def _add_taint(actor: Actor, name: str, arguments: Arguments) -> str:
    services.set_taint(actor, name, dict(arguments["taint"]))
    return ""


def _remove(actor: Actor, name: str, arguments: Arguments) -> str:
    is_gone = services.remove_cluster(actor, name, revoke=arguments["revoke"])
    return "" if is_gone else "its removal has begun; its page says what it waits for"


MAINTENANCE = register(
    ClusterAct(
        "maintenance", "Start maintenance", "in maintenance",
        perform=_start_maintenance, form=MaintenanceForm, arguments=_maintenance_arguments,
        obstacle=_not_maintained, commands=_maintenance_commands,
    )
)  # fmt: skip
END = register(
    ClusterAct(
        "end", "End maintenance", "out of maintenance",
        perform=_end_maintenance, obstacle=lambda row: "" if row.in_maintenance else "there is nothing to end",
        effects=("The maintenance taint goes, with reason and end. Placements may choose the clusters again at once.",),
    )
)  # fmt: skip
LABEL = register(
    ClusterAct(
        "label", "Add a label", "labelled",
        perform=_add_label, form=LabelForm, commands=_label_commands,
        arguments=lambda form: {"key": form.cleaned_data["key"], "value": form.cleaned_data["value"]},
        effects=(
            "A cluster that has this label already keeps its value, and says so.",
            "A label may put clusters into sets that choose by labels, and into the sight of people who see those.",
        ),
    )
)  # fmt: skip
TAINT = register(
    ClusterAct(
        "taint", "Add a taint", "tainted",
        perform=_add_taint, form=TaintForm, commands=_taint_commands,
        arguments=lambda form: {"taint": form.taint()},  # type: ignore[attr-defined] # a TaintForm
        effects=("A cluster that has a taint of this key and effect already is left as it is, and says so.",),
    )
)  # fmt: skip
REMOVE = register(
    ClusterAct(
        "remove", "Remove", "removed",
        perform=_remove, allowed=cluster_rights.deletable, lacking=f"takes {ClusterPermission.DELETE}",
        right=("delete", cluster_rights.RESOURCE), is_final=True, form=RemoveManyForm,
        arguments=lambda form: {"revoke": form.cleaned_data["revoke"]},
        commands=lambda _, names, __: [f"kubectl delete managedclusters {' '.join(names)}"],
        effects=(
            "The agents lose their rights, and the add-ons and works of the clusters are deleted on the hub.",
            "The agents undo on the clusters what works made, as long as they run.",
            "The clusters leave their sets, and placements drop them. Their namespaces stay.",
            "This cannot be undone. The hub remembers the names and their keys.",
        ),
    )
)  # fmt: skip
