"""The API's classes for the hooks of Django REST framework: permission, content negotiation, renderers, parsers.

Each is a thin layer around functions that know nothing of HTTP requests. Listed by ``views.KubernetesView``; the class
for authentication is in ``access.authentication``, the exception handler in ``responses``. ADR 19 says which hooks of
DRF are used otherwise than DRF uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission
from rest_framework.renderers import BaseRenderer

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.formats import negotiation

if TYPE_CHECKING:
    from rest_framework.request import Request

    from ocmconsole.kubeapi.errors import Doc


class IsAuthorized(BasePermission):
    """Asks the chain of authorizers for what ``view.info`` says; what they allow is kept as ``view.decision``."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Raises Forbidden, which names user, verb and resource as Kubernetes does, instead of returning False."""
        view.decision = authorization.require(request.user, view.info.attributes())  # type: ignore[arg-type] # it is an Actor
        return True


class DocumentRenderer(BaseRenderer):
    """Writes a document. ``shape`` is what the client wants to be made of an object first: a Table, metadata alone."""

    charset = None
    format: negotiation.Media
    shape: negotiation.Shape = ""

    def render(
        self, data: Doc, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        return negotiation.dump(data, self.format)


class JSONRenderer(DocumentRenderer):
    media_type, format = "application/json", "json"


class YAMLRenderer(DocumentRenderer):
    media_type, format = "application/yaml", "yaml"


class KubernetesNegotiation(BaseContentNegotiation):
    """Chooses by ``Accept`` and ``Content-Type`` as a kube-apiserver does (W1, W4: shapes, patch types)."""

    def select_renderer(
        self, request: Request, renderers: Iterable[Any], format_suffix: str | None = None
    ) -> tuple[DocumentRenderer, str]:
        """The renderer of the best form, with its shape set. Raises NotAcceptable."""
        form = negotiation.negotiate(request.headers.get("Accept", ""), want=request.parser_context["view"].shapes)
        renderer: DocumentRenderer = next(each for each in renderers if each.format == form.media)
        renderer.shape = form.shape
        return renderer, renderer.media_type

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        """A body without a media type is JSON, a patch without one is refused. Raises UnsupportedMediaType."""
        given = negotiation.media_type(request.content_type) or "application/json"
        accepted = list(parsers)
        for parser in accepted:
            if parser.media_type == given:
                return parser
        raise errors.unknown_format(parser.media_type for parser in accepted)


class DocumentParser(BaseParser):
    """Reads an object of POST, PUT, DELETE."""

    def parse(  # type: ignore[override] # what a caller needs besides the document
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> tuple[Doc, list[str]]:
        """Document, and paths of fields given twice. Takes ``protobuf`` and ``find_duplicates`` from the context."""
        context = parser_context or {}
        return negotiation.read_body(
            stream.read(),
            self.media_type,
            protobuf=context.get("protobuf"),
            find_duplicates=context.get("find_duplicates", False),
        )


class JSONParser(DocumentParser):
    media_type = "application/json"


class YAMLParser(DocumentParser):
    media_type = "application/yaml"


class ProtobufParser(DocumentParser):
    media_type = "application/vnd.kubernetes.protobuf"


class PatchParser(BaseParser):
    """Reads a PATCH of one type."""

    how: negotiation.PatchKind

    def parse(  # type: ignore[override] # what a caller needs besides the patch
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> tuple[Any, list[str]]:
        """Patch, and paths of fields given twice."""
        return negotiation.read_patch(stream.read(), self.how)


class JSONPatchParser(PatchParser):
    media_type, how = "application/json-patch+json", "json"


class MergePatchParser(PatchParser):
    media_type, how = "application/merge-patch+json", "merge"


class StrategicPatchParser(PatchParser):
    """For built-in kinds alone: a custom kind has no merge keys (W134)."""

    media_type, how = "application/strategic-merge-patch+json", "strategic"


class ApplyPatchParser(PatchParser):
    media_type, how = "application/apply-patch+yaml", "apply"
