"""The watch path: a watch with which an agent comes back, opened on the event loop.

An agent opens each of its watches anew every five to ten minutes, from the revision that it has come to. ``recognise``
takes a request only if it is that and no more: a watch of a stored kind in JSON from a revision, with a certificate and
no header that an agent does not send. Whether the agent is who it was and may watch is asked of the database, for many
requests by one query (``lease_path.LeasePath.standing``). The stream is the one of every watch.

Invariants: whatever is not recognised, not of an agent whose certificate the hub has registered, or not permitted by
RBAC is answered by the ordinary path as if this one did not exist. Answers are the same to the byte. Called by
``direct_answers`` and ``agent_exchange``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from django.core.exceptions import SuspiciousOperation
from django.http import QueryDict

from ocmconsole.kubeapi import errors, kinds, virtual_resources
from ocmconsole.kubeapi.http import request_info
from ocmconsole.kubeapi.http.request_info import PlainQuery
from ocmconsole.kubeapi.watch.streams import WatchScope
from ocmconsole.server.agents import lease_path

if TYPE_CHECKING:
    from uvicorn._types import HTTPScope

    from ocmconsole.kubeapi.access.authorization import Attributes

# As ``kubeapi.urls`` reads the path of a collection.
PATH = re.compile(
    rb"/(?:api|apis/(?P<group>[a-z0-9][-a-z0-9.]*))/(?P<version>v[a-z0-9]+)/"
    rb"(?:namespaces/(?P<namespace>[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/)?(?P<resource>[a-z]+)"
)
# Of a query: letters, and what stands for one byte of ASCII.
PART = re.compile(rb"([A-Za-z]+)=((?:[A-Za-z0-9._~,:/=-]|%[0-7][0-9A-Fa-f])*)")
HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]  # as of any watch


class AgentWatch(NamedTuple):
    """A request that is exactly such a watch. ``certificate`` is DER, proven by TLS or passed on by a trusted proxy.

    ``program``: what the client says of itself.
    """

    certificate: bytes
    address: str
    scope: WatchScope
    asked: Attributes
    program: str


def recognise(scope: HTTPScope) -> AgentWatch | None:
    if scope["method"] != "GET" or b"watch=" not in scope["query_string"] or scope["http_version"] != "1.1":
        return None
    given = list(scope["headers"])
    headers = dict(given)
    if len(headers) != len(given):
        return None
    client = lease_path.certificate_of(scope, headers)
    if client is None or client.certificate is None:
        return None
    if (found := asked_for(scope["raw_path"], scope["query_string"])) is None:
        return None
    program = headers.get(b"user-agent", b"").decode("latin-1")[: lease_path.LONGEST_PROGRAM]
    return AgentWatch(client.certificate, client.address, *found, program)


def asked_for(raw_path: bytes, query_string: bytes) -> tuple[WatchScope, Attributes] | None:
    """What a GET of this path watches, and the right that it needs; None if it is not of this path."""
    found = PATH.fullmatch(raw_path)
    if found is None or b"watch=" not in query_string:
        return None
    place = {name: value.decode() for name, value in found.groupdict().items() if value is not None}
    try:
        query = _plain(query_string) or QueryDict(query_string)
        info = request_info.parse("GET", raw_path.decode(), query, place)
        seen = _seen(info, query) if info.verb == "watch" else None
    except (errors.ApiError, SuspiciousOperation):
        return None
    return None if seen is None else (seen, info.attributes())


def _plain(query_string: bytes) -> PlainQuery | None:
    """What ``QueryDict`` reads of it; None of one that names something twice or holds what is read with more care."""
    found = PlainQuery()
    for part in query_string.split(b"&"):
        if not part:
            continue
        value = PART.fullmatch(part)
        if value is None or (name := value[1].decode()) in found:
            return None
        found[name] = unquote(value[2].decode()) if b"%" in value[2] else value[2].decode()
    return found


def _seen(info: request_info.RequestInfo, query: QueryDict | PlainQuery) -> WatchScope | None:
    """None for what needs more than a stored kind and its log. Raises BadRequest, Invalid."""
    served = kinds.find_served(info.group, info.version, info.resource)
    is_virtual = virtual_resources.collection(info.group, info.version, info.resource) is not None
    if served is None or is_virtual or served.version.warning or "watch" not in served.kind.verbs:
        return None
    if info.namespace and not served.kind.namespaced:
        return None
    options = request_info.list_options(query, watch=True)
    if options.resource_version in {"", "0"} or options.initial_events:
        return None
    seen = WatchScope(served, info.namespace, options)
    options.fields.check_supported(seen.labels())
    return seen
