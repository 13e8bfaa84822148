"""The head of a request as a WSGI environ: from its ASGI scope, the listener, and what a trusted proxy says.

A header with ``_`` in its name is dropped, and on the API every cookie. Called by ``exchange``.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote_to_bytes

from django.conf import settings

from ocmconsole.server.listeners import API
from ocmconsole.server.proxy import Client

if TYPE_CHECKING:
    from uvicorn._types import HTTPScope

Environ = dict[str, Any]

BODY_TOO_LARGE = "ocmconsole.body_too_large"  # in the environ: the limit in bytes that was passed, or 0


def environ_of(scope: HTTPScope, listener: str) -> Environ:
    """A WSGI environ of the head alone. Strings are the bytes of the wire as Latin-1, as PEP 3333 wants them."""
    server = scope.get("server") or ("localhost", None)
    headers = _header_variables(scope, listener)
    client = settings.OCMCONSOLE_TRUSTED_PROXIES.client(_connected(scope), headers)
    raw_path = scope.get("raw_path") or scope["path"].encode()
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(raw_path).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 0),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client.address,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": client.scheme,
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "ocmconsole.listener": listener,
        "ocmconsole.peer_certificate": client.certificate,
        BODY_TOO_LARGE: 0,
        **headers,
    }
    environ["CONTENT_LENGTH"] = "0"
    return environ


def put_body(environ: Environ, body: bytes) -> None:
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))


def _connected(scope: HTTPScope) -> Client:
    """Who holds the connection, which is the client or a proxy before it."""
    extensions = cast("dict[str, Any]", scope.get("extensions") or {})
    address = (scope.get("client") or ("", 0))[0]
    certificate, is_local = (extensions.get(f"ocmconsole.{name}") for name in ("peer_certificate", "is_local"))
    return Client(address, certificate, scope["scheme"], bool(is_local))


def _header_variables(scope: HTTPScope, listener: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        if b"_" in name:  # X-Forwarded_For would become the variable of X-Forwarded-For
            continue
        key = name.decode("latin-1").upper().replace("-", "_")
        found.setdefault(key if key == "CONTENT_TYPE" else f"HTTP_{key}", []).append(value.decode("latin-1"))
    found.pop("HTTP_CONTENT_LENGTH", None)
    if listener == API:  # the API has no cookies: a browser cannot be made to speak for its user here
        found.pop("HTTP_COOKIE", None)
    return {name: ("; " if name == "HTTP_COOKIE" else ",").join(values) for name, values in found.items()}
