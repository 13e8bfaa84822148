"""Why a cluster is not chosen, in words for people and as data for programs. Pure.

The stages are those of upstream's pipeline, with what comes before and after: ``Sets``, ``Deleting``, ``Predicate``,
``TaintToleration``, ``Configuration`` (the Placement is misconfigured), ``PreferNoSelect``, ``Spread``, ``Score``.
"""

from __future__ import annotations

from clusters.kinds import TaintEffect
from placements.pipeline import Reason
from placements.predicates import Unmet
from placements.tolerations import TolerationResult

STAGES = {
    "sets": "Sets",
    "being deleted": "Deleting",
    "predicates": "Predicate",
    "taints": "TaintToleration",
    "configuration": "Configuration",
    "unwanted": TaintEffect.PREFER_NO_SELECT.value,
    "spread": "Spread",
    "score": "Score",
}
MOST_CHARACTERS = 300  # of a sentence; expressions may be thousands of characters long


def stage(reason: Reason) -> str:
    return STAGES[reason.step]


def sentence(reason: Reason) -> str:
    """Such as ``label env=prod does not hold: the cluster has dev``; of the first conditions where there are many."""
    if reason.step == "predicates":
        text = " or ".join(", ".join(map(_unmet, each)) for each in reason.unmet) or "no predicate matches"
    elif reason.step == "taints":
        text = ", ".join(map(_untolerated, reason.taints))
    elif reason.step in {"score", "unwanted"}:
        why = f"a {TaintEffect.PREFER_NO_SELECT.value} taint puts it last: " if reason.step == "unwanted" else ""
        text = f"{why}rank {reason.rank} with score {reason.score} is not among the chosen"
    else:
        text = _PLAIN[reason.step]
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


_PLAIN = {
    "sets": "it is in none of the sets that the Placement may choose from",
    "being deleted": "it is being deleted",
    "configuration": "the Placement is misconfigured",
    "spread": "the spread constraints leave no place for it",
}


def _unmet(unmet: Unmet) -> str:
    if unmet.part == "expression":
        return f"{unmet.condition} is not true" + (f": {unmet.value}" if unmet.value else "")
    found = "the cluster has none" if unmet.value is None else f"the cluster has {unmet.value or 'an empty value'}"
    return f"{unmet.part} {unmet.condition} does not hold: {found}"


def _untolerated(result: TolerationResult) -> str:
    return f"taint {result.taint} is {'no longer' if result.has_expired else 'not'} tolerated"
