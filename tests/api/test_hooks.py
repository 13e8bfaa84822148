"""The API's views answer through the hooks of Django REST framework: another class in a hook gives another answer."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import resolve
from rest_framework.authentication import BaseAuthentication
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission

from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.http import hooks
from ocmconsole.kubeapi.http.views import DocumentView, ResourceView
from ocmconsole.server.listeners import API_URLCONF
from tests.actors import ROOT, grant, namespace, person, rule

pytestmark = [pytest.mark.django_db, pytest.mark.contract("W20")]
TEXT = "text/x-name"
parsed: list[bytes] = []


class AsRoot(BaseAuthentication):
    def authenticate(self, request: Any) -> tuple[Actor, None]:  # noqa: ARG002 - DRF's signature
        return ROOT, None


class AsAna(BaseAuthentication):
    def authenticate(self, request: Any) -> tuple[Actor, None]:  # noqa: ARG002 - DRF's signature
        return person("ana"), None


class Nobody(BasePermission):
    message = "not today"

    def has_permission(self, request: Any, view: Any) -> bool:  # noqa: ARG002 - DRF's signature
        return False


class NameParser(BaseParser):
    media_type = TEXT

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:  # noqa: ARG002 - DRF's
        parsed.append(name := stream.read())
        return {"metadata": {"name": name.decode()}}, []


class WrappingRenderer(hooks.JSONRenderer):
    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return b'{"wrapped":' + super().render(data, accepted_media_type, renderer_context) + b"}"


class AlwaysYAML(hooks.KubernetesNegotiation):
    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:  # noqa: ARG002 - DRF's
        return hooks.YAMLRenderer(), "application/yaml"


def answer(method: str, path: str, body: bytes = b"", type_: str = "application/json", **other: Any) -> Any:
    """Of the view that the API's routes find, with ``other`` classes in its hooks; and its body as far as it is JSON."""
    match = resolve(path, API_URLCONF)
    found: Any = match.func
    view = found.cls.as_view(**(found.initkwargs | {"authentication_classes": (AsRoot,)} | other))
    request = RequestFactory().generic(method, path, body, type_, headers={"Accept": "application/json"})
    response = view(request, *match.args, **match.kwargs)
    return response.status_code, orjson.loads(response.content) if response.content[:1] == b"{" else response.content


@pytest.fixture
def maps() -> str:
    parsed.clear()
    return f"/api/v1/namespaces/{namespace('team')}/configmaps"


def test_an_authentication_class_says_who_asks(maps: str) -> None:
    assert answer("GET", maps)[0] == 200
    code, status = answer("GET", maps, authentication_classes=(AsAna,))
    assert (code, status["reason"]) == (403, "Forbidden")
    assert 'User "ana" cannot list resource "configmaps"' in status["message"]
    assert answer("GET", maps, authentication_classes=())[0] == 500  # nobody is not anonymous


def test_a_permission_class_of_anybodys_refuses_as_a_status(maps: str) -> None:
    for path in (maps, "/version"):
        code, status = answer("GET", path, permission_classes=(Nobody,))
        assert (code, status["kind"], status["reason"], status["message"]) == (403, "Status", "Forbidden", "not today")


def test_a_parser_reads_the_body_of_its_media_type(maps: str) -> None:
    code, status = answer("POST", maps, b"first", TEXT)
    assert (code, status["reason"]) == (415, "UnsupportedMediaType")
    assert "application/json, application/yaml, application/vnd.kubernetes.protobuf" in status["message"]
    code, made = answer("POST", maps, b"first", TEXT, parser_classes=(NameParser,))
    assert (code, made["metadata"]["name"], parsed) == (201, "first", [b"first"])


def test_a_patch_has_parsers_of_its_own(maps: str) -> None:
    answer("POST", maps, b'{"metadata": {"name": "first"}}')
    merge = "application/merge-patch+json"
    assert answer("PATCH", f"{maps}/first", b'{"data": {"a": "1"}}', merge)[1]["data"] == {"a": "1"}
    code, status = answer("PATCH", f"{maps}/first", b"{}", merge, parser_classes=(hooks.JSONPatchParser,))
    assert (code, status["message"].rpartition(": ")[2]) == (415, "application/json-patch+json")


def test_a_body_is_read_after_its_sender_may_do_this_at_all(maps: str) -> None:
    mine: Any = {"authentication_classes": (AsAna,), "parser_classes": (NameParser,)}
    assert answer("POST", maps, b"first", TEXT, **mine)[0] == 403
    assert answer("POST", maps, b"first", "text/unknown", **mine)[0] == 403
    assert not parsed
    grant(person("ana"), rule("create", "configmaps"))
    assert answer("POST", maps, b"first", "text/unknown", **mine)[0] == 415
    assert not parsed
    assert answer("POST", maps, b"first", TEXT, **mine)[0] == 201


def test_a_renderer_writes_the_response(maps: str) -> None:
    body = b'{"metadata": {"name": "first"}}'
    assert answer("POST", maps, body, renderer_classes=(WrappingRenderer,))[1]["wrapped"]["metadata"]["name"] == "first"
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = b'{"spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}}'
    assert (
        answer("POST", review, asked, renderer_classes=(WrappingRenderer,))[1]["wrapped"]["status"]["allowed"] is True
    )


def test_content_negotiation_chooses_the_renderer(maps: str) -> None:
    code, body = answer("POST", maps, b'{"metadata": {"name": "first"}}', content_negotiation_class=AlwaysYAML)
    assert (code, body.splitlines()[0]) == (201, b"apiVersion: v1")


def test_the_exception_handler_of_the_settings_answers_errors(maps: str, settings: Any) -> None:
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "EXCEPTION_HANDLER": "tests.api.test_hooks.short"}
    assert answer("GET", f"{maps}/none") == (404, b"NotFound")


def short(error: Exception, context: dict[str, Any]) -> HttpResponse:
    return HttpResponse(type(error).__name__, status=404)


@pytest.mark.parametrize(
    ("path", "view", "place"),
    [
        ("/api/v1/namespaces/a", ResourceView, {"version": "v1", "resource": "namespaces", "name": "a"}),
        ("/api/v1/namespaces/a/pods", ResourceView, {"version": "v1", "namespace": "a", "resource": "pods"}),
        (
            "/api/v1/namespaces/a/status",
            ResourceView,
            {"version": "v1", "resource": "namespaces", "name": "a", "subresource": "status"},
        ),
        (
            "/apis/g/v1/namespaces/a/leases/b/status",
            ResourceView,
            {
                "group": "g",
                "version": "v1",
                "namespace": "a",
                "resource": "leases",
                "name": "b",
                "subresource": "status",
            },
        ),
        ("/apis/g/v1", DocumentView, {"group": "g", "version": "v1"}),
        ("/openapi/v3/apis/g/v1", DocumentView, {"path": "apis/g/v1"}),
        ("/anything/else", DocumentView, {}),
    ],
)
def test_the_routes_of_the_api_name_the_parts_of_a_path(path: str, view: type, place: dict[str, str]) -> None:
    match: Any = resolve(path, API_URLCONF)
    assert (match.func.cls, match.kwargs) == (view, place)
