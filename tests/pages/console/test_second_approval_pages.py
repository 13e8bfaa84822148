"""Second approvals as pages: who sees one, what it says, and what its forms do."""

from __future__ import annotations

import html
import re
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ocmconsole.core.models import BootstrapToken
from ocmconsole.second_approval import decisions, gate
from ocmconsole.second_approval.models import ProposedAct
from ocmconsole.second_approval.rules import parse_rules
from registration.models import ApprovalPolicy
from tests import factories as make
from tests.actors import signed_in
from tests.entry_points import rights, scene
from tests.entry_points.ways import Browser, Refused
from tests.pages.joining import hub
from tests.security.test_second_approval import NAME, as_of, entitled, known, propose

pytestmark = pytest.mark.django_db


@pytest.fixture
def found(settings: Any) -> ProposedAct:
    settings.OCMCONSOLE_SECOND_APPROVAL = parse_rules(["key-override", "approval-policy"])
    waiting = known()
    ana = entitled("ana", waiting)
    entitled("ben", waiting)
    return propose(ana)


def text(client: Client, path: str) -> str:
    return html.unescape(
        re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", client.get(path).content.decode().replace("<wbr>", "")))
    )


def test_who_may_do_it_sees_it_and_nobody_else(found: ProposedAct) -> None:
    place = f"/second-approval/{found.pk}/"
    assert signed_in("mallory").get(place).status_code == 404
    assert signed_in("mallory").post(f"{place}approve/", {"digest": found.digest}).status_code == 404
    assert "Nothing waits for another person" in text(signed_in("mallory"), "/second-approval/")
    assert "Waits for you" in text(signed_in("ben"), "/second-approval/")
    shown = text(signed_in("ben"), place)
    for part in (found.digest, found.arguments["key"], found.evidence["Request"]["uid"], found.reason):
        assert part in shown
    assert "It takes another person." in text(signed_in("ben"), "/attention/")
    assert "It takes another person." not in text(signed_in("ana"), "/attention/")


def test_the_page_approves_what_it_shows_and_has_it_done(found: ProposedAct) -> None:
    ben, place = signed_in("ben"), f"/second-approval/{found.pk}/"
    refused = ben.post(f"{place}approve/", {"digest": "0" * 64})
    assert (refused.status_code, "not what you have seen" in refused.content.decode()) == (409, True)
    assert ben.post(f"{place}approve/", {"digest": found.digest})["Location"] == place
    found.refresh_from_db()
    assert (found.state, found.closed_by) == (ProposedAct.State.DONE, "ben")
    assert "Carried out by ben" in text(ben, place)


def test_ones_own_is_refused_and_taken_back_with_a_reason(found: ProposedAct) -> None:
    ana, place = signed_in("ana"), f"/second-approval/{found.pk}/"
    assert ana.post(f"{place}approve/", {"digest": found.digest}).status_code == 403
    assert ana.post(f"{place}decline/", {"reason": " "}).status_code == 400
    assert ana.post(f"{place}decline/", {"reason": "wrong key"})["Location"] == place
    assert "Declined by ana" in text(ana, place)
    assert ana.post(f"{place}decline/", {"reason": "again"}).status_code == 409
    assert "wrong key" in text(ana, "/second-approval/closed/")


def test_what_has_changed_says_so_and_is_not_approved(found: ProposedAct) -> None:
    ben, place = signed_in("ben"), f"/second-approval/{found.pk}/"
    scene.ask_again(scene.Waiting(NAME, f"{NAME}-00003"), by=as_of(User.objects.create_superuser("root-2")))
    assert "This is no longer so" in text(ben, place)
    assert ben.post(f"{place}approve/", {"digest": found.digest}).status_code == 409
    assert "has changed, which showed" in text(ben, place)


def test_one_that_was_approved_and_not_done_is_carried_out_by_either(found: ProposedAct) -> None:
    decisions.approve(as_of(User.objects.get(username="ben")), found.pk, found.digest)
    ana, place = signed_in("ana"), f"/second-approval/{found.pk}/"
    assert "Enough people approved it, and it is not done." in text(ana, "/attention/")
    assert "Carry it out" in text(ana, place)
    assert ana.post(f"{place}carry-out/", {"digest": found.digest})["Location"] == place
    assert "Carried out by ana" in text(ana, place)


def test_the_page_says_why_somebody_does_not_count(found: ProposedAct) -> None:
    ben, place = signed_in("ben"), f"/second-approval/{found.pk}/"
    User.objects.filter(username="ana").update(is_active=False)
    assert "ana proposed it, and does not count any more" in text(ben, place)
    User.objects.get(username="ana").delete()
    assert "ana proposed it; no account stands behind that, so it does not count" in text(ben, place)
    decisions.approve(as_of(User.objects.get(username="ben")), found.pk, found.digest)
    ProposedAct.objects.filter(pk=found.pk).update(expires=found.proposed_at)
    assert "It was not done before" in text(ben, place)


def test_django_admin_makes_no_superuser_alone(settings: Any) -> None:
    settings.OCMCONSOLE_SECOND_APPROVAL = parse_rules(["superuser"])
    ana, ben = (User.objects.create_superuser(name) for name in ("ana", "ben"))
    li = User.objects.create_user("li", password="a long enough password")

    def send(user: User) -> None:
        browser = Browser(user)
        shown = browser.open(f"/admin/auth/user/{li.pk}/change/")
        form = next(form for form in shown.forms if "username" in form.fields)
        browser.send(form, is_superuser="on", _save="Save")

    with pytest.raises(Refused, match="takes 2 people"):
        send(ana)
    li.refresh_from_db()
    assert not li.is_superuser
    send(ben)
    li.refresh_from_db()
    assert li.is_superuser


def test_a_policy_that_takes_two_is_proposed_by_its_form_and_by_the_wizard(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OCMCONSOLE_SECOND_APPROVAL = parse_rules(["approval-policy"])
    hub(tmp_path, settings)
    ana = signed_in("ana", is_superuser=True)
    ends = (timezone.now() + timedelta(days=7)).date().isoformat()
    form = {"name": "web", "pattern": "eu-*", "max_accepts": "5", "ends": ends, "reason": "shops", "act": "keep"}
    place = ana.post("/policies/-/new/", form)["Location"]
    assert "Let the policy web accept clusters" in text(ana, place)
    path = "/clusters/add/token/?name=eu-9"
    shown = ana.get(path).content.decode()
    once = re.findall(r'name="once" value="([^"]*)"', shown)
    minted = ana.post(path, {"lifetime": "1h", "uses": "1", "bind": "on", "accept": "on", "once": once[:1]})
    assert "not accepted by itself until another person agrees" in html.unescape(minted.content.decode())
    assert not ApprovalPolicy.objects.exists()
    assert ProposedAct.objects.count() == 2
    monkeypatch.setattr(gate, "MOST_WAITING", 2)
    minted = ana.post(path, {"lifetime": "1h", "uses": "1", "bind": "on", "accept": "on", "once": str(uuid.uuid4())})
    assert "2 proposals of" in minted.content.decode()  # and the token is shown all the same
    assert BootstrapToken.objects.latest("created").pk + "." in minted.content.decode()


def queries_of(client: Client, path: str) -> int:
    with CaptureQueriesContext(connection) as asked:
        assert client.get(path).status_code == 200
    return len(asked)


def more_of(found: ProposedAct, number: int) -> None:
    """So many proposals more by the same person, each of another cluster."""
    people = [User.objects.get(username=name) for name in ("ana", "ben")]
    for _ in range(number):
        name = f"other-{uuid.uuid4().hex[:6]}"
        make.cluster(name)
        for each in people:
            rights.by_guardian(each, scene.Waiting(name, ""))
        copy = ProposedAct.objects.get(pk=found.pk)
        copy.pk, copy.subject = None, name
        copy.save()
        policy: dict[str, Any] = {
            "step": "create",
            "expires": "2099-01-01T00:00:00+00:00",
            "reason": "",
            "tokens": ["a"],
        }
        policy |= {"pattern": name, "addresses": "", "clusterset": "", "max_accepts": 1}
        copy.pk, copy.act, copy.arguments = None, "approval-policy", policy
        copy.save()


@pytest.mark.parametrize("name", ["ben", "root"])
def test_a_list_and_its_badge_ask_as_many_queries_for_many_proposals_as_for_few(found: ProposedAct, name: str) -> None:
    User.objects.create_superuser("root")
    client = signed_in(name)
    more_of(found, 2)
    paths = ("/second-approval/", "/second-approval/closed/", "/attention/")
    few = [queries_of(client, path) for path in paths]
    assert few == [queries_of(client, path) for path in paths]  # nothing is read at first alone
    more_of(found, 12)
    assert [queries_of(client, path) for path in paths] == few
    assert len(decisions.needs(as_of(User.objects.get(username=name)))) == 29  # 15 keys and 14 policies
