"""The API door: one DRF view that turns an HTTP request into a verb and its result into HTTP.

Order of checks (wire.md 3.1): authenticate, impersonate, authorise, find the kind, options, negotiate, decode, verb.
It decides nothing itself; every rule is behind the verbs.
"""

from __future__ import annotations

import base64
import binascii
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson
from django.db import OperationalError
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.views import APIView

from ocmconsole.kubeapi import (
    admission,
    apply,
    authz,
    changes,
    errors,
    kinds,
    negotiation,
    patches,
    paths,
    requestinfo,
    store,
    tables,
    verbs,
    virtual,
    watch,
)
from ocmconsole.kubeapi.authentication import KubernetesAuthentication
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.lanes import HandOff

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http.response import HttpResponseBase

    from ocmconsole.kubeapi.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.requestinfo import RequestInfo

log = logging.getLogger(__name__)

MEDIA_TYPES = {"json": "application/json", "yaml": "application/yaml"}
READ_BODIES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
POLICIES = ("Foreground", "Background", "Orphan")
LONGEST_WAIT = 3.0


@dataclass(slots=True)
class Call:
    """One request, read so far: who asks what about which kind, and in which form the answer goes out."""

    request: Request
    actor: Actor
    info: RequestInfo
    decision: authz.Decision
    served: kinds.Served
    answer: negotiation.Answer

    @property
    def key(self) -> Key:
        return Key(self.info.namespace, self.info.name)

    @property
    def is_collection(self) -> bool:
        return not self.info.name or self.info.verb in {"list", "watch", "deletecollection", "create"}


class KubernetesView(APIView):
    """Every path of the API listener."""

    authentication_classes = (KubernetesAuthentication,)
    http_method_names = ["get", "head", "post", "put", "patch", "delete", "options", "trace"]  # noqa: RUF012 - Django's attribute

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate and authorise; DRF's negotiation and throttling have no part here."""
        self.perform_authentication(request)

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override] # a HandOff is no DRF Response
        drf = self.initialize_request(request, *args, **kwargs)
        self.request, self.args, self.kwargs, self.headers = drf, args, kwargs, {}
        with admission.collecting() as warnings:
            try:
                self.initial(drf)
                response = self._handle(drf)
            except Exception as error:  # noqa: BLE001 - the one place where errors become Status
                response = refusal(drf, error)
        for text in warnings:
            _add_warning(response, text)
        return response

    def _handle(self, request: Request) -> HttpResponseBase:
        info = requestinfo.parse(request.method or "", request.path, request.query_params)
        actor: Actor = request.user  # type: ignore[assignment] # the authentication class makes it an Actor
        decision = authz.require(actor, info.attributes())
        if not info.resource:
            if request.method not in {"GET", "HEAD"}:
                raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
            return paths.answer(request, info.path)
        if found := virtual.find(info.group, info.version, info.resource, info.subresource):
            return _virtual(request, actor, info, found)
        served = kinds.find(info.group, info.version, info.resource)
        if served is None:
            raise errors.unknown_path()
        call = Call(request, actor, info, decision, served, _negotiate(request))
        if served.version.warning:
            admission.warn(served.version.warning)
        return _route(call)


entry = KubernetesView.as_view()


def _route(call: Call) -> HttpResponseBase:
    kind, info = call.served.kind, call.info
    if info.subresource:
        sub = kind.subresource(info.subresource)
        if sub is None:
            raise errors.unknown_path()
        if info.verb not in sub.verbs:
            raise _unsupported(call)
    elif info.verb not in kind.verbs or (info.verb == "create" and info.name):
        raise _unsupported(call)
    if kind.namespaced and not info.namespace and not (info.verb in {"list", "watch"} and not _has_name(call)):
        raise errors.unknown_path()
    if not kind.namespaced and info.namespace:
        raise errors.unknown_path()
    return HANDLERS[info.verb](call)


def _has_name(call: Call) -> bool:
    """A name in the path, rather than one pinned by a selector."""
    return call.info.path.rstrip("/").endswith(f"/{call.served.kind.plural}/{call.info.name}")


def _unsupported(call: Call) -> errors.MethodNotAllowed:
    kind = call.served.kind
    subject = errors.qualified(call.served.version.group, kind.plural)
    if call.info.subresource or call.info.name:
        return errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    return errors.MethodNotAllowed(f'{call.info.verb} is not supported on resources of kind "{subject}"')


# ---------------------------------------------------------------- reads


def _get(call: Call) -> HttpResponseBase:
    kind = call.served.kind
    return _object(call, verbs.existing(kind, call.key).doc)


def _list(call: Call) -> HttpResponseBase:
    options = requestinfo.list_options(call.request.query_params, watch=False)
    scope = _scope(call, options)
    after, revision = _position(options, call)
    _await_revision(options)
    kind = call.served.kind
    page = store.page(
        kind,
        namespace=call.info.namespace,
        selector=options.labels,
        name=options.fields.pinned("metadata.name"),
        after=after,
        limit=options.limit,
    )
    metadata: Doc = {"resourceVersion": str(revision or page.revision)}
    if page.last is not None:
        metadata["continue"] = _token(page.last, revision or page.revision)
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
    everything = options.labels.is_empty and not options.fields.terms
    if everything and not call.answer.shape and call.answer.media == "json" and call.served.version is kind.storage:
        return _list_of_texts(call, metadata, page.texts)
    docs = [orjson.loads(text) for text in page.texts]
    return _listed(call, [doc for doc in docs if scope.sees(doc)], metadata)


def _list_of_texts(call: Call, metadata: Doc, texts: list[str]) -> HttpResponse:
    """The stored texts, joined: no object is built."""
    head = orjson.dumps(
        {"kind": f"{call.served.kind.kind}List", "apiVersion": call.served.version.api_version, "metadata": metadata}
    )
    body = head[:-1] + b',"items":[' + ",".join(texts).encode() + b"]}"
    return HttpResponse(body, content_type="application/json", headers={"Cache-Control": "no-cache, private"})


def _listed(call: Call, docs: list[Doc], metadata: Doc) -> HttpResponse:
    shown = [call.served.version.from_storage(doc) for doc in docs]
    if call.answer.shape == "Table":
        return _respond(call, _table(call, shown, metadata))
    if call.answer.shape:
        shown = [tables.partial(doc) for doc in shown]
        listed: Doc = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
    else:
        listed = {"kind": f"{call.served.kind.kind}List", "apiVersion": call.served.version.api_version}
    return _respond(call, {**listed, "metadata": metadata, "items": shown})


def _watch(call: Call) -> HttpResponseBase:
    options = requestinfo.list_options(call.request.query_params, watch=True)
    scope = _scope(call, options)
    actor, attributes = call.actor, call.info.attributes()

    def may_go_on() -> bool:
        return authz.authorize(actor, attributes).allowed

    return HandOff(
        watch.events(scope, may_go_on),
        content_type="application/json",
        headers={"Cache-Control": "no-cache, private"},
    )


def _scope(call: Call, options: requestinfo.ListOptions) -> watch.Scope:
    include = call.request.query_params.get("includeObject", "Metadata")
    scope = watch.Scope(call.served, call.info.namespace, options, call.answer.shape, include)
    options.fields.check_supported(scope.labels())
    return scope


def _position(options: requestinfo.ListOptions, call: Call) -> tuple[Key | None, int | None]:
    """Where a continued list goes on, and the revision of its first page."""
    if not options.token:
        return None, None
    try:
        revision, namespace, name = orjson.loads(base64.urlsafe_b64decode(options.token.encode()))
        key = Key(str(namespace), str(name))
        revision = int(revision)
    except (ValueError, TypeError, binascii.Error, orjson.JSONDecodeError) as error:
        raise errors.BadRequest(f"invalid continue token: {error}") from error
    if changes.cut_before(call.served.kind.resource, revision) is not None:
        raise errors.Expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
            "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
            "modified, or deleted between the time the first chunk was returned and now may show up in the list.",
            metadata={"continue": _token(key, changes.head())},
        )
    return key, revision


def _token(key: Key, revision: int) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([revision, key.namespace, key.name])).decode()


def _await_revision(options: requestinfo.ListOptions) -> None:
    """A list not older than a revision that does not exist yet (wire.md 3.7)."""
    wanted = int(options.resource_version or 0)
    if wanted <= (now := changes.head()):
        return
    cause = errors.Cause("ResourceVersionTooLarge", "Too large resource version")
    text = f"Timeout: Too large resource version: {wanted}, current: {now}"
    raise errors.Timeout(text, causes=[cause], retry_after=1)


# ---------------------------------------------------------------- writes


def _create(call: Call) -> HttpResponseBase:
    options, doc = _write(call, "CreateOptions")
    _check_place(call, doc)
    result = verbs.create(call.actor, call.served.kind, doc, namespace=call.info.namespace, options=options)
    return _object(call, result.doc or {}, status=201)


def _update(call: Call) -> HttpResponseBase:
    options, doc = _write(call, "UpdateOptions")
    _check_place(call, doc)
    _check_name(call, doc)
    result = verbs.update(
        call.actor, call.served.kind, call.key, doc, subresource=call.info.subresource, options=options
    )
    return _object(call, result.doc or result.gone or {}, status=201 if result.created else 200)


def _patch(call: Call) -> HttpResponseBase:
    kind, version = call.served.kind, call.served.version
    how = negotiation.patch_kind(call.request.content_type or "", custom=kind.custom)
    query = requestinfo.write_options(
        call.request.query_params, options="PatchOptions", user_agent=call.actor.user_agent, applies=how == "apply"
    )
    options = _options(call, query)
    body = _patch_body(call, how, options)
    if how == "apply":
        return _apply(call, body, query, options)

    def propose(old: Doc | None) -> Doc:
        assert old is not None
        if how == "json":
            new = patches.json_patch(old, body)
        elif how == "strategic":
            new = patches.strategic_patch(old, body, kind.merge_keys)
        else:
            new = patches.merge_patch(old, body)
        _check_name(call, new)
        _check_type(call, new)
        return new

    result = verbs.patch(call.actor, kind, call.key, propose, subresource=call.info.subresource, options=options)
    return _object(call, result.doc or result.gone or {})


def _apply(call: Call, body: Doc, query: requestinfo.WriteOptions, options: verbs.Options) -> HttpResponseBase:
    kind, version = call.served.kind, call.served.version
    _check_applied(call, body)

    def propose(old: Doc | None) -> Doc:
        return apply.apply(
            old,
            body,
            manager=query.manager,
            force=query.force,
            api_version=version.api_version,
            schema=version.schema.root,
            now=store.timestamp(timezone.now()),
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
    return _object(call, result.doc or result.gone or {}, status=201 if result.created else 200)


def _delete(call: Call) -> HttpResponseBase:
    options = _delete_options(call)
    result = verbs.delete(call.actor, call.served.kind, call.key, options=options)
    if result.doc is not None:
        return _object(call, result.doc)
    assert result.gone is not None
    details: Doc = {"name": call.info.name, "group": call.served.version.group, "kind": call.served.kind.plural}
    details["uid"] = result.gone["metadata"]["uid"]
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return _respond(call, {**body, "details": {name: value for name, value in details.items() if value}})


def _delete_collection(call: Call) -> HttpResponseBase:
    listing = requestinfo.list_options(call.request.query_params, watch=False)
    scope = _scope(call, listing)
    options = replace(_delete_options(call), uid="", resource_version="")
    page = store.page(call.served.kind, namespace=call.info.namespace, selector=listing.labels, limit=listing.limit)
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
    return _listed(call, gone, {"resourceVersion": str(changes.head())})


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


# ---------------------------------------------------------------- reading a body


def _write(call: Call, options: str) -> tuple[verbs.Options, Doc]:
    query = requestinfo.write_options(call.request.query_params, options=options, user_agent=call.actor.user_agent)
    chosen = _options(call, query)
    doc, duplicates = _body(call)
    if duplicates and chosen.unknown != "ignore":
        found = [f'duplicate field "{path}"' for path in duplicates]
        verbs.report_unknown(call.served.kind, call.served.version, found, chosen)
    _check_type(call, doc)
    return chosen, doc


def _options(call: Call, query: requestinfo.WriteOptions) -> verbs.Options:
    return verbs.Options(
        version=call.served.version,
        dry_run=query.dry_run,
        manager=query.manager,
        unknown=query.validation,
        decision=call.decision,
    )


def _body(call: Call) -> tuple[Doc, list[str]]:
    find = None if call.served.kind.custom else _message(call)
    return negotiation.read_body(
        call.request._request.body,  # noqa: SLF001 - DRF's name for Django's request; its parsers are not used
        call.request.META.get("CONTENT_TYPE", ""),
        protobuf=find,
        find_duplicates=call.request.query_params.get("fieldValidation", "Warn") != "Ignore",
    )


def _message(call: Call) -> Callable[[str, str], Any]:
    return lambda api_version, kind: (
        call.served.version.protobuf
        if kind in {call.served.kind.kind, ""} and api_version in {call.served.version.api_version, ""}
        else None
    )


def _patch_body(call: Call, how: str, options: verbs.Options) -> Any:
    doc, duplicates = negotiation.read_patch(call.request._request.body, how)  # noqa: SLF001 - as in _body
    if duplicates and options.unknown != "ignore":
        found = [f'duplicate field "{path}"' for path in duplicates]
        verbs.report_unknown(call.served.kind, call.served.version, found, options)
    return doc


def _check_type(call: Call, doc: Doc) -> None:
    """kind and apiVersion must be what the path serves; built-in kinds may leave them out (wire.md 2.1)."""
    kind, version = call.served.kind, call.served.version
    given, api_version = doc.get("kind"), doc.get("apiVersion")
    if not kind.custom:
        doc["kind"], doc["apiVersion"] = given or kind.kind, api_version or version.api_version
        given, api_version = doc["kind"], doc["apiVersion"]
    if not given:
        raise errors.BadRequest(
            f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing in the body"
        )
    if given != kind.kind:
        raise errors.BadRequest(f"the kind in the data ({given}) does not match the expected kind ({kind.kind})")
    if api_version != version.api_version:
        raise errors.BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version ({version.api_version})"
        )


def _check_place(call: Call, doc: Doc) -> None:
    metadata = doc.setdefault("metadata", {})
    if metadata is None:
        metadata = doc["metadata"] = {}
    if not isinstance(metadata, dict):
        raise errors.BadRequest("metadata must be an object")
    namespace = metadata.get("namespace")
    if call.served.kind.namespaced and namespace and namespace != call.info.namespace:
        raise errors.BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def _check_name(call: Call, doc: Doc) -> None:
    metadata = doc.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name is None or name == "":
        if isinstance(metadata, dict) and call.request.method == "PUT":
            metadata["name"] = call.info.name
        return
    if name != call.info.name:
        raise errors.BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({call.info.name})"
        )


def _check_applied(call: Call, body: Doc) -> None:
    if not isinstance(body, dict) or not body.get("kind"):
        raise errors.BadRequest("invalid object type: /, Kind=")
    _check_type(call, body)
    _check_place(call, body)
    _check_name(call, body)
    body["metadata"]["name"] = call.info.name


def _delete_options(call: Call) -> verbs.Options:
    """From the query and the body, whose apiVersion is the client's own business (wire.md 2.2, 3.5)."""
    query = call.request.query_params
    raw = call.request._request.body  # noqa: SLF001 - as in _body
    body: Doc = {}
    if raw:
        body, _ = negotiation.read_body(
            raw,
            call.request.META.get("CONTENT_TYPE", ""),
            protobuf=lambda *_: virtual.delete_options(),
            find_duplicates=False,
        )
    dry_run = body.get("dryRun") or query.getlist("dryRun")
    policy = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    if not policy and body.get("orphanDependents"):
        policy = "Orphan"
    causes = requestinfo.dry_run_causes(dry_run if isinstance(dry_run, list) else [dry_run])
    if policy and policy not in POLICIES:
        causes.append(errors.unsupported("propagationPolicy", f'"{policy}"', (*POLICIES, "nil")))
    if causes:
        raise errors.options_invalid("DeleteOptions", causes)
    preconditions = body.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise errors.BadRequest("preconditions must be an object")
    return verbs.Options(
        version=call.served.version,
        dry_run=bool(dry_run),
        decision=call.decision,
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
        propagation=policy or "Background",
    )


def _virtual(request: Request, actor: Actor, info: RequestInfo, found: virtual.Endpoint) -> HttpResponse:
    """Endpoints that store nothing: reviews, tokens, empty lists."""
    answer = _negotiate(request)
    if info.verb not in found.verbs:
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    doc: Doc = {}
    if request.method in READ_BODIES:
        doc, _ = negotiation.read_body(
            request._request.body,  # noqa: SLF001 - as in _body
            request.META.get("CONTENT_TYPE", ""),
            protobuf=lambda *_: found.protobuf,
            find_duplicates=False,
        )
    filled = found.answer(actor, info.namespace, info.name, doc)
    status = 201 if info.verb == "create" else 200
    return HttpResponse(negotiation.dump(filled, answer.media), content_type=MEDIA_TYPES[answer.media], status=status)


# ---------------------------------------------------------------- answering


def _negotiate(request: Request) -> negotiation.Answer:
    return negotiation.negotiate(
        request.headers.get("Accept", ""), want=("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    )


def _object(call: Call, doc: Doc, status: int = 200) -> HttpResponse:
    shown = call.served.version.from_storage(doc)
    if call.answer.shape == "Table":
        shown = _table(call, [shown], {"resourceVersion": shown["metadata"].get("resourceVersion", "")})
    elif call.answer.shape:
        shown = tables.partial(shown)
    return _respond(call, shown, status)


def _table(call: Call, docs: list[Doc], metadata: Doc) -> Doc:
    include = call.request.query_params.get("includeObject", "Metadata")
    return tables.table(call.served, docs, include_object=include, now=timezone.now(), metadata=metadata)


def _respond(call: Call, doc: Doc, status: int = 200) -> HttpResponse:
    media = call.answer.media
    return HttpResponse(
        negotiation.dump(doc, media),
        content_type=MEDIA_TYPES[media],
        status=status,
        headers={"Cache-Control": "no-cache, private"},
    )


def refusal(request: Request, error: Exception) -> HttpResponse:
    """Any failure as a Status. What was not expected is logged and told without its text."""
    if isinstance(error, errors.ApiError):
        told = error
    elif isinstance(error, OperationalError):
        log.exception("the database did not answer %s %s", request.method, request.path)
        told = errors.TooManyRequests(
            "the server has received too many requests and has asked us to try again later", retry_after=1
        )
    else:
        log.exception("unexpected failure of %s %s", request.method, request.path)
        told = errors.InternalError(f"Internal error occurred: {type(error).__name__}")
    response = HttpResponse(orjson.dumps(told.status()), content_type="application/json", status=told.code)
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "no-cache, private"
    if told.retry_after is not None:
        response["Retry-After"] = str(told.retry_after)
    return response


def _add_warning(response: HttpResponseBase, text: str) -> None:
    """One header each in principle; Django keeps one value a name, and clients read a comma-joined list."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ")
    value = f'299 - "{quoted}"'.encode("utf-8", "replace").decode("latin-1")
    present = response.headers.get("Warning")
    response.headers["Warning"] = f"{present}, {value}" if present else value
