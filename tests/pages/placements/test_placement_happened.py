"""A Placement's page shows who entered and left last, why, and because of which change; to each what they may read."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests import factories as make
from tests.actors import signed_in
from tests.pages.placements.scene import TEAM, author, fleet, matching, place

__all__ = ["fleet"]  # a fixture of every test

pytestmark = [pytest.mark.django_db, pytest.mark.contract("K43")]


def shown(client: Client, name: str = "p1") -> str:
    """The section in words; empty where there is none."""
    page = client.get(f"/placements/{TEAM}/{name}/").content.decode()
    section = re.search(r'<section[^>]* id="happened".*?</section>', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", section[0]).split()) if section else ""


def change() -> None:
    place(predicates=matching(env="prod"))
    make.label("web-1", env="test")
    make.settle()


def test_the_newest_change_comes_first_with_stage_reason_and_cause() -> None:
    change()
    text = shown(signed_in("root", is_superuser=True))
    left = "0 entered, 1 left Left: web-1: label env is test, needs env in (prod) Cause: label env: prod → test"
    entered = "1 entered, 0 left Entered: web-1 Cause: Placement shop/p1: created"
    assert left in text
    assert entered in text
    assert text.index(left) < text.index(entered)


def test_who_does_not_see_a_cluster_reads_its_name_and_the_step_and_nothing_of_its_labels() -> None:
    author()
    change()
    text = shown(signed_in("li"))
    assert "Left: web-1 at the step Predicate" in text
    assert "has test" not in text
    assert "label env" not in text


def test_a_placement_that_has_chosen_nobody_says_so() -> None:
    place(predicates=matching(env="nowhere"))
    assert "The history has no cluster that entered or left." in shown(signed_in("root", is_superuser=True))
