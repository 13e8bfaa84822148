"""The steps of one Placement as a funnel, the reasons of the open step, and every cluster with its outcome.

The same for a stored Placement and for a draft of the playground. Clusters that the user does not see are counted in
the funnel and named nowhere; the reasons are those of clusters that the user sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from clusters import queries as clusters
from clusters.health.status_sql import WORST_FIRST, with_word
from clusters.kinds import CLUSTERSET_LABEL
from ocmconsole.components.whole_numbers import whole_number
from placements.controller import scheduling
from placements.explaining import explanation
from placements.explaining.explanation import Step
from placements.explaining.reasons import Why
from placements.playground import drafts

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest

    from clusters.health.status import Word
    from ocmconsole.kubeapi.access.actor import Actor
    from placements.controller.preview import PlacementPreview
    from placements.explaining.explanation import Stage
    from placements.playground.drafts import Draft
    from placements.scheduler.fleet import Cluster

PAGE = 50  # rows
MOST_REASONS = 12  # groups of equal reasons, the most frequent
MOST_NAMED = 2  # of clusters that enter or leave, in a sentence
MOST_BOXES = 48  # clusters that a bar draws one by one
LONGEST = 2.0  # CPU seconds for the reasons of one request: those of expressions cost a tenth of a millisecond each
KEPT = ("show", "stage", "reason", "q")


@dataclass(frozen=True, slots=True)
class BreakdownQuery:
    """What the address says of the funnel and the table."""

    stage: Step | None
    show: str
    reason: str
    query: str
    first: int

    @classmethod
    def read(cls, request: HttpRequest) -> BreakdownQuery:
        found, after = request.GET.get("stage", ""), request.GET.get("after", "")
        first = whole_number(after, 7) or 0
        stage = next((step for step in Step if step.value == found), None)
        show = request.GET.get("show", "")
        return cls(stage, show, request.GET.get("reason", ""), request.GET.get("q", "").strip(), first)


class Breakdown:
    """``address``: of the page, with what of its query stays.

    ``draft``: what is worked out, and ``open_draft`` the address at which another one is tried.
    """

    def __init__(
        self,
        actor: Actor,
        found: PlacementPreview,
        asked: BreakdownQuery,
        address: str,
        *,
        draft: Draft,
        open_draft: Callable[[Draft], str],
    ) -> None:
        self.actor = actor
        self.draft = draft
        self.open_draft = open_draft
        self.found = found
        self.asked = asked
        self.address = address
        self.explanation = found.explanation
        self.enter = found.chosen - found.present
        self.leave = found.present - found.chosen

    def context(self) -> dict[str, Any]:
        rows = self._rows
        page = rows[self.asked.first : self.asked.first + PAGE]
        is_more = len(rows) > self.asked.first + PAGE
        return {
            "funnel": [self._stage(stage) for stage in self.explanation.stages],
            "open": self._stage(self.open),
            "reasons": self._reasons,
            "hidden_reasons": sum(each.name not in self.found.seen for each in self.open.fallen),
            "unexamined": self._unexamined,
            "asked": self.asked,
            "shows": self._tabs(),
            "rows": self._shown(page),
            "first": self.asked.first + 1 if page else 0,
            "last": self.asked.first + len(page),
            "row_count": len(rows),
            "next_after": self.asked.first + PAGE if is_more else "",
            "unseen": len(self.explanation.everyone) - len(self.names),
            "diffs": self._diffs(),
            "steps": list(Step)[1:],
            "kept_query": self._hidden_fields(),
        }

    # ------------------------------------------------------------------------------------------ the funnel

    @cached_property
    def open(self) -> Stage:
        """The step that is asked for, else the one at which most clusters of the bound sets fall out."""
        stages = {stage.step: stage for stage in self.explanation.stages}
        if self.asked.stage is not None:
            return stages[self.asked.stage]
        inside = [stage for stage in stages.values() if stage.step not in {Step.ALL, Step.BOUND}]
        most = max(inside, key=lambda stage: stage.out)
        return most if most.out else stages[Step.BOUND]

    def _stage(self, stage: Stage) -> dict[str, Any]:
        return {
            "step": stage.step.value,
            "title": stage.step.label,
            "number": stage.number,
            "says": self._says(stage),
            "entered": stage.entered,
            "out": stage.out,
            "left": stage.left,
            "is_open": stage.step is self.open.step,
            "is_last": stage.step is Step.CHOSEN,
            "url": self.url(stage=stage.step.value),
        }

    def _says(self, stage: Stage) -> str:
        """The literal test of a step."""
        if stage.step is not Step.ALL and not stage.entered:
            return "nothing came in"
        result = self.found.result
        plan, count, hidden = result.plan, len(result.bound), len(self.explanation.everyone) - len(self.names)
        best = "all that are left" if plan.number is None else f"the best {plan.number:,}"
        return {
            Step.ALL: f"you may see {len(self.names):,}; {hidden:,} only counted" if hidden else "of the hub",
            Step.BOUND: f"{_count(count, 'set')} bound into {self.explanation.namespace}",
            Step.SETS: _listed(plan.sets) if plan.sets else "all sets that are bound",
            Step.STAYING: "deletionTimestamp is not set",
            Step.PREDICATES: self._predicates(),
            Step.TAINTS: f"every taint is tolerated; {_count(len(plan.tolerations), 'toleration')}",
            Step.SCORED: _listed(map(_weighted, plan.prioritizers)) if plan.needs_scores else "not needed",
            Step.CHOSEN: best,
        }[stage.step]

    def _predicates(self) -> str:
        predicates = self.found.result.plan.predicates
        keys = [
            requirement.key
            for each in predicates
            for requirement in (*each.labels.requirements, *each.claims.requirements)
        ]
        keys += [f"CEL {number}" for number in range(1, 1 + sum(len(each.expressions) for each in predicates))]
        return _listed(list(dict.fromkeys(keys))) if keys else "none: all pass"

    def url(self, **more: str) -> str:
        """The same page with another step, tab or reason."""
        mark = "&" if "?" in self.address else "?"
        return f"{self.address}{mark}{urlencode(more)}" if more else self.address

    def _hidden_fields(self) -> list[tuple[str, str]]:
        """Of the table's form."""
        return [("stage", self.asked.stage.value)] if self.asked.stage else []

    # ------------------------------------------------------------------------------------------ reasons

    @cached_property
    def names(self) -> list[str]:
        """Of the clusters that the user sees."""
        return [each.name for each in self.explanation.everyone if each.name in self.found.seen]

    @cached_property
    def whys(self) -> dict[str, Why]:
        """Of clusters that the user sees and that are not chosen; the open step first, as far as the time reaches."""
        is_time_up = scheduling.timer(LONGEST)
        found: dict[str, Why] = {}
        for stage in sorted(self.explanation.stages, key=lambda stage: stage.step is not self.open.step):
            for each in stage.fallen:
                if each.name in self.found.seen:
                    if is_time_up():
                        return found
                    why = self.explanation.why(each)
                    if why is not None:
                        found[each.name] = why
        return found

    @cached_property
    def _hidden_whys(self) -> list[Why]:
        """Of the open step, for clusters that the user does not see: which condition fails, as far as the time reaches.

        The same counts follow from a Placement with that condition alone.
        """
        is_time_up = scheduling.timer(LONGEST)
        found = []
        for each in self.open.fallen:
            if each.name not in self.found.seen:
                if is_time_up():
                    break
                if (why := self.explanation.why_unseen(each)) is not None:
                    found.append(why)
        return found

    @property
    def _unexamined(self) -> int:
        return sum(each.name in self.found.seen and each.name not in self.whys for each in self.open.fallen)

    @cached_property
    def _reasons(self) -> list[dict[str, Any]]:
        """Of the open step, grouped by their literal text, the most frequent first."""
        counts = Counter(self.whys[each.name].grouped for each in self.open.fallen if each.name in self.whys)
        hidden = Counter(self._hidden_whys)
        most = max([*counts.values(), *hidden.values()], default=1)
        return [*self._listed(counts, most), *self._listed(hidden, most, is_hidden=True)]

    def _listed(self, counts: Counter[Why], most: int, *, is_hidden: bool = False) -> list[dict[str, Any]]:
        """``is_hidden``: of clusters that the table does not have."""
        return [
            {
                "text": why.text,
                "change": why.change,
                "count": count,
                "share": max(round(count / most * 100), 2),
                "url": "" if is_hidden else self.url(stage=self.open.step.value, reason=_digest(why)) + "#clusters",
                "is_hidden": is_hidden,
            }
            for why, count in sorted(counts.items(), key=lambda item: (-item[1], item[0].text))[:MOST_REASONS]
        ]

    # ------------------------------------------------------------------------------------------ every cluster

    @cached_property
    def _ordered(self) -> list[Cluster]:
        """What changes first, then the nearest to being chosen."""
        order = list(Step)
        outcomes, ranks = self.explanation.outcomes, self.explanation.ranks

        def key(each: Cluster) -> tuple[bool, bool, bool, int, int, str]:
            name = each.name
            is_chosen = name in self.found.chosen
            return (
                name not in self.enter,
                name not in self.leave,
                not is_chosen,
                -order.index(outcomes[name]),
                ranks.get(name, 0),
                name,
            )

        return sorted((each for each in self.explanation.everyone if each.name in self.found.seen), key=key)

    @cached_property
    def _rows(self) -> list[Cluster]:
        wanted = self.asked
        return [each for each in self._ordered if wanted.query in each.name and self._is_shown(each.name)]

    def _is_shown(self, name: str) -> bool:
        wanted = self.asked
        if wanted.reason:
            why = self.whys.get(name)
            return (
                why is not None and self.explanation.outcomes[name] is self.open.step and _digest(why) == wanted.reason
            )
        match wanted.show:
            case "changes":
                return name in self.enter or name in self.leave
            case "chosen":
                return name in self.found.chosen
            case "near":
                return self._is_near(name)
            case "out":
                return name not in self.found.chosen and self.explanation.outcomes[name] is self.open.step
            case _:
                return True

    def _is_near(self, name: str) -> bool:
        why = self.whys.get(name)
        return why is not None and bool(why.change) and why.changes == 1 and why.is_here

    def _tabs(self) -> list[dict[str, Any]]:
        seen = self.found.seen
        stage = self.open.step
        counts = [
            ("", "All", len(self.names)),
            ("changes", "Changes", len((self.enter | self.leave) & seen)),
            ("chosen", "Chosen", len(self.found.chosen & seen)),
            ("near", "One change away", sum(map(self._is_near, self.whys))),
            ("out", f"Fell out at step {self.open.number}", sum(each.name in seen for each in self.open.fallen)),
        ]
        query = {"stage": stage.value} if self.asked.stage else {}
        return [
            {
                "label": label,
                "count": f"{count:,}",
                "url": self.url(**query, **({"show": show} if show else {})) + "#clusters",
                "current": not self.asked.reason and self.asked.show == show,
            }
            for show, label, count in counts
        ]

    def _shown(self, page: list[Cluster]) -> list[dict[str, Any]]:
        words = words_of(self.actor, [each.name for each in page], self.found.now)
        return [self._row(each, words.get(each.name)) for each in page]

    def _row(self, each: Cluster, word: Word | None) -> dict[str, Any]:
        name = each.name
        outcome = self.explanation.outcomes[name]
        why = self.whys.get(name)
        rank = self.explanation.ranks.get(name) if self.found.result.plan.needs_scores else None
        return {
            "name": name,
            "url": reverse("clusters:detail", args=[name]),
            "word": word,
            "set": each.labels.get(CLUSTERSET_LABEL, ""),
            "enters": name in self.enter,
            "leaves": name in self.leave,
            "chosen": name in self.found.chosen,
            "stage": outcome.label,
            "number": list(Step).index(outcome) + 1,
            "rank": rank,
            "score": self.explanation.scored(name),
            "why": why,
            "trial_url": self._trial_url(name, why),
            "pretended": [each.short for each in self.draft.pretences if each.where == name],
            "held": explanation.is_held(held, self.found.now) if (held := self.found.result.held.get(name)) else "",
            "ahead": self.explanation.ahead(each) if name in self.found.chosen else None,
        }

    def _trial_url(self, name: str, why: Why | None) -> str:
        """Where the smallest change is tried; empty where it cannot be."""
        if why is None or not why.trial[0]:
            return ""
        address = self.open_draft(self.draft.trying(name, why.trial))
        return address if len(address) <= drafts.LONGEST else ""

    # ------------------------------------------------------------------------------------------ what changes

    def _diffs(self) -> dict[str, Any]:
        return {
            "enter": self._named(self.enter),
            "leave": self._named(self.leave),
            "stay": len(self.found.chosen & self.found.present),
            "url": self.url(show="changes") + "#clusters",
        }

    def _named(self, names: Iterable[str]) -> dict[str, Any]:
        """How many, and which if they are few."""
        found = sorted(names)
        seen = [name for name in found if name in self.found.seen]
        return {"count": len(found), "names": seen if len(found) <= MOST_NAMED else [], "more": len(found) > MOST_NAMED}


def words_of(actor: Actor, names: list[str], now: datetime) -> dict[str, Word]:
    """Of those of the clusters that the actor sees. One query."""
    rows = with_word(clusters.clusters_for(actor).filter(name__in=names), now).order_by()
    return {name: WORST_FIRST[rank] for name, rank in rows.values_list("name", "rank")} if names else {}


def _digest(why: Why) -> str:
    return sha256(why.grouped.text.encode()).hexdigest()[:12]


def _listed(names: Iterable[str], most: int = 4) -> str:
    found = list(names)
    more = f" and {len(found) - most:,} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _weighted(prioritizer: Any) -> str:
    return prioritizer.name if prioritizer.weight == 1 else explanation.weighted(prioritizer.weight, prioritizer.name)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
