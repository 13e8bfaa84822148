"""A page decides about what its reader saw: when that has changed, nothing is done and the page says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from ocmconsole.kubeapi import request_cache
from ocmconsole.kubeapi.access.actor import MASTERS, Actor
from registration.approvals import services
from registration.models import CertificateSigningRequest
from tests import factories as make
from tests.entry_points import rights, scene
from tests.entry_points.scene import Waiting
from tests.entry_points.ways import COMPLETE_WAYS, AdminAction, AdminForm, Browser, Page, Refused, Way

pytestmark = pytest.mark.django_db

STALE = "The request changed while you were reading it; nothing was done."


def another_key(waiting: Waiting) -> Waiting:
    return scene.ask_again(Waiting(waiting.name, f"{waiting.name}-00002"))


def another_label(waiting: Waiting) -> None:
    make.label(waiting.name, env="prod")


def decided_elsewhere(waiting: Waiting) -> None:
    make.accept(waiting.name)
    make.settle()


CHANGES = [another_key, another_label, decided_elsewhere]


@pytest.fixture
def waiting(ana: Any) -> Waiting:
    waiting = scene.ask("site-one")
    rights.by_guardian(ana, waiting)
    return waiting


@pytest.mark.parametrize("act", ["accept", "decline"])
@pytest.mark.parametrize("happens", CHANGES)
def test_a_stale_page_does_nothing_and_says_so(
    ana: Any, waiting: Waiting, act: str, happens: Callable[[Waiting], object]
) -> None:
    browser = Browser(ana)
    form = browser.open(f"/approvals/{waiting.name}/").form(f"/approvals/{waiting.name}/{act}/")
    happens(waiting)
    before = scene.records()
    with pytest.raises(Refused, match=STALE):
        browser.send(form, reason="Not ours.")
    assert scene.records() == before


def test_what_the_hub_itself_writes_while_a_cluster_is_let_in_again_refuses_nobody(
    ana: Any, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.accept(waiting.name)
    make.accept(waiting.name, accepts=False)
    note = services._note_evidence
    written: list[str] = []

    def while_the_hub_writes(*given: Any) -> None:
        note(*given)
        if len(written) < 2:
            written.append(waiting.name)
            with request_cache.forgetting():  # as another process does
                make.said(waiting.name, "ManagedClusterConditionAvailable", ("Unknown", "False")[len(written) - 1])

    monkeypatch.setattr(services, "_note_evidence", while_the_hub_writes)
    browser = Browser(ana)
    browser.send(browser.open(f"/clusters/{waiting.name}/reconnect/").form(""))
    assert written == [waiting.name] * 2
    assert make.stored(waiting.name).hub_accepts_client


def test_the_page_that_follows_decides_about_what_is_there_now(ana: Any, waiting: Waiting) -> None:
    browser = Browser(ana)
    form = browser.open(f"/approvals/{waiting.name}/").form(f"/approvals/{waiting.name}/accept/")
    another_label(waiting)
    with pytest.raises(Refused, match=STALE):
        browser.send(form)
    Page().accept(ana, waiting)
    assert scene.is_accepted(waiting)


@pytest.mark.parametrize("values", [{"cluster_rv": "x"}, {"cluster_rv": ""}, {"csr_rvs": ""}, {"csr_rvs": "a=b,\0"}])
def test_a_damaged_page_does_nothing(ana: Any, waiting: Waiting, values: dict[str, str]) -> None:
    browser = Browser(ana)
    form = browser.open(f"/approvals/{waiting.name}/").form(f"/approvals/{waiting.name}/accept/")
    before = scene.records()
    with pytest.raises(Refused, match=STALE):
        browser.send(form, **values)
    assert scene.records() == before


@pytest.mark.parametrize("act", ["accept", "decline"])
@pytest.mark.parametrize("happens", CHANGES)
def test_an_act_of_django_admin_decides_about_what_its_page_showed(
    ana: Any, waiting: Waiting, act: str, happens: Callable[[Waiting], object]
) -> None:
    browser, form = AdminAction().asked(ana, waiting, act)
    happens(waiting)
    before = scene.records()
    with pytest.raises(Refused, match=STALE):
        browser.send(form, reason="Not ours.")
    assert scene.records() == before


@pytest.mark.parametrize("version", ["", "cluster_rv=x", "cluster_rv=1&csr_rvs=a%3Db"])
def test_an_act_of_django_admin_that_names_no_versions_does_nothing(ana: Any, waiting: Waiting, version: str) -> None:
    browser, form = AdminAction().asked(ana, waiting, "accept")
    (field,) = (name for name in form.fields if name.startswith("seen-"))
    assert waiting.request in form.fields[field]
    before = scene.records()
    with pytest.raises(Refused, match=f"{STALE}|This page is damaged"):
        browser.send(form, **{field: version})
    assert scene.records() == before


@pytest.mark.contract("W14")
def test_a_stale_form_of_django_admin_saves_nothing(ana: Any, waiting: Waiting) -> None:
    browser, admin = Browser(ana), AdminForm()
    form = admin.opened(browser, waiting)
    doc = yaml.safe_load(form.fields["document"])
    doc["spec"]["hubAcceptsClient"] = True
    another_label(waiting)
    before = scene.records()
    with pytest.raises(Refused, match="the object has been modified"):
        browser.send(form, document=yaml.safe_dump(doc))
    assert scene.records() == before


@pytest.mark.contract("D3", "H7")
def test_a_busy_agent_cannot_make_the_page_too_stale_to_disconnect_it(ana: Any, waiting: Waiting) -> None:
    make.accept(waiting.name)
    make.settle()
    browser = Browser(ana)
    form = browser.open(f"/clusters/{waiting.name}/disconnect/").form(f"/clusters/{waiting.name}/disconnect/")
    make.available(waiting.name)
    browser.send(form)
    assert not scene.is_accepted(waiting)


@pytest.mark.contract("K7", "K11")
@pytest.mark.parametrize("way", COMPLETE_WAYS.values(), ids=COMPLETE_WAYS)
def test_of_two_keys_of_one_requester_the_newest_counts(ana: Any, waiting: Waiting, way: Way) -> None:
    newest = another_key(waiting)
    way.accept(ana, waiting)
    assert not CertificateSigningRequest.objects.filter(name=waiting.request).exists()
    assert scene.state_of(newest) == "Approved"


@pytest.mark.contract("K7")
@pytest.mark.parametrize("way", COMPLETE_WAYS.values(), ids=COMPLETE_WAYS)
def test_no_way_chooses_between_two_requesters(ana: Any, waiting: Waiting, way: Way) -> None:
    scene.ask_again(Waiting(waiting.name, f"{waiting.name}-00002"), by=Actor("mallory", groups=(MASTERS,)))
    before = scene.records()
    with pytest.raises(Refused):
        way.accept(ana, waiting)
    assert scene.records() == before
    assert not scene.is_accepted(waiting)
