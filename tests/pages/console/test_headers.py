"""What every answer of the console carries, and what its error pages say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory, override_settings
from django.urls import path
from redis.exceptions import ConnectionError as RedisAwayError

from ocmconsole import urls as console
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import audit

pytestmark = pytest.mark.django_db

LISTENER: Any = {"ocmconsole.listener": "api"}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def raising(make: Callable[[], Exception]) -> Callable[[HttpRequest], HttpResponse]:
    def view(request: HttpRequest) -> HttpResponse:
        raise make()

    return view


def recorded(request: HttpRequest) -> HttpResponse:
    audit.entry_of(actor_of(request), "configmap:create", verb="create", resource="tests").save()
    audit.entry_of(actor_of(request), "configmap:delete", verb="delete", resource="tests").save()
    return HttpResponse()


REFUSALS = {
    "forbidden": errors.Forbidden("raj is not ana", details={"kind": "managedclusters", "name": "c1"}),
    "conflict": errors.Conflict("ana changed it"),
    "gone": errors.NotFound("no such cluster"),
    "invalid": errors.Invalid("this is not a name"),
    "often": errors.TooManyRequests("not so fast", retry_after=7),
}
urlpatterns = [
    *console.urlpatterns,
    path("test/recorded/", recorded),
    path("test/denied/", raising(lambda: PermissionDenied("not for you"))),
    path("test/away/", raising(lambda: OperationalError("could not connect to server at 10.9.8.7"))),
    path("test/redis/", raising(lambda: RedisAwayError("no"))),
    path("test/broken/", raising(lambda: KeyError("secret of the code"))),
    *(path(f"test/{name}/", raising(lambda error=error: error)) for name, error in REFUSALS.items()),  # type: ignore[misc] # a default keeps the error of each
]
handler400, handler403, handler404, handler500 = (
    console.handler400,
    console.handler403,
    console.handler404,
    console.handler500,
)


@pytest.fixture
def browser() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_user("ana"))
    return client


@pytest.fixture(autouse=True)
def _routes() -> Any:
    with override_settings(ROOT_URLCONF=__name__):
        yield


PAGES = ["/login/", "/account/", "/preferences/", "/admin/", "/nothing-here/", "/help/", "/test/broken/", "/test/away/"]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_says_what_it_may_load_and_nothing_inline(browser: Client, page: str) -> None:
    User.objects.update(is_staff=True)
    answer = browser.get(page)
    directives = dict(part.strip().split(" ", 1) for part in answer["Content-Security-Policy"].split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == directives["style-src"] == directives["form-action"] == "'self'"
    assert directives["frame-ancestors"] == directives["base-uri"] == "'none'"
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert answer["Cross-Origin-Opener-Policy"] == answer["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "camera=()" in answer["Permissions-Policy"]
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert UUID.fullmatch(answer["X-Request-ID"])
    assert not re.search(rb"<[^>]+ (style|on[a-z]+)=|<style|<script(?![^>]*(src=|application/json))", answer.content)


def test_the_api_gets_none_of_it() -> None:
    answer = Client().get("/version", **LISTENER)
    assert answer.status_code in {200, 401, 403}
    assert not {"Content-Security-Policy", "Permissions-Policy", "X-Request-ID"} & set(answer.headers)


@pytest.mark.contract("D11")
def test_a_request_has_one_id_in_its_answer_and_in_the_audit(browser: Client) -> None:
    first, second = browser.get("/test/recorded/"), browser.get("/test/recorded/", headers={"X-Request-ID": "mine"})
    assert first["X-Request-ID"] != second["X-Request-ID"] != "mine"
    for answer in (first, second):
        assert AuditEvent.objects.filter(request_id=answer["X-Request-ID"]).count() == 2


@pytest.mark.parametrize(
    ("name", "status", "texts"),
    [
        ("forbidden", 403, ["raj is not ana", "Nothing was changed"]),
        ("denied", 403, ["not for you", "Nothing was changed"]),
        ("conflict", 409, ["ana changed it", "Nothing was changed"]),
        ("gone", 404, ["no such cluster"]),
        ("invalid", 422, ["this is not a name", "Nothing was changed"]),
        ("often", 429, ["not so fast", "in 7 seconds"]),
        ("away", 503, ["cannot reach its data", "The database does not answer", "in 5 seconds"]),
        ("redis", 503, ["cannot reach its data", "Redis does not answer"]),
        ("broken", 500, ["The hub made a mistake"]),
    ],
)
def test_an_error_page_says_what_happened_and_which_request_it_was(
    browser: Client, name: str, status: int, texts: list[str]
) -> None:
    answer = browser.get(f"/test/{name}/")
    assert answer.status_code == status
    for text in [*texts, answer["X-Request-ID"]]:
        assert text in answer.content.decode()
    assert "10.9.8.7" not in answer.content.decode()
    assert "secret of the code" not in answer.content.decode()
    if status in {429, 503}:
        assert int(answer["Retry-After"]) > 0


@pytest.mark.parametrize(
    "address", ["/access/users/a%00b/", "/clusters/a%00b/", "/clusters/?q=%00", "/?%00=1", "/login/?next=/%25%00"]
)
def test_a_nul_in_an_address_is_a_bad_request(browser: Client, address: str) -> None:
    answer = browser.get(address)
    assert answer.status_code == 400
    assert answer["X-Request-ID"] in answer.content.decode()
    assert answer["Content-Security-Policy"]
    assert Client().get("/login/?next=/%2500").status_code == 200  # the text %00 is none


@pytest.mark.parametrize("name", ["broken", "away", "redis"])
def test_the_page_of_a_failure_asks_no_database(name: str, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        answer = Client(raise_request_exception=False).get(f"/test/{name}/")
    assert answer.status_code >= 500


def test_a_form_that_is_too_old_changes_nothing_and_says_so() -> None:
    answer = Client(enforce_csrf_checks=True).post("/login/", {"login": "x", "password": "y"})
    assert answer.status_code == 403
    assert b"Nothing was changed" in answer.content
    assert answer["X-Request-ID"].encode() in answer.content


def test_a_page_for_who_is_signed_in_sends_others_to_the_sign_in_page_and_back(client: Client) -> None:
    assert client.get("/preferences/?a=1")["Location"] == "/login/?next=/preferences/%3Fa%3D1"


def test_a_console_over_https_is_only_ever_asked_over_https() -> None:
    from django.middleware.security import SecurityMiddleware

    with override_settings(SECURE_HSTS_SECONDS=31_536_000):
        respond = SecurityMiddleware(lambda _: HttpResponse())
        answer = respond(RequestFactory().get("/", secure=True))
    assert isinstance(answer, HttpResponse)
    assert "max-age=31536000" in answer["Strict-Transport-Security"]


def test_pages_are_compressed_to_lengths_that_say_nothing_of_their_text() -> None:
    answers = [Client().get("/login/", headers={"Accept-Encoding": "gzip"}) for _ in range(8)]
    assert {answer["Content-Encoding"] for answer in answers} == {"gzip"}
    assert len({len(answer.content) for answer in answers}) > 1
