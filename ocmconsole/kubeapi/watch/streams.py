"""Watch streams: from a revision to an endless line of events, without a thread (W11, W12).

Invariant: no event is lost, repeated or out of order. The stream subscribes first, then sends the present state if it
was asked for, replays the log up to what it saw, and follows; a revision it has passed is never sent again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING

import orjson

from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.formats import tables
from ocmconsole.kubeapi.kinds import Kind, Served
from ocmconsole.kubeapi.storage import reader
from ocmconsole.kubeapi.watch import change_log, follower
from ocmconsole.kubeapi.watch.change_log import ChangeEntry

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.http.request_info import ListOptions

BOOKMARK_SECONDS = 60.0  # between two bookmarks
RECHECK_SECONDS = 30.0  # between two checks of credential and right
LONGEST_SECONDS = (1_800.0, 3_600.0)  # of a watch without ``timeoutSeconds``, random in between as a kube-apiserver's
# A client that watches for the end of what it deletes may be overtaken by its own DELETE: on HTTP/1.1 the other request
# waits for a connection. So a watch that names no version gets DELETED events of the last moment too (K42).
MOMENT_SECONDS = 5.0
END_OF_INITIAL = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchScope:
    """The selection of a watcher, and the form in which matching objects are sent."""

    served: Served
    namespace: str
    options: ListOptions
    shape: str = ""
    include_object: str = "Metadata"
    # The right to read reaches only what is being deleted (authorization.AccessDecision).
    deleting: bool = False

    def sees(self, doc: Doc) -> bool:
        """``doc`` is in the stored version."""
        metadata = doc["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.deleting and not metadata.get("deletionTimestamp"):
            return False
        if not self.options.labels.matches(metadata.get("labels") or {}):
            return False
        return self.options.fields.matches(self.field_values(doc)) if self.options.fields.terms else True

    def field_values(self, doc: Doc) -> dict[str, str]:
        served = self.served.version.from_storage(doc)
        metadata = doc["metadata"]
        values = {"metadata.name": metadata["name"], "metadata.namespace": metadata.get("namespace", "")}
        return values | {label: value(served) for label, value in self.served.version.fields.items()}

    def labels(self) -> set[str]:
        """Field labels that this kind supports (W10, W152)."""
        common = {"metadata.name"} | (
            {"metadata.namespace"} if self.served.kind.namespaced or not self.served.kind.custom else set()
        )
        return common | set(self.served.version.fields)


State = Callable[[WatchScope], tuple[int, list[str]]]


def stored(scope: WatchScope) -> tuple[int, list[str]]:
    """The present state of a stored kind: its revision, and the texts that may be seen."""
    name = scope.options.fields.pinned("metadata.name")
    page = reader.read_page(
        scope.served.kind,
        namespace=scope.namespace,
        selector=scope.options.labels,
        name=name,
        deleting=scope.deleting,
    )
    return page.revision, page.texts


@dataclass(slots=True)
class _Stream:
    scope: WatchScope
    topic: follower.Topic
    may_go_on: Callable[[], bool]
    state: State
    position: int = 0
    has_columns: bool = False
    is_over: bool = False

    @property
    def kind(self) -> Kind:
        return self.scope.served.kind


async def events(scope: WatchScope, may_go_on: Callable[[], bool], state: State = stored) -> AsyncIterator[bytes]:
    """Lines of a watch. ``may_go_on`` is asked now and then, and before an event that follows a change of rights.

    A no ends the stream.
    """
    stream = _Stream(scope, _topic(scope), may_go_on, state)
    ends = monotonic() + (scope.options.timeout or random.uniform(*LONGEST_SECONDS))  # noqa: S311 - spreads reconnects
    async with follower.follower().subscribe(stream.topic) as listener:
        async for line in _catch_up(stream):
            yield line
        if not stream.is_over:
            async for line in _follow(stream, listener, ends):
                yield line


def _topic(scope: WatchScope) -> follower.Topic:
    """What a change says without its document being read: namespace and name."""
    name = scope.options.fields.pinned("metadata.name") or ""
    return follower.Topic(scope.served.kind.resource, scope.namespace, name)


async def _catch_up(stream: _Stream) -> AsyncIterator[bytes]:
    """Everything that was before the stream was open."""
    options = stream.scope.options
    named = int(options.resource_version or 0)
    wants_state = options.initial_events or (options.initial_events is None and options.resource_version in {"", "0"})
    if wants_state:
        stream.position, texts = await follower.in_thread(stream.state, stream.scope)
        head = stream.position
        gone = await follower.in_thread(_just_gone, stream, texts)
        lines = _initial(stream, texts, gone)
    else:
        head = await follower.in_thread(change_log.newest_revision)
        stream.position, lines = named or head, []
    if named > head:  # D21: 410 for a client that has seen a future which a restore removed
        lines = [_error(errors.Expired(f"too large resource version: {named} ({head})"))]
        stream.is_over = True
    for line in lines:
        yield line
    if stream.is_over:
        return
    async for line in _replay(stream):
        yield line
    if options.initial_events and options.bookmarks and not stream.is_over:
        yield _bookmark(stream, {END_OF_INITIAL: "true"})


def _just_gone(stream: _Stream, texts: list[str]) -> list[ChangeEntry]:
    """What ended a moment ago and has not come back, for a watch that names no version."""
    options = stream.scope.options
    if options.resource_version or options.initial_events:
        return []
    entries = change_log.deletions(stream.kind.resource, stream.position, MOMENT_SECONDS)
    present = {_key(orjson.loads(text)) for text in texts} if entries else set()
    return [entry for entry in entries if (entry.namespace, entry.name) not in present]


def _key(doc: Doc) -> tuple[str, str]:
    return doc["metadata"].get("namespace", ""), doc["metadata"]["name"]


def _initial(stream: _Stream, texts: list[str], gone: list[ChangeEntry]) -> list[bytes]:
    """The present objects as ADDED, oldest change first, so that the last one's version is a place to resume."""
    docs = [("ADDED", orjson.loads(text)) for text in texts] + [("DELETED", entry.doc) for entry in gone]
    docs = sorted(
        ((verb, doc) for verb, doc in docs if stream.scope.sees(doc)),
        key=lambda event: int(event[1]["metadata"]["resourceVersion"]),
    )
    return [_line(stream, verb, doc) for verb, doc in docs]


async def _replay(stream: _Stream) -> AsyncIterator[bytes]:
    """The log from the position to now. It may be cut while a slow client is served, so that is asked each time."""
    while True:
        entries, cut = await follower.in_thread(change_log.since, [stream.kind.resource], stream.position)
        if cut is not None:
            yield _error(errors.Expired(f"too old resource version: {stream.position} ({cut})"))
            stream.is_over = True
        if cut is not None or not entries:
            return
        # Lines wait for a slow client; one that has lost the right or the credential meanwhile is sent no more of them.
        if not await follower.in_thread(stream.may_go_on):
            stream.is_over = True
            return
        for entry in entries:
            if line := _event(stream, entry):
                yield line


async def _follow(stream: _Stream, listener: follower.ChangeSubscriber, ends: float) -> AsyncIterator[bytes]:
    checked = marked = monotonic()
    judged = -1  # how often rights had changed when ``may_go_on`` was asked
    while (now := monotonic()) < ends:
        try:
            async with asyncio.timeout(min(ends, checked + RECHECK_SECONDS) - now):
                batch = await listener.queue.get()
        except TimeoutError:
            batch = []
        if batch is None:
            return
        rights = follower.follower().rights
        if monotonic() - checked >= RECHECK_SECONDS or (batch and rights != judged):
            checked, judged = monotonic(), rights
            if not await follower.in_thread(stream.may_go_on):
                return
        for entry in batch:
            if line := _event(stream, entry):
                yield line
        if stream.scope.options.bookmarks and monotonic() - marked > BOOKMARK_SECONDS:
            marked = monotonic()
            yield _here(stream, listener)
    if stream.scope.options.bookmarks:
        yield _here(stream, listener)


def _here(stream: _Stream, listener: follower.ChangeSubscriber) -> bytes:
    """A bookmark. Where nothing waits, everything that the log had for this watcher up to the follower was seen."""
    if listener.queue.empty():
        stream.position = max(stream.position, follower.follower().revision)
    return _bookmark(stream)


def _event(stream: _Stream, entry: ChangeEntry) -> bytes | None:
    """The change as this watcher sees it, or None (W12, W139: leaving the selection is DELETED, entering it ADDED)."""
    if entry.revision <= stream.position:
        return None
    stream.position = entry.revision
    if not stream.topic.covers(entry):
        return None
    before, after = _seen(stream.scope, entry)
    if after:
        return _shared(stream, "MODIFIED" if before else "ADDED", entry)
    if not before or entry.verb == "DELETED":
        return _shared(stream, "DELETED", entry) if before else None
    old = entry.doc_before
    return _line(stream, "DELETED", {**old, "metadata": {**old["metadata"], "resourceVersion": str(entry.revision)}})


def _seen(scope: WatchScope, entry: ChangeEntry) -> tuple[bool, bool]:
    """Whether the watcher saw the object before the change, and sees it after."""
    now = scope.sees(entry.doc)
    if entry.verb == "ADDED":
        return False, now
    if entry.verb == "DELETED":
        return now, False
    return (scope.sees(entry.doc_before) if entry.before else now), now


def _shared(stream: _Stream, verb: str, entry: ChangeEntry) -> bytes:
    """Rendered once for all watchers that want the same form; tables differ in their first row."""
    if stream.scope.shape == "Table":
        return _line(stream, verb, entry.doc)
    form = (verb, stream.scope.served.version.api_version, stream.scope.shape)
    if form not in entry.rendered:
        is_stored = stream.scope.served.version is stream.kind.storage and not stream.scope.shape
        entry.rendered[form] = (
            b'{"type":"%s","object":%s}\n' % (verb.encode(), entry.wire.encode())
            if is_stored
            else _line(stream, verb, entry.doc)
        )
    return entry.rendered[form]


def _line(stream: _Stream, verb: str, doc: Doc) -> bytes:
    return orjson.dumps({"type": verb, "object": _shown(stream, doc)}) + b"\n"


def _shown(stream: _Stream, doc: Doc, now: datetime | None = None) -> Doc:
    served = stream.scope.served
    doc = served.version.from_storage(doc)
    if stream.scope.shape == "Table":
        first = not stream.has_columns
        stream.has_columns = True
        return tables.table(
            served,
            [doc],
            include_object=stream.scope.include_object,
            now=now or clock.now(),
            metadata={"resourceVersion": doc["metadata"]["resourceVersion"]},
            with_columns=first,
        )
    return tables.partial(doc) if stream.scope.shape else doc


def _bookmark(stream: _Stream, annotations: Doc | None = None) -> bytes:
    metadata: Doc = {"resourceVersion": str(stream.position)}
    if annotations:
        metadata["annotations"] = annotations
    version, kind = stream.scope.served.version, stream.kind
    doc: Doc = {"kind": kind.kind, "apiVersion": version.api_version, "metadata": metadata}
    if stream.scope.shape == "Table":
        doc = tables.bookmark(metadata)
    elif stream.scope.shape:
        doc |= {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return orjson.dumps({"type": "BOOKMARK", "object": doc}) + b"\n"


def _error(error: errors.ApiError) -> bytes:
    return orjson.dumps({"type": "ERROR", "object": error.status()}) + b"\n"
