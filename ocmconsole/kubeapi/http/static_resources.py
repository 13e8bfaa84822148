"""Answers for collections that follow from the program (``virtual_resources.Collection``).

Read like any kind, never written.

A write of what is there already is answered with it and a warning, so that manifests which bring their definitions
along go through; any other write is refused with the reason. Called by ``views``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from ocmconsole.kubeapi import admission, errors
from ocmconsole.kubeapi.http import hooks, paging, request_bodies, request_info, responses
from ocmconsole.kubeapi.watch import change_log

if TYPE_CHECKING:
    from django.http.response import HttpResponseBase

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.http.api_calls import Call
    from ocmconsole.kubeapi.virtual_resources import Collection
    from ocmconsole.kubeapi.watch.streams import WatchScope


def answer(call: Call, collection: Collection) -> HttpResponseBase:
    """Raises NotFound, Forbidden; BadRequest for a body that is none of this kind."""
    match call.info.verb:
        case "get":
            paging.require_reached(request_info.resource_version(call.request.query_params))
            return responses.object_(call, _existing(call, collection))
        case "list":
            options = request_info.list_options(call.request.query_params, watch=False)
            paging.require_reached(options.resource_version)
            revision, docs = _state(collection, responses.watch_scope(call, options))
            exact = options.resource_version if options.match == "Exact" else ""
            return responses.list_response(call, docs, {"resourceVersion": exact or str(revision)})
        case "watch":
            options = request_info.list_options(call.request.query_params, watch=True)
            return responses.stream_response(
                call, responses.watch_scope(call, options), lambda scope: _texts(collection, scope)
            )
        case "create":
            return _created(call, collection)
        case "delete":
            _existing(call, collection)
            raise _refused(call, collection, call.info.name)
    return _unchanged(call, collection)


def _state(collection: Collection, scope: WatchScope) -> tuple[int, list[Doc]]:
    """All of them, whatever the limit: a client that pages is content with one page."""
    return change_log.newest_revision(), [doc for doc in collection.objects() if scope.sees(doc)]


def _texts(collection: Collection, scope: WatchScope) -> tuple[int, list[str]]:
    revision, docs = _state(collection, scope)
    return revision, [orjson.dumps(doc).decode() for doc in docs]


def _find(collection: Collection, name: object) -> Doc | None:
    return next((doc for doc in collection.objects() if doc["metadata"]["name"] == name), None)


def _existing(call: Call, collection: Collection) -> Doc:
    found = _find(collection, call.info.name)
    if found is None:
        raise errors.not_found(call.served.version.group, call.served.kind.plural, call.info.name)
    return found


def _created(call: Call, collection: Collection) -> HttpResponseBase:
    _, doc = request_bodies.write_body(call, "CreateOptions")
    request_bodies.check_place(call, doc)
    name = doc["metadata"].get("name")
    found = _find(collection, name)
    if found is None:
        raise _refused(call, collection, str(name or ""))
    _warn(call)
    return responses.object_(call, found, status=201)


def _unchanged(call: Call, collection: Collection) -> HttpResponseBase:
    """A PUT or PATCH: what it says is read, as of any write, and then left."""
    if call.info.verb == "update":
        _, doc = request_bodies.write_body(call, "UpdateOptions")
        request_bodies.check_place(call, doc)
        request_bodies.check_name(call, doc)
    else:
        parser = request_bodies.parser_of(call.request)
        request_bodies.read(call.request, parser)
        if isinstance(parser, hooks.ApplyPatchParser) and _find(collection, call.info.name) is None:
            raise _refused(call, collection, call.info.name)
    found = _existing(call, collection)
    _warn(call)
    return responses.object_(call, found)


def _warn(call: Call) -> None:
    admission.warn(f"{call.served.kind.kind} is part of this server and stays as it is")


def _refused(call: Call, collection: Collection, name: str) -> errors.Forbidden:
    subject = errors.qualified(call.served.version.group, call.served.kind.plural)
    return errors.Forbidden(f'{subject} "{name}" is forbidden: {collection.refusal}')
