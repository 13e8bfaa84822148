"""``revocations.log`` of the home (D22): what was taken away, as it happens, for a restore of an older backup.

Lines of JSON, appended every two seconds from what the audit has gained; ``at`` of the newest line is the second up to
which the log is complete, at most a minute old while the hub serves. A line says what stood afterwards and is applied
by taking away only, so that applying one twice, or one that is out of date, gives nobody anything.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.core import serializers

from clusters.kinds import MANAGED_CLUSTER, is_accepted
from ocmconsole.accounts import people
from ocmconsole.core.kinds import SECRET, SERVICE_ACCOUNT
from ocmconsole.kubeapi import clock, errors, incarnations, kinds, verbs
from ocmconsole.kubeapi.access.actor import OWN_PREFIX
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import reader
from registration.approvals import services
from registration.keys import key_lines
from registration.models import Decline, IssuedCertificate, KeyLine

if TYPE_CHECKING:
    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

log = logging.getLogger(__name__)

NAME = "revocations.log"
AT_ONCE = 1_000  # audit entries of one look
SEEN = timedelta(minutes=1)  # between two lines that only say up to when the log is complete
TAIL = 2**16  # bytes at the end of the log in which its last line is
AROUND = timedelta(seconds=1)  # rows of a decision and its audit entry have times of one transaction
REASON = "Revoked after the backup that the hub was restored from."
DENIALS = ("managedcluster:decline", "certificatesigningrequest:deny")
Line = dict[str, Any]


def path() -> Path:
    return Path(settings.OCMCONSOLE_HOME) / NAME


# ---------------------------------------------------------------- writing


def note() -> None:
    """Append what was taken away since the last look. Called by the clock."""
    present, now = incarnations.present(), clock.now()
    if present is None:
        return
    last = _last_line()
    if last is None or last["incarnation"] != present.uid:
        earlier = AuditEvent.objects.filter(time__lt=present.begun_at).order_by("-pk")
        newest = earlier.values_list("pk", flat=True).first() or 0
        _append([{"what": "begun", "audit": newest}], present.uid, present.begun_at)
        return
    found = AuditEvent.objects.filter(pk__gt=last["audit"]).order_by("pk")
    entries = list(found[:AT_ONCE])
    lines = [{**line, "audit": entry.pk} for entry in entries for line in _lines_of(entry)]
    if lines or (entries and len(entries) == AT_ONCE) or now - datetime.fromisoformat(last["at"]) >= SEEN:
        upto = entries[-1].pk if entries else last["audit"]
        at = now if len(entries) < AT_ONCE else entries[-1].time
        _append([*lines, {"what": "seen", "audit": upto}], present.uid, at)


def _append(lines: Iterable[Line], incarnation: str, at: datetime) -> None:
    stamp = {"at": at.isoformat(timespec="seconds"), "incarnation": incarnation}
    text = "".join(f"{json.dumps({**stamp, **line}, sort_keys=True)}\n" for line in lines)
    handle = os.open(path(), os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(handle, text.encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def _last_line() -> Line | None:
    """A line that was cut off by a crash is ended first, and read by nobody."""
    if not path().exists():
        return None
    with path().open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        text = file.read()
        if text and not text.endswith(b"\n"):
            file.write(b"\n")
    lines = _parsed(text.decode(errors="replace").splitlines())
    return lines[-1] if lines else None


def _parsed(lines: Iterable[str]) -> list[Line]:
    found = []
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and {"at", "what", "audit", "incarnation"} <= line.keys():
            found.append(line)
    return found


def _lines_of(entry: AuditEvent) -> Iterator[Line]:  # noqa: C901 - one branch for each thing that can be taken away
    """What one audit entry took away; usually nothing."""
    if entry.outcome != AuditEvent.Outcome.ALLOWED:
        return
    place = {"resource": entry.resource, "namespace": entry.namespace, "name": entry.name, "uid": entry.uid}
    is_derived = entry.user.startswith(OWN_PREFIX)  # the hub's own objects follow from what others did
    kind = None if is_derived else _kinds().get(entry.resource)
    around = (entry.time - AROUND, entry.time + AROUND)
    if kind is not None and entry.verb == "delete":
        yield {"what": "deleted", **place}
    elif kind is not None and kind.is_right and entry.verb != "create":
        row = reader.read_row(kind, Key(entry.namespace, entry.name))
        doc = row.doc if row is not None else {}
        parts: Line = {part: doc[part] for part in ("rules", "subjects") if part in doc}
        yield {"what": "rights", **place, **parts}
    elif entry.act == "managedcluster:disconnect":
        yield {"what": "disconnected", **place}
    elif entry.act == "certificate:revoke":
        for certificate in IssuedCertificate.objects.filter(revoked_at__range=around):
            columns = [field.name for field in IssuedCertificate._meta.concrete_fields]  # noqa: SLF001 - Django's documented API
            yield {"what": "revoked", "row": serializers.serialize("json", [certificate], fields=columns)}
        for line in KeyLine.objects.filter(ended_at__range=around):
            yield {"what": "line-ended", "cluster": line.cluster, "begun": line.begun_at.isoformat()}
    elif entry.act in DENIALS:
        for decline in Decline.objects.filter(declined_at__range=around, lifted_at=None):
            yield {"what": "declined", "row": serializers.serialize("json", [decline])}
    elif entry.act.startswith("user:"):
        user = User.objects.filter(username=entry.name).first()
        flags = {name: bool(user and getattr(user, name)) for name in FLAGS}
        groups = sorted(user.groups.values_list("name", flat=True)) if user else []
        yield {"what": "person", "name": entry.name, **flags, "groups": groups}


FLAGS = ("is_active", "is_staff", "is_superuser")


def _kinds() -> dict[str, kinds.Kind]:
    """Kinds whose deletion takes something away from somebody."""
    chosen = (MANAGED_CLUSTER, SECRET, SERVICE_ACCOUNT)
    return {kind.resource: kind for kind in kinds.all_kinds() if kind.is_right or kind in chosen}


# ---------------------------------------------------------------- reading and applying


@dataclass(frozen=True)
class KnownRevocations:
    """``until`` is the second up to which the log is complete; None of an empty one."""

    lines: tuple[Line, ...]
    until: datetime | None


def read() -> KnownRevocations:
    lines = _parsed(path().read_text(encoding="utf-8").splitlines()) if path().exists() else []
    times = [datetime.fromisoformat(line["at"]) for line in lines]
    return KnownRevocations(tuple(lines), max(times, default=None))


def apply(actor: Actor, known: KnownRevocations, backup_at: datetime) -> list[str]:
    """Take away again what was taken away after the backup. Returns a line for each thing that changed or failed."""
    said = []
    for line in known.lines:
        act = ACTS.get(line["what"])
        if act is None or datetime.fromisoformat(line["at"]) < backup_at - AROUND:
            continue
        try:
            text = act(actor, line)
        except (errors.ApiError, KeyError, serializers.base.DeserializationError) as error:
            text = f"NOT applied, see to it by hand: {line['what']} {line.get('name') or line.get('cluster')}: {error}"
        if text:
            said.append(text)
    return said


def _deleted(actor: Actor, line: Line) -> str:
    kind, key = _kinds()[line["resource"]], Key(line["namespace"], line["name"])
    row = reader.read_row(kind, key)
    if row is None or row.uid != line["uid"] or row.deleted_at is not None:
        return ""
    verbs.delete(actor, kind, key)
    return f"deleted again: {kind.plural} {key}"


def _rights(actor: Actor, line: Line) -> str:
    """Subjects and rules that were there at both times stay."""
    kind, key = _kinds()[line["resource"]], Key(line["namespace"], line["name"])
    row = reader.read_row(kind, key)
    if row is None or row.uid != line["uid"]:
        return ""
    parts: Line = {
        part: [each for each in row.doc.get(part) or [] if each in (line.get(part) or [])]
        for part in ("rules", "subjects")
        if part in row.doc
    }
    if all(parts[part] == (row.doc.get(part) or []) for part in parts):
        return ""

    def narrow(doc: Doc) -> None:
        doc.update(parts)

    verbs.edit(actor, kind, key, narrow)
    return f"rights withdrawn again: {kind.plural} {key}"


def _disconnected(actor: Actor, line: Line) -> str:
    row = reader.read_row(MANAGED_CLUSTER, Key("", line["name"]))
    if row is None or row.uid != line["uid"] or not is_accepted(row.doc):
        return ""
    services.disconnect_cluster(actor, line["name"])
    return f"disconnected again: {line['name']}"


def _revoked(actor: Actor, line: Line) -> str:
    """One that was issued after the backup comes into the register as revoked, and is not recorded as unknown."""
    (read,) = serializers.deserialize("json", line["row"])
    certificate = cast("IssuedCertificate", read.object)
    known = IssuedCertificate.objects.filter(pk=certificate.pk).first()
    if known is not None and known.revoked_at is not None:
        return ""
    row = known or certificate
    row.revoked_at, row.revoked_by, row.revocation_reason = clock.now(), actor.user, REASON
    _save(actor, row, "certificate:revoke", f"{row.common_name} {row.pk}: {REASON}", row.cluster)
    return f"certificate revoked again: {row.common_name}"


def _line_ended(actor: Actor, line: Line) -> str:
    begun = datetime.fromisoformat(line["begun"])
    if not KeyLine.objects.filter(cluster=line["cluster"], begun_at=begun, ended_at=None).exists():
        return ""
    with verbs.batch(actor) as batch:
        batch.records.append(lambda: key_lines.ended(actor, line["cluster"], REASON))
    return f"line of keys ended again: {line['cluster']}"


def _declined(actor: Actor, line: Line) -> str:
    (read,) = serializers.deserialize("json", line["row"])
    decline = cast("Decline", read.object)
    same = {name: getattr(decline, name) for name in ("cluster", "scope", "fingerprint", "requester", "credential")}
    if Decline.objects.filter(lifted_at=None, **same).exists():
        return ""
    decline.pk = None
    _save(actor, decline, "managedcluster:decline", decline.reason, decline.cluster)
    return f"declined again: {decline.cluster}"


def _save(actor: Actor, row: Model, act: str, reason: str, cluster: str) -> None:
    with verbs.batch(actor) as batch:
        batch.note(MANAGED_CLUSTER, Key("", cluster), act, reason)
        batch.records.append(lambda: row)


def _person(actor: Actor, line: Line) -> str:
    user = User.objects.filter(username=line["name"]).first()
    if user is None:
        return ""
    taken = [name for name in FLAGS if getattr(user, name) and not line[name]]
    groups = list(user.groups.all())
    left = [group for group in groups if group.name in line["groups"]]
    if not taken and len(left) == len(groups):
        return ""
    for name in taken:
        setattr(user, name, False)
    people.save_user(actor, user, groups=left)
    return f"rights of a person withdrawn again: {user.username}"


ACTS = {
    "deleted": _deleted,
    "rights": _rights,
    "disconnected": _disconnected,
    "revoked": _revoked,
    "line-ended": _line_ended,
    "declined": _declined,
    "person": _person,
}
