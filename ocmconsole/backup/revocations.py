"""``revocations.log`` of the home (D22): what was taken away, as it happens, for a restore of an older backup.

Lines of JSON, appended every two seconds from what the audit has gained; ``at`` of the newest line is the second up to
which the log is complete, at most a minute old while the hub serves. A line says what stood afterwards and is applied
by taking away only, so that applying one twice, or one that is out of date, gives nobody anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast

from django.contrib.auth.models import Group, User
from django.core import serializers

from clusters.kinds import MANAGED_CLUSTER, is_accepted
from ocmconsole.accounts import people, permissions
from ocmconsole.backup import revocation_log
from ocmconsole.backup.revocation_log import KnownRevocations, Line
from ocmconsole.core.kinds import SECRET, SERVICE_ACCOUNT
from ocmconsole.core.tokens import bootstrap_terms
from ocmconsole.kubeapi import clock, errors, kinds, verbs
from ocmconsole.kubeapi.access.actor import OWN_PREFIX
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import incarnations, reader
from registration.approvals import services
from registration.keys import key_lines
from registration.models import Decline, IssuedCertificate, KeyLine

if TYPE_CHECKING:
    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

AT_ONCE = 1_000  # audit entries of one look
SEEN = timedelta(minutes=1)  # between two lines that only say up to when the log is complete
AROUND = timedelta(seconds=1)  # rows of a decision and its audit entry have times of one transaction
REASON = "Revoked after the backup that the hub was restored from."
# What gives somebody something after a backup is lost with a restore of it; a person decides again.
DECISIONS = (
    "managedcluster:accept", "permission:grant", "accessrequest:grant", "bootstraptoken:create",
)  # fmt: skip
SECRET_CHANGED = "user:password"  # noqa: S105 - the name of an act
DENIALS = ("managedcluster:decline", "certificatesigningrequest:deny")


# ---------------------------------------------------------------- writing


def note() -> None:
    """Append what was taken away since the last look. Called by the clock."""
    present, now = incarnations.present(), clock.now()
    if present is None:
        return
    last = revocation_log.last_line()
    if last is None or last["incarnation"] != present.uid:
        earlier = AuditEvent.objects.filter(time__lt=present.begun_at).order_by("-pk")
        newest = earlier.values_list("pk", flat=True).first() or 0
        revocation_log.append([{"what": revocation_log.BEGUN, "audit": newest}], present.uid, present.begun_at)
        return
    found = AuditEvent.objects.filter(pk__gt=last["audit"]).order_by("pk")
    entries = list(found[:AT_ONCE])
    lines = [{**line, "audit": entry.pk} for entry in entries for line in _lines_of(entry)]
    if lines or (entries and len(entries) == AT_ONCE) or now - datetime.fromisoformat(last["at"]) >= SEEN:
        upto = entries[-1].pk if entries else last["audit"]
        at = now if len(entries) < AT_ONCE else entries[-1].time
        revocation_log.append([*lines, {"what": revocation_log.SEEN, "audit": upto}], present.uid, at)


def _lines_of(entry: AuditEvent) -> Iterator[Line]:
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
    else:
        yield from _lines_of_people(entry, place)


def _lines_of_people(entry: AuditEvent, place: Line) -> Iterator[Line]:
    """What it took away from people and holders of tokens, and what a person decides again after a restore."""
    decision: Line = {"what": "decided", "act": entry.act, "name": entry.name, "by": entry.user}
    when = {"when": entry.time.isoformat()}
    if entry.act == "permission:revoke":
        for each in entry.diff:
            yield {"what": "permission", **place, "permission": each["path"], "holder": each["old"]}
    elif entry.act == "group:delete":
        yield {"what": "group", "name": entry.name}
    elif entry.act in DECISIONS:
        yield {**decision, **when}
    elif entry.verb == "create" and entry.credential.startswith(bootstrap_terms.PREFIX):
        token = entry.credential.removeprefix(bootstrap_terms.PREFIX)
        yield {"what": "token-spent", "token": token, "name": entry.name, **when}
    elif entry.act.startswith("user:"):
        if any(each["path"] == "password" for each in entry.diff) and entry.verb != "create":
            yield {**decision, **when, "act": SECRET_CHANGED}
        user = User.objects.filter(username=entry.name).first()
        flags = {name: bool(user and getattr(user, name)) for name in FLAGS}
        groups = sorted(user.groups.values_list("name", flat=True)) if user else []
        yield {"what": "person", "name": entry.name, **flags, "groups": groups}


FLAGS = ("is_active", "is_staff", "is_superuser")


def _kinds() -> dict[str, kinds.Kind]:
    """Kinds whose deletion takes something away from somebody."""
    chosen = (MANAGED_CLUSTER, SECRET, SERVICE_ACCOUNT)
    return {kind.resource: kind for kind in kinds.all_kinds() if kind.is_right or kind in chosen}


# ---------------------------------------------------------------- applying

# What an act raises for an object that refuses it, and for a line that is not as ``note`` wrote it.
NOT_APPLIED = (
    errors.ApiError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    serializers.base.DeserializationError,
)


def apply(actor: Actor, known: KnownRevocations, backup_at: datetime) -> list[str]:
    """Take away again what was taken away after the backup. Returns a line for each thing that changed or failed."""
    said = []
    for line in known.lines:
        act = ACTS.get(line["what"])
        is_after = datetime.fromisoformat(line["at"]) >= backup_at - AROUND
        if "when" in line:  # what is only listed; ``at`` is when it was seen
            is_after = datetime.fromisoformat(line["when"]) > backup_at
        if act is None or not is_after:
            continue
        try:
            text = act(actor, line)
        except NOT_APPLIED as error:
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


def _permission(actor: Actor, line: Line) -> str:
    role, _, quoted = line["holder"].partition(" ")
    name = json.loads(quoted)
    users, groups = User.objects.filter(username=name), Group.objects.filter(name=name)
    holder: User | Group | None = users.first() if role == "user" else groups.first()
    obj = None
    if (kind := next((each for each in kinds.all_kinds() if each.resource == line["resource"]), None)) is not None:
        row = reader.read_row(kind, Key(line["namespace"], line["name"]))
        obj = row if row is not None and row.uid == line["uid"] else None
        if obj is None:
            return ""
    if holder is None or not permissions.revoke_permission(actor, line["permission"], to=holder, obj=obj):
        return ""
    return f"permission taken back again: {line['permission']} of {line['holder']}"


def _group(actor: Actor, line: Line) -> str:
    group = Group.objects.filter(name=line["name"]).first()
    if group is None:
        return ""
    people.delete_account(actor, group)
    return f"group deleted again: {line['name']}"


def _decided(actor: Actor, line: Line) -> str:  # noqa: ARG001 - an act's signature
    if line["act"] == SECRET_CHANGED:
        return f"the password of {line['name']} is the one from before {line['when']}: set it again"
    return f"decided after the backup, so decide again: {line['act']} {line['name']}, by {line['by']} at {line['when']}"


def _token_spent(actor: Actor, line: Line) -> str:  # noqa: ARG001 - as above
    return f"came after the backup, with bootstrap token {line['token']}: {line['name']} at {line['when']}"


ACTS = {
    "permission": _permission,
    "group": _group,
    "decided": _decided,
    "token-spent": _token_spent,
    "deleted": _deleted,
    "rights": _rights,
    "disconnected": _disconnected,
    "revoked": _revoked,
    "line-ended": _line_ended,
    "declined": _declined,
    "person": _person,
}
