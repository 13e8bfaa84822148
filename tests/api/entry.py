"""Somebody at the hub's own HTTP entry, in this process: sees codes, headers and bodies as a client does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import yaml
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ocmconsole.kubeapi.access.actor import MASTERS
from registration.pki import ca
from tests.security.callers import API, forged, known

Doc = dict[str, Any]

JSON, YAML = "application/json", "application/yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
DAY = timedelta(days=1)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass(frozen=True)
class Answer:
    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def doc(self) -> Doc:
        read: Doc = yaml.safe_load(self.body) if self.headers["Content-Type"] == YAML else orjson.loads(self.body)
        return read

    @property
    def message(self) -> str:
        return str(self.doc.get("message", ""))

    @property
    def said(self) -> tuple[int, str]:
        """Code and reason of a refusal, which must be a whole Status."""
        assert {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": self.code,
        }.items() <= self.doc.items()
        return self.code, self.doc["reason"]


@cache
def _client() -> Client:
    """One for all: it loads the middleware once, and the hub gives no cookies here that it could keep."""
    return Client(raise_request_exception=False, **API)


@dataclass(frozen=True)
class Entry:
    """``environ`` is the credential, as in ``tests.security.callers``."""

    environ: dict[str, Any]

    def send(
        self, method: str, path: str, body: Any = None, as_: str = JSON, *, accept: str = JSON, **headers: str
    ) -> Answer:
        raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        named = {f"HTTP_{name.upper()}": value for name, value in headers.items()} | self.environ
        response = _client().generic(method, path, raw, content_type=as_, HTTP_ACCEPT=accept, **named)
        return Answer(response.status_code, dict(response.items()), response.content)

    def get(self, path: str, *, accept: str = JSON) -> Answer:
        return self.send("GET", path, accept=accept)

    def post(self, path: str, body: Any) -> Answer:
        return self.send("POST", path, body)

    def put(self, path: str, body: Any) -> Answer:
        return self.send("PUT", path, body)

    def patch(self, path: str, body: Any, as_: str = MERGE) -> Answer:
        return self.send("PATCH", path, body, as_)

    def delete(self, path: str, options: Doc | None = None) -> Answer:
        return self.send("DELETE", path, options)


def person(user: str, *groups: str) -> Entry:
    """Somebody with a certificate of the hub whose home the settings name now."""
    found = _certified(settings.OCMCONSOLE_HOME, user, groups)
    known(found.environ["ocmconsole.peer_certificate"])  # whose row went with an earlier test
    return found


@cache
def _certified(home: Path, user: str, groups: tuple[str, ...]) -> Entry:
    """Signing takes longer than most requests, so it is done once: by a test that travels by half a day, it may be."""
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "ca.crt").exists():
        ca.ensure_authority(home, ["localhost"], now=timezone.now() - DAY)
    return Entry({"ocmconsole.peer_certificate": forged(user, *groups, around=DAY)})


def root() -> Entry:
    return person("root", MASTERS)


def queries(entry: Entry, method: str, path: str, body: Any = None, as_: str = JSON) -> int:
    """How many queries a request that succeeds takes; savepoints stand where a hub has transactions."""
    with CaptureQueriesContext(connection) as captured:
        answer = entry.send(method, path, body, as_)
    assert answer.code < 300, answer.body
    return sum("SAVEPOINT" not in query["sql"] for query in captured.captured_queries)
