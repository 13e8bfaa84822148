"""One identity speaking HTTP to the server, in the words of Kubernetes; what it creates is remembered, to be deleted.

Called by every test of this folder. `create`, `read` and the like state that the call works; `get`, `post` and the like
return whatever comes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import httpx

Doc = dict[str, Any]
T = TypeVar("T")

JSON = "application/json"
TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
END = "k8s.io/initial-events-end"
PATIENCE = 120


@dataclass(frozen=True)
class Api:
    http: httpx.Client
    made: list[str] = field(default_factory=list)

    def with_headers(self, **headers: str) -> Api:
        """The same identity; words of a header's name are joined by dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, http=_Headed(self.http, named))  # type: ignore[arg-type] # asks as a client does

    # ------------------------------------------------------------------------------------------------- whatever comes

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str | None = JSON,
        accept: str = JSON,
        query: dict[str, Any] | None = None,
    ) -> httpx.Response:
        headers = {"Accept": accept}
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if content is not None and kind is not None:
            headers["Content-Type"] = kind
        answer = self.http.request(method, path, content=content, headers=headers, params=query or None)
        if answer.status_code == httpx.codes.CREATED:
            self._remember(method, path, answer)
        return answer

    def get(self, path: str, *, accept: str = JSON, **query: Any) -> httpx.Response:
        return self.ask("GET", path, accept=accept, query=query)

    def post(self, path: str, doc: Any, **query: Any) -> httpx.Response:
        return self.ask("POST", path, doc, query=query)

    def put(self, path: str, doc: Any, **query: Any) -> httpx.Response:
        return self.ask("PUT", path, doc, query=query)

    def patch(self, path: str, how: str, body: Any, **query: Any) -> httpx.Response:
        return self.ask("PATCH", path, body, kind=PATCHES[how], query=query)

    def delete(self, path: str, options: Any = None, **query: Any) -> httpx.Response:
        return self.ask("DELETE", path, options, query=query)

    # ------------------------------------------------------------------------------------------------------ that works

    def create(self, path: str, doc: Any, **query: Any) -> Doc:
        return worked(self.post(path, doc, **query), 201)

    def read(self, path: str, *, accept: str = JSON, **query: Any) -> Doc:
        return worked(self.get(path, accept=accept, **query))

    def merge(self, path: str, body: Doc, **query: Any) -> Doc:
        return worked(self.patch(path, "merge", body, **query))

    def items(self, path: str, **query: Any) -> list[Doc]:
        found: list[Doc] = self.read(path, **query)["items"]
        return found

    def names(self, path: str, **query: Any) -> list[str]:
        return [each["metadata"]["name"] for each in self.items(path, **query)]

    def allowed(self, verb: str, resource: str, *, group: str = "", name: str = "", namespace: str = "") -> bool:
        """What a SelfSubjectAccessReview says."""
        attributes = {"verb": verb, "resource": resource, "group": group, "name": name, "namespace": namespace}
        answer = self.create(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}}
        )
        return bool(answer["status"]["allowed"])

    # ---------------------------------------------------------------------------------------------------------- watches

    @contextmanager
    def watch(self, path: str, *, accept: str = JSON, seconds: int = 60, **query: Any) -> Iterator[Watch]:
        wanted = {"watch": "true", "timeoutSeconds": seconds, **query}
        with self.http.stream("GET", path, params=wanted, headers={"Accept": accept}) as answer:
            if answer.is_error:
                answer.read()
            yield Watch(answer)

    def watched(self, path: str, *, accept: str = JSON, seconds: int = 1, **query: Any) -> list[Doc]:
        """Everything that comes until the server ends the stream."""
        with self.watch(path, accept=accept, seconds=seconds, **query) as watch:
            assert watch.answer.status_code == httpx.codes.OK, watch.answer.text
            return [*watch]

    # ---------------------------------------------------------------------------------------------------------- cleaning

    def clean(self, made: list[str]) -> None:
        """Deletes what was made, newest first; finalizers of tests are taken off."""
        for path in reversed(made):
            answer = self.delete(path, propagationPolicy="Background")
            if answer.status_code == httpx.codes.OK and "metadata" in (doc := answer.json()):
                kept = doc["metadata"].get("finalizers", [])
                if left := [each for each in kept if not each.startswith("example.com/")]:
                    self.patch(path, "merge", {"metadata": {"finalizers": left}})
                elif kept:
                    self.patch(path, "merge", {"metadata": {"finalizers": None}})
        made.clear()

    def _remember(self, method: str, path: str, answer: httpx.Response) -> None:
        if not answer.headers["Content-Type"].startswith(JSON):
            return
        doc = answer.json()
        if method == "POST" and doc.get("metadata", {}).get("uid") and not path.endswith(("/token", "/approval")):
            path = f"{path}/{doc['metadata']['name']}"
        elif method == "POST":
            return
        if path not in self.made:
            self.made.append(path)


@dataclass(frozen=True)
class _Headed:
    """A client that sends some headers with every request."""

    http: httpx.Client
    headers: dict[str, str]

    def request(self, *arguments: Any, headers: dict[str, str], **named: Any) -> httpx.Response:
        return self.http.request(*arguments, headers={**headers, **self.headers}, **named)

    def stream(self, *arguments: Any, headers: dict[str, str], **named: Any) -> Any:
        return self.http.stream(*arguments, headers={**headers, **self.headers}, **named)


class Watch:
    """The events of an open stream; asking for the next one waits for it."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()

    def __iter__(self) -> Iterator[Doc]:
        for line in self._lines:
            if line.strip():
                yield json.loads(line)

    def next(self) -> Doc:
        return next(iter(self))

    def until(self, kind: str, name: str = "") -> list[Doc]:
        """Events up to the first of this type, about this object."""
        seen = []
        for event in self:
            seen.append(event)
            if event["type"] == kind and name in {"", event["object"]["metadata"].get("name", "")}:
                return seen
        raise AssertionError(f"no {kind} {name} in {seen}")


def worked(answer: httpx.Response, code: int = 200) -> Doc:
    assert answer.status_code == code, (
        f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    )
    doc: Doc = answer.json()
    return doc


def refused(answer: httpx.Response, code: int, reason: str, *texts: str) -> Doc:
    """W19: a refusal is a whole Status; its message holds the texts."""
    doc = worked(answer, code)
    assert answer.headers["Content-Type"].startswith(JSON)
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    assert {part: doc.get(part) for part in said} == said
    assert [text for text in texts if text not in doc["message"]] == [], doc["message"]
    return doc


def warnings(answer: httpx.Response) -> list[str]:
    return answer.headers.get_list("Warning")


def eventually(ask: Callable[[], T | None], seconds: float = PATIENCE) -> T:
    """The first answer that is true; controllers work behind the answer to a write."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"still {answer!r} after {seconds} s"
        time.sleep(0.05)
    return answer


def version(doc: Doc) -> int:
    return int(doc["metadata"]["resourceVersion"])


def types(events: list[Doc]) -> list[str]:
    return [event["type"] for event in events]
