"""The change of a Placement itself that made it misconfigured (D14): which, by whom, when, its difference, its undo.

The audit has what each change replaced, so that earlier specifications follow from the present one; which of them makes
sense is asked of the scheduler's own reading. Where the audit does not hold enough, no change is blamed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from clusters.kinds import spec_of
from clustersets.rights.set_rights import may_access
from ocmconsole.components import yaml_editing
from ocmconsole.components.links import explain_url
from ocmconsole.components.refusals import plain
from ocmconsole.components.whole_numbers import whole_number
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, AuditPermission
from ocmconsole.kubeapi.storage import audit
from placements import queries
from placements.controller import preview
from placements.controller.shared_changes import SCHEDULER
from placements.explaining import causes
from placements.kinds import PLACEMENT
from placements.pages.playground.playground_answer import changes
from placements.pages.playground.review_page import difference_of
from placements.scheduler.pipeline import Unfinished
from placements.scheduler.specification import PlacementSpec

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from placements.models import Placement

MOST_ENTRIES = 1_000  # of the audit that one page reads
SPEC = "spec"
DIGITS = 18  # of an entry's number: a database takes no more


@dataclass(frozen=True)
class BrokenChange:
    """``before``: the specification that it replaced, None where it created the Placement. ``after``: what it wrote.

    ``later``: how many changes of the specification came after it.
    """

    entry: AuditEvent
    before: Doc | None
    after: Doc
    later: int

    @property
    def what(self) -> str:
        """In words, as the history says it."""
        return "created" if self.before is None else causes.differences(self.entry.diff, SPEC)

    @property
    def may_be_undone(self) -> bool:
        return self.before is not None and not self.later


# ---------------------------------------------------------------- which change it was


def broken_changes(docs: Iterable[Doc]) -> dict[str, BrokenChange]:
    """By the uid of a Placement that makes no sense; absent where the audit does not say. One query for all."""
    broken = {doc["metadata"]["uid"]: doc for doc in docs if _is_broken(spec_of(doc))}
    if not broken:
        return {}
    entries = _entries(broken.values())
    found = {uid: _blamed(dict(spec_of(doc)), entries[uid]) for uid, doc in broken.items()}
    return {uid: change for uid, change in found.items() if change is not None}


def _is_broken(spec: Doc) -> bool:
    return bool(PlacementSpec.of({"metadata": {}, "spec": spec}).problem)


def _entries(docs: Iterable[Doc]) -> Mapping[str, list[AuditEvent]]:
    """Changes of specifications by the uid of their Placement, newest first."""
    places = [(doc["metadata"]["namespace"], doc["metadata"]["name"]) for doc in docs]
    written = AuditEvent.objects.filter(
        queries.rows_at(places), resource=PLACEMENT.resource, outcome=AuditEvent.Outcome.ALLOWED
    )
    found: defaultdict[str, list[AuditEvent]] = defaultdict(list)
    for entry in written.exclude(user=SCHEDULER).order_by("-revision")[:MOST_ENTRIES]:
        if entry.verb == "create" or any(_path(part)[0] == SPEC for part in entry.diff):
            found[entry.uid].append(entry)
    return found


def _blamed(spec: Doc, entries: Sequence[AuditEvent]) -> BrokenChange | None:
    """The latest change before which the specification made sense."""
    after = spec
    for later, entry in enumerate(entries):
        if entry.verb == "create":
            return BrokenChange(entry, None, after, later)
        before = _before(after, entry.diff)
        if before is None:
            return None
        if not _is_broken(before):
            return BrokenChange(entry, before, after, later)
        after = before
    return None


def _path(part: Mapping[str, Any]) -> list[str]:
    """Field names in a Placement's specification have no dots, and lists are one value."""
    return str(part["path"]).split(".")


def _before(after: Doc, diff: Iterable[Mapping[str, Any]]) -> Doc | None:
    """The specification before a change; None where the entry does not lead there, as when it was cut."""
    doc: Doc = {SPEC: deepcopy(after)}
    for part in diff:
        *above, last = _path(part)
        if [*above, last][0] != SPEC:
            continue
        place: Any = doc
        for name in above:
            place = place.get(name) if isinstance(place, dict) else None
        if not isinstance(place, dict) or place.get(last) != part.get("new") or _is_cut(part.get("old")):
            return None
        place.pop(last, None)
        if "old" in part:
            place[last] = part["old"]
    found: Doc = doc.get(SPEC) or {}
    return found


def _is_cut(value: Any) -> bool:
    """The audit keeps the beginning of long values."""
    return isinstance(value, str) and len(value) > audit.LONGEST_VALUE


# ---------------------------------------------------------------- as a page shows it


def shown_change(actor: Actor, row: Placement, present: Collection[str], now: datetime) -> dict[str, Any] | None:
    """For the page of a misconfigured Placement. Who made the change is said to who may read the audit's entry.

    ``present``: clusters that its PlacementDecisions name.
    """
    change = broken_changes([row.doc]).get(row.uid)
    if change is None:
        return None
    namespace, name = row.key
    return {
        "change": change,
        "by": said_by(actor, change),
        "lines": difference_of(change.before, change.after) if change.before is not None else [],
        "effects": _effects(actor, row, change.before, present, now) if change.may_be_undone else None,
        "may_undo": may_access(actor, "update", PLACEMENT, namespace=namespace, name=name),
        "explain_url": explain_url("update", PLACEMENT.resource, namespace=namespace, name=name),
    }


def _effects(
    actor: Actor, row: Placement, spec: Doc | None, present: Collection[str], now: datetime
) -> dict[str, int] | None:
    """How many enter, leave and stay with that specification; None where its expressions take too long."""
    try:
        return changes(preview.preview(actor, row.namespace, spec or {}, present=present, key=row.key, now=now))
    except Unfinished:
        return None


def said_by(actor: Actor, change: BrokenChange) -> str:
    """Its user; empty for who may not read that in the audit."""
    is_own = change.entry.user == actor.user
    return change.entry.user if is_own or authorization.permitted(actor, AuditPermission.VIEW).allowed else ""


# ---------------------------------------------------------------- undo


@login_required
@require_POST
def undo(request: HttpRequest, namespace: str, name: str) -> HttpResponse:
    """Puts the specification back as it was before the change that the form names."""
    number = whole_number(request.POST.get("change", ""), DIGITS) or 0
    try:
        undo_change(actor_of(request), Key(namespace, name), number)
    except errors.ApiError as error:
        messages.error(request, plain(error.message))
    else:
        messages.success(
            request, "The specification is as it was before that change. The scheduler decides within moments."
        )
    return redirect("placements:placement", namespace=namespace, name=name)


def undo_change(actor: Actor, key: Key, number: int) -> None:
    """An update of exactly the version that is read here. ``number``: of the audit's entry of the change.

    Raises NotFound, Forbidden, Conflict where that change is not what broke the specification as it is now.
    """
    doc = verbs.get(actor, PLACEMENT, key)
    change = broken_changes([doc]).get(doc["metadata"]["uid"])
    if change is None or change.entry.pk != number or not change.may_be_undone:
        text = "its specification has been changed since; nothing was undone"
        raise errors.conflict(PLACEMENT.group, PLACEMENT.plural, key.name, text)
    options = verbs.Options(unknown="strict", manager=yaml_editing.MANAGER)
    verbs.update(actor, PLACEMENT, key, {**doc, SPEC: change.before}, options=options)
