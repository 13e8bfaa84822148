"""CEL expressions about a ManagedCluster, with the libraries that upstream's placement controller offers (P7). Pure.

An expression is parsed and checked once (``Expression.compiled``); evaluating it costs a bounded number of steps, and
whatever goes wrong then means that the cluster does not match. The evaluator is Google's, in C++; the functions of
Kubernetes are in ``cellibrary``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import orjson

from placements.scheduler import cellibrary
from placements.scheduler.expression_size import largest_document
from placements.scheduler.fleet import AddOnScore, Cluster

# Scores of one cluster by the name of the AddOnPlacementScore.
ScoresOf = Callable[[str], Mapping[str, AddOnScore]]

MOST_CHARACTERS = 10_000  # an expression's source; Kubernetes admits no longer ones in its own policies either
# Calls in one expression: the parser writes the target of each twice, so that 26 in a row take 7 GB.
MOST_DOUBLED = 8
KEPT_EXPRESSIONS = 2_000  # compiled ones in memory
# Of calls of functions of ours in one evaluation, in units of ``cellibrary``: below a second of CPU time. The bound of
# the evaluator itself counts iterations, whatever is called in them.
MOST_COST = 200_000
TOO_EXPENSIVE = "operation cancelled: actual cost limit exceeded"  # upstream's words


@dataclass(slots=True)
class _Evaluation:
    """Of one expression for one cluster: what its functions read, and the cost that is left."""

    cluster: str
    scores: ScoresOf
    left: int = MOST_COST


_present: ContextVar[_Evaluation] = ContextVar("the evaluation that is being done")


@dataclass(frozen=True)
class Expression:
    """``largest``: size of the largest document for which its values stay small enough."""

    text: str
    _program: Any = field(repr=False, compare=False)
    largest: int = field(default=0, repr=False, compare=False)

    @classmethod
    def compiled(cls, text: str) -> Expression:
        """Raises ValueError ``compilation failed: ...``, as upstream words it."""
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"compilation failed: the expression has more than {MOST_CHARACTERS} characters")
        if text.count("optMap") + text.count("optFlatMap") > MOST_DOUBLED:
            raise ValueError(f"compilation failed: the expression has more than {MOST_DOUBLED} optMap and optFlatMap")
        return _compiled(text)

    @property
    def reads_scores(self) -> bool:
        """P7: whether it may; else its value depends on the cluster alone."""
        return "scores" in self.text

    def holds(self, cluster: Cluster, scores: ScoresOf) -> bool:
        """P7: true only when it evaluates to true: an error, another type and too many steps are no match."""
        return self._evaluate(cluster, scores) is True

    def error(self, cluster: Cluster, scores: ScoresOf) -> str | None:
        """P7: why it has no value for this cluster; None when it simply is not true."""
        found = self._evaluate(cluster, scores)
        return None if isinstance(found, bool) else str(found)

    def _evaluate(self, cluster: Cluster, scores: ScoresOf) -> object:
        """A bool, or the text of what was wrong."""
        if self._size(cluster, scores) > self.largest:
            return TOO_EXPENSIVE
        bound = _present.set(_Evaluation(cluster.name, scores))
        try:
            value = self._program.eval(data={"managedCluster": cluster.view()}).value()
        except Exception as error:  # noqa: BLE001 - bindings of C++: what they raise is not written down
            return str(error)
        finally:
            _present.reset(bound)
        return value if isinstance(value, bool) else str(value)[:500]

    def _size(self, cluster: Cluster, scores: ScoresOf) -> int:
        """Of what the expression may read, in bytes."""
        if not self.reads_scores:
            return cluster.size
        return cluster.size + sum(len(orjson.dumps(dict(each.values))) for each in scores(cluster.name).values())


@lru_cache(KEPT_EXPRESSIONS)
def _compiled(text: str) -> Expression:
    try:
        program = _environment().compile(text)
    except RuntimeError as error:
        flaw = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        raise ValueError(f"compilation failed: {flaw}") from None
    return Expression(text, program, largest_document(program.serialize()))


@cache
def _environment() -> Any:
    return cellibrary.environment(scores=_scores_of, charge=_charge)


def _charge(cost: int) -> None:
    """P7: raises ValueError, in upstream's words, where an evaluation costs more than it may."""
    evaluation = _present.get()
    evaluation.left -= cost
    if evaluation.left < 0:
        raise ValueError(TOO_EXPENSIVE)


def _scores_of(_cluster: object, name: str) -> list[dict[str, Any]]:
    """P7: ``managedCluster.scores(name)``: an error when the cluster has no such object."""
    evaluation = _present.get()
    found = evaluation.scores(evaluation.cluster).get(name)
    if found is None:
        raise ValueError(f'addonplacementscores.cluster.open-cluster-management.io "{name}" not found')
    return [{"name": key, "value": value} for key, value in found.values.items()]
