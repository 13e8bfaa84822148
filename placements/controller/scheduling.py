"""What the pipeline finds for a Placement now: its input read from rows and memory. Nothing is written.

Called by the reconciler, and by whatever explains or tries a Placement, so that all of them schedule on one input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from ocmconsole.kubeapi import admission, errors, steps
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import compiled_schema
from placements.controller import brakes, decisions, snapshot
from placements.kinds import PLACEMENT
from placements.models import PlacementDecision, SteadyReference
from placements.scheduler.pipeline import UNOBSERVED, Observe, PlacementResult, Unfinished, schedule
from placements.scheduler.prioritizers import STEADY
from placements.scheduler.specification import PlacementSpec

if TYPE_CHECKING:
    from clustersets.membership import Membership
    from ocmconsole.kubeapi.errors import Doc
    from placements.controller.snapshot import BoundSets
    from placements.scheduler.fleet import Fleet

# CPU seconds for expressions in one request: a fleet of 10,000 clusters takes about one for each expression. The
# clusters that were evaluated keep their answers, so that the same request gets further when it is sent again.
PATIENCE = 4.0
RETRY_SECONDS = 1  # of Retry-After: the clusters that are left take no longer than the first ones
METADATA = ("name", "namespace", "labels", "annotations")  # of a Placement that is tried; the rest says nothing


def checked(actor: Actor, doc: Doc) -> Doc:
    """A Placement that somebody wants to try, with defaults, as a creation would check it. Nothing is stored.

    Raises BadRequest for another kind, Invalid.
    """
    for cause in compiled_schema.metadata_types(doc):
        raise errors.BadRequest(f"a Placement cannot be read from this: {cause}")
    given = doc.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    version = PLACEMENT.storage
    for field, wanted in (("kind", PLACEMENT.kind), ("apiVersion", version.api_version)):
        if doc.get(field) not in (None, "", wanted):
            raise errors.BadRequest(f"{field} must be {wanted}")
    causes = [errors.required(f"metadata.{part}") for part in ("name", "namespace") if not metadata.get(part)]
    if causes:
        raise errors.is_invalid(PLACEMENT.group, PLACEMENT.kind, str(metadata.get("name") or ""), causes)
    proposed = {
        "apiVersion": version.api_version,
        "kind": PLACEMENT.kind,
        "metadata": {part: metadata[part] for part in METADATA if metadata.get(part)},
        "spec": doc.get("spec") or {},
    }
    new = steps.decoded(PLACEMENT, version, proposed, "warn")
    steps.validate(PLACEMENT, None, new)
    admission.run_validators(actor, PLACEMENT, None, new, "")
    return new


def result_of(placement: Doc, now: datetime) -> PlacementResult:
    """What the scheduler would decide now for this Placement, which need not be stored.

    Its decisions are those that are stored under its namespace and name. Raises TooManyRequests where its expressions
    take too long for one request.
    """
    key = Key(placement["metadata"]["namespace"], placement["metadata"]["name"])
    rows = PlacementDecision.objects.filter(namespace=key.namespace, placement=key.name)
    decided = decided_in(rows)
    try:
        return schedule_now(
            PlacementSpec.of(placement),
            key,
            snapshot.bound_sets(key.namespace),
            decided,
            now=now,
            is_time_up=timer(PATIENCE),
            shows_scores=True,
        )
    except Unfinished:
        text = "the expressions of the Placement take longer than one request may; send it again to go on"
        raise errors.TooManyRequests(text, retry_after=RETRY_SECONDS) from None


def decided_in(rows: Iterable[PlacementDecision]) -> frozenset[str]:
    """Clusters that stored decisions name."""
    return frozenset(name for row in rows for name in decisions.names_in(row.doc))


def schedule_now(
    plan: PlacementSpec,
    key: Key,
    bound: BoundSets,
    decided: Collection[str],
    *,
    now: datetime,
    is_time_up: Callable[[], bool],
    observe: Observe = UNOBSERVED,
    shows_scores: bool = False,
) -> PlacementResult:
    """The pipeline on the fleet of now. ``key``: the Placement's; ``decided``: the clusters that it has.

    ``shows_scores``: the caller reads scores that may decide nothing. Raises Unfinished.
    """
    return schedule(
        plan,
        fleet_for(plan, bound.sets, shows_scores=shows_scores),
        bound=bound.names,
        present=decided,
        steady=steady_reference(plan, key, decided),
        now=now,
        is_time_up=is_time_up,
        observe=observe,
    )


def fleet_for(plan: PlacementSpec, sets: Collection[Membership], *, shows_scores: bool = False) -> Fleet:
    """Members of the sets now, what else the plan chooses by, and the brakes on evictions (D27).

    ``shows_scores``: also what scores are computed from where the plan chooses all.
    """
    fleet = snapshot.present.fleet(
        sets,
        with_scores=reads_scores(plan),
        with_decided=shows_scores or plan.needs_scores or bool(plan.constraints),
    )
    return replace(fleet, brakes=brakes.standing())


def reads_scores(plan: PlacementSpec) -> bool:
    """Whether AddOnPlacementScores may decide."""
    expressions = (expression for each in plan.predicates for expression in each.expressions)
    return any(each.add_on for each in plan.prioritizers) or any(each.reads_scores for each in expressions)


def negative_steady(plan: PlacementSpec) -> int:
    """The weight of Steady where it is negative, else 0."""
    return min(0, *(each.weight for each in plan.prioritizers if each.name == STEADY), 0)


def steady_reference(plan: PlacementSpec, key: Key, decided: Collection[str]) -> Collection[str] | None:
    """P16: what a negative Steady compares with: the decisions that stood when its weight was set."""
    if negative_steady(plan) >= 0:
        return None
    of_placement = SteadyReference.objects.filter(placement__namespace=key.namespace, placement__name=key.name)
    return steady_of(plan, of_placement.first(), decided)


def steady_of(plan: PlacementSpec, known: SteadyReference | None, decided: Collection[str]) -> Collection[str] | None:
    """As ``steady_reference``, where it is ``known`` what was stored when the weight was set."""
    weight = negative_steady(plan)
    if weight >= 0:
        return None
    return set(known.clusters) if known is not None and known.weight == weight else decided


def timer(seconds: float) -> Callable[[], bool]:
    """Whether so much CPU time has passed; not when it is called first, so that each run gets further."""
    ends: list[float] = []

    def is_over() -> bool:
        if ends:
            return time.thread_time() > ends[0]
        ends.append(time.thread_time() + seconds)
        return False

    return is_over
