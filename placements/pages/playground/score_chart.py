"""The totals of the clusters that passed, as bars: how many have how much, and where the cut is. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placements.scheduler.pipeline import PlacementResult

MOST_BARS = 8  # of the chart: with more, labels do not fit below them


def chart_of(result: PlacementResult) -> dict[str, Any] | None:
    """``bars``: label, number of clusters, how many of them are chosen. None where nothing is scored."""
    if not result.plan.needs_scores or not result.feasible:
        return None
    totals = result.totals
    chosen = {each.name for each in result.chosen}
    low, high = min(totals.values()), max(totals.values())
    width = _width(high - low)
    start = low // width * width
    counts = Counter((total - start) // width for total in totals.values())
    kept = Counter((totals[name] - start) // width for name in chosen)
    bars = [
        {
            "label": f"{start + index * width}" if width == 1 else _range(start + index * width, width),
            "count": counts[index],
            "chosen": kept[index],
        }
        for index in range((high - start) // width + 1)
    ]
    cut = min((totals[name] for name in chosen), default=None)
    return {"bars": bars, "low": low, "high": high, "is_even": low == high, "passed": len(totals), **_cut(result, cut)}


def _cut(result: PlacementResult, cut: int | None) -> dict[str, Any]:
    """The total of the last that is chosen, and of the first that is not, where the order of the totals decides."""
    plan = result.plan
    left = [each for each in result.feasible if each not in set(result.chosen)]
    best = max((result.totals[each.name] for each in left), default=None)
    is_by_score = not plan.constraints and (best is None or cut is None or best <= cut)
    return {"cut": cut, "count": len(result.chosen), "next": best, "left": len(left), "is_by_score": is_by_score}


def _range(start: int, width: int) -> str:
    """With words where a sign would stand beside a dash."""
    return f"{start} to {start + width - 1}" if start < 0 else f"{start}\N{EN DASH}{start + width - 1}"


def _width(span: int) -> int:
    """A round number that makes at most ``MOST_BARS`` bars."""
    width = 1
    while True:
        for factor in (1, 2, 5):
            if span // (width * factor) + 2 <= MOST_BARS:
                return width * factor
        width *= 10
