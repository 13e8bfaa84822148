"""Preferences: kept with the account, shown on every page."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ocmconsole.console.preferences import USUAL

pytestmark = pytest.mark.django_db


@pytest.fixture
def ana() -> User:
    return User.objects.create_user("ana")


def browser_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_what_is_chosen_in_one_browser_holds_in_the_other(ana: User) -> None:
    browser_of(ana).post(
        "/preferences/", USUAL | {"theme": "dark", "contrast": "high", "density": "compact", "times": "utc"}
    )
    page = browser_of(ana).get("/help/").content
    for text in (b'data-theme="dark"', b'data-contrast="high"', b'data-density="compact"', b'data-times="utc"'):
        assert text in page
    assert b"data-theme" not in browser_of(User.objects.create_user("raj")).get("/help/").content.split(b">")[1]


def test_a_browsers_own_theme_goes_before_until_preferences_are_saved(ana: User) -> None:
    browser = browser_of(ana)
    browser.post("/preferences/", USUAL | {"theme": "dark"})
    browser.cookies["theme"] = "light"
    assert b'data-theme="light"' in browser.get("/help/").content
    browser.post("/preferences/", USUAL | {"theme": "dark"})
    assert b'data-theme="dark"' in browser.get("/help/").content


def test_what_is_no_choice_is_refused_beside_its_field(ana: User) -> None:
    answer = browser_of(ana).post("/preferences/", USUAL | {"theme": '"><script>'})
    assert answer.status_code == 400
    assert b"Select a valid choice" in answer.content
    assert b'"><script>' not in answer.content


def test_shortcuts_are_off_and_live_updates_on_unless_chosen_otherwise(ana: User) -> None:
    from django.test import RequestFactory

    from ocmconsole.console import preferences

    request = RequestFactory().get("/")
    request.user = ana
    assert preferences.preferences_of(request) == dict.fromkeys(preferences.USUAL, "")
    browser_of(ana).post("/preferences/", USUAL | {"shortcuts": "on", "live": "off"})
    assert preferences.preferences_of(request) | {"shortcuts": "on", "live": "off"} == preferences.preferences_of(
        request
    )
