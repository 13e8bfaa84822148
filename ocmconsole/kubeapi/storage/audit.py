"""The audit: one row for each write (made inside its transaction) and one for each minute's equal denials (D11)."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import AuditEvent, AuditSeal, Revision
from ocmconsole.kubeapi.storage import audit_acts, only_reads

if TYPE_CHECKING:
    from datetime import datetime

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.access.authorization import Attributes
    from ocmconsole.kubeapi.errors import Doc

# Bookkeeping of the machinery: noise in a diff.
SILENT = frozenset({"metadata.managedFields", "metadata.resourceVersion", "metadata.generation"})
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Kinds in manifests whose data are shown as digests, and where they have them.
CONFIDENTIAL = ("Secret", "ConfigMap")
CONFIDENTIAL_FIELDS = frozenset({"data", "stringData", "binaryData"})
LONGEST_VALUE = 2_000  # characters of a value in a difference
# What an anonymous caller can make up.
ANYTHING = ("group", "resource", "subresource", "namespace", "name", "version", "path")


def actor_columns(actor: Actor) -> dict[str, Any]:
    """The columns that say who acted."""
    return {
        "user": actor.user[:320],
        "groups": list(actor.groups),
        "impersonator": actor.impersonator[:320],
        "credential": actor.credential,
        "address": actor.address[:64],
        "user_agent": actor.user_agent,
        "entry_point": actor.entry_point.value,
        "request_id": actor.request_id,
    }


def entry_of(actor: Actor, act: str, **columns: Any) -> AuditEvent:
    """The entry of what somebody has done, for the caller to save with it. It happened now unless ``time`` is given.

    Raises LookupError for an act without a sentence (``audit_acts.declare``).
    """
    columns.setdefault("time", clock.now())
    return AuditEvent(
        **actor_columns(actor), outcome=AuditEvent.Outcome.ALLOWED, act=audit_acts.require_act(act), **columns
    )


def diff(old: Doc | None, new: Doc | None, secret: tuple[str, ...] = (), manifests: tuple[str, ...] = ()) -> list[Doc]:
    """What a write changed: ``[{"path": "spec.hubAcceptsClient", "old": false, "new": true}]``.

    A value under a ``secret`` top-level field is shown as a digest, never itself; nor is kubectl's copy of it in an
    annotation, wherever the difference begins. The same holds for Secrets and ConfigMaps in the list at ``manifests``.
    """
    found: list[Doc] = []
    before, after = (_without_copy(doc or {}) if secret or manifests else doc or {} for doc in (old, new))
    if manifests:
        before, after = _within(before, manifests), _within(after, manifests)
    _compare("", before, after, found)
    for entry in found:
        if entry["path"].split(".", 1)[0] in secret:
            entry.update({side: _digest(entry[side]) for side in ("old", "new") if side in entry})
    return found


def _without_copy(doc: Doc) -> Doc:
    metadata = doc.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not isinstance(annotations, dict) or LAST_APPLIED not in annotations:
        return doc
    annotations = {**annotations, LAST_APPLIED: _digest(annotations[LAST_APPLIED])}
    return {**doc, "metadata": {**metadata, "annotations": annotations}}


def _within(doc: Any, path: tuple[str, ...]) -> Any:
    """The document with what is at the path veiled; the path may lead nowhere."""
    if not path:
        return _veiled(doc)
    if not isinstance(doc, dict) or path[0] not in doc:
        return doc
    return {**doc, path[0]: _within(doc[path[0]], path[1:])}


def _veiled(value: Any) -> Any:
    """Manifests without the data of Secrets and ConfigMaps, also of those inside of lists of kind List."""
    if isinstance(value, list):
        return [_veiled(each) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("metadata"), dict):
        value = _without_copy(value)
    if value.get("kind") not in CONFIDENTIAL:
        return {name: _veiled(part) if name == "items" else part for name, part in value.items()}
    return {name: _digests(part) if name in CONFIDENTIAL_FIELDS else part for name, part in value.items()}


def _digests(part: Any) -> Any:
    return {name: _digest(value) for name, value in part.items()} if isinstance(part, dict) else _digest(part)


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


def _digest(value: Any) -> str:
    """Says whether two values are the same; without the audit key nobody can try what the value may be."""
    keyed = hmac.new(settings.AUDIT_KEY.encode(), b"value\0" + repr(value).encode(), hashlib.sha256)
    return f"hmac-sha256:{keyed.hexdigest()[:16]}"


def record_denial(actor: Actor, attributes: Attributes, reason: str, *, act: str = "", is_known: bool = False) -> None:
    """Record a refusal. Equal ones within a minute are counted on one row; ``act`` names it if given.

    What nobody in particular asked for is one row a verb: names are free, and anyone who has no credential must not be
    able to fill the disk with them. A caller that gives no such names, but known ones, says so. A hub that only reads
    refuses without a record (D28).
    """
    if only_reads.is_set():
        return
    now = clock.now()
    if actor.is_anonymous and not is_known:
        attributes, reason = replace(attributes, **dict.fromkeys(ANYTHING, "")), "no credential was shown"
    same = _minute_digest(actor, attributes, reason, now)
    if (sealed := _seal_of(same)) is not None:  # this minute comes again: the clock was put back
        same = _minute_digest(actor, attributes, f"{reason}\0{sealed.number}", now)
    with transaction.atomic():
        if AuditEvent.objects.filter(same=same).update(count=F("count") + 1, time=now):
            return
        Revision.take(0)  # as commits do: no entry becomes visible before one with a lower number
        AuditEvent.objects.bulk_create(
            [
                AuditEvent(
                    **actor_columns(actor),
                    time=now,
                    outcome=AuditEvent.Outcome.DENIED,
                    act=act or f"{attributes.resource or attributes.path or 'anonymous'}:{attributes.verb}"[:80],
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


def _seal_of(same: str) -> AuditSeal | None:
    """The newest, where the row of these denials is sealed: it is counted no more."""
    row = AuditEvent.objects.filter(same=same).values_list("pk", flat=True).first()
    newest = AuditSeal.objects.order_by("-number").first() if row is not None else None
    return newest if newest is not None and row is not None and newest.last >= row else None


def _minute_digest(actor: Actor, attributes: Attributes, reason: str, now: datetime) -> str:
    parts = (actor.user, actor.entry_point, repr(attributes), reason, f"{now:%Y%m%d%H%M}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
