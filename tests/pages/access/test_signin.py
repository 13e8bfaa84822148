"""Signing in: who gets in, who is held off, how long it lasts, and what the audit holds of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import HttpRequest
from django.test import Client
from django.urls import path as route
from django.utils import timezone

from ocmconsole import urls as console
from ocmconsole.accounts import people
from ocmconsole.kubeapi.access import session
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.signin import lifetime, recently_authenticated, single_sign_on
from tests import factories as make
from tests.actors import grow_old

pytestmark = pytest.mark.django_db

# Routes of a hub with a provider.
urlpatterns = [*console.urlpatterns, route("login/sso/", single_sign_on.leave, name="sso")]

PASSWORD = "a long enough password"


@pytest.fixture(autouse=True)
def _no_attempts_yet() -> None:
    cache.clear()


@pytest.fixture
def ana() -> User:
    return User.objects.create_user("ana", password=PASSWORD)


def sign_in(client: Client, name: str = "ana", password: str = PASSWORD, **more: Any) -> Any:
    return client.post("/login/", {"login": name, "password": password, **more})


def acts(**columns: Any) -> list[tuple[str, str, str, str]]:
    events = AuditEvent.objects.filter(**columns).order_by("pk")
    return [(event.outcome, event.act, event.name, event.reason) for event in events]


# ---------------------------------------------------------------- in and out


@pytest.mark.contract("D11")
def test_who_knows_name_and_password_gets_in_and_the_audit_says_so(client: Client, ana: User) -> None:
    answer = sign_in(client, next="/clusters/?q=a")
    assert (answer.status_code, answer["Location"]) == (302, "/clusters/?q=a")
    assert client.get("/account/").status_code == 200
    client.post("/logout/")
    assert client.get("/account/")["Location"] == "/login/?next=/account/"
    assert acts(user="ana") == [
        ("allowed", "session:create", "ana", "password"),
        ("allowed", "session:delete", "ana", ""),
    ]
    first = AuditEvent.objects.filter(act="session:create").get()
    assert (first.entry_point, first.address, first.credential) == ("web", "127.0.0.1", f"session:{ana.pk}")


@pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_nobody_is_sent_elsewhere_after_signing_in(client: Client, ana: User, place: str) -> None:
    assert sign_in(client, next=place)["Location"].startswith("/")
    assert "evil" not in sign_in(Client(), next=place)["Location"]


@pytest.mark.contract("D11")
def test_a_refusal_names_only_accounts_that_exist(client: Client, ana: User) -> None:
    for name in ("ana", "nobody-1", "nobody-2", "na\x00me", "ana"):
        answer = sign_in(client, name, "wrong")
        assert answer.status_code == 400
        assert b"correct username and password" in answer.content or b"Null characters" in answer.content
    rows = AuditEvent.objects.filter(outcome="denied")
    assert set(rows.values_list("act", "name", "user")) == {
        ("session:create", "ana", "system:anonymous"),
        ("session:create", "", "system:anonymous"),
    }
    assert rows.count() <= 4  # a row a minute
    assert "nobody" not in json.dumps(list(rows.values("name", "reason", "diff", "user")))


def test_guessing_is_held_off_even_for_the_right_password(client: Client, ana: User) -> None:
    for _ in range(5):
        sign_in(client, "ana", "wrong")
    answer = sign_in(client)
    assert answer.status_code == 400
    assert b"Too many failed attempts" in answer.content
    assert "too many failed attempts" in {reason for _, _, _, reason in acts(outcome="denied")}
    assert sign_in(Client(REMOTE_ADDR="10.1.1.1")).status_code == 400  # by name, not only by address
    with time_machine.travel(timezone.now() + timedelta(minutes=6)):
        assert sign_in(client).status_code == 302


def test_too_many_requests_are_answered_with_a_time_to_wait(client: Client) -> None:
    for _ in range(60):
        client.post("/login/", {})
    answer = client.post("/login/", {})
    assert (answer.status_code, answer["Retry-After"]) == (429, "60")
    assert b"Try again in 60 seconds" in answer.content


def test_a_deactivated_person_stays_out_and_loses_the_session(client: Client, ana: User) -> None:
    sign_in(client)
    _switch(ana, on=False)
    assert client.get("/account/").status_code == 302
    assert b"correct username and password" in sign_in(Client()).content


def test_who_is_active_again_signs_in_anew(client: Client, ana: User) -> None:
    sign_in(client)
    assert client.get("/account/").status_code == 200
    _switch(ana, on=False)
    _switch(ana, on=True)
    assert client.get("/account/").status_code == 302
    assert sign_in(client).status_code == 302
    assert client.get("/account/").status_code == 200


def _switch(user: User, *, on: bool) -> None:
    user.is_active = on
    people.save_user(make.ADMIN, user)


def test_nobody_signs_up(client: Client) -> None:
    assert client.get("/signup/").status_code == 404
    assert client.get("/login/sso/").status_code == 404  # no provider is set


def test_django_admin_has_no_sign_in_page_of_its_own(client: Client, ana: User) -> None:
    answer = client.get("/admin/login/")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login/")
    User.objects.filter(pk=ana.pk).update(is_staff=True)
    sign_in(client)
    client.post("/admin/logout/")
    assert acts(act="session:delete") == [("allowed", "session:delete", "ana", "")]


def test_what_signs_in_as_somebody_is_not_edited_in_django_admin(admin_client: Client) -> None:
    for path in (
        "mfa/authenticator",
        "socialaccount/socialaccount",
        "account/emailaddress",
        "usersessions/usersession",
    ):
        assert admin_client.get(f"/admin/{path}/").status_code == 404


# ---------------------------------------------------------------- how long


def test_a_session_ends_when_nobody_is_there_and_after_a_day_in_any_case(client: Client, ana: User) -> None:
    start = timezone.now()
    with time_machine.travel(start, tick=False) as clock:
        sign_in(client)
        while client.get("/account/", headers={"Sec-Fetch-Mode": "navigate"}).status_code == 200:
            clock.shift(timedelta(minutes=50))
        lasted = timezone.now() - start
    assert timedelta(hours=23) < lasted <= timedelta(hours=25)


def test_what_a_page_does_by_itself_keeps_no_session(client: Client, ana: User) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        sign_in(client)
        client.get("/account/")
        clock.shift(timedelta(minutes=50))
        assert client.get("/account/", headers={"Sec-Fetch-Mode": "cors"}).status_code == 200
        assert client.get("/session/", headers={"Sec-Fetch-Mode": "cors"}).json() == {
            "seconds": 600,
            "at_last": 24 * 3600 - 3000,
        }
        clock.shift(timedelta(minutes=11))
        assert client.get("/account/", headers={"Sec-Fetch-Mode": "cors"}).status_code == 302


def test_a_person_who_is_there_makes_the_session_longer(client: Client, ana: User) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        sign_in(client)
        client.get("/account/")
        clock.shift(timedelta(minutes=59))
        assert client.get("/session/extend/").status_code == 405
        assert client.post("/session/extend/").json()["seconds"] == 3600
        clock.shift(timedelta(minutes=59))
        assert client.get("/account/").status_code == 200


# ---------------------------------------------------------------- what signs in


def confirm(client: Client) -> None:
    assert client.post("/login/again/", {"password": PASSWORD, "next": "/account/"}).status_code == 302


@pytest.mark.contract("D11")
def test_a_new_password_ends_other_sessions_and_is_in_the_audit_without_itself(client: Client, ana: User) -> None:
    other = Client()
    sign_in(client)
    sign_in(other)
    wanted = {"oldpassword": "a guess", "password1": "seven new words here", "password2": "seven new words here"}
    assert client.post("/account/password/", wanted).status_code == 400
    assert client.post("/account/password/", wanted | {"oldpassword": PASSWORD})["Location"] == "/account/"
    assert client.get("/account/").status_code == 200
    assert other.get("/account/").status_code == 302
    (event,) = AuditEvent.objects.filter(act="user:update")
    assert (event.user, event.entry_point, event.diff) == ("ana", "web", [{"path": "password"}])
    ana.refresh_from_db()
    assert ana.check_password("seven new words here")


def totp_code(secret: str) -> str:
    _, counter, *_ = yield_hotp_counters_from_time()  # the one before ends within half a minute
    return str(format_hotp_value(hotp_value(secret, counter)))


def add_app(client: Client) -> str:
    secret: str = client.get("/account/app/activate/").context["form"].secret
    assert client.post("/account/app/activate/", {"code": totp_code(secret)}).status_code == 302
    return secret


@pytest.mark.contract("D11")
def test_a_second_factor_is_asked_for_and_recovery_codes_replace_it_once(
    client: Client, ana: User, django_capture_on_commit_callbacks: Any
) -> None:
    sign_in(client)
    grow_old(client)
    assert client.get("/account/app/activate/")["Location"].startswith("/login/again/")
    confirm(client)
    with django_capture_on_commit_callbacks(execute=True):
        add_app(client)
    page = client.get("/account/recovery/")
    code = page.context["unused_codes"][0]
    assert code.encode() in page.content
    assert code.encode() not in client.get("/account/recovery/").content  # shown once

    stranger = Client()
    assert sign_in(stranger)["Location"] == "/login/second/"
    assert stranger.get("/account/").status_code == 302  # not yet
    asked = stranger.get("/login/second/").content.decode()
    assert "What you showed was right. This account also asks for" in asked  # it may have been a single sign-on
    assert stranger.post("/login/second/", {"code": "000000"}).status_code == 200
    assert stranger.post("/login/second/", {"code": code}).status_code == 302
    assert stranger.get("/account/").status_code == 200
    again = Client()
    sign_in(again)
    assert again.post("/login/second/", {"code": code}).status_code == 200
    assert again.get("/account/").status_code == 302

    assert ("allowed", "session:create", "ana", "password, recovery codes") in acts()
    assert ("denied", "session:create", "ana", "the second factor was wrong") in acts()
    added = AuditEvent.objects.filter(act="user:update").values_list("diff", flat=True)
    assert {entry["path"] for diff in added for entry in diff} == {"authenticator app", "recovery codes"}


@pytest.mark.parametrize(
    "credential", ["", "x", "null", "1", "[]", "{}", '{"response":null}', '{"id":1}', '{"id":"a","rawId":"a","response":{}}', '{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":"AA","authenticatorData":"AA","signature":"AA","userHandle":"AA"}}']
)  # fmt: skip
def test_what_is_no_passkey_opens_nothing(client: Client, ana: User, credential: str) -> None:
    client.get("/account/passkeys/login/", headers={"Accept": "application/json"})
    answer = client.post("/account/passkeys/login/", {"credential": credential})
    assert (answer.status_code, answer["Location"]) == (302, "/login/")
    assert client.get("/account/").status_code == 302
    sign_in(client)
    confirm(client)
    client.get("/account/passkeys/add/")
    assert client.post("/account/passkeys/add/", {"credential": credential, "name": "x"}).status_code == 200
    assert not Authenticator.objects.exists()


@pytest.mark.contract("D23")
def test_a_body_counts_for_the_person_whatever_else_the_cookies_hold(client: Client, ana: User) -> None:
    sign_in(client)
    key = client.cookies["ocmconsole_session"].value
    sent = [f"ocmconsole_session={key}", f"a=b; ocmconsole_session={key}; c=d", "ocmconsole_session=another"]
    known = [session.known_as({"HTTP_COOKIE": cookie}) for cookie in sent]
    assert known == [f"session:{ana.pk}", f"session:{ana.pk}", ""]


@pytest.mark.contract("D11")
def test_other_sessions_are_ended_at_once(client: Client, ana: User) -> None:
    other = Client()
    sign_in(client)
    sign_in(other)
    assert client.get("/account/sessions/").context["session_count"] == 2
    client.post("/account/sessions/")
    assert other.get("/account/").status_code == 302
    assert ("allowed", "session:delete", "ana", "1 other session") in acts()


# ---------------------------------------------------------------- step-up


def request_of(client: Client, user: User) -> HttpRequest:
    request = HttpRequest()
    request.session, request.user = client.session, user
    return request


def test_a_sign_in_is_a_proof_for_five_minutes_and_a_session_alone_is_none(client: Client, ana: User) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        sign_in(client)
        assert recently_authenticated(request_of(client, ana))
        clock.shift(timedelta(minutes=6))
        assert not recently_authenticated(request_of(client, ana))
        confirm(client)
        assert recently_authenticated(request_of(client, ana))
        clock.shift(timedelta(minutes=6))
        assert not recently_authenticated(request_of(client, ana))


def test_who_has_no_password_here_gives_the_proof_by_signing_in(client: Client) -> None:
    sso = sso_person(client, ago=timedelta(minutes=6))
    assert not recently_authenticated(request_of(client, sso))
    client.logout()
    client.force_login(sso)
    assert recently_authenticated(request_of(client, sso))
    assert client.get("/account/password/").status_code == 404


def sso_person(client: Client, *, ago: timedelta) -> User:
    """Signed in through a provider so long ago; neither password nor factor is here."""
    user = User.objects.create(username="sso", password="!unusable")
    client.force_login(user)
    session = client.session
    at = (timezone.now() - ago).timestamp()
    session["account_authentication_methods"] = [{"method": "socialaccount", "at": at}]
    session["account_authentication_methods_user"] = str(user.pk)
    session[lifetime.BEGAN] = at
    session.save()
    return user


FACTORS = [
    *("app/activate/", "app/deactivate/", "passkeys/add/", "passkeys/keys/1/edit/", "passkeys/keys/1/remove/"),
    *("recovery/", "recovery/generate/", "recovery/download/"),
]


@pytest.mark.parametrize("place", FACTORS)
def test_a_session_alone_reaches_nothing_that_signs_in(client: Client, ana: User, place: str) -> None:
    assert client.get(f"/account/{place}")["Location"] == f"/login/?next=/account/{place}"
    sso_person(client, ago=timedelta(minutes=6))
    for answer in (client.get(f"/account/{place}"), client.post(f"/account/{place}", {"code": "000000"})):
        assert answer["Location"].startswith("/login/again/?next=%2Faccount%2F")  # which says no: nothing is set up
    assert not Authenticator.objects.exists()


def test_an_account_is_connected_with_the_provider_that_is_set_and_no_other(client: Client, settings: Any) -> None:
    settings.OCMCONSOLE_OIDC_NAME = "Example"
    account = SocialAccount.objects.create(user=sso_person(client, ago=timedelta()), provider="old", uid="1")
    for issuer, provider, of in [
        ("", "", "old"),
        ("https://new", "new", "old"),
        ("", "", ""),
        ("https://new", "new", "new"),
    ]:
        settings.OCMCONSOLE_OIDC_ISSUER, settings.OCMCONSOLE_OIDC_ID = issuer, provider
        SocialAccount.objects.filter(pk=account.pk).update(provider=of)
        assert ("connected with Example" in client.get("/account/").content.decode()) == (of == "new")


def test_who_removes_a_passkey_reads_what_signs_in_without_it(client: Client, ana: User) -> None:
    sign_in(client)
    key = Authenticator.objects.create(user=ana, type=Authenticator.Type.WEBAUTHN, data={"name": "key"})
    page = client.get(f"/account/passkeys/keys/{key.pk}/remove/").content.decode()
    assert "your password alone signs you in, and your recovery codes end too" in page


def test_who_signs_in_elsewhere_is_sent_there(client: Client, settings: Any) -> None:
    settings.OCMCONSOLE_OIDC_ISSUER, settings.ROOT_URLCONF = "https://login.example.com", __name__
    sso_person(client, ago=timedelta(minutes=6))
    place = client.get("/account/passkeys/add/")["Location"]
    assert place == "/login/sso/?next=%2Faccount%2Fpasskeys%2Fadd%2F&process=redirect"


def test_who_has_just_signed_in_elsewhere_may_add_a_factor(client: Client) -> None:
    sso_person(client, ago=timedelta(minutes=6))
    denied = client.get(client.get("/account/app/activate/")["Location"])
    assert denied.status_code == 403
    assert client.get("/account/passkeys/").status_code == 200  # a list of names
    User.objects.all().delete()
    sso_person(client, ago=timedelta(minutes=4))
    add_app(client)
    assert Authenticator.objects.filter(user__username="sso", type="totp").exists()
