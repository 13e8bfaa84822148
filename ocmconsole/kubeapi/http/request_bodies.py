"""Reads what a request carries: a document, a patch, delete options; and checks that it belongs to its path.

Called by ``views`` after authorisation, so that an error reveals nothing that the caller may not see.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ocmconsole.kubeapi import errors, steps, verbs, virtual_resources
from ocmconsole.kubeapi.http import request_info
from ocmconsole.kubeapi.http.api_calls import Call
from ocmconsole.kubeapi.schema import compiled_schema

if TYPE_CHECKING:
    from rest_framework.parsers import BaseParser
    from rest_framework.request import Request

    from ocmconsole.kubeapi.errors import Doc


def write_body(call: Call, options: str) -> tuple[verbs.Options, Doc]:
    query = request_info.write_options(call.request.query_params, options=options, user_agent=call.actor.user_agent)
    chosen = options_of(call, query)
    doc, duplicates = read(
        call.request,
        protobuf=None if call.served.kind.custom else _message(call),
        find_duplicates=call.request.query_params.get("fieldValidation", "Warn") != "Ignore",
    )
    if duplicates and chosen.unknown != "ignore":
        found = [f'duplicate field "{path}"' for path in duplicates]
        steps.report_unknown(call.served.kind, call.served.version, found, chosen.unknown)
    check_type(call, doc)
    _check_metadata(call, doc)
    return chosen, doc


def _check_metadata(call: Call, doc: Doc) -> None:
    """Metadata is read before anything else: wrong types there are unreadable, not invalid (400 and not 422)."""
    for cause in compiled_schema.metadata_types(doc):
        name, version = call.served.kind.kind, call.served.version.version
        raise errors.BadRequest(f'{name} in version "{version}" cannot be handled as a {name}: {cause.message}')


@contextmanager
def decoding(call: Call) -> Iterator[None]:
    """A built-in kind is decoded before it is checked: what has a wrong type cannot be read (400), and is not invalid.

    Custom kinds have no types of their own, and what a patch makes of an object is refused as invalid for all kinds.
    """
    try:
        yield
    except errors.Invalid as error:
        unreadable = [cause for cause in error.causes if cause.reason == "FieldValueTypeInvalid"]
        if call.served.kind.custom or not unreadable:
            raise
        kind, version = call.served.kind.kind, call.served.version.version
        text = f'{kind} in version "{version}" cannot be handled as a {kind}: '
        raise errors.BadRequest(text + "; ".join(str(cause) for cause in unreadable)) from error


def options_of(call: Call, query: request_info.WriteOptions) -> verbs.Options:
    return verbs.Options(
        version=call.served.version,
        dry_run=query.dry_run,
        manager=query.manager,
        unknown=query.validation,
        decision=call.decision,
        asked=call.info.attributes(),
    )


def read(request: Request, parser: BaseParser | None = None, **context: Any) -> tuple[Any, list[str]]:
    """The body as its parser reads it. DRF's ``request.data`` asks no parser about an empty body; here it is refused.

    ``parser``: from ``parser_of`` when None. ``context``: what ``hooks.DocumentParser`` takes from there.
    """
    parser = parser or parser_of(request)
    return parser.parse(io.BytesIO(request.body), request.content_type, {**request.parser_context, **context})  # type: ignore[return-value] # as our parsers say


def parser_of(request: Request) -> BaseParser:
    """By the media type of the body. Raises UnsupportedMediaType."""
    assert request.negotiator is not None
    return request.negotiator.select_parser(request, request.parsers or ())  # type: ignore[return-value] # raises instead


def _message(call: Call) -> Callable[[str, str], Any]:
    """The table of a body. Raises BadRequest for a message of another kind, whose fields would mean something else."""
    served = call.served

    def find(api_version: str, kind: str) -> Any:
        if kind in {served.kind.kind, ""} and api_version in {served.version.api_version, ""}:
            return served.version.protobuf
        raise errors.BadRequest(f'{kind} in version "{api_version}" cannot be handled as a {served.kind.kind}')

    return find


def patch_body(call: Call, parser: BaseParser, options: verbs.Options) -> Any:
    doc, duplicates = read(call.request, parser)
    if duplicates and options.unknown != "ignore":
        found = [f'duplicate field "{path}"' for path in duplicates]
        steps.report_unknown(call.served.kind, call.served.version, found, options.unknown)
    return doc


def check_type(call: Call, doc: Doc) -> None:
    """Kind and apiVersion must be what the path serves; built-in kinds may leave them out."""
    kind, version = call.served.kind, call.served.version
    given, api_version = doc.get("kind"), doc.get("apiVersion")
    if not kind.custom:
        given = doc["kind"] = kind.kind if given in (None, "") else given
        api_version = doc["apiVersion"] = version.api_version if api_version in (None, "") else api_version
    if not given:
        raise errors.BadRequest(
            f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing in the body"
        )
    if given != kind.kind:
        raise errors.BadRequest(f"the kind in the data ({given}) does not match the expected kind ({kind.kind})")
    if api_version != version.api_version:
        raise errors.BadRequest(
            f"the API version in the data ({api_version}) does not match "
            f"the expected API version ({version.api_version})"
        )


def check_place(call: Call, doc: Doc) -> None:
    metadata = doc.setdefault("metadata", {})
    if metadata is None:
        metadata = doc["metadata"] = {}
    if not isinstance(metadata, dict):
        raise errors.BadRequest("metadata must be an object")
    namespace = metadata.get("namespace")
    if call.served.kind.namespaced and namespace and namespace != call.info.namespace:
        raise errors.BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def check_metadata_of_question(doc: Doc, namespace: str) -> None:
    """As ``check_place``, of what is asked as an object and not stored; no ``namespace`` for what lives in none."""
    metadata = {} if doc.get("metadata") is None else doc["metadata"]
    if not isinstance(metadata, dict):
        raise errors.BadRequest("metadata must be an object")
    for name in ("name", "namespace", "uid"):
        if not isinstance(metadata.get(name), str | None):
            raise errors.BadRequest(f"metadata.{name} must be a string")
    given = metadata.get("namespace")
    if namespace and given and given != namespace:
        raise errors.BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def check_name(call: Call, doc: Doc) -> None:
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


def check_applied(call: Call, body: Any) -> None:
    if not isinstance(body, dict) or not body.get("kind"):
        raise errors.BadRequest("invalid object type: /, Kind=")
    check_type(call, body)
    check_place(call, body)
    check_name(call, body)
    body["metadata"]["name"] = call.info.name


def delete_options(call: Call) -> verbs.Options:
    """From the query and the body, whose apiVersion is the client's own business (W170)."""
    query = call.request.query_params
    body: Doc = {}
    if call.request.body:
        body, _ = read(call.request, protobuf=lambda *_: virtual_resources.delete_options())
    found = request_info.delete_options(query, body)
    return verbs.Options(
        version=call.served.version,
        dry_run=found.dry_run,
        decision=call.decision,
        asked=call.info.attributes(),
        uid=found.uid,
        resource_version=found.resource_version,
        propagation=found.propagation or ("Orphan" if found.orphans else "Background"),
    )
