"""Pages of notifications: for hub admins alone; errors stand beside their fields; a secret is shown once."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ocmconsole.console import activity, checkup
from ocmconsole.kubeapi.models import AuditEvent, Incarnation
from ocmconsole.models import NotificationChannel, NotificationDelivery, NotificationRule
from ocmconsole.notifications import channels, encrypted_columns, services
from ocmconsole.notifications.message_kinds import KINDS, TEST, MessageKind
from tests import factories as make
from tests.actors import ROOT, grow_old, signed_in
from tests.security.test_notifications import fell_silent, receiver, tell

pytestmark = pytest.mark.django_db
__all__ = ["receiver"]  # a fixture

MADE = {"name": "ops", "kind": "webhook", "address": "https://receiver.example/hook-of-the-hub"}


@pytest.fixture
def root() -> Client:
    return signed_in("root", is_superuser=True)


def text(answer: Any) -> str:
    return str(answer.content.decode())


@pytest.mark.contract("D11")
def test_a_channel_is_made_its_secret_is_shown_once_and_the_audit_says_who(root: Client) -> None:
    shown = root.post("/notifications/-/add/", MADE)
    secret = encrypted_columns.read(NotificationChannel.objects.get(), "secret")
    assert secret in text(shown)
    assert "no-store" in shown["Cache-Control"]
    page = text(root.get("/notifications/ops/"))
    assert secret not in page
    assert "receiver.example" in page
    assert "hook-of-the-hub" not in page, "an address may be a secret"
    entry = AuditEvent.objects.get(act="notificationchannel:create")
    assert (entry.user, entry.name) == ("root", "ops")
    assert "ops" in text(root.get("/notifications/"))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "Ops!", "Lower-case letters"),
        ("name", "", "required"),
        ("kind", "pigeon", "not one of the available choices"),
        ("address", "http://receiver.example/", "It must be a https URL"),
    ],
)
def test_what_makes_no_sense_is_said_beside_its_field(field: str, value: str, said: str, root: Client) -> None:
    answer = root.post("/notifications/-/add/", MADE | {field: value})
    assert answer.status_code == 400
    assert any(said in error for error in answer.context["form"].errors[field])
    assert f'id="id_{field}_error"' in text(answer)
    assert not NotificationChannel.objects.exists()


def test_rules_and_address_are_changed_on_the_page_of_the_channel(root: Client) -> None:
    root.post("/notifications/-/add/", MADE)
    make.clusterset("prod")
    wrong = root.post("/notifications/ops/rule/", {"severity": "3", "clusterset": "nowhere"})
    assert wrong.status_code == 400
    assert "There is no set of this name" in text(wrong)
    root.post("/notifications/ops/rule/", {"kinds": ["cluster.silent"], "severity": "3", "clusterset": "prod"})
    page = text(root.get("/notifications/ops/"))
    assert "Fell silent" in page
    first, second = NotificationRule.objects.order_by("pk")
    assert (second.kinds, second.severity, second.clusterset) == (["cluster.silent"], 3, "prod")
    root.post(f"/notifications/ops/rule/{first.pk}/remove/")
    assert NotificationRule.objects.get() == second
    assert root.post(f"/notifications/ops/rule/{first.pk}/remove/").status_code == 404
    wrong = root.post("/notifications/ops/address/", {"address": "ftp://receiver.example"})
    assert wrong.status_code == 400
    assert "It must be a https URL" in text(wrong)
    root.post("/notifications/ops/address/", {"address": "https://other.example/"})
    assert "other.example" in text(root.get("/notifications/ops/"))


def test_a_test_and_a_replay_are_on_the_page_with_what_the_receiver_said(receiver: Any, root: Client) -> None:
    root.post("/notifications/ops/test/")
    receiver.answer = 500
    tell()
    page = text(root.get("/notifications/ops/"))
    assert "It answered 500" in page
    assert "Behind" in page
    assert checkup.hub_warnings()["notifications"] == "ops: it answered 500 (tries: 1)"
    fell_silent("c1")
    receiver.answer = 200
    root.post("/notifications/ops/test/")  # which ends the pause
    assert tell() == 3
    row = NotificationDelivery.objects.order_by("pk")[0]
    root.post(f"/notifications/-/replay/{row.pk}/")
    assert tell() == 1
    assert len(receiver.messages) == 5
    assert receiver.messages[-1] == receiver.messages[0]
    assert "asked for by root" in text(root.get("/notifications/"))
    assert root.post("/notifications/-/replay/999999/").status_code == 404


def state_of(client: Client) -> set[str]:
    """Words of the state of the only channel, on the list and on its page."""
    pages = (text(client.get(path)) for path in ("/notifications/", "/notifications/ops/"))
    words = ("Works", "Not tried yet", "Sends nothing", "Behind")
    return {word for page in pages for word in words if f"{word}</span>" in page}


def test_a_channel_works_when_something_was_taken_and_not_before(receiver: Any, root: Client) -> None:
    assert state_of(root) == {"Not tried yet"}
    assert "A test is on its way" in text(root.post("/notifications/ops/test/", follow=True))
    tell()
    assert state_of(root) == {"Works"}


def test_a_channel_by_which_the_hub_cannot_send_says_why(settings: Any, root: Client) -> None:
    settings.OCMCONSOLE_MAIL = None
    root.post("/notifications/-/add/", MADE | {"kind": "mail", "address": "ops@hub.example"})
    lack = "Mail needs a server: this hub has no OCMCONSOLE_MAIL."
    assert state_of(root) == {"Sends nothing"}
    assert lack in text(root.get("/notifications/"))
    answer = text(root.post("/notifications/ops/test/", follow=True))
    assert f"It waits. {lack}" in answer
    assert "on its way" not in answer


@pytest.mark.contract("D28")
def test_a_restored_hub_promises_no_message(receiver: Any, root: Client) -> None:
    now = timezone.now()
    Incarnation.objects.create(number=2, uid="two", begun_at=now, backup_at=now)
    assert state_of(root) == {"Sends nothing"}
    answer = text(root.post("/notifications/ops/test/", follow=True))
    assert "It waits. This hub was restored and sends nothing until it is activated." in answer
    assert "on its way" not in answer


def test_a_secret_is_replaced_and_the_channel_switched_off_and_deleted(root: Client) -> None:
    root.post("/notifications/-/add/", MADE)
    first = encrypted_columns.read(NotificationChannel.objects.get(), "secret")
    shown = root.post("/notifications/ops/secret/")
    assert encrypted_columns.read(NotificationChannel.objects.get(), "secret") in text(shown)
    assert encrypted_columns.read(NotificationChannel.objects.get(), "former_secret") == first
    assert "Two secrets sign" in text(root.get("/notifications/ops/"))
    root.post("/notifications/ops/forget/")
    assert "One secret signs" in text(root.get("/notifications/ops/"))
    root.post("/notifications/ops/switch/", {"to": "off"})
    services.test_channel(ROOT, "ops")
    assert channels.due() == []
    root.post("/notifications/ops/switch/", {"to": "on"})
    assert len(channels.due()) == 1
    root.post("/notifications/ops/delete/")
    assert not NotificationChannel.objects.exists()


def test_others_find_no_page_and_no_entry_of_the_navigation(root: Client) -> None:
    root.post("/notifications/-/add/", MADE)
    li = signed_in("li", is_staff=True)
    for path in ("", "-/add/", "ops/"):
        assert li.get(f"/notifications/{path}").status_code == 403
    acts = ("-/add/", "ops/address/", "ops/rule/", "ops/secret/", "ops/forget/", "ops/switch/", "ops/test/",
            "ops/delete/", "-/replay/1/", "ops/rule/1/remove/")  # fmt: skip
    for path in acts:
        assert li.post(f"/notifications/{path}", MADE).status_code == 403
    assert "/notifications/" not in text(li.get("/"))
    assert "/notifications/" in text(root.get("/"))


def test_where_the_hub_sends_to_and_what_it_signs_with_need_a_fresh_proof(root: Client) -> None:
    root.post("/notifications/-/add/", MADE)
    grow_old(root)
    for path in ("-/add/", "ops/address/", "ops/secret/"):
        assert root.post(f"/notifications/{path}", MADE | {"name": "more"})["Location"].startswith("/login/again/")
    assert NotificationChannel.objects.count() == 1


@pytest.mark.parametrize("kind", [*KINDS.values(), TEST], ids=lambda kind: kind.name)
def test_a_message_leads_to_a_page(kind: MessageKind, root: Client) -> None:
    assert root.get(kind.path(["c1", "c2"], "prod", 2)).status_code == 200
    make.cluster("c1")
    one = kind.path(["c1"], "", 1)
    assert one == "/second-approval/c1/" or root.get(one).status_code == 200, "those have numbers"


def test_a_message_that_leads_to_the_activity_filters_it() -> None:
    """By what the page knows; other parameters it passes over."""
    filters = [parse_qsl(urlsplit(kind.list_page).query) for kind in KINDS.values() if "/activity/" in kind.list_page]
    assert [("act", "managedcluster:delete")] in filters
    assert {name for each in filters for name, _ in each} <= {*activity.FILTERS}


def test_more_channels_and_messages_ask_no_more_queries(receiver: Any, root: Client) -> None:
    counts = []
    for numbers in (range(1), range(1, 12)):
        for number in numbers:
            services.create_channel(ROOT, f"c{number}", "mail", "a@b.example")
            services.test_channel(ROOT, f"c{number}")
        with CaptureQueriesContext(connection) as queries:
            assert root.get("/notifications/").status_code == 200
        counts.append(len(queries))
    assert counts[1] <= counts[0]
