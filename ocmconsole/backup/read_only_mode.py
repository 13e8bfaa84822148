"""Read-only mode: a person lets the hub write nothing for a while, so that its database may be maintained.

What a person said stands beside the counter of revisions, which every commit takes first: from the moment in which it
is said no process commits a resource. Whatever else writes (sessions, claims of work, times of last use) stops when a
process looks, ``LOOK_SECONDS`` later at most; then its connections refuse (``kubeapi.storage.only_reads``). Heartbeats
are refused too. The hub does not serve in that time as D17 means it, so it counts for no silence. Called by the command
``read_only``, and by a thread of each server and worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.models import Revision
from ocmconsole.kubeapi.storage import audit, audit_acts

LOOK_SECONDS = 1.0  # between two looks of a process at whether the hub only reads: one query
LONGEST_REASON = 200  # characters
ON = audit_acts.declare("hub:read-only", "Hub made read-only")
OFF = audit_acts.declare("hub:writes", "Hub writes again")


def look() -> None:
    """Raises an error of the database, and then what was known before stands."""
    outages.state.read_only = "" if Revision.is_exempt else present()


def present() -> str:
    """Why the hub is read-only, in words; empty where it is not. Raises an error of the database."""
    return Revision.objects.filter(pk=1).values_list("read_only", flat=True).first() or ""


def turn_on(actor: Actor, reason: str) -> None:
    """Raises Forbidden unless the actor is an admin, Conflict if the hub is read-only already."""

    def act(actor: Actor) -> None:
        _require(actor, is_on=False)
        words = f"the hub is read-only since {clock.now():%Y-%m-%d %H:%M:%S} UTC"
        if reason:
            words += f": {reason[:LONGEST_REASON]}"
        _store(actor, ON, words)

    with _exempt():
        verbs.with_present_rights(actor, act)


def turn_off(actor: Actor) -> None:
    """Raises Forbidden unless the actor is an admin, Conflict if the hub writes."""

    def act(actor: Actor) -> None:
        _require(actor, is_on=True)
        _store(actor, OFF, None)

    with _exempt():
        verbs.with_present_rights(actor, act)


@contextmanager
def _exempt() -> Iterator[None]:
    before, Revision.is_exempt = Revision.is_exempt, True
    outages.state.read_only = ""
    try:
        yield
    finally:
        Revision.is_exempt = before


def _require(actor: Actor, *, is_on: bool) -> None:
    if not actor.is_master:
        raise errors.Forbidden("a hub is made read-only, and writes again, by its admins")
    if bool(present()) is not is_on:
        raise errors.Conflict(present() or "the hub is not read-only")


def _store(actor: Actor, act: str, words: str | None) -> None:
    with verbs.while_permitted(actor):
        audit.entry_of(
            actor, act, verb="update", diff=[], resource="revisions", namespace="", name="hub", reason=words or ""
        ).save()
        Revision.objects.filter(pk=1).update(read_only=words)
