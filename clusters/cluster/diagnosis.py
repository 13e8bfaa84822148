"""What the page of one cluster says beyond its word: what fell silent with it, and what its removal really waits for.

``status.status_of`` knows one cluster alone; here its neighbours and its namespace are read too, so it is for one page
and not for lists. Counts are of the clusters that the actor may see (D16). Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Q

from clusters import queries
from clusters.acceptance import removal_progress
from clusters.health.status import AGENT_LOG, NextStep, NextStepPage, Status, Word
from clusters.kinds import ConditionType, conditions_of
from clusters.models import Transition
from ocmconsole.environment.durations import span
from ocmconsole.kubeapi.schema import conditions

if TYPE_CHECKING:
    from clusters.acceptance.removal_progress import Blocker
    from clusters.models import ManagedCluster
    from ocmconsole.kubeapi.access.actor import Actor

# What falls silent so soon before or after it did so with it: three cells of its history.
TOGETHER = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Silent:
    """Other clusters that fell silent with this one, back or not; ``in_set`` are those of its own set."""

    others: int
    in_set: int
    clusterset: str


def diagnosis_of(
    actor: Actor, cluster: ManagedCluster, status: Status, last_heard: datetime | None, now: datetime
) -> Status:
    """The same state, said with what is known around the cluster."""
    if status.word is Word.SILENT:
        return _silent(actor, cluster, status)
    if status.word is Word.REMOVING:
        return _removing(cluster, status, last_heard, now)
    return status


# ---------------------------------------------------------------- silent


def with_it(actor: Actor, cluster: ManagedCluster) -> Silent:
    at = cluster.available_since
    if at is None:
        return Silent(0, 0, cluster.clusterset)
    window = (at - TOGETHER, at + TOGETHER)
    fell = Transition.objects.filter(turn=Transition.Turn.SILENT, at__range=window)  # kept for thirty days
    once = Q(name__in=fell.values("cluster"), created__lte=window[1])
    still = Q(available="Unknown", joined="True", hub_accepts_client=True, available_since__range=window)
    near = queries.clusters_for(actor).filter(once | still)
    sets = list(near.exclude(pk=cluster.pk).order_by().values_list("clusterset", flat=True))
    return Silent(len(sets), sets.count(cluster.clusterset) if cluster.clusterset else 0, cluster.clusterset)


def _silent(actor: Actor, cluster: ManagedCluster, status: Status) -> Status:
    found = with_it(actor, cluster)
    which = "" if queries.sees_all(actor) else " that you may see"
    minutes = int(TOGETHER / timedelta(minutes=1))
    if not found.others:
        why = f"No other cluster{which} fell silent within {minutes} minutes of it: its own agent, node or network."
        return replace(status, why=why)
    others = f"{found.others} other{'s' if found.others > 1 else ''}{which}"
    of_set = f", {found.in_set} of them in set {found.clusterset}" if found.in_set else ""
    verb = "fell" if found.others > 1 else "has fallen"
    return replace(
        status,
        sentence=f"{others} {verb} silent with it{of_set}. {status.sentence}",
        why="Clusters that fall silent together share a cause: a network, a proxy, DNS, or a site that is down.",
    )


# ---------------------------------------------------------------- removing


def _removing(cluster: ManagedCluster, status: Status, last_heard: datetime | None, now: datetime) -> Status:
    found = removal_progress.departure_of(cluster, now)
    since = f"Removing for {span(found.for_)}."
    error = conditions.find_condition(conditions_of(cluster.doc), ConditionType.DELETING) or {}
    if error.get("reason") == "DeletingError":
        why = "A rule or another controller refuses the deletion; the condition Deleting has its words."
        sentence = f"{since} The hub could not delete what is left in its namespace."
        return replace(status, sentence=sentence, why=why)
    held = found.held_by
    if held is None:
        if found.undeleted_works:
            return _waiting_for_works(cluster, status, since, found.undeleted_works)
        left = f" {found.left} object{'s' if found.left != 1 else ''} left in its namespace." if found.left else ""
        return replace(status, sentence=f"{since}{left}", why="The hub is at work; nothing holds it up.")
    for_ = f" for {span(now - held.since)}" if held.since else ""
    finalizers = f"finalizer{'s' if len(held.finalizers) > 1 else ''} {' and '.join(held.finalizers)}"
    sentence = f"{since} It waits for {held.what}, held by the {finalizers}{for_}."
    return replace(
        status,
        sentence=sentence if held.is_inside else f"{since} The {finalizers} on the cluster itself holds it.",
        why=_why_held(cluster, held, last_heard, now),
        next=_step(cluster, held),
    )


def _waiting_for_works(cluster: ManagedCluster, status: Status, since: str, works: int) -> Status:
    """H31: those that the hub does not delete itself."""
    what = "1 work that nobody has deleted" if works == 1 else f"{works} works that nobody has deleted"
    return replace(
        status,
        sentence=f"{since} It waits for {what}.",
        why="This hub leaves works to the clients that made them.",
        next=NextStep(
            "Delete the works in its namespace.",
            NextStepPage.REMOVE,
            f"kubectl -n {cluster.name} delete manifestworks --all",
            on_hub=True,
        ),
    )


def _why_held(cluster: ManagedCluster, held: Blocker, last_heard: datetime | None, now: datetime) -> str:
    if not held.is_of_agent:
        whose = "This finalizer is" if len(held.finalizers) == 1 else "These finalizers are"
        return f"{whose} not the hub's: the client that put it there must take it off."
    silent = cluster.available == "Unknown" or last_heard is None
    if not silent:
        return "Its agent must undo the work on the cluster first, and is heard."
    heard = f"was last heard {span(now - last_heard)} ago" if last_heard else "was never heard"
    return f"Its agent must undo the work on the cluster first, and {heard}: it will not, unless it comes back."


def _step(cluster: ManagedCluster, held: Blocker) -> NextStep:
    if held.is_of_agent:
        return NextStep("Bring its agent back, or give up what it will not finish.", NextStepPage.REMOVE, AGENT_LOG)
    show = f"kubectl{f' -n {cluster.name}' if held.is_inside else ''} get {held.what} -o yaml"
    return NextStep("See who manages that object, on the hub.", NextStepPage.REMOVE, show, on_hub=True)
