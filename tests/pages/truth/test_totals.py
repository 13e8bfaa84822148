"""Below a list that a filter narrows stands how many rows fit, of how many."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL
from tests import factories as make
from tests.actors import signed_in
from tests.pages import joining

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fleet(tmp_path: Path, settings: Any) -> None:
    joining.hub(tmp_path, settings)
    now = timezone.now()
    for name in ("web", "db", "other"):
        make.clusterset(name)
    for number in range(1, 56):
        name = f"{'lyon' if number <= 53 else 'paris'}-{number:02}"
        make.cluster(name, labels={CLUSTERSET_LABEL: "web"})
        if number > 50:
            make.certificate(name, f"{number:064}", begins=now, ends=now + timedelta(days=90))
    for name in ("shop-a", "shop-b"):
        make.namespace(name)
    make.settle()


def test_a_filtered_list_says_how_many_fit_of_how_many() -> None:
    client = signed_in("root", is_superuser=True)
    for path, said in (
        ("/clusters/", "55 clusters, 50 on this page"),
        ("/clusters/?q=paris", "2 clusters of 55 match"),
        ("/sets/web/", "55 in all, 50 on this page"),
        ("/sets/web/?q=lyon", "53 of 55 match, 50 on this page"),
        ("/sets/web/?q=lyon&after=lyon-50", "53 of 55 match, 3 on this page"),
        ("/sets/web/?q=paris", "2 of 55 match"),
        ("/sets/db/_add/?q=paris", "2 of 55 match"),
        ("/sets/", "3 in all"),
        ("/sets/?q=web", "1 of 3 matches"),
        ("/namespaces/?q=shop", "2 of "),
        ("/certificates/", "5 in all"),
        ("/certificates/?q=paris", "2 of 5 match"),
        ("/access/?q=root", "1\N{EN DASH}1 of 1 that match"),
    ):
        page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", client.get(path).content.decode()))
        assert said in page, (path, re.findall(r"[^.]{0,40}(?:in all|match|on this page)[^.]{0,30}", page))
