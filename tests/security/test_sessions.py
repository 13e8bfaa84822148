"""Sessions: what the database holds of them signs nobody in (THREAT_MODEL.md, "Stolen sessions")."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import time_machine
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.models import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db

PASSWORD = "a long enough password"


@pytest.fixture
def ana() -> User:
    return User.objects.create_user("ana", password=PASSWORD)


def signed_in(name: str = "ana", **headers: str) -> Client:
    client = Client(headers=headers)
    assert client.post("/login/", {"login": name, "password": PASSWORD}).status_code == 302
    return client


def everything_stored() -> Iterator[str]:
    """Each value of each table, as text."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")  # noqa: S608 - names of tables, quoted
            for row in cursor.fetchall():
                yield from (str(value) for value in row)


def test_no_key_of_a_session_is_in_the_database(ana: User) -> None:
    client = signed_in()
    client.get("/account/")
    key = client.cookies[settings.SESSION_COOKIE_NAME].value
    assert len(key) >= 32
    assert not [value for value in everything_stored() if key in value]


def test_nothing_that_the_database_holds_opens_a_session(ana: User) -> None:
    client = signed_in()
    assert client.get("/account/").status_code == 200
    for value in {value for value in everything_stored() if 8 <= len(value) <= 128 and value.isalnum()}:
        thief = Client()
        thief.cookies[settings.SESSION_COOKIE_NAME] = value
        assert thief.get("/account/").status_code == 302, value


def test_the_list_of_sessions_shows_browser_and_address_and_which_is_this_one(ana: User) -> None:
    here = signed_in(user_agent="Firefox of ana")
    signed_in(user_agent="Chrome elsewhere")
    text = here.get("/account/sessions/").content.decode()
    assert text.index("Firefox of ana") < text.index("(this one)") < text.index("Chrome elsewhere")
    assert "127.0.0.1" in text


def test_a_session_from_before_a_new_password_is_not_listed(ana: User) -> None:
    signed_in()
    new = "another long password"
    ana.set_password(new)
    ana.save()
    fresh = Client()
    fresh.post("/login/", {"login": "ana", "password": new})
    assert fresh.get("/account/sessions/").context["session_count"] == 1


def test_a_session_that_ended_for_want_of_anybody_is_neither_listed_nor_counted(ana: User, admin_user: User) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        signed_in(user_agent="Left alone")
        clock.shift(timedelta(minutes=61))
        here = signed_in(user_agent="Firefox of ana")
        assert Session.objects.filter(user=ana).count() == 2  # until expire_date
        page = here.get("/account/sessions/")
        assert "Left alone" not in page.content.decode()
        assert page.context["session_count"] == here.get("/account/").context["session_count"] == 1
        assert states(admin_user)["Left alone"] == "Stored"
        assert states(admin_user)["Firefox of ana"] == "Signed in"
        signed_in(user_agent="Chrome elsewhere")
        here.post("/account/sessions/")
    assert Session.objects.filter(user=ana).count() == 1
    assert AuditEvent.objects.get(act="session:delete").reason == "1 other session"


def test_django_admin_calls_nobody_signed_in_who_is_deactivated(ana: User, admin_user: User) -> None:
    signed_in(user_agent="Firefox of ana")
    User.objects.filter(pk=ana.pk).update(is_active=False)
    assert states(admin_user)["Firefox of ana"] == "Stored"


def states(admin: User) -> dict[str, str]:
    """By browser, as Django admin shows them."""
    root = Client()
    root.force_login(admin)
    text = root.get("/admin/ocmconsole/session/").content.decode()
    rows = re.findall(
        r'class="field-state[^"]*">(.*?)</td>.*?class="field-user_agent[^"]*">(.*?)</td>', text, re.DOTALL
    )
    return {browser: re.sub(r"<[^>]*>", "", state).strip() for state, browser in rows}


def test_a_deleted_account_takes_its_sessions_along(ana: User) -> None:
    client = signed_in()
    ana.delete()
    assert not Session.objects.exists()
    assert client.get("/account/").status_code == 302


def test_expired_sessions_leave_the_database_with_the_next_sign_in(ana: User) -> None:
    signed_in()
    Session.objects.update(expire_date="2020-01-01T00:00:00Z")
    signed_in()
    assert Session.objects.count() == 1
