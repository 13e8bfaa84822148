"""Who lacks the permission is told which one at every way and leaves no mark; who has nothing else may do nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from ocmconsole.kubeapi.models import AuditEvent
from tests import factories as make
from tests.entry_points import rights, scene
from tests.entry_points.scene import Waiting
from tests.entry_points.ways import CHANGELIST, WAYS, AdminAction, Api, Browser, Page, Refused, Way

pytestmark = pytest.mark.django_db

PERMISSION = "clusters.accept_managedcluster"


@pytest.fixture
def waiting(db: None) -> Waiting:
    return scene.ask("site-one")


def denials(user: Any) -> list[str]:
    found = AuditEvent.objects.filter(user=user.username, outcome=AuditEvent.Outcome.DENIED)
    return [f"{event.entry_point} {event.name}: {event.reason}" for event in found.order_by("pk")]


# ---------------------------------------------------------------- without the permission


@pytest.mark.contract("D2", "D11")
@pytest.mark.parametrize("name", [name for name in WAYS if name != "api"])
def test_the_other_ways_name_the_permission_in_djangos_words(ana: Any, waiting: Waiting, name: str) -> None:
    rights.but_accept(ana, waiting)
    before = scene.everything_but_audit()
    with pytest.raises(Refused) as refusal:
        WAYS[name].accept(ana, waiting)
    assert PERMISSION in str(refusal.value)
    assert scene.everything_but_audit() == before
    # The page does not even offer the button, so nobody was refused yet.
    assert len(denials(ana)) == (0 if name == "page" else 1)


@pytest.mark.contract("D2", "D11")
@pytest.mark.parametrize("act", ["accept", "decline"])
def test_a_page_that_is_sent_without_its_button_is_refused(ana: Any, waiting: Waiting, act: str) -> None:
    rights.but_accept(ana, waiting)
    browser = Browser(ana)
    form = browser.open(f"/approvals/{waiting.name}/").forms[0]  # any form of the page carries its token
    before = scene.everything_but_audit()
    form.action = f"/approvals/{waiting.name}/{act}/"
    with pytest.raises(Refused, match=PERMISSION):
        browser.send(form, reason="No.")
    assert scene.everything_but_audit() == before
    assert [text.partition(":")[0] for text in denials(ana)] == ["web site-one"]


@pytest.mark.parametrize("act", ["accept", "decline", "disconnect"])
def test_a_page_without_its_token_is_refused(ana: Any, waiting: Waiting, act: str) -> None:
    rights.by_guardian(ana, waiting)
    browser = Browser(ana)
    path = "clusters" if act == "disconnect" else "approvals"
    before = scene.everything_but_audit()
    answer = browser.client.post(f"/{path}/{waiting.name}/{act}/", {"reason": "No."})
    assert answer.status_code == 403
    assert scene.everything_but_audit() == before


@pytest.mark.contract("D16")
@pytest.mark.parametrize("way", [Page(), AdminAction()])
def test_one_who_may_not_see_a_cluster_does_not_read_that_it_asks(ana: Any, waiting: Waiting, way: Way) -> None:
    with pytest.raises(Refused) as refusal:
        way.accept(ana, waiting)
    assert PERMISSION not in str(refusal.value)


@pytest.mark.contract("D16")
def test_a_sent_page_shows_a_stranger_nothing_now_or_later(ana: Any, waiting: Waiting) -> None:
    browser = Browser(ana)
    form = browser.open("/approvals/").forms[0]
    for name in (waiting.name, "no-such-cluster"):
        form.action = f"/approvals/{name}/accept/"
        with pytest.raises(Refused, match=f"Nothing called {name} asks to join"):
            browser.send(form)
    assert PERMISSION not in browser.open("/approvals/").text
    assert not scene.is_accepted(waiting)


@pytest.mark.contract("D16")
def test_a_request_without_a_cluster_waits_for_those_who_may_see_every_cluster(ana: Any) -> None:
    scene.ask_again(Waiting("site-none", "site-none-00001"))
    assert "site-none" not in Browser(ana).open("/approvals/").text
    with pytest.raises(Refused, match="Nothing called site-none asks to join"):
        Browser(ana).open("/approvals/site-none/")
    rights.by_rules(ana)
    assert "site-none" in Browser(ana).open("/approvals/").text
    Page().decline(ana, Waiting("site-none", "site-none-00001"), "Nobody knows it.")
    assert scene.state_of(Waiting("site-none", "site-none-00001")) == "Denied"


# ---------------------------------------------------------------- with the permission alone


@pytest.mark.contract("D2", "W22")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_permission_on_one_cluster_opens_every_way_to_that_cluster_only(ana: Any, way: Way) -> None:
    mine, other = scene.ask("site-one"), scene.ask("site-two")
    rights.by_guardian(ana, mine)
    way.accept(ana, mine)
    make.settle()
    assert scene.is_accepted(mine)
    before = scene.everything_but_audit()
    with pytest.raises(Refused):
        way.accept(ana, other)
    assert scene.everything_but_audit() == before


@pytest.mark.contract("D16")
def test_django_admin_lists_what_the_permission_shows(ana: Any, waiting: Waiting) -> None:
    scene.ask("site-two")
    rights.by_guardian(ana, waiting)
    shown = Browser(ana).open(CHANGELIST)
    assert [row.name for row in shown.response.context["cl"].result_list] == ["site-one"]
    assert "site-two" not in shown.text


def test_django_admin_deletes_nothing_in_bulk(ana: Any, waiting: Waiting) -> None:
    """It would do so beside the verbs."""
    rights.by_mastery(ana, waiting)
    shown = Browser(ana).open(CHANGELIST)
    assert "Disconnect selected clusters" in shown.text
    assert "delete_selected" not in shown.text


# ---------------------------------------------------------------- D15


@pytest.mark.contract("D15", "W23")
@pytest.mark.parametrize("decision", ["Approved", "Denied"])
def test_the_permission_decides_the_requests_of_that_cluster(ana: Any, waiting: Waiting, decision: str) -> None:
    rights.by_guardian(ana, waiting)
    Api().decide(ana, waiting.request, decision)
    make.settle()
    assert scene.state_of(waiting) == {"Approved": "Issued", "Denied": "Denied"}[decision]


@pytest.mark.contract("D15", "H35")
@pytest.mark.parametrize("speaks_for", ["site-two", "site-three"])
def test_the_permission_decides_no_request_that_speaks_for_another(ana: Any, waiting: Waiting, speaks_for: str) -> None:
    """Whether it says so in its label or only in its subject."""
    rights.by_guardian(ana, waiting)
    other = (
        scene.ask("site-two")
        if speaks_for == "site-two"
        else scene.ask_again(Waiting("site-one", "site-one-00002"), speaks_for=speaks_for)
    )
    before = scene.everything_but_audit()
    with pytest.raises(Refused, match=f'"{other.request}" is forbidden'):
        Api().decide(ana, other.request, "Approved")
    assert scene.everything_but_audit() == before


@pytest.mark.contract("D15")
def test_the_permission_reads_no_list_of_requests_and_signs_nothing(ana: Any, waiting: Waiting) -> None:
    from tests.entry_points.ways import REQUESTS, signed

    rights.by_guardian(ana, waiting)
    client = signed(ana)
    assert client.get(f"{REQUESTS}/{waiting.request}").status_code == 200
    assert client.get(REQUESTS).status_code == 403
    path = f"{REQUESTS}/{waiting.request}"
    for target in (path, f"{path}/status"):
        assert client.put(target, "{}", content_type="application/json").status_code == 403
    assert client.delete(path).status_code == 403
