"""Watch streams: from a revision to an endless line of events, without a thread (W11, W12).

Invariant: no event is lost, repeated or out of order. The stream subscribes first, then sends the present state if it
was asked for, replays what followed from memory or from the log, and follows; a revision it has passed is never sent
again. While it waits, with everything sent, the follower writes its events straight to the connection (``push``); as
soon as the client does not read they go through the queue, at the client's pace.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import orjson

from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.formats import tables
from ocmconsole.kubeapi.kinds import Kind, Served
from ocmconsole.kubeapi.storage import reader
from ocmconsole.kubeapi.watch import change_log, follower, open_watches
from ocmconsole.kubeapi.watch.change_log import ChangeEntry, Standing

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.http.request_info import ListOptions
    from ocmconsole.kubeapi.watch.open_watches import Watcher
    from ocmconsole.kubeapi.watch.stream_response import Sink

BOOKMARK_SECONDS = 60.0  # between two bookmarks
RECHECK_SECONDS = 30.0  # between two checks of credential and right
LONGEST_SECONDS = (1_800.0, 3_600.0)  # of a watch without ``timeoutSeconds``, random in between as a kube-apiserver's
# A client that watches for the end of what it deletes may be overtaken by its own DELETE: on HTTP/1.1 the other request
# waits for a connection. So a watch that names no version gets DELETED events of the last moment too (K42).
MOMENT_SECONDS = 5.0
PUSHED_BYTES = 64 * 1024  # of one write, after which it is looked at whether the client still reads
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
MayGoOn = Callable[[], Awaitable[bool]]


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


class _Selection:
    """What a scope chooses besides namespace and name: one object for all scopes that choose the same."""

    __slots__ = ("__weakref__", "scope")

    def __init__(self, scope: WatchScope) -> None:
        self.scope = scope


_selections: WeakValueDictionary[object, _Selection] = WeakValueDictionary()


def _selection(scope: WatchScope) -> _Selection | None:
    """None for a scope that sees whatever its topic covers."""
    labels, fields = scope.options.labels, scope.options.fields
    is_of_one_name = len(fields.terms) == 1 and fields.pinned("metadata.name") is not None
    if labels.is_empty and (not fields.terms or is_of_one_name) and not scope.deleting:
        return None
    key = (
        scope.served.kind.resource,
        scope.served.version.api_version,
        scope.namespace,
        labels,
        fields,
        scope.deleting,
    )
    return _selections.setdefault(key, _Selection(scope))


@dataclass(slots=True, eq=False)
class Stream:
    """One watch. ``may_go_on`` is asked now and then, and before an event that follows an end of rights.

    A no ends the stream. ``judged`` is how often rights had ended when it was last allowed, -1 if that is not known;
    ``standing`` where the log stood at that moment, if that was read. ``watcher``: who it is, for ``open_watches``.
    ``sink`` is there while something takes events at once, ``listener`` while changes are followed.
    """

    scope: WatchScope
    may_go_on: MayGoOn
    state: State = stored
    judged: int = -1
    standing: Standing | None = None
    watcher: Watcher | None = None
    sink: Sink | None = None
    position: int = 0
    has_columns: bool = False
    is_over: bool = False
    is_ending: bool = False
    listener: follower.ChangeSubscriber | None = None
    topic: follower.Topic = field(init=False)
    selection: _Selection | None = field(init=False)

    def __post_init__(self) -> None:
        self.topic, self.selection = _topic(self.scope), _selection(self.scope)

    @property
    def kind(self) -> Kind:
        return self.scope.served.kind

    def attach(self, sink: Sink) -> None:
        self.sink = sink

    def end(self) -> None:
        """Because the server stops: what is there is sent, then a bookmark, with which the client goes on elsewhere."""
        self.is_ending = True
        if self.listener is not None and self.listener.queue.empty():
            self.listener.queue.put_nowait([])

    async def events(self) -> AsyncIterator[bytes]:
        """Lines of the watch, but for those that go into the sink: these come after all that were asked for before."""
        ends = monotonic() + lasting(self)
        with open_watches.noted(self.scope, self.watcher):
            async with follower.follower().subscribe(self.topic) as self.listener:
                try:
                    async for line in _catch_up(self):
                        yield line
                    if not self.is_over:
                        async for line in _follow(self, self.listener, ends):
                            yield line
                except stored_text.Unreadable as error:
                    yield error_line(error)

    def is_due(self, ended_rights: int) -> bool:
        """Whether it is to be asked again if the watch may go on: rights may have ended, or that is not known."""
        return ended_rights > self.judged

    def push(self, batch: Sequence[ChangeEntry], ended_rights: int) -> int:
        """Write changes to a client that has everything before them; returns how many need nothing more.

        The others wait in the queue: the client does not read, or rights may have ended and must be asked for first.
        """
        sink, done = self.sink, 0
        if sink is None or self.scope.deleting:
            return 0
        while done < len(batch) and not self.is_due(ended_rights) and sink(()):
            lines: list[bytes] = []
            size = 0
            while done < len(batch) and not self.is_due(ended_rights) and size < PUSHED_BYTES:
                try:
                    line = event(self, batch[done])
                except stored_text.Unreadable:  # said, and the stream ended, where it is taken from the queue
                    self.position = batch[done].revision - 1
                    sink(lines)
                    return done
                if line:
                    lines.append(line)
                    size += len(line)
                done += 1
            if lines:
                sink(lines)
        return done


def lasting(stream: Stream) -> float:
    """Seconds after which a watch ends."""
    return float(stream.scope.options.timeout or random.uniform(*LONGEST_SECONDS))  # noqa: S311 - spreads reconnects


def _topic(scope: WatchScope) -> follower.Topic:
    """What a change says without its document being read: namespace and name."""
    name = scope.options.fields.pinned("metadata.name") or ""
    return follower.Topic(scope.served.kind.resource, scope.namespace, name)


async def _catch_up(stream: Stream) -> AsyncIterator[bytes]:
    """Everything that was before the stream was open."""
    options = stream.scope.options
    named = int(options.resource_version or 0)
    wants_state = options.initial_events or (options.initial_events is None and options.resource_version in {"", "0"})
    lines: list[bytes] = []
    if wants_state:
        stream.position, texts = await follower.in_thread(stream.state, stream.scope)
        head = stream.position
        gone = await follower.in_thread(_just_gone, stream, texts)
        lines = _initial(stream, texts, gone)
    else:
        if (standing := stream.standing) is None:
            standing = await follower.in_thread(change_log.standing)
        head = standing.revision
        stream.position, cut = named or head, standing.cuts.get(stream.kind.resource, 0)
        if stream.position < cut:
            lines = [_too_old(stream, cut)]
            stream.is_over = True
    if named > head:  # D21: 410 for a client that has seen a future which a restore removed
        lines = [error_line(errors.Expired(f"too large resource version: {named} ({head})"))]
        stream.is_over = True
    for line in lines:
        yield line
    if stream.is_over:
        return
    async for line in _replay(stream):
        yield line
    if options.initial_events and options.bookmarks and not stream.is_over:
        yield _bookmark(stream, {END_OF_INITIAL: "true"})


def _just_gone(stream: Stream, texts: list[str]) -> list[ChangeEntry]:
    """What ended a moment ago and has not come back, for a watch that names no version."""
    options = stream.scope.options
    if options.resource_version or options.initial_events:
        return []
    entries = change_log.deletions(stream.kind.resource, stream.position, MOMENT_SECONDS)
    present = {_key(orjson.loads(text)) for text in texts} if entries else set()
    return [entry for entry in entries if (entry.namespace, entry.name) not in present]


def _key(doc: Doc) -> tuple[str, str]:
    return doc["metadata"].get("namespace", ""), doc["metadata"]["name"]


def _initial(stream: Stream, texts: list[str], gone: list[ChangeEntry]) -> list[bytes]:
    """The present objects as ADDED, oldest change first, so that the last one's version is a place to resume."""
    docs = [("ADDED", orjson.loads(text)) for text in texts] + [("DELETED", entry.doc) for entry in gone]
    docs = sorted(
        ((verb, doc) for verb, doc in docs if stream.scope.sees(doc)),
        key=lambda event: int(event[1]["metadata"]["resourceVersion"]),
    )
    return [_line(stream, verb, doc) for verb, doc in docs]


async def _replay(stream: Stream) -> AsyncIterator[bytes]:
    """What followed the position, from memory if all of it is there; from then on changes come by the queue."""
    followed = follower.follower()
    recent = followed.recent(stream.topic, stream.position)
    if recent is None:
        async for past in _replay_log(stream):
            yield past
        return
    async for line in permitted(stream, recent):
        yield line


async def _replay_log(stream: Stream) -> AsyncIterator[bytes]:
    """The log from the position to now. It may be cut while a slow client is served, so that is asked each time."""
    while True:
        entries, cut = await follower.in_thread(change_log.since, [stream.kind.resource], stream.position)
        if cut is not None:
            yield _too_old(stream, cut)
            stream.is_over = True
        if cut is not None or not entries:
            return
        # Lines wait for a slow client; one that has lost the right or the credential meanwhile is sent no more of them.
        if not await stream.may_go_on():
            stream.is_over = True
            return
        for entry in entries:
            if line := event(stream, entry):
                yield line


async def permitted(stream: Stream, batch: Sequence[ChangeEntry]) -> AsyncIterator[bytes]:
    """Lines of changes, as long as the watch may go on; a no ends the stream.

    One that is limited to what is being deleted is asked for each batch: it ends, too, when it may see more, which it
    would leave out.
    """
    if stream.scope.deleting and batch:
        stream.judged = -1
    for entry in batch:
        if not await is_still_allowed(stream, follower.follower().ended_rights):
            return
        if line := event(stream, entry):
            yield line


async def is_still_allowed(stream: Stream, ended_rights: int) -> bool:
    """Asks only where rights may have ended since the last answer; a no ends the stream."""
    if stream.is_due(ended_rights):
        stream.is_over = not await stream.may_go_on()
        stream.judged = ended_rights
    return not stream.is_over


def _too_old(stream: Stream, cut: int) -> bytes:
    return error_line(errors.Expired(f"too old resource version: {stream.position} ({cut})"))


async def _follow(stream: Stream, listener: follower.ChangeSubscriber, ends: float) -> AsyncIterator[bytes]:
    checked = marked = monotonic()
    while (now := monotonic()) < ends and not (stream.is_ending and listener.queue.empty()):
        batch = await _next(stream, listener, min(ends, checked + RECHECK_SECONDS) - now)
        if batch is None:
            return
        if monotonic() - checked >= RECHECK_SECONDS:
            checked, stream.judged = monotonic(), -1
        if stream.judged < 0 and not await is_still_allowed(stream, follower.follower().ended_rights):
            return
        async for line in permitted(stream, batch):
            yield line
        if stream.is_over:
            return
        if stream.scope.options.bookmarks and monotonic() - marked > BOOKMARK_SECONDS:
            marked = monotonic()
            yield here(stream)
    if stream.scope.options.bookmarks:
        yield here(stream)


async def _next(stream: Stream, listener: follower.ChangeSubscriber, seconds: float) -> list[ChangeEntry] | None:
    """What waits in the queue; [] after so many seconds. Meanwhile the follower may push: all before has been sent."""
    listener.push = stream.push
    try:
        async with asyncio.timeout(seconds):
            return await listener.queue.get()
    except TimeoutError:
        return []
    finally:
        listener.push = None


def here(stream: Stream) -> bytes:
    """A bookmark. Where nothing waits, everything that the log had for this watcher up to the follower was seen."""
    if stream.listener is not None and stream.listener.queue.empty():
        stream.position = max(stream.position, follower.follower().revision)
    return _bookmark(stream)


def event(stream: Stream, entry: ChangeEntry) -> bytes | None:
    """The change as this watcher sees it, or None (W12, W139: leaving the selection is DELETED, entering it ADDED)."""
    if entry.revision <= stream.position:
        return None
    stream.position = entry.revision
    if not stream.topic.covers(entry):
        return None
    if stream.topic.name and entry.verb == "DELETED":
        stream.judged = -1  # a permission on one object ends with it: another of its name is not shown unasked
    before, after = _seen(stream.selection, entry)
    if after:
        return _shared(stream, "MODIFIED" if before else "ADDED", entry)
    if not before or entry.verb == "DELETED":
        return _shared(stream, "DELETED", entry) if before else None
    old = entry.doc_before
    return _line(stream, "DELETED", {**old, "metadata": {**old["metadata"], "resourceVersion": str(entry.revision)}})


def _seen(selection: _Selection | None, entry: ChangeEntry) -> tuple[bool, bool]:
    """Whether the watcher saw the object before the change, and sees it after: found out once for each selection."""
    if selection is None:
        return entry.verb != "ADDED", entry.verb != "DELETED"
    if (seen := entry.seen.get(selection)) is None:
        seen = entry.seen[selection] = _compared(selection.scope, entry)
    return seen


def _compared(scope: WatchScope, entry: ChangeEntry) -> tuple[bool, bool]:
    now = scope.sees(entry.doc)
    if entry.verb == "ADDED":
        return False, now
    if entry.verb == "DELETED":
        return now, False
    return (scope.sees(entry.doc_before) if entry.before else now), now


def _shared(stream: Stream, verb: str, entry: ChangeEntry) -> bytes:
    """Rendered once for all watchers that want the same form; of a table once in a second, as it has ages."""
    scope = stream.scope
    form: tuple[object, ...] = (verb, scope.served.version.api_version, scope.shape)
    if scope.shape == "Table":
        form = (*form, scope.include_object, stream.has_columns, int(monotonic()))
    line = entry.rendered.get(form)
    if line is None:
        is_stored = scope.served.version is stream.kind.storage and not scope.shape
        line = entry.rendered[form] = (
            b'{"type":"%s","object":%s}\n' % (verb.encode(), entry.text.encode())
            if is_stored
            else _line(stream, verb, entry.doc)
        )
    stream.has_columns |= scope.shape == "Table"
    return line


def _line(stream: Stream, verb: str, doc: Doc) -> bytes:
    return orjson.dumps({"type": verb, "object": _shown(stream, doc)}) + b"\n"


def _shown(stream: Stream, doc: Doc, now: datetime | None = None) -> Doc:
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


def _bookmark(stream: Stream, annotations: Doc | None = None) -> bytes:
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


def error_line(error: errors.ApiError) -> bytes:
    return orjson.dumps({"type": "ERROR", "object": error.status()}) + b"\n"
