"""The page of a misconfigured Placement says which change broke it, by whom, and undoes exactly that one (D14)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from clusters.kinds import GROUP
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from placements.kinds import PLACEMENT
from placements.pages import broken_change
from tests import factories as make
from tests.actors import grant, person, rule, signed_in
from tests.pages.placements.scene import TEAM, author, fleet, matching, place

__all__ = ["fleet"]  # a fixture of every test

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D14")]

Doc = dict[str, Any]
KEYLESS = [{"operator": "Equal", "value": "true"}]
GOOD: Doc = {"numberOfClusters": 2, "predicates": matching(env="prod")}


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


def text(response: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def change(by: str = "raj", **spec: Any) -> None:
    make.edit(
        PLACEMENT,
        "p1",
        lambda doc: doc["spec"].update(spec),
        by=Actor(user=by, groups=("system:masters",)),
        namespace=TEAM,
    )
    make.settle()


def spec() -> Doc:
    doc = verbs.find(PLACEMENT, Key(TEAM, "p1"))
    assert doc is not None
    found: Doc = doc["spec"]
    return found


def page(client: Client) -> Any:
    return client.get(f"/placements/{TEAM}/p1/")


def press(client: Client, number: object) -> Any:
    return client.post(f"/placements/{TEAM}/p1/undo/", {"change": str(number)}, follow=True)


def number(client: Client) -> int:
    found: int = page(client).context["broken"]["change"].entry.pk
    return found


def test_it_names_who_when_and_what_and_what_an_undo_would_do(admin: Client) -> None:
    place(**GOOD)
    change(tolerations=KEYLESS)
    make.label("web-3", env="prod")
    make.settle()
    answer = page(admin)
    broken = answer.context["broken"]
    assert broken["change"].entry.user == "raj"
    assert [(line.sign, line.text.strip()) for line in broken["lines"] if line.sign in "+-"] == [
        ("+", "tolerations:"),
        ("+", "- operator: Equal"),
        ("+", "value: 'true'"),
    ]
    shown = text(answer)
    assert re.search(r"The change that broke it raj, \d+ \w+ \d{4}, \d\d:\d\d UTC", shown)
    assert "Undone, as the fleet is now: 1 cluster enters, 0 leave, 1 stays." in shown


@pytest.mark.parametrize(
    "mistake",
    [
        {"tolerations": KEYLESS},
        {"numberOfClusters": -1},
        {"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": ["a ("]}}}]},
        {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "5"}}},
        {"prioritizerPolicy": {"mode": "Exact", "configurations": [{"scoreCoordinate": {"builtIn": "Luck"}}]}},
        {"numberOfClusters": None, "predicates": None, "tolerations": KEYLESS},
    ],
)
def test_undo_puts_back_exactly_what_was_there(admin: Client, mistake: Doc) -> None:
    place(**GOOD)
    before = spec()
    change(**mistake)
    answer = press(admin, number(admin))
    make.settle()
    assert "The specification is as it was before that change" in text(answer)
    assert spec() == before
    assert "Misconfigured" not in text(page(admin)).partition("Conditions")[0]
    last = AuditEvent.objects.filter(resource=PLACEMENT.resource, user="root").latest("pk")
    assert (last.verb, last.entry_point) == ("update", "web")


def test_a_change_that_came_later_is_not_thrown_away(admin: Client) -> None:
    place(**GOOD)
    change(tolerations=KEYLESS)
    shown = number(admin)
    change("li", numberOfClusters=1)
    written = spec()
    assert "its specification has been changed since; nothing was undone" in text(press(admin, shown))
    assert spec() == written
    answer = page(admin)
    assert answer.context["broken"]["change"].entry.user == "raj"
    assert "was changed 1 time after that, and none of it mended it" in text(answer)
    assert "/undo/" not in answer.content.decode()


def test_changes_that_did_not_break_it_are_not_blamed(admin: Client) -> None:
    """Nor is one of labels or annotations, which leaves the specification alone."""
    place(**GOOD)
    change("li", numberOfClusters=1)
    change(tolerations=KEYLESS)
    make.edit(PLACEMENT, "p1", lambda doc: doc["metadata"].update(labels={"a": "b"}), namespace=TEAM)
    make.settle()
    assert page(admin).context["broken"]["change"].entry.user == "raj"
    press(admin, number(admin))
    assert spec()["numberOfClusters"] == 1


def test_the_undo_is_of_that_change_alone(admin: Client) -> None:
    place(**GOOD)
    change(tolerations=KEYLESS)
    shown = number(admin)
    press(admin, shown)
    restored = spec()
    assert "nothing was undone" in text(press(admin, shown))
    change(tolerations=KEYLESS)
    assert "nothing was undone" in text(press(admin, shown))  # the same mistake, but another change
    press(admin, number(admin))
    assert spec() == restored


def test_a_write_in_the_middle_of_an_undo_stays(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    place(**GOOD)
    change(tolerations=KEYLESS)
    shown = number(admin)
    find = broken_change.broken_changes

    def find_and_be_overtaken(docs: Any) -> Any:
        found = find(docs)
        monkeypatch.undo()
        change("li", numberOfClusters=1)
        return found

    monkeypatch.setattr(broken_change, "broken_changes", find_and_be_overtaken)
    assert "the object has been modified" in text(press(admin, shown))
    assert spec()["numberOfClusters"] == 1


@pytest.mark.parametrize("sent", ["", "x", "0", "-1", "9" * 30])
def test_what_names_no_change_undoes_nothing(admin: Client, sent: str) -> None:
    place(**GOOD)
    change(tolerations=KEYLESS)
    written = spec()
    assert "nothing was undone" in text(press(admin, sent))
    assert spec() == written


def test_one_that_was_created_so_has_nothing_to_go_back_to(admin: Client) -> None:
    place(numberOfClusters=-1)
    answer = page(admin)
    assert "It never made sense" in text(answer)
    assert "/undo/" not in answer.content.decode()
    assert "nothing was undone" in text(press(admin, number(admin)))


def test_one_that_was_made_anew_is_not_judged_by_the_former(admin: Client) -> None:
    place(**GOOD)
    verbs.delete(make.ADMIN, PLACEMENT, Key(TEAM, "p1"))
    make.settle()
    place(tolerations=KEYLESS)
    assert page(admin).context["broken"]["change"].before is None


def test_what_the_audit_has_cut_is_neither_blamed_nor_undone(admin: Client) -> None:
    many = [*(matching(env=f"stage-{each}")[0] for each in range(40)), *matching(env="prod")]
    place(predicates=many)
    change(predicates=[{"requiredClusterSelector": {"celSelector": {"celExpressions": ["a ("]}}}])
    answer = page(admin)
    assert answer.context["broken"] is None
    assert "The change that broke it" not in text(answer)


def test_who_may_read_and_not_change_it_sees_the_change_and_is_told_why_not() -> None:
    grant(person("li"), rule("get list", "placements placementdecisions", groups=GROUP), namespace=TEAM)
    place(**GOOD)
    change(tolerations=KEYLESS)
    client = signed_in("li")
    answer = page(client)
    assert "You may not change this Placement" in text(answer)
    assert 'disabled aria-describedby="undo-denied"' in answer.content.decode()
    assert re.search(r"The change that broke it somebody, \d", text(answer))  # the audit is not theirs to read
    written = spec()
    assert "cannot update resource" in text(press(client, number(client)))
    assert spec() == written


def test_who_works_with_the_namespace_undoes_it_and_reads_their_own_name() -> None:
    author()
    place(**GOOD)
    li = Actor(user="li", groups=("system:authenticated",))
    make.edit(PLACEMENT, "p1", lambda doc: doc["spec"].update(tolerations=KEYLESS), by=li, namespace=TEAM)
    make.settle()
    client = signed_in("li")
    assert "The change that broke it li, " in text(page(client))
    press(client, number(client))
    assert "tolerations" not in spec()


def test_who_may_not_see_it_gets_nothing() -> None:
    place(**GOOD)
    change(tolerations=KEYLESS)
    client = signed_in("mallory")
    assert page(client).status_code == 404
    assert press(client, AuditEvent.objects.latest("pk").pk).status_code == 404
    assert "tolerations" in spec()


def test_changes_of_many_are_found_with_one_query(django_assert_num_queries: Any) -> None:
    for name in ("a", "b", "c"):
        place(name, numberOfClusters=-1)
    docs = [verbs.find(PLACEMENT, Key(TEAM, name)) for name in ("a", "b", "c")]
    with django_assert_num_queries(1):
        assert len(broken_change.broken_changes([doc for doc in docs if doc is not None])) == 3
