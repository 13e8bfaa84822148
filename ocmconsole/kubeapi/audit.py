"""The audit: one row for each write (made inside its transaction) and one for each minute's equal denials (D11)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from ocmconsole.kubeapi.models import AuditEvent

if TYPE_CHECKING:
    from datetime import datetime

    from ocmconsole.kubeapi.actor import Actor
    from ocmconsole.kubeapi.authz import Attributes
    from ocmconsole.kubeapi.errors import Doc

# Bookkeeping of the machinery: noise in a diff.
SILENT = frozenset({"metadata.managedFields", "metadata.resourceVersion", "metadata.generation"})
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LONGEST_VALUE = 2_000


def who(actor: Actor) -> dict[str, Any]:
    """The columns that say who acted."""
    return {
        "user": actor.user[:320],
        "groups": list(actor.groups),
        "impersonator": actor.impersonator[:320],
        "credential": actor.credential,
        "address": actor.address[:64],
        "user_agent": actor.user_agent,
        "door": actor.door.value,
        "request_id": actor.request_id,
    }


def diff(old: Doc | None, new: Doc | None, secret: tuple[str, ...] = ()) -> list[Doc]:
    """What a write changed: ``[{"path": "spec.hubAcceptsClient", "old": false, "new": true}]``.

    A value under a ``secret`` top-level field is shown as a digest, never itself.
    """
    found: list[Doc] = []
    _compare("", old or {}, new or {}, found)
    for entry in found:
        if secret and _is_secret(entry["path"], secret):
            entry.update({side: _digest(entry[side]) for side in ("old", "new") if side in entry})
    return found


def _compare(path: str, old: Any, new: Any, found: list[Doc]) -> None:
    if old == new or path in SILENT:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            _compare(f"{path}.{name}" if path else name, old.get(name), new.get(name), found)
        return
    entry: Doc = {"path": path}
    if old is not None:
        entry["old"] = _short(old)
    if new is not None:
        entry["new"] = _short(new)
    found.append(entry)


def _short(value: Any) -> Any:
    text = str(value)
    return value if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"


def _is_secret(path: str, secret: tuple[str, ...]) -> bool:
    return path.split(".", 1)[0] in secret or LAST_APPLIED in path


def _digest(value: Any) -> str:
    return "sha256:" + hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def denied(actor: Actor, attributes: Attributes, reason: str) -> None:
    """Record a refusal. Equal ones within a minute are counted on one row."""
    now = timezone.now()
    same = _minute_digest(actor, attributes, reason, now)
    with transaction.atomic():
        if AuditEvent.objects.filter(same=same).update(count=F("count") + 1, time=now):
            return
        AuditEvent.objects.bulk_create(
            [
                AuditEvent(
                    **who(actor),
                    time=now,
                    outcome=AuditEvent.Outcome.DENIED,
                    act=f"{attributes.resource or attributes.path}:{attributes.verb}"[:80],
                    verb=attributes.verb[:20],
                    resource=(
                        f"{attributes.full_resource}.{attributes.group}"
                        if attributes.group
                        else attributes.full_resource
                    )[:160],
                    namespace=attributes.namespace[:253],
                    name=attributes.name[:253],
                    reason=reason,
                    same=same,
                )
            ],
            ignore_conflicts=True,
        )


def _minute_digest(actor: Actor, attributes: Attributes, reason: str, now: datetime) -> str:
    parts = (actor.user, actor.door, repr(attributes), reason, f"{now:%Y%m%d%H%M}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
