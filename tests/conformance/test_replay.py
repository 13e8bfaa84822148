"""The real agent's and the real clusteradm's requests, as recorded at a real hub: this hub answers what that one did.

One run plays everything against a hub of its own, because what is answered depends on all that was said before. The
tests look at parts of what it found; `replay/differences.yaml` lists what may differ.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.replay import page
from tests.conformance.replay.comparing import FOLDER, Doc, Finding, kept_answers, listed_differences, scheduler_answers
from tests.conformance.replay.player import Player
from tests.conformance.replay.recording import Delivery, Exchange, recorded
from tests.conftest import StartHub

DIFFERENCES = listed_differences()
KEPT = kept_answers()
SCHEDULER = scheduler_answers()
TESTS = FOLDER.parents[1]


def is_listed(finding: Finding) -> bool:
    return any(finding.fits(difference) for difference in DIFFERENCES)


@pytest.fixture(scope="module")
def findings(start_hub: StartHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Finding]]:
    """All that this hub answered otherwise, whether it is listed or not."""
    with start_hub() as hub, Player(hub, tmp_path_factory.mktemp("replay"), is_listed) as player:
        for line in [*recorded("discovery.jsonl"), *recorded("traffic.jsonl")]:
            player.play(line)
        yield player.findings


def unlisted(findings: list[Finding], author: str) -> list[Finding]:
    return [finding for finding in findings if finding.exchange.startswith(author) and not is_listed(finding)]


@pytest.mark.contract("G3", "G6", "G7", "G8", "G9", "G10", "G20", "G30", "G36c", "G37", "G38", "G39a")
@pytest.mark.contract("W1", "W2", "W11", "W14", "W15", "H4", "H5", "H16", "H18", "H21")
def test_the_agent_gets_the_recorded_answers_and_its_watches_the_recorded_events(findings: list[Finding]) -> None:
    assert unlisted(findings, "agent-") == []


@pytest.mark.contract("C1", "C2", "C5", "C8", "C11", "C12", "C14", "C15", "C20", "C21", "C22", "C23", "C24", "W7")
def test_clusteradm_gets_the_recorded_answers(findings: list[Finding]) -> None:
    assert unlisted(findings, "clusteradm-") == []


@pytest.mark.contract("C29", "K1")
def test_what_the_admin_did_in_between_is_possible_here(findings: list[Finding]) -> None:
    """Approving, accepting, un-accepting, shortening leases, replacing a cluster without its finalizers."""
    assert unlisted(findings, "between-") == []


@pytest.mark.contract("W7")
def test_what_is_served_is_described_as_a_real_hub_describes_it(findings: list[Finding]) -> None:
    assert unlisted(findings, "discovery-") == []


def test_each_listed_difference_shows(findings: list[Finding]) -> None:
    stale = [each["what"] for each in DIFFERENCES if not any(finding.fits(each) for finding in findings)]
    assert stale == []


def test_the_recording_is_whole() -> None:
    """As many exchanges as were recorded, of each author."""
    lines: list[Exchange | Delivery] = [*recorded("discovery.jsonl"), *recorded("traffic.jsonl")]
    authors = [line.id.partition("-")[0] for line in lines if isinstance(line, Exchange) and line.was_recorded]
    assert {author: authors.count(author) for author in authors} == {"discovery": 8, "agent": 97, "clusteradm": 93}


def test_the_page_of_differences_says_what_is_listed() -> None:
    assert page.PAGE.read_text() == page.render(DIFFERENCES, KEPT, SCHEDULER), (
        "python -m tests.conformance.replay.page writes it"
    )


@pytest.mark.parametrize("kept", [*KEPT, *SCHEDULER], ids=lambda each: each["here"])
def test_each_answer_that_is_kept_has_a_reason_and_a_test(kept: Doc) -> None:
    assert kept["there"]
    assert kept["why"]
    defined = f"def {kept['test']}("
    assert any(defined in file.read_text() for file in (*TESTS.rglob("test_*.py"), TESTS / "api" / "contract.py"))


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each["what"])
def test_each_listed_difference_has_a_reason(difference: Doc) -> None:
    assert difference["why"]
    assert difference["where"]
