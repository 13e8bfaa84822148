"""Reasons in words: each step of the pipeline has a stage and a sentence of bounded length."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from placements import reasons
from placements.fleet import Taint
from placements.pipeline import Reason
from placements.predicates import Unmet
from placements.tolerations import TolerationResult

TAINT = Taint("gpu", "true", "NoSelect", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("reason", "stage", "sentence"),
    [
        (Reason("sets"), "Sets", "it is in none of the sets that the Placement may choose from"),
        (Reason("being deleted"), "Deleting", "it is being deleted"),
        (Reason("predicates", ((Unmet("label", "env in (dev)"),),)), "Predicate",
         "label env in (dev) does not hold: the cluster has none"),
        (Reason("predicates", ((Unmet("claim", "a", ""),), (Unmet("expression", "1 > 2"),))), "Predicate",
         "claim a does not hold: the cluster has an empty value or 1 > 2 is not true"),
        (Reason("predicates", ((Unmet("expression", "x", "no such key"),),)), "Predicate", "x is not true: no such key"),
        (Reason("taints", taints=(TolerationResult(TAINT, False),)), "TaintToleration",
         "taint gpu=true:NoSelect is not tolerated"),
        (Reason("taints", taints=(TolerationResult(TAINT, False, has_expired=True),)), "TaintToleration",
         "taint gpu=true:NoSelect is no longer tolerated"),
        (Reason("configuration"), "Configuration", "the Placement is misconfigured"),
        (Reason("score", rank=3, score=100), "Score", "rank 3 with score 100 is not among the chosen"),
        (Reason("unwanted", rank=3, score=100), "PreferNoSelect",
         "a PreferNoSelect taint puts it last: rank 3 with score 100 is not among the chosen"),
        (Reason("spread"), "Spread", "the spread constraints leave no place for it"),
    ],
)  # fmt: skip
def test_each_step_has_a_stage_and_a_sentence(reason: Reason, stage: str, sentence: str) -> None:
    assert (reasons.stage(reason), reasons.sentence(reason)) == (stage, sentence)


def test_a_sentence_does_not_grow_with_an_expression() -> None:
    long = Reason("predicates", ((Unmet("expression", "x" * 5_000),),))
    assert len(reasons.sentence(long)) == reasons.MOST_CHARACTERS
