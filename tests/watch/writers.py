"""Clients that create, label, change and delete at random; what others did first is no failure."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod

import httpx

from tests.selection import FULL
from tests.watch.streams import Doc

GROUP = "cluster.open-cluster-management.io"
COLORS = ["red", "green", "blue", None]
MERGE = {"Content-Type": "application/merge-patch+json"}
# How often a document is so large that a few of them fill the buffers of a connection.
LARGE = 0.1
LARGE_BYTES, SMALL_BYTES = 100_000, 400
EXPECTED = {200, 201, 404, 409}
# Between two writes of a writer. Without it they take all that a machine has, which is asked of the hub with FULL=1.
PAUSE_SECONDS = 0.0 if FULL else 0.03


def color(doc: Doc) -> str | None:
    found: str | None = (doc["metadata"].get("labels") or {}).get("color")
    return found


class Writer(ABC):
    def __init__(self, clients: list[httpx.Client], seed: int) -> None:
        self.clients, self.dice = clients, random.Random(seed)  # noqa: S311 - a repeatable choice
        self.done = 0

    def run(self, until: threading.Event) -> None:
        while not until.is_set():
            try:
                answer = self.write(self.dice.choice(self.clients))
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE and "Retry-After" in answer.headers:
                # A server that is frozen with the counter keeps others waiting for longer than they may: as client-go.
                until.wait(int(answer.headers["Retry-After"]))
                continue
            assert answer.status_code in EXPECTED, answer.text
            self.done += answer.is_success
            time.sleep(PAUSE_SECONDS)

    @abstractmethod
    def write(self, client: httpx.Client) -> httpx.Response: ...

    def labels(self) -> Doc:
        return {"color": self.dice.choice(COLORS)}


class MapWriter(Writer):
    """Config maps of one namespace, of which no reconciler writes."""

    def __init__(self, clients: list[httpx.Client], path: str, seed: int, large: float) -> None:
        super().__init__(clients, seed)
        self.path, self.large = path, large

    def write(self, client: httpx.Client) -> httpx.Response:
        name, chance = f"n{self.dice.randrange(10)}", self.dice.random()
        if chance < 0.35:
            return client.post(
                self.path, json={"metadata": {"name": name, "labels": _given(self.labels())}} | self._data()
            )
        if chance < 0.85:
            body: Doc = {"metadata": {"labels": self.labels()}} if chance < 0.6 else self._data()
            return client.patch(f"{self.path}/{name}", json=body, headers=MERGE)
        return client.delete(f"{self.path}/{name}")

    def _data(self) -> Doc:
        size = LARGE_BYTES if self.dice.random() < self.large else SMALL_BYTES
        return {"data": {"text": self.dice.randbytes(size).hex()}}


class SetWriter(Writer):
    """Sets of clusters, each write in another version."""

    def write(self, client: httpx.Client) -> httpx.Response:
        time.sleep(0.1)  # the hub writes their status as well
        version, name = self.dice.choice(["v1alpha1", "v1beta1", "v1beta2"]), f"s{self.dice.randrange(4)}"
        path, chance = f"/apis/{GROUP}/{version}/managedclustersets", self.dice.random()
        if chance < 0.35:
            doc = {"apiVersion": f"{GROUP}/{version}", "kind": "ManagedClusterSet"}
            return client.post(path, json={**doc, "metadata": {"name": name, "labels": _given(self.labels())}})
        if chance < 0.8:
            return client.patch(f"{path}/{name}", json={"metadata": {"labels": self.labels()}}, headers=MERGE)
        return client.delete(f"{path}/{name}")


def _given(labels: Doc) -> Doc:
    return {name: value for name, value in labels.items() if value}
