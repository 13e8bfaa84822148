"""/live: notifies an open page that what it shows has changed, never what.

One event stream a visible tab. Everything that is written leaves an audit entry, heartbeats excepted, so the audit's
newest entries are the notices; the process' one follower of the log (``watch.follower``) passes them on. A stream names
resources only, and only for entries about something that its person may see; the page then asks for itself anew.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import orjson
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.views.decorators.http import require_GET

from clusters import queries as clusters
from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON, MANIFEST_WORK
from clusters.kinds import MANAGED_CLUSTER
from clustersets import queries as clustersets
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.rights.set_rights import may_access
from ocmconsole.components.whole_numbers import whole_number
from ocmconsole.kubeapi import clock, errors, request_cache
from ocmconsole.kubeapi.access.actor import MASTERS, EntryPoint
from ocmconsole.kubeapi.access.session import actor_for, actor_of
from ocmconsole.kubeapi.watch import follower
from ocmconsole.kubeapi.watch.follower import Notice, NoticeSubscriber
from ocmconsole.kubeapi.watch.stream_response import AsyncStreamResponse
from ocmconsole.second_approval import decisions, gate
from ocmconsole.signin import lifetime
from placements.kinds import PLACEMENT, PLACEMENT_DECISION
from registration.kinds import CERTIFICATE_SIGNING_REQUEST
from registration.models import CertificateSigningRequest

if TYPE_CHECKING:
    from django.http import HttpRequest

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.kinds import Kind

BEAT_SECONDS = 10.0  # without a notice, until a beat says that the stream lives
SESSION_SECONDS = 60.0  # between two looks whether the session still lasts
MOST_SCOPES = 20  # parts of a page that follow changes
MOST_STREAMS = 20  # of one person in one process
# What lies in the namespace of a cluster and is shown with it.
INSIDE = frozenset({MANAGED_CLUSTER_ADDON.plural, MANIFEST_WORK.plural})

# Shown to who may list the placements of their namespace.
OF_PLACEMENTS = frozenset({PLACEMENT.plural, PLACEMENT_DECISION.plural})


@dataclass(frozen=True, slots=True)
class LiveScope:
    """What a page shows: a resource, or one object of it."""

    plural: str
    name: str = ""

    @classmethod
    def read(cls, text: str) -> Self:
        plural, _, name = text.partition(":")
        return cls(plural, name)

    def covers(self, notice: Notice) -> bool:
        return self.plural == notice.plural and self.name in {"", notice.name}


# ---------------------------------------------------------------- who hears of what


@dataclass
class NoticeVisibility:
    """What a person may see, as far as notices go. Remembers names, so that a deletion reaches who saw the object."""

    actor: Actor
    sees_all: bool = False  # of the clusters
    names: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, actor: Actor) -> Self:
        sees_all = clusters.sees_all(actor)
        names = set() if sees_all else set(clusters.clusters_for(actor).values_list("name", flat=True))
        return cls(actor, sees_all, names)

    @property
    def is_admin(self) -> bool:
        return MASTERS in self.actor.groups

    def of_interest(self, notices: list[Notice]) -> set[str]:
        """Plurals of what changed among what the person may see, with as many queries for a thousand as for one."""
        if self.is_admin:
            return {notice.plural for notice in notices}
        with request_cache.remembering():
            seen = self._clusters(notices) | self._sets(notices) | self._requests(notices) | self._proposals(notices)
            places = self._namespaces(notices)
        return {each.plural for each in notices if each.user == self.actor.user or self._is_seen(each, seen, places)}

    def _is_seen(self, notice: Notice, seen: set[tuple[str, str]], places: set[str]) -> bool:
        if notice.plural in INSIDE:
            return self.sees_all or notice.namespace in self.names
        if notice.plural in OF_PLACEMENTS:
            return notice.namespace in places
        return (notice.plural, notice.name) in seen

    def _namespaces(self, notices: list[Notice]) -> set[str]:
        """Those of placements in the notices in which the actor may list placements."""
        found = {notice.namespace for notice in notices if notice.plural in OF_PLACEMENTS}
        return {each for each in found if may_access(self.actor, "list", PLACEMENT, namespace=each)}

    def _clusters(self, notices: list[Notice]) -> set[tuple[str, str]]:
        named = _named(notices, MANAGED_CLUSTER)
        if not self.sees_all and (new := named - self.names):
            self.names.update(clusters.clusters_for(self.actor).filter(name__in=new).values_list("name", flat=True))
        return {(MANAGED_CLUSTER.plural, name) for name in (named if self.sees_all else named & self.names)}

    def _sets(self, notices: list[Notice]) -> set[tuple[str, str]]:
        named = _named(notices, MANAGED_CLUSTER_SET)
        rows = clustersets.sets_for(self.actor).filter(name__in=named).values_list("name", flat=True) if named else ()
        return {(MANAGED_CLUSTER_SET.plural, name) for name in rows}

    def _requests(self, notices: list[Notice]) -> set[tuple[str, str]]:
        named = _named(notices, CERTIFICATE_SIGNING_REQUEST)
        if not named:
            return set()
        rows = CertificateSigningRequest.objects.filter(name__in=named).values_list("name", "cluster")
        return {
            (CERTIFICATE_SIGNING_REQUEST.plural, name)
            for name, cluster in rows
            if self.sees_all or cluster in self.names
        }

    def _proposals(self, notices: list[Notice]) -> set[tuple[str, str]]:
        named = {notice.name for notice in notices if notice.plural == gate.PLURAL}
        return {(gate.PLURAL, str(found.pk)) for found in decisions.seen_of(self.actor, named)} if named else set()


def _named(notices: list[Notice], kind: Kind) -> set[str]:
    return {notice.name for notice in notices if notice.plural == kind.plural}


# ---------------------------------------------------------------- the stream


_streams: Counter[str] = Counter()
# Not those of the log's readers: what pages ask for must never hold up an agent's watch.
_threads = ThreadPoolExecutor(2, thread_name_prefix="live")


@login_required
@require_GET
def live(request: HttpRequest) -> HttpResponse | AsyncStreamResponse:
    """Server-sent events for ``?scope=managedclusters&scope=managedclustersets:web``."""
    scopes = [LiveScope.read(text) for text in request.GET.getlist("scope")[:MOST_SCOPES]]
    if not scopes:
        return HttpResponse("Say what to listen for: ?scope=managedclusters", status=400, content_type="text/plain")
    last = request.headers.get("Last-Event-ID") or request.GET.get("seen", "")
    seen = whole_number(last, 18)  # below 64 bits
    actor = actor_of(request)
    if _streams[actor.user] >= MOST_STREAMS:
        raise errors.TooManyRequests("You have many pages open; close some, and this one follows what happens again.")
    stream = _events(NoticeVisibility.of(actor), scopes, seen, request.session.session_key or "")
    return AsyncStreamResponse(
        stream, content_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )


async def _events(
    sight: NoticeVisibility, scopes: list[LiveScope], seen: int | None, session: str
) -> AsyncIterator[bytes]:
    """Until the session ends. What happened since ``seen`` comes first."""
    user = sight.actor.user
    _streams[user] += 1
    try:
        async with follower.follower().notices() as notices:
            missed = await follower.on(_threads, follower.notices_after, seen) if seen is not None else []
            yield event("hello", notices.position)
            if text := await _changed(sight, scopes, missed):
                yield text
            checked = monotonic()
            while True:
                text = await _next(notices, sight, scopes)
                if monotonic() - checked > SESSION_SECONDS:
                    checked = monotonic()
                    found = await follower.on(_threads, look_again, session, user)
                    if found is None:
                        yield event("signed-out", notices.position)
                        return
                    sight = found
                yield text or event("beat", notices.position)
    finally:
        _streams[user] -= 1


async def _next(notices: NoticeSubscriber, sight: NoticeVisibility, scopes: list[LiveScope]) -> bytes:
    """The next notice that concerns the page; empty when there was none for as long as a beat."""
    ends = monotonic() + BEAT_SECONDS
    while True:
        try:
            async with asyncio.timeout(ends - monotonic()):
                found = await notices.next()
        except TimeoutError:
            return b""
        if text := await _changed(sight, scopes, found):  # outside: what was taken from the queue is not given up
            return text


async def _changed(sight: NoticeVisibility, scopes: list[LiveScope], notices: list[Notice]) -> bytes:
    concerning = [notice for notice in notices if any(scope.covers(notice) for scope in scopes)]
    if not concerning:
        return b""
    resources = await follower.on(_threads, sight.of_interest, concerning)
    return event("changed", notices[-1].number, resources=sorted(resources)) if resources else b""


def event(name: str, number: int, **data: Any) -> bytes:
    """One server-sent event. Its id is where a stream that is opened again goes on."""
    body = orjson.dumps({"at": clock.now(), **data})
    return b"event: %b\nid: %d\ndata: %b\n\n" % (name.encode(), number, body)


def look_again(session: str, user: str) -> NoticeVisibility | None:
    """What the person may see by now; None when the session is over: ended, deactivated, or with a new password."""
    store = import_module(settings.SESSION_ENGINE).SessionStore(session)
    found = get_user(SimpleNamespace(session=store))  # type: ignore[arg-type] # reads nothing but the session
    if lifetime.ends(store).soonest <= 0:
        return None
    if not (found.is_authenticated and found.is_active and found.get_username() == user):
        return None
    return NoticeVisibility.of(actor_for(found, entry_point=EntryPoint.WEB))
