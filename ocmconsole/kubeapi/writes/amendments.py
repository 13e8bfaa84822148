"""Writes of the hub's controllers of which much is known, for those that come by the thousand.

``proposals.decided`` asks of any document what it changes. ``amended`` knows: fields that get values of the hub's own
making, which fit the schema, in a document that has passed it. So only the rules are run and the owners of fields kept,
and a condition and what follows from it in the spec share a revision. ``Alike`` are objects that differ in texts alone:
the first goes the whole way, the others get what was made of it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ocmconsole.kubeapi import admission, clock, errors, steps
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.schema import times, values
from ocmconsole.kubeapi.writes.proposals import DEFAULT, attributes
from ocmconsole.kubeapi.writes.store import Write

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Key, Kind
    from ocmconsole.kubeapi.models import Resource
    from ocmconsole.kubeapi.writes.proposals import Edit

VERB = "update"
STATUS = "status"

Field = tuple[str, str]  # a part of the document, and a field in it
Present = tuple["Resource | None", "Write | None", "Doc | None"]


def amended(actor: Actor, kind: Kind, key: Key, present: Present, change: Edit, fields: Collection[Field],
            earlier: admission.Earlier) -> Write | None:  # fmt: skip
    """The write of a controller that changes these fields alone, in the status and outside it.

    ``present`` is as of ``Batch``. None where it must be left to writes of the endpoints, one after the other: a rule
    refuses it or has something to add, or this is not made for the kind.
    """
    row, after, old = present
    if old is None:
        raise errors.not_found(kind.group, kind.plural, key.name)
    if not actor.is_controller or kind.merge is not None or len(kind.versions) > 1 or not kind.has_status:
        return None
    now, new = clock.now(), values.copied_plain(old)
    change(new)
    endpoints = list(_endpoints(old, new))
    reasons = [authorization.require(actor, attributes(kind, VERB, key, each)).reason for each in endpoints]
    steps.stamp(kind, key, old, new, now)
    try:
        for each in endpoints:
            admission.run_defaulters(actor, kind, old, new, each)
            admission.run_validators(actor, kind, old, new, each, earlier=earlier)
    except errors.ApiError:
        return None
    if _others(old, fields) != _others(new, fields):
        return None
    _bookkeep(kind, old, new, endpoints, times.timestamp(now))
    act = admission.act(kind, VERB, old, new)
    return Write(kind, key, row, old, new, actor, VERB, act, reasons[0] if reasons else "", None, after)


def _endpoints(old: Doc, new: Doc) -> Iterator[str]:
    """Those that write what differs (W16), the status first."""
    if old.get(STATUS) != new.get(STATUS):
        yield STATUS
    if {**old, STATUS: None} != {**new, STATUS: None}:
        yield ""


def _others(doc: Doc, fields: Collection[Field]) -> Doc:
    """What no field has, but for what the server counts."""
    counted = {**doc, "metadata": {**doc["metadata"], "generation": None}}
    for part, field in fields:
        counted[part] = {name: value for name, value in (counted.get(part) or {}).items() if name != field}
    return counted


def _bookkeep(kind: Kind, old: Doc, new: Doc, endpoints: Collection[str], moment: str) -> None:
    """managedFields, as the endpoints leave them."""
    for each in endpoints:
        steps.bookkeep(kind, kind.storage, old, new, manager=DEFAULT.manager, subresource=each, now=moment)
        old = {**old, "metadata": {**old["metadata"], "managedFields": new["metadata"].get("managedFields")}}


# ---------------------------------------------------------------- objects that are alike


@dataclass
class Alike:
    """New objects of one kind whose documents differ in texts alone, as of one controller at one moment."""

    proposed: Doc | None = None
    write: Write | None = None

    def remember(self, proposed: Doc, write: Write) -> None:
        """What the pipeline has made of one that the others are like."""
        self.proposed, self.write = proposed, write

    def create(self, actor: Actor, kind: Kind, key: Key, proposed: Doc, reason: str,
               earlier: admission.Earlier) -> Write | None:  # fmt: skip
        """The write that creates it; None where it must go the whole way. Raises what refuses its place or its texts.

        ``proposed`` has a name; ``reason`` is why the actor may.
        """
        like, first = self.proposed, self.write
        if like is None or first is None or first.new is None or not actor.is_controller:
            return None
        if first.kind is not kind or admission.has_defaulters(kind):
            return None
        new, made = values.copied_plain(first.new), first.new
        if not _put_texts(like, proposed, made, new):
            return None
        admission.run_create_validators(kind, key, earlier)
        moment = times.timestamp(clock.now())
        metadata = new["metadata"]
        metadata.pop("resourceVersion", None)
        metadata |= {"name": key.name, "uid": str(uuid.uuid4()), "creationTimestamp": moment}
        if kind.namespaced:
            metadata["namespace"] = key.namespace
        for entry in metadata.get("managedFields") or ():
            entry["time"] = moment
        steps.validate(kind, made, new)
        admission.run_validators(actor, kind, None, new, earlier=earlier)
        act = admission.act(kind, "create", None, new)
        return Write(kind, key, None, None, new, actor, "create", act, reason)


def _put_texts(like: Any, proposed: Any, made: Any, new: Any) -> bool:
    """Put texts of one proposal that another has not into what was made of the other, where these stand there.

    False where the two differ in anything else.
    """
    if not isinstance(like, dict) or not isinstance(proposed, dict) or not isinstance(new, dict):
        return False
    if like.keys() != proposed.keys():
        return False
    for name, value in proposed.items():
        known = like[name]
        if value is known or (type(value) is type(known) and value == known):
            continue
        if isinstance(value, dict):
            if not _put_texts(known, value, made.get(name), new.get(name)):
                return False
        elif type(value) is str and type(known) is str and value and known and made.get(name) == known:
            new[name] = value
        else:
            return False
    return True
