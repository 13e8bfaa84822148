"""What a cluster became, and when: one row for each turn, saved with the write that made it.

Read by the health timeline of a cluster and by the overview's counts, each for the clusters that a person may see.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clusters.kinds import MANAGED_CLUSTER, ConditionType, conditions_of, is_accepted, maintenance_taint
from clusters.models import Transition
from ocmconsole.kubeapi import admission, clock
from ocmconsole.kubeapi.schema import conditions

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

Turn = Transition.Turn
AVAILABLE = {"True": Turn.RECOVERED, "False": Turn.UNHEALTHY, "Unknown": Turn.SILENT}
CLOCK = {"True": Turn.CLOCK_SYNCED, "False": Turn.CLOCK_OFF}


@admission.records(MANAGED_CLUSTER)
def turns_are_recorded(actor: Actor, old: Doc | None, new: Doc | None) -> list[Transition]:  # noqa: ARG001 - a record's signature
    """Transitions of a cluster: silent (H16), back (H17), accepted, un-accepted (H7), deleted.

    A cluster that never joined has not been heard, so it neither falls silent nor comes back; the first good report of
    an agent is no recovery.
    """
    name, now = (new or old or {})["metadata"]["name"], clock.now()
    return [Transition(cluster=name, at=now, turn=turn) for turn in _turns(old or {}, new)]


def _turns(old: Doc, new: Doc | None) -> Iterator[Turn]:
    was_in = old and _status(old, ConditionType.ACCEPTED)
    if new is None:
        if was_in:
            yield Turn.LEFT
        return
    accepted = is_accepted(new)
    if was_in and accepted != is_accepted(old):
        yield Turn.CONNECTED if accepted else Turn.DISCONNECTED
    joined = ConditionType.JOINED
    if _status(new, joined) == "True" != _status(old, joined):
        yield Turn.JOINED
    is_heard = _status(old, joined) == "True"
    for type_, turns in ((ConditionType.AVAILABLE, AVAILABLE), (ConditionType.CLOCK_SYNCED, CLOCK)):
        before, after = _status(old, type_), _status(new, type_)
        is_first_good_word = not before and after == "True"
        if before != after and after in turns and not is_first_good_word and (is_heard or after == "False"):
            yield turns[after]
    if _in_maintenance(new) != _in_maintenance(old):
        yield Turn.MAINTENANCE if _in_maintenance(new) else Turn.MAINTENANCE_ENDED


def _status(doc: Doc, type_: str) -> str:
    return conditions.status_of(conditions_of(doc), type_)


def _in_maintenance(doc: Doc) -> bool:
    return maintenance_taint(doc) is not None
