"""The words for the state of a Placement: which one, since when, why, and what to do next. Pure.

Computed from the document: what the scheduler has written into its status, and how many clusters it is to choose. No
condition says how many evictions wait (D27).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from clusters.kinds import conditions_of, spec_of
from ocmconsole.components.labelled_enum import LabelledEnum
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.schema import conditions
from ocmconsole.kubeapi.schema.times import time_of
from placements.scheduler.pipeline import ALL_EMPTY, NO_BINDINGS, NO_INTERSECTION, NONE_MATCHED, UNSCHEDULED


class PlacementWord(LabelledEnum):
    """The first that applies is the state. The value is stable; label and tone are shown."""

    REMOVING = "removing", "Removing", "warn", "trash-2"
    PAUSED = "paused", "Paused", "quiet", "pause"
    PENDING = "pending", "Not scheduled yet", "quiet", "circle-dashed"
    MISCONFIGURED = "misconfigured", "Misconfigured", "danger", "octagon-x"
    HELD = "held", "Evictions held", "warn", "octagon-pause"
    NOTHING_BOUND = "nothing-bound", "Nothing bound", "danger", "unplug"
    NO_MATCH = "no-match", "No match", "danger", "circle-x"
    SHORT = "short", "Short", "caution", "clock-alert"
    SATISFIED = "satisfied", "Satisfied", "ok", "circle-check"


@dataclass(frozen=True, slots=True)
class PlacementStatus:
    """``asked``: ``numberOfClusters``, None for all that fit. ``since``: of the condition or the brake.

    ``held``: clusters that are chosen only because a brake stands (D27).
    """

    word: PlacementWord
    chosen: int
    asked: int | None
    since: datetime | None
    why: str
    next: str
    held: int = 0

    @property
    def wanted(self) -> int | None:
        """K17: a negative number counts as 0."""
        return None if self.asked is None else max(self.asked, 0)

    @property
    def of_wanted(self) -> str:
        """What stands after the number of chosen clusters: ``of 3``, ``of all``, ``chosen, asks for -1``."""
        if self.asked is not None and self.asked < 0:
            return f"chosen, asks for {self.asked:,}"
        return "of all" if self.asked is None else f"of {self.asked:,}"

    @property
    def label(self) -> str:
        """``3 short``; else the label of the word."""
        return f"{self.missing:,} short" if self.word is PlacementWord.SHORT else self.word.label

    @property
    def tone(self) -> str:
        return self.word.tone

    @property
    def icon(self) -> str:
        return self.word.icon

    @property
    def value(self) -> str:
        return self.word.value

    @property
    def missing(self) -> int:
        return max((self.wanted or 0) - self.chosen, 0)

    @property
    def sentence(self) -> str:
        """How many are chosen or kept; first how many evictions wait."""
        if self.held:
            return f"{self.held:,} eviction{' is' if self.held == 1 else 's are'} held"
        if self.word is PlacementWord.MISCONFIGURED and self.chosen:
            return f"The last good {self.chosen:,} {'is' if self.chosen == 1 else 'are'} kept"
        number = self.chosen if self.wanted is None else self.wanted
        of = "" if self.asked is None or self.asked < 0 else f" of {self.asked:,}"
        asks = f", asks for {self.asked:,}" if self.asked is not None and self.asked < 0 else ""
        return f"{self.chosen:,}{of} {'cluster' if number == 1 else 'clusters'} chosen{asks}"


@dataclass(frozen=True, slots=True)
class Held:
    """Evictions that wait (D27). ``until``: None for as long as a person wants."""

    count: int
    since: datetime
    until: datetime | None


def status_of(doc: Doc, *, is_disabled: bool, held: Held | None = None) -> PlacementStatus:
    """``is_disabled``: another scheduler decides (P2). ``held``: None where no eviction waits."""
    asked = spec_of(doc).get("numberOfClusters")
    number = None if asked is None else max(asked, 0)
    chosen = (doc.get("status") or {}).get("numberOfSelectedClusters") or 0
    word, since, why, after = _state(doc, chosen, number, is_disabled=is_disabled)
    if held is None or word in BEFORE_HELD:
        return PlacementStatus(word, chosen, asked, since, why, after)
    why, after = _held(held, chosen)
    return PlacementStatus(PlacementWord.HELD, chosen, asked, held.since, why, after, held.count)


def _held(held: Held, chosen: int) -> tuple[str, str]:
    why = (
        f"{held.count:,} of {chosen:,} chosen clusters fell silent with most others at once. The hub was likelier cut"
        " off than that they all died, so they stay chosen."
    )
    if held.until is None:
        return why, "They stay until a person releases their evictions."
    return why, f"They wait for a person until {held.until:%H:%M} UTC. Then those that are still silent leave."


BEFORE_HELD = frozenset(
    {PlacementWord.REMOVING, PlacementWord.PAUSED, PlacementWord.PENDING, PlacementWord.MISCONFIGURED}
)
State = tuple[PlacementWord, datetime | None, str, str]


def _state(doc: Doc, chosen: int, number: int | None, *, is_disabled: bool) -> State:
    found = conditions_of(doc)
    metadata = doc["metadata"]
    if since := time_of(metadata.get("deletionTimestamp")):
        return PlacementWord.REMOVING, since, "It is being deleted.", "Nothing to do: its decisions go with it."
    if is_disabled:
        why = "An annotation says that another scheduler decides, so this hub leaves its decisions alone."
        return PlacementWord.PAUSED, None, why, "Take the annotation off, and this hub decides again."
    satisfied = conditions.find_condition(found, "PlacementSatisfied")
    misconfigured = conditions.find_condition(found, "PlacementMisconfigured") or {}
    if satisfied is None:
        return (
            PlacementWord.PENDING,
            time_of(metadata.get("creationTimestamp")),
            "The scheduler has not looked at it yet.",
            "Wait.",
        )
    if misconfigured.get("status") == "True":
        return _misconfigured(misconfigured, chosen)
    return _scheduled(satisfied, chosen, number)


def _misconfigured(condition: Doc, chosen: int) -> State:
    kept = f" The last good decisions are kept: {chosen:,}." if chosen else ""
    why = f"{str(condition.get('message') or '').strip(':.')}.{kept}"
    return PlacementWord.MISCONFIGURED, _since(condition), why, "Mend its specification."


def _scheduled(condition: Doc, chosen: int, number: int | None) -> State:
    reason, message = str(condition.get("reason")), str(condition.get("message") or "")
    no_match = (
        "No cluster of its sets passes its predicates and tolerations.",
        "See why not, and the smallest change.",
    )
    if number == 0:
        no_match = ("It asks for 0 clusters.", "Raise the number of clusters.")
    satisfied = "Every cluster that passes is chosen." if number is None else "As many are chosen as it asks for."
    short = f"It asks for {number or 0:,}, and no more than {chosen:,} may be chosen."
    known = {
        NO_BINDINGS: (
            PlacementWord.NOTHING_BOUND,
            "No set is bound into its namespace, so there is nothing to choose from.",
            "Bind a set into the namespace, or ask the owner of one to.",
        ),
        NO_INTERSECTION: (
            PlacementWord.NOTHING_BOUND,
            f"{message}.",
            "Bind one of these sets, or name one that is bound.",
        ),
        ALL_EMPTY: (PlacementWord.NO_MATCH, f"{message}.", "Put clusters into the sets, or name other sets."),
        NONE_MATCHED: (PlacementWord.NO_MATCH, *no_match),
        UNSCHEDULED: (PlacementWord.SHORT, short, "See what keeps others out, or ask for fewer."),
    }
    word, why, after = known.get(reason, (PlacementWord.SATISFIED, satisfied, "Nothing to do."))
    return word, _since(condition), why, after


def _since(condition: Doc) -> datetime | None:
    return time_of(condition.get("lastTransitionTime"))
