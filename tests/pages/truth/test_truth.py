"""Every page, as five people, says what the rows say.

One demonstration hub is made for the whole module: its pages are walked, then figures and sentences are read from them
and computed again from the rows, by code that shares nothing with that of the pages.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from django.db import connection

from tests import selection
from tests.pages.truth import demofleet, figures, walk
from tests.pages.truth.demofleet import PEOPLE

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

FEWEST = 60
# Who looks at every address in the ordinary run.
WALKING = {"sqlite": ("admin",), "postgresql": ()}
# Of the demonstration's Placement checkout, newest first: what a visitor reads in its history.
PAST = (
    "would leave",
    "taint rack/power=off:NoSelect is not tolerated",
    "label pci=true removed",
    "Placement shop/checkout: spec.numberOfClusters: 2 → 3",
    "Placement shop/checkout: created",
)


def test_what_pages_say_is_what_the_rows_say(
    subtests: pytest.Subtests, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    for module in ("overview", "fleet", "sets", "trust"):  # importing them registers their figures
        import_module(f"tests.pages.truth.figures_{module}")
    assert len(figures.ALL) >= FEWEST
    with demofleet.standing(tmp_path) as site:
        for each in selection.dealt_cases(figures.ALL, pytestconfig):
            for person in each.people:
                with subtests.test(each.name, person=person):
                    shown, computed = each.look(site, person)
                    assert shown == computed
        with subtests.test("a past with causes"):
            text = site.text("admin", "/placements/shop/checkout/history/")
            places = [text.find(each) for each in PAST]
            assert -1 not in places
            assert places == sorted(places)
        for person in PEOPLE if selection.FULL else WALKING[connection.vendor]:
            with subtests.test("every address", person=person):
                assert walk.contradictions(site, person) == []
