"""A managed cluster: the part of a Kubernetes API that an agent asks of it, on a socket, with watches that stay open."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

Doc = dict[str, Any]

NODES = "/api/v1/nodes"
CLAIMS = "/apis/cluster.open-cluster-management.io/v1alpha1/clusterclaims"
SECRETS = "/api/v1/namespaces/open-cluster-management-agent/secrets"
TOKEN = "token-of-the-agents-service-account"


def node(name: str, cpu: str, memory: str, *, unschedulable: bool = False) -> Doc:
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    spec = {"unschedulable": True} if unschedulable else {}
    return {"metadata": {"name": name}, "spec": spec, "status": {"capacity": amounts, "allocatable": amounts}}


def claim(name: str, value: str, **labels: str) -> Doc:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"value": value}}


@dataclass
class Spoke:
    """``livez`` is the status of its health; ``secrets`` by name, as stored."""

    url: str
    kubeconfig: Path
    livez: int = 200
    collections: dict[str, dict[str, Doc]] = field(default_factory=lambda: {NODES: {}, CLAIMS: {}})
    secrets: dict[str, Doc] = field(default_factory=dict)
    _version: int = 1
    _watches: list[tuple[str, queue.SimpleQueue[Doc]]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, path: str, doc: Doc) -> None:
        """Create or replace an object; open watches hear of it."""
        with self._lock:
            self._version += 1
            doc["metadata"]["resourceVersion"] = str(self._version)
            self.collections[path][doc["metadata"]["name"]] = doc
            for watched, events in self._watches:
                if watched == path:
                    events.put({"type": "MODIFIED", "object": doc})

    def opened(self, path: str) -> tuple[list[Doc], queue.SimpleQueue[Doc]]:
        with self._lock:
            events: queue.SimpleQueue[Doc] = queue.SimpleQueue()
            self._watches.append((path, events))
            end = {"resourceVersion": str(self._version), "annotations": {"k8s.io/initial-events-end": "true"}}
            first = [{"type": "ADDED", "object": doc} for doc in self.collections[path].values()]
            return [*first, {"type": "BOOKMARK", "object": {"metadata": end}}], events

    def close(self) -> None:
        for _, events in self._watches:
            events.put({})


@contextmanager
def managed_cluster(folder: Path) -> Iterator[Spoke]:  # noqa: C901 - the methods of its handler
    """Served until the end, on a free port; its kubeconfig is in the folder."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                self._answer(401, {"kind": "Status", "reason": "Unauthorized", "message": "Unauthorized"})
            elif url.path == "/livez":
                self._answer(spoke.livez, {"ok": spoke.livez == 200})
            elif url.path == "/version":
                self._answer(200, {"gitVersion": "v1.34.2"})
            elif url.path in spoke.collections and "watch" in parse_qs(url.query):
                self._stream(url.path)
            elif (name := url.path.removeprefix(f"{SECRETS}/")) in spoke.secrets:
                self._answer(200, spoke.secrets[name])
            else:
                self._answer(404, {"kind": "Status", "reason": "NotFound", "message": "not found", "code": 404})

        def do_POST(self) -> None:
            doc = self._body()
            spoke.secrets[doc["metadata"]["name"]] = doc
            self._answer(201, doc)

        def do_PATCH(self) -> None:
            body, name = self._body(), self.path.rpartition("/")[2]
            if name not in spoke.secrets:
                self._answer(404, {"kind": "Status", "reason": "NotFound", "message": "not found", "code": 404})
                return
            spoke.secrets[name]["data"].update(body["data"])
            self._answer(200, spoke.secrets[name])

        def _body(self) -> Doc:
            doc: Doc = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            return doc

        def _answer(self, status: int, doc: Doc) -> None:
            content = json.dumps(doc).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _stream(self, path: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            first, events = spoke.opened(path)
            try:
                for event in first:
                    self._event(event)
                while event := events.get():
                    self._event(event)
            except OSError:
                return  # the agent has gone

        def _event(self, event: Doc) -> None:
            self.wfile.write(json.dumps(event).encode() + b"\n")
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Tests read the agent's log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    url = f"http://127.0.0.1:{server.server_address[1]}"
    spoke = Spoke(url, folder / "spoke.kubeconfig")
    spoke.kubeconfig.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "spoke", "cluster": {"server": url}}],
                "users": [{"name": "agent", "user": {"token": TOKEN}}],
                "contexts": [{"name": "spoke", "context": {"cluster": "spoke", "user": "agent"}}],
                "current-context": "spoke",
            }
        )
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield spoke
    finally:
        spoke.close()
        server.shutdown()
        server.server_close()
        thread.join()
