"""An OpenID provider, as small as can be, in a thread: it believes every code, which is the user name asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import jwt

CLIENT, SECRET = "hub", "of-the-hub-and-the-provider-alone"


@dataclass
class Provider:
    url: str
    people: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)

    def answer(self, path: str, form: dict[str, str], bearer: str) -> dict[str, Any] | None:
        if path == "/.well-known/openid-configuration":
            places = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}
            endpoints = {f"{name}_endpoint": f"{self.url}/{place}" for name, place in places.items()}
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **endpoints}
        if path == "/token":
            self.asked.append(form)
            claims = {"iss": self.url, "aud": CLIENT, "iat": time.time(), "exp": time.time() + 60}
            token = jwt.encode(claims | self.people[form["code"]], SECRET, algorithm="HS256")
            return {"access_token": form["code"], "id_token": token, "token_type": "Bearer"}
        return self.people.get(bearer) if path == "/userinfo" else None


@contextmanager
def serve() -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            form = {name: values[0] for name, values in parse_qs(self.rfile.read(length).decode()).items()}
            found = provider.answer(self.path, form, self.headers.get("Authorization", "").removeprefix("Bearer "))
            body = json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - http.server's name

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = Provider(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
