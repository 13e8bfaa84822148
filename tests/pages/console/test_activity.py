"""Activity: it opens with what people did, names every act, and folds what the hub wrote itself."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import audit, audit_acts
from tests import factories as make
from tests.actors import signed_in

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D11")]


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True, is_staff=True)


def stream(client: Client, query: str = "") -> str:
    html = client.get(f"/activity/{query}").content.decode()
    return html[html.index('id="stream"') :]


def note(
    act: str,
    *,
    user: str = "ana",
    entry_point: EntryPoint = EntryPoint.WEB,
    at: datetime | None = None,
    name: str = "x",
) -> None:
    """An entry of the audit as a write of this act leaves it."""
    resource = f"{act.partition(':')[0]}s"
    audit.entry_of(
        Actor(user=user, entry_point=entry_point),
        act,
        time=at or timezone.now(),
        verb="update",
        resource=resource,
        name=name,
    ).save()


def test_an_act_without_a_sentence_is_not_stored() -> None:
    with pytest.raises(LookupError, match="cluster:teleport"):
        audit.entry_of(Actor("ana"), "cluster:teleport")


def test_generic_verbs_name_only_what_is_a_kind() -> None:
    """What is no kind has sentences of its own: a sign-in was shown as "Created users ana"."""
    of_kinds = {kind.kind.lower() for kind in kinds.all_kinds()}
    for name, act in audit_acts.declared().items():
        assert name.partition(":")[0] in of_kinds or act.done not in audit_acts.VERBS.values(), name
    assert audit_acts.done_sentence("session:update") is None


def test_sentences_of_different_acts_differ() -> None:
    sentences = [act.done for act in audit_acts.declared().values()]
    assert len(sentences) == len(set(sentences))


def test_signing_in_is_shown_as_signing_in(client: Client, admin: Client) -> None:
    User.objects.create_user("lea", password="a good password")
    assert client.post("/login/", {"login": "lea", "password": "a good password"}).status_code == 302
    client.post("/login/", {"login": "lea", "password": "a bad password"})
    found = stream(admin, "?name=lea")
    assert "<b>Signed in</b>" in found
    assert "Created" not in found


def test_it_opens_with_what_people_did(admin: Client) -> None:
    make.cluster("s-1", accepted=True)
    make.settle()
    note("managedcluster:disconnect", name="by-a-person")
    note(
        "managedcluster:update",
        user="system:open-cluster-management:s-1:abc",
        entry_point=EntryPoint.API,
        name="by-an-agent",
    )
    assert AuditEvent.objects.filter(entry_point=EntryPoint.CONTROLLER).exists()
    first = stream(admin)
    assert "by-a-person" in first
    assert "by-an-agent" not in first
    assert "system:ocmconsole" not in first
    everything = stream(admin, "?source=all")
    assert "by-an-agent" in everything
    assert "writes of the hub itself" in everything


def test_a_filter_looks_through_everything(admin: Client) -> None:
    note("managedcluster:update", user="system:open-cluster-management:s-1:abc", entry_point=EntryPoint.API, name="s-1")
    assert "s-1" in stream(admin, "?name=s-1")


def test_writes_of_the_hub_are_folded_between_those_of_people(admin: Client) -> None:
    now = timezone.now()
    entry_points = [
        EntryPoint.CONTROLLER,
        EntryPoint.CONTROLLER,
        EntryPoint.WEB,
        EntryPoint.CONTROLLER,
        EntryPoint.CONTROLLER,
        EntryPoint.CONTROLLER,
    ]
    for ago, entry_point in enumerate(entry_points):
        note("managedcluster:update", entry_point=entry_point, at=now - timedelta(seconds=ago), name="z-1")
    folds = re.findall(r"<b>(\d+) writes of the hub itself", stream(admin, "?name=z-1"))
    assert folds == ["2", "3"]


def test_who_accepted_in_a_month_is_two_clicks(admin: Client) -> None:
    first = timezone.now().astimezone(UTC).replace(day=1, hour=12)
    last_month = (first - timedelta(days=3)).replace(hour=12)
    note("managedcluster:accept", at=first, name="new")
    note("managedcluster:accept", at=last_month, name="old")
    note("managedcluster:decline", at=last_month, name="other")
    html = admin.get("/activity/").content.decode()
    accepted = link(html, "Accepted")
    html = admin.get(f"/activity/{accepted}").content.decode()
    month = link(html, f"{last_month:%B}")
    found = stream(admin, month)
    assert "old" in found
    assert not re.search(r"ManagedCluster (new|other)<", found)
    assert "<b>Accepted</b>" in found


def link(html: str, text: str) -> str:
    found = re.search(rf'<a class="oc-chip" href="([^"]+)"[^>]*>{text}</a>', html)
    assert found, text
    return found[1].replace("&amp;", "&")
