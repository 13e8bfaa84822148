"""Why a cluster is not chosen, in words and as data, and the smallest change that would help. Pure.

The stages are those of upstream's pipeline, with what comes before and after: ``Sets``, ``Deleting``, ``Predicate``,
``TaintToleration``, ``Configuration`` (the Placement is misconfigured), ``PreferNoSelect``, ``Spread``, ``Score``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusters.kinds import MAINTENANCE_TAINT, UNAVAILABLE_TAINT, UNREACHABLE_TAINT, TaintEffect
from ocmconsole.kubeapi.storage.selectors import Operator
from placements.explaining import causes
from placements.scheduler.pipeline import Reason
from placements.scheduler.predicates import Unmet
from placements.scheduler.tolerations import TolerationResult

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
MOST_CHARACTERS = 300  # of what a step found; a selector may list thousands
LONGEST_EXPRESSION = 80  # characters of a CEL expression that a sentence repeats


@dataclass(frozen=True, slots=True)
class Why:
    """``text``: what the step found, literally. ``change``: the smallest that would pass it; empty if none is known.

    ``changes``: how many are needed. ``is_here``: whether a person can make it on this hub. ``trial``: how it can be
    tried: kind and value, as ``playground.drafts.Draft.trying`` takes them; empty where it cannot. ``shared``: what
    clusters with another rank have in common with it.
    """

    text: str
    change: str = ""
    changes: int = 1
    is_here: bool = True
    trial: tuple[str, str] = ("", "")
    shared: str = ""

    @property
    def grouped(self) -> Why:
        """The same for all clusters that it is counted with."""
        return Why(self.shared, "raise the number") if self.shared else self


def sentence(reason: Reason) -> str:
    """Such as ``label env is dev, needs env in (prod)``."""
    return why(reason).text


def why(reason: Reason) -> Why:
    found = _why(reason)
    return replace(found, text=causes.shortened(found.text, MOST_CHARACTERS))


def _why(reason: Reason) -> Why:
    match reason.step:
        case "sets":
            return Why("in none of the sets that the Placement may choose from")
        case "being deleted":
            return Why("it is being removed", is_here=False)
        case "predicates":
            return _of_predicates(reason)
        case "taints":
            return _of_taints(reason.taints)
        case _:
            return _of_rank(reason)


def unseen(reason: Reason) -> Why:
    """For a cluster that the user may not see: which condition of the Placement it fails, and nothing that it has."""
    found = _unseen(reason)
    return replace(found, text=causes.shortened(found.text, MOST_CHARACTERS))


def _unseen(reason: Reason) -> Why:
    match reason.step:
        case "predicates":
            unmet = min(reason.unmet, key=len)
            listed = ", ".join(dict.fromkeys(_subject(each) for each in unmet))
            if len(unmet) != 1:
                return Why(f"{len(unmet)} conditions do not hold: {listed}", changes=len(unmet), is_here=False)
            only = unmet[0]
            text = f"{only.part} {only.condition}" if only.requirement else f"CEL {_cut(only.condition)}"
            return Why(f"{text} does not hold", is_here=False)
        case "taints":
            return Why("it has a taint that is not tolerated", is_here=False)
        case "configuration" | "spread" | "sets" | "being deleted":
            return why(reason)
        case _:
            return Why("others come before it", "raise the number", is_here=False)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_EXPRESSION else f"{text[:LONGEST_EXPRESSION]}…"


def _of_rank(reason: Reason) -> Why:
    match reason.step:
        case "configuration":
            return Why("the Placement is misconfigured", "mend the Placement")
        case "spread":
            return Why("its choice would break the spread", "relax the spread, or raise the number")
        case "unwanted":
            return Why(
                f"rank {reason.rank}: it has a taint PreferNoSelect, so it comes last",
                f"raise the number to {reason.rank}",
                trial=("number", str(reason.rank)),
                shared="a taint PreferNoSelect puts it last",
            )
        case _:
            return Why(
                f"rank {reason.rank} with {reason.score}; the last that is chosen has {reason.needed}",
                f"raise the number to {reason.rank}",
                trial=("number", str(reason.rank)),
                shared=f"total {reason.score}; the last that is chosen has {reason.needed}",
            )


# ---------------------------------------------------------------- predicates


def _of_predicates(reason: Reason) -> Why:
    """Of the predicate that lacks least, as any one is enough."""
    unmet = min(reason.unmet, key=len)
    if not unmet:  # its expressions are evaluated in the next turn
        return Why("not known yet", is_here=False)
    if len(unmet) == 1:
        return _of_condition(unmet[0])
    listed = ", ".join(dict.fromkeys(_subject(each) for each in unmet))
    here = sum(each.part == "label" for each in unmet)
    others = "" if here == len(unmet) else f", {len(unmet) - here} of them not on this hub"
    return Why(f"{len(unmet)} conditions fail: {listed}", f"{len(unmet)} changes{others}", len(unmet), not others)


def _subject(unmet: Unmet) -> str:
    return f"{unmet.part} {unmet.requirement.key}" if unmet.requirement else "a CEL expression"


def _of_condition(unmet: Unmet) -> Why:
    requirement = unmet.requirement
    if requirement is None:
        return Why(
            f"CEL {_cut(unmet.condition)} {'is false' if unmet.value is None else f'has no value: {unmet.value}'}",
            is_here=False,
        )
    present = "is missing" if unmet.value is None else f"is {unmet.value or 'empty'}"
    text = f"{unmet.part} {requirement.key} {present}, needs {unmet.condition}"
    if unmet.part == "claim":
        return Why(text, "only the agent can change a claim", is_here=False)
    if requirement.operator in {Operator.NOT_IN, Operator.NOT_EXISTS}:
        return Why(text, f"remove label {requirement.key}", trial=("label", f"{requirement.key}-"))
    values = requirement.values
    trial = ("label", f"{requirement.key}={values[0] if values else ''}")
    return Why(text, f"set {requirement.key}={values[0]}" if values else f"set label {requirement.key}", trial=trial)


# ---------------------------------------------------------------- taints


def _of_taints(found: Sequence[TolerationResult]) -> Why:
    if len(found) == 1:
        return _of_taint(found[0])
    listed = ", ".join(str(each.taint) for each in found)
    return Why(f"{len(found)} taints are not tolerated: {listed}", f"{len(found)} changes", len(found))


def _of_taint(found: TolerationResult) -> Why:
    taint = found.taint
    how = "is tolerated no longer" if found.has_expired else "is not tolerated"
    text = f"taint {taint} {how}"
    match taint.key:
        case key if key == UNREACHABLE_TAINT["key"]:
            return Why(text, "one heartbeat of its agent", is_here=False, trial=("health", "heard"))
        case key if key == UNAVAILABLE_TAINT["key"]:
            return Why(text, "its API server must be well again", is_here=False, trial=("health", "heard"))
        case key if key == MAINTENANCE_TAINT:
            return Why(text, "end its maintenance", trial=("taint", f"{key}-"))
        case _:
            return Why(text, f"remove taint {taint.key}, or tolerate it", trial=("taint", f"{taint.key}-"))
