"""Why placements of a list are not satisfied, in a line each: the words of the history, of a brake, of a broken change.

Only what is known to be so: the change that broke a misconfigured one, the one brake that stands, else what happened
to the decisions last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from django.db.models import Max

from clusters import queries as clusters
from placements.explaining.status import PlacementWord
from placements.kinds import PLACEMENT
from placements.models import DecisionRun
from placements.pages.brake_pages import shown_brakes
from placements.pages.broken_change import broken_changes, said_by
from placements.pages.happened import said_cause

if TYPE_CHECKING:
    from datetime import datetime

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from placements.explaining.status import PlacementStatus
    from placements.pages.broken_change import BrokenChange

LACKING = frozenset({PlacementWord.NOTHING_BOUND, PlacementWord.NO_MATCH, PlacementWord.SHORT})


def said_causes(actor: Actor, placements: Mapping[str, tuple[Doc, PlacementStatus]], now: datetime) -> dict[str, str]:
    """``placements``: document and state by uid. Absent where nothing needs a cause or none is known.

    A bounded number of queries for all of them.
    """

    def of(*words: PlacementWord) -> list[str]:
        return [uid for uid, (_, state) in placements.items() if state.word in words]

    broken = [placements[uid][0] for uid in of(PlacementWord.MISCONFIGURED)]
    found = {uid: _broken(actor, change) for uid, change in broken_changes(broken).items()}
    found |= _braked(actor, of(PlacementWord.HELD), now)
    return found | _last_changes(actor, of(*LACKING))


def _broken(actor: Actor, change: BrokenChange) -> str:
    entry, by = change.entry, said_by(actor, change)
    place = {"kind": PLACEMENT.kind, "namespace": entry.namespace, "name": entry.name}
    return f"{'Broken' if change.before is not None else 'Never right'}: " + ", by ".join(
        filter(None, (said_cause(place | {"what": change.what}), by))
    )


def _braked(actor: Actor, held: Collection[str], now: datetime) -> dict[str, str]:
    """Where several brakes stand, a row does not say which of them holds it."""
    brakes = shown_brakes(actor, now) if held else []
    return dict.fromkeys(held, f"{brakes[0].counted} fell silent or late at once") if len(brakes) == 1 else {}


def _last_changes(actor: Actor, lacking: Collection[str]) -> dict[str, str]:
    """The newest run of each, where its cause is known and tells nothing of clusters that the actor may not see."""
    newest = DecisionRun.objects.filter(uid__in=lacking).order_by().values("uid").annotate(last=Max("pk"))
    runs = DecisionRun.objects.filter(pk__in=[each["last"] for each in newest]) if lacking else ()
    sees_all = clusters.sees_all(actor)
    return {
        run.uid: f"Last change: {_moved(run)}: {said_cause(run.cause)}"
        for run in runs
        if run.cause and (sees_all or run.cause["kind"] == PLACEMENT.kind)
    }


def _moved(run: DecisionRun) -> str:
    """``1 entered, 2 left``; one that only regrouped has neither."""
    counts = ((run.entered, "entered"), (run.left, "left"), (run.regrouped, "changed group"))
    return ", ".join(f"{count:,} {word}" for count, word in counts if count)
