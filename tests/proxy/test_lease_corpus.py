"""The lease path over HTTP/2, by certificates that nginx passes on: as the ordinary path answers, so does it.

On PostgreSQL the requests of one agent go to two servers in turns.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.fleet import Fleet
from tests.proxy.conftest import Site
from tests.selection import FULL
from tests.serving import lease_corpus, lease_damage
from tests.serving.leases import PATH, AgentOverHttp2, Scene

pytestmark = [pytest.mark.contract("W30", "W21"), pytest.mark.slow]

DAMAGED = 100  # bodies
CASES = lease_corpus.CASES if FULL else lease_corpus.OF_LEASE_PATH  # all of them go over HTTP/1.1 in tests/serving


@pytest.fixture(scope="module")
def scene(site: Site) -> Iterator[Scene]:
    first, *others = site.servers
    with Fleet(first) as fleet, Scene(first, fleet, others, site.url, AgentOverHttp2) as scene:
        yield scene


@pytest.fixture(scope="module")
def twins(scene: Scene) -> lease_corpus.Twins:
    return lease_corpus.twins_of(scene)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_paths_answer_and_store_the_same(scene: Scene, twins: lease_corpus.Twins, case: lease_corpus.Case) -> None:
    lease_corpus.assert_same(scene, twins, case)


def test_both_paths_answer_and_store_the_same_for_a_damaged_body(scene: Scene) -> None:
    twins, before = lease_corpus.twins_of(scene, "-damaged"), scene.batched()["writer"]
    statuses = Counter(lease_damage.assert_same_damage(scene, twins, random.Random(2), DAMAGED))  # noqa: S311 - the same again in each run
    assert {200, 400, 409} <= statuses.keys()
    assert before < scene.batched()["writer"] < before + DAMAGED


@pytest.mark.parametrize("how", [*lease_corpus.ENDS])
def test_both_paths_refuse_in_the_same_words_who_was_let_in_before(scene: Scene, how: str) -> None:
    lease_corpus.assert_same_refusals(scene, how)


def test_both_paths_refuse_another_clusters_lease_in_the_same_words(scene: Scene, twins: lease_corpus.Twins) -> None:
    scene.agent("lp-other")
    lease_corpus.assert_refused(scene, twins, 403, path=PATH.format("lp-other"))


def test_the_rows_of_both_paths_agree_with_their_texts(scene: Scene) -> None:
    assert "agree" in scene.hub.manage("check_wire")
