"""Reasons in words: each step of the pipeline has a stage, a sentence of bounded length and the smallest change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ocmconsole.kubeapi.storage.selectors import Operator, Requirement
from placements.explaining import reasons
from placements.scheduler.fleet import Taint
from placements.scheduler.pipeline import Reason
from placements.scheduler.predicates import Unmet
from placements.scheduler.tolerations import TolerationResult

TAINT = Taint("gpu", "true", "NoSelect", datetime(2026, 1, 1, tzinfo=UTC))


def unmet(part: str, condition: Requirement, value: str | None = None) -> Unmet:
    return Unmet(part, str(condition), value, condition)


IN = Requirement("env", Operator.IN, ("dev",))
NOT_IN = Requirement("env", Operator.NOT_IN, ("dev",))
HAS = Requirement("id", Operator.EXISTS)
FALSE = Unmet("expression", "1 > 2")


@pytest.mark.parametrize(
    ("reason", "stage", "sentence", "change"),
    [
        (Reason("sets"), "Sets", "in none of the sets that the Placement may choose from", ""),
        (Reason("being deleted"), "Deleting", "it is being removed", ""),
        (Reason("predicates", ((unmet("label", IN),),)), "Predicate", "label env is missing, needs env in (dev)", "set env=dev"),
        (Reason("predicates", ((unmet("label", NOT_IN, "dev"),),)), "Predicate",
         "label env is dev, needs env notin (dev)", "remove label env"),
        (Reason("predicates", ((unmet("label", IN), FALSE), (unmet("claim", HAS, ""),))), "Predicate",
         "claim id is empty, needs id", "only the agent can change a claim"),
        (Reason("predicates", ((unmet("label", IN), FALSE),)), "Predicate",
         "2 conditions fail: label env, a CEL expression", "2 changes, 1 of them not on this hub"),
        (Reason("predicates", ((FALSE,),)), "Predicate", "CEL 1 > 2 is false", ""),
        (Reason("predicates", ((Unmet("expression", "x", "no such key"),),)), "Predicate", "CEL x has no value: no such key", ""),
        (Reason("predicates", ((),)), "Predicate", "not known yet", ""),
        (Reason("taints", taints=(TolerationResult(TAINT, False),)), "TaintToleration",
         "taint gpu=true:NoSelect is not tolerated", "remove taint gpu, or tolerate it"),
        (Reason("taints", taints=(TolerationResult(TAINT, False, has_expired=True),)), "TaintToleration",
         "taint gpu=true:NoSelect is tolerated no longer", "remove taint gpu, or tolerate it"),
        (Reason("configuration"), "Configuration", "the Placement is misconfigured", "mend the Placement"),
        (Reason("score", rank=3, score=100, needed=200), "Score",
         "rank 3 with 100; the last that is chosen has 200", "raise the number to 3"),
        (Reason("unwanted", rank=3, score=100), "PreferNoSelect",
         "rank 3: it has a taint PreferNoSelect, so it comes last", "raise the number to 3"),
        (Reason("spread"), "Spread", "its choice would break the spread", "relax the spread, or raise the number"),
    ],
)  # fmt: skip
def test_each_step_has_a_stage_a_sentence_and_the_smallest_change(
    reason: Reason, stage: str, sentence: str, change: str
) -> None:
    assert (reasons.STAGES[reason.step], reasons.sentence(reason), reasons.why(reason).change) == (
        stage,
        sentence,
        change,
    )


@pytest.mark.contract("D16")
def test_of_a_cluster_that_one_may_not_see_only_the_condition_is_said() -> None:
    label = unmet("label", IN, "secret-value")
    claim = unmet("claim", HAS, "secret-value")
    taint = TolerationResult(TAINT, is_tolerated=False)
    said = [
        reasons.unseen(each).text
        for each in (
            Reason("predicates", ((label,),)),
            Reason("predicates", ((label, claim),)),
            Reason("predicates", ((Unmet("expression", "managedCluster.spec.x", "secret-value"),),)),
            Reason("taints", taints=(taint,)),
            Reason("score", rank=7, score=12345, needed=9),
        )
    ]
    assert said == [
        "label env in (dev) does not hold",
        "2 conditions do not hold: label env, claim id",
        "CEL managedCluster.spec.x does not hold",
        "it has a taint that is not tolerated",
        "others come before it",
    ]


def test_a_sentence_does_not_grow_with_what_a_placement_says() -> None:
    many = Requirement("env", Operator.IN, tuple(f"value-{number}" for number in range(1_000)))
    for each in (Unmet("expression", "x" * 5_000), unmet("label", many)):
        assert len(reasons.sentence(Reason("predicates", ((each,),)))) <= reasons.MOST_CHARACTERS
