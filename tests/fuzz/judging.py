"""Sends a case through the hub's own entry, and says what is wrong with the answer (W19).

Everything is real but the network: the server's environ, Django's handler, authentication, the database. An answer is
wrong when its code is none of the case's, when a refusal is no Status, and when a refusal or a read has left anything
behind in the database but its own audit entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import orjson
from django.db import connection
from django.db.models import Model

from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.models import AuditEvent, Change, Owner, Revision, WorkItem
from ocmconsole.kubeapi.watch.stream_response import AsyncStreamResponse
from ocmconsole.server import django_handler, intake, reply, request_environ
from tests.fuzz.cases import Case
from tests.fuzz.world import Credential

State = tuple[Any, ...]


def state() -> State:
    """Number and newest version of every kind's rows, of the log, the work, the owners and the audit of writes."""
    with connection.cursor() as cursor:
        cursor.execute(_state_query())
        return tuple(cursor.fetchall())


@cache
def _state_query() -> str:
    counted: list[tuple[type[Model], str, str]] = [
        (Revision, "value", ""),
        (Change, "revision", ""),
        (WorkItem, "due", ""),
        (Owner, "id", ""),
        (AuditEvent, "revision", " WHERE outcome = 'allowed'"),
        *((kind.model, "resource_version", "") for kind in kinds.all_kinds()),
    ]
    parts = [
        f"SELECT '{model._meta.db_table}', COUNT(*), CAST(MAX({column}) AS text) FROM {model._meta.db_table}{where}"  # noqa: S608 - names of our own
        for model, column, where in counted
    ]
    return " UNION ALL ".join(parts)


@dataclass(frozen=True)
class Answer:
    code: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Judge:
    """``judge`` is the test; the counters say what has been judged."""

    credentials: dict[str, Credential]
    cases: int = 0
    valid: int = 0
    handle: django_handler.Handle = field(default_factory=django_handler.django_handler)
    state: State = field(default_factory=state)

    def judge(self, case: Case) -> list[str]:
        self.cases += 1
        self.valid += case.is_valid
        answer = self.send(case)
        found = list(_flaws(case, answer))
        before, self.state = self.state, state()
        if (answer.code >= 400 or case.writes_nothing) and before != self.state:
            found.append(f"it wrote: {set(self.state) ^ set(before)}")
        return [f"{flaw}\n{answer.code} {answer.body[:600]!r}\n{case!r}" for flaw in found]

    def send(self, case: Case) -> Answer:
        credential = self.credentials[case.actor]
        headers = [*case.headers]
        if credential.token:
            headers.append(("Authorization", f"Bearer {credential.token}"))
        environ = request_environ.environ_of(_scope(case, headers, credential), "api")
        if len(case.body) > intake.LARGEST_BODY:
            environ[request_environ.BODY_TOO_LARGE] = intake.LARGEST_BODY
        else:
            request_environ.put_body(environ, case.body)
        response = self.handle(environ)
        try:
            content = b"" if isinstance(response, AsyncStreamResponse) else b"".join(cast("Any", response))
            sent = {name.decode("latin-1"): value.decode("latin-1") for name, value in reply.headers_of(response)}
            return Answer(response.status_code, sent, content)
        finally:
            response.close()


def _scope(case: Case, headers: list[tuple[str, str]], credential: Credential) -> Any:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": case.method,
        "scheme": "https",
        "path": case.path,
        "raw_path": case.path.encode(),
        "query_string": case.query.encode(),
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 6443),
        "extensions": {"ocmconsole.peer_certificate": credential.certificate},
    }


def _flaws(case: Case, answer: Answer) -> list[str]:
    if answer.code not in case.codes:
        return [f"the answer must be one of {sorted(case.codes)}"]
    is_plain = answer.code == 406 and case.path.startswith("/openapi")  # with an empty body, as the reference
    return [] if answer.code < 400 or is_plain else _status_flaws(answer)


def _status_flaws(answer: Answer) -> list[str]:
    try:
        status = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return ["a refusal must be JSON"]
    wanted = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": answer.code}
    found = [f"{name} must be {value!r}" for name, value in wanted.items() if status.get(name) != value]
    found += [f"{name} must be a text" for name in ("reason", "message") if not _is_text(status.get(name))]
    for cause in status.get("details", {}).get("causes", ()):
        if not (_is_text(cause.get("reason")) and _is_text(cause.get("message"))):
            found.append("a cause must have reason and message")
    if answer.headers.get("content-type") != "application/json":
        found.append("its content type must be JSON")
    return found


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
