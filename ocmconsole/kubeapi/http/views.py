"""The API's DRF views: they turn an HTTP request into a verb, and its result into HTTP.

``KubernetesView`` names the classes for DRF's hooks and calls them in the order of Kubernetes (W20): authenticate,
impersonate, authorise, find the kind, negotiate, options, decode, verb. Views decide nothing themselves; every rule is
behind the verbs. Routed by ``kubeapi.urls``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import orjson
from django.http import HttpResponse
from rest_framework.views import APIView

from ocmconsole.kubeapi import admission, clock, errors, kinds, verbs, virtual_resources
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authentication import KubernetesAuthentication
from ocmconsole.kubeapi.formats import apply, patches, strategic_patches, tables
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.http import hooks, paging, request_bodies, request_info, responses, static_resources
from ocmconsole.kubeapi.http.api_calls import Call
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.publish import endpoints
from ocmconsole.kubeapi.schema import times
from ocmconsole.kubeapi.storage import reader
from ocmconsole.kubeapi.watch import change_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase
    from rest_framework.parsers import BaseParser
    from rest_framework.request import Request

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.formats.negotiation import Shape
    from ocmconsole.kubeapi.http.request_info import RequestInfo

# Set by the server where it stopped reading a body that is too long (W174).
TOO_LARGE = "ocmconsole.body_too_large"
WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class KubernetesView(APIView):
    """What all views of the API have in common; DRF's ``dispatch`` calls ``initial``, then the method's handler."""

    authentication_classes = (KubernetesAuthentication,)
    permission_classes = (hooks.IsAuthorized,)
    content_negotiation_class = hooks.KubernetesNegotiation
    renderer_classes = (hooks.JSONRenderer, hooks.YAMLRenderer)
    parser_classes: tuple[type[BaseParser], ...] = ()
    throttle_classes = ()  # ``request_limits`` counts before a body is read and a thread is taken
    format_kwarg = None
    shapes: tuple[Shape, ...] = ()  # what ``Accept`` may ask to be made of an object
    info: RequestInfo
    decision: authorization.AccessDecision  # set by ``IsAuthorized``

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """DRF's would negotiate first; here a caller without the right learns nothing of kinds and forms."""
        outages.require_database()
        self.perform_authentication(request)
        self.info = request_info.parse(request.method or "", request.path, request.query_params, kwargs)
        self.check_permissions(request)
        if limit := request.META.get(TOO_LARGE):
            raise errors.RequestTooLarge(f"Request entity too large: limit is {limit}")

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with admission.collecting() as warnings:
            response = super().dispatch(request, *args, **kwargs)
        del self.response  # view and request refer to each other: a large body would wait for the garbage collector
        for text in warnings:
            responses.add_warning(response, text)
        return response

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> NoReturn:
        raise errors.no_such_method()

    @property
    def default_response_headers(self) -> dict[str, str]:
        """None: a kube-apiserver sends neither Allow nor Vary."""
        return {}


class DocumentView(KubernetesView):
    """A document outside resources: discovery, OpenAPI, version, health. ``read`` is a function of ``endpoints``."""

    http_method_names = ["get", "head"]
    read: Callable[..., HttpResponse] = staticmethod(endpoints.registered)

    def get(self, request: Request, **place: str) -> HttpResponseBase:
        return responses.finished(request, self.read(request, **place))


class ResourceView(KubernetesView):
    """Resources, stored or virtual: which kind is known here, which verb and object from ``info``."""

    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    parser_classes = (
        hooks.JSONParser,
        hooks.YAMLParser,
        hooks.ProtobufParser,
        hooks.JSONPatchParser,
        hooks.MergePatchParser,
        hooks.StrategicPatchParser,
        hooks.ApplyPatchParser,
    )
    shapes: tuple[Shape, ...] = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")

    def get_parsers(self) -> list[BaseParser]:
        """Of patches for a PATCH, of documents for any other method."""
        is_patch = self.request.method == "PATCH"
        return [parser() for parser in self.parser_classes if issubclass(parser, hooks.PatchParser) == is_patch]

    def handle(self, request: Request, **place: str) -> HttpResponseBase:
        return responses.finished(request, self._answer(request))

    get = post = put = patch = delete = handle

    def _answer(self, request: Request) -> HttpResponseBase:
        info = self.info
        if found := virtual_resources.find_endpoint(info.group, info.version, info.resource, info.subresource):
            self.shapes = ("PartialObjectMetadata",)  # they are no rows, so a Table is not acceptable
            return self._virtual(request, found)
        collection = virtual_resources.collection(info.group, info.version, info.resource)
        served = collection.served if collection else kinds.find_served(info.group, info.version, info.resource)
        if served is None:
            raise errors.unknown_path()
        call = Call(request, _actor(request), info, self.decision, served, self.negotiated(request))
        if served.version.warning:
            admission.warn(served.version.warning)
        _check_route(call)
        if served.kind.custom:
            parsers = request.parsers or ()
            request.parsers = [each for each in parsers if not isinstance(each, hooks.StrategicPatchParser)]
        return static_resources.answer(call, collection) if collection else HANDLERS[info.verb](call)

    def negotiated(self, request: Request) -> hooks.DocumentRenderer:
        """Raises NotAcceptable."""
        renderer, request.accepted_media_type = self.perform_content_negotiation(request)
        request.accepted_renderer = renderer
        return renderer  # type: ignore[return-value] # as ``KubernetesNegotiation`` says

    def _virtual(self, request: Request, found: virtual_resources.Endpoint) -> HttpResponse:
        """Endpoints that store nothing: reviews and tokens."""
        renderer, info, actor = self.negotiated(request), self.info, _actor(request)
        if info.verb not in found.verbs:
            raise errors.no_such_method()
        request_info.write_options(request.query_params, options="CreateOptions", user_agent=actor.user_agent)
        doc: Doc = {}
        if request.method in WITH_BODY:
            doc, _ = request_bodies.read(request, protobuf=lambda *_: found.protobuf)
        request_bodies.check_metadata_of_question(doc, info.namespace if found.namespaced else "")
        filled = found.answer(actor, info.namespace, info.name, doc)
        if renderer.shape:
            filled = tables.partial(filled)
        status = 201 if info.verb == "create" else 200
        return HttpResponse(renderer.render(filled), content_type=renderer.media_type, status=status)


def _actor(request: Request) -> Actor:
    return request.user  # type: ignore[return-value] # ``KubernetesAuthentication`` makes it an Actor


def _check_route(call: Call) -> None:
    """Raises NotFound for a place that the kind does not have, MethodNotAllowed for a verb."""
    kind, info = call.served.kind, call.info
    if info.subresource:
        sub = kind.subresource(info.subresource)
        if sub is None:
            raise errors.unknown_path()
        if info.verb not in sub.verbs:
            raise _unsupported(call)
    elif info.verb not in kind.verbs or info.verb in ({"create"} if info.name else {"update", "patch"}):
        raise _unsupported(call)
    if kind.namespaced and not info.namespace and not (info.verb in {"list", "watch"} and not _has_name(call)):
        raise errors.unknown_path()
    if not kind.namespaced and info.namespace:
        raise errors.unknown_path()


def _has_name(call: Call) -> bool:
    """A name in the path, rather than one pinned by a selector."""
    return call.info.path.rstrip("/").endswith(f"/{call.served.kind.plural}/{call.info.name}")


def _unsupported(call: Call) -> errors.BadRequest | errors.MethodNotAllowed:
    """Custom kinds look for a name before they look at the method, built-in kinds have no such route: 404 or 405."""
    kind = call.served.kind
    subject = errors.qualified(call.served.version.group, kind.plural)
    is_nameless = call.info.verb in {"update", "patch"} and not call.info.name
    if is_nameless and kind.custom:
        return errors.BadRequest("name must be provided")
    if call.info.subresource or call.info.name or is_nameless:
        return errors.no_such_method()
    return errors.MethodNotAllowed(f'{call.info.verb} is not supported on resources of kind "{subject}"')


# ---------------------------------------------------------------- reads


def _get(call: Call) -> HttpResponseBase:
    kind = call.served.kind
    paging.require_reached(request_info.resource_version(call.request.query_params))
    return responses.object_(call, verbs.covered(call.actor, kind, call.key, call.decision))


def _list(call: Call) -> HttpResponseBase:
    options = request_info.list_options(call.request.query_params, watch=False)
    scope = responses.watch_scope(call, options)
    kind = call.served.kind
    paging.require_reached(options.resource_version)
    at = paging.position(options, kind)
    if at.exact:
        return responses.list_response(call, *paging.exact_page(kind, at, scope, options.limit))
    everything = options.labels.is_empty and not options.fields.terms and not scope.deleting
    is_plain = call.renderer.format == "json" and not call.renderer.shape and call.served.version is kind.storage
    if everything and is_plain and not options.limit and at.after is None:
        parts, read = reader.read_everything(kind, namespace=call.info.namespace)
        return responses.list_of_texts(call, {"resourceVersion": str(read)}, parts)
    page = reader.read_page(
        kind,
        namespace=call.info.namespace,
        selector=options.labels,
        name=options.fields.pinned("metadata.name"),
        after=at.after,
        limit=options.limit,
        deleting=scope.deleting,
    )
    revision = at.revision or page.revision
    metadata: Doc = {"resourceVersion": str(revision)}
    if page.last is not None:
        metadata["continue"] = paging.continue_token(page.last, revision)
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
    if everything and is_plain:
        return responses.list_of_texts(call, metadata, [",".join(page.texts).encode()] if page.texts else [])
    if everything and call.renderer.format == "json" and scope.shape == "Table" and scope.include_object == "Metadata":
        return responses.table_of_texts(call, metadata, page)
    docs = [orjson.loads(text) for text in page.texts]
    return responses.list_response(call, [doc for doc in docs if scope.sees(doc)], metadata)


def _watch(call: Call) -> HttpResponseBase:
    options = request_info.list_options(call.request.query_params, watch=True)
    return responses.stream_response(call, responses.watch_scope(call, options))


# ---------------------------------------------------------------- writes


def _create(call: Call) -> HttpResponseBase:
    options, doc = request_bodies.write_body(call, "CreateOptions")
    request_bodies.check_place(call, doc)
    with request_bodies.decoding(call):
        result = verbs.create(call.actor, call.served.kind, doc, namespace=call.info.namespace, options=options)
    return responses.object_(call, result.doc or {}, status=201)


def _update(call: Call) -> HttpResponseBase:
    options, doc = request_bodies.write_body(call, "UpdateOptions")
    request_bodies.check_place(call, doc)
    request_bodies.check_name(call, doc)
    with request_bodies.decoding(call):
        result = verbs.update(
            call.actor, call.served.kind, call.key, doc, subresource=call.info.subresource, options=options
        )
    return responses.object_(call, result.doc or result.gone or {}, status=201 if result.created else 200)


def _patch(call: Call) -> HttpResponseBase:
    kind = call.served.kind
    parser = request_bodies.parser_of(call.request)
    how = parser.how if isinstance(parser, hooks.PatchParser) else ""
    query = request_info.write_options(
        call.request.query_params, options="PatchOptions", user_agent=call.actor.user_agent, applies=how == "apply"
    )
    options = request_bodies.options_of(call, query)
    body = request_bodies.patch_body(call, parser, options)
    if how == "apply":
        return _apply(call, body, query, options)

    def propose(old: Doc | None) -> Doc:
        assert old is not None
        if how == "json":
            new = patches.json_patch(old, body)
        elif how == "strategic":
            new = strategic_patches.strategic_patch(old, body, kind.merge_keys)
        else:
            new = patches.merge_patch(old, body)
        request_bodies.check_name(call, new)
        if "metadata" in new:  # one without is refused further on, not mended
            request_bodies.check_place(call, new)
        request_bodies.check_type(call, new)
        return new

    result = verbs.patch(call.actor, kind, call.key, propose, subresource=call.info.subresource, options=options)
    return responses.object_(call, result.doc or result.gone or {})


def _apply(call: Call, body: Doc, query: request_info.WriteOptions, options: verbs.Options) -> HttpResponseBase:
    kind, version = call.served.kind, call.served.version
    request_bodies.check_applied(call, body)

    def propose(old: Doc | None) -> Doc:
        return apply.apply(
            old,
            body,
            manager=query.manager,
            force=query.force,
            api_version=version.api_version,
            schema=version.schema.root,
            now=times.timestamp(clock.now()),
            subresource=call.info.subresource,
        )

    if call.info.subresource:
        result = verbs.patch(
            call.actor,
            kind,
            call.key,
            propose,
            subresource=call.info.subresource,
            options=replace(options, applies=True),
        )
    else:
        result = verbs.apply_(call.actor, kind, call.key, propose, options=options)
    return responses.object_(call, result.doc or result.gone or {}, status=201 if result.created else 200)


def _delete(call: Call) -> HttpResponseBase:
    options = request_bodies.delete_options(call)
    result = verbs.delete(call.actor, call.served.kind, call.key, options=options)
    if result.doc is not None:
        return responses.object_(call, result.doc)
    assert result.gone is not None
    details: Doc = {"name": call.info.name, "group": call.served.kind.group, "kind": call.served.kind.plural}
    details["uid"] = result.gone["metadata"]["uid"]
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return responses.respond(call, {**body, "details": {name: value for name, value in details.items() if value}})


def _delete_collection(call: Call) -> HttpResponseBase:
    listing = request_info.list_options(call.request.query_params, watch=False)
    scope = responses.watch_scope(call, listing)
    paging.require_reached(listing.resource_version)
    options = request_bodies.delete_options(call)
    page = reader.read_page(
        call.served.kind, namespace=call.info.namespace, selector=listing.labels, limit=listing.limit
    )
    gone = []
    for doc in (orjson.loads(text) for text in page.texts):
        if not scope.sees(doc):
            continue
        key = Key(doc["metadata"].get("namespace", ""), doc["metadata"]["name"])
        try:
            result = verbs.delete(call.actor, call.served.kind, key, options=options)
        except errors.NotFound:
            continue
        gone.append(result.doc or result.gone or doc)
    return responses.list_response(call, gone, {"resourceVersion": str(change_log.newest_revision())})


HANDLERS: dict[str, Callable[[Call], HttpResponseBase]] = {
    "get": _get,
    "list": _list,
    "watch": _watch,
    "create": _create,
    "update": _update,
    "patch": _patch,
    "delete": _delete,
    "deletecollection": _delete_collection,
}
