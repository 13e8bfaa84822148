"""Django permissions and guardian's object permissions (D2): given and taken back here and nowhere else.

Invariants: to change a right, an actor may change permissions at all and holds that very right on that very object, so
that nobody grants more than they hold; each change leaves an audit entry in its transaction, and so does each refusal.
Nothing is cached: the next request, and an open watch at its next look (ADR 7), sees what is written here.
Called by Django admin and by ``accounts``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from django.contrib.auth.models import Group, Permission, User
from django.db import IntegrityError, transaction
from guardian.utils import get_group_obj_perms_model, get_user_obj_perms_model

from ocmconsole.kubeapi import errors, kinds, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.kinds import Kind
from ocmconsole.kubeapi.models import AuditEvent, PermissionName, Resource
from ocmconsole.kubeapi.schema.values import quoted
from ocmconsole.kubeapi.storage import audit, audit_acts

Holder = User | Group


class PeoplePermission(PermissionName):
    """Those on Django's own accounts, groups and permissions."""

    ADD_USER = "auth.add_user"
    CHANGE_USER = "auth.change_user"
    DELETE_USER = "auth.delete_user"
    ADD_GROUP = "auth.add_group"
    CHANGE_GROUP = "auth.change_group"
    DELETE_GROUP = "auth.delete_group"
    CHANGE_PERMISSION = "auth.change_permission"


class PermissionAct(StrEnum):
    GRANT = "grant"
    REVOKE = "revoke"


audit_acts.declare("permission:grant", "Permission granted", refused="Granting a permission refused")
audit_acts.declare("permission:revoke", "Permission taken back", refused="Taking back a permission refused")
for _word, _noun in (("user", "Account"), ("group", "Group")):
    audit_acts.declare(f"{_word}:create", f"{_noun} created", refused=f"Creating the {_noun.lower()} refused")
    audit_acts.declare(f"{_word}:update", f"{_noun} changed", refused=f"Changing the {_noun.lower()} refused")
    audit_acts.declare(f"{_word}:delete", f"{_noun} deleted", refused=f"Deleting the {_noun.lower()} refused")


class PermissionChange(NamedTuple):
    """One right of one holder, on one object or, without one, on all."""

    act: PermissionAct
    permission: Permission
    holder: Holder
    obj: Resource | None = None

    @property
    def label(self) -> str:
        return f"{self.permission.content_type.app_label}.{self.permission.codename}"

    @property
    def whom(self) -> str:
        return f"{'user' if isinstance(self.holder, User) else 'group'} {quoted(str(self.holder))}"


class AuditTarget(NamedTuple):
    """What an audit entry is about."""

    group: str
    plural: str
    name: str
    uid: str

    @property
    def resource(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def grant_permission(actor: Actor, permission: str, *, to: Holder, obj: Resource | None = None) -> bool:
    """Give ``app.codename``; False when the holder had it. Raises Forbidden, NotFound, BadRequest."""
    return change_permissions(actor, [PermissionChange(PermissionAct.GRANT, _permission(permission), to, obj)]) == 1


def revoke_permission(actor: Actor, permission: str, *, to: Holder, obj: Resource | None = None) -> bool:
    """Take back what was given to the holder; False when it was not. Raises as ``grant``."""
    return change_permissions(actor, [PermissionChange(PermissionAct.REVOKE, _permission(permission), to, obj)]) == 1


# Makes an audit entry of what is done with the change; may raise an ApiError.
AuditRecord = Callable[[], AuditEvent]


def change_permissions(
    actor: Actor, changes: Sequence[PermissionChange], *, records: Sequence[AuditRecord] = ()
) -> int:
    """All or nothing; how many made a difference. ``records`` make rows that are saved in the same transaction."""

    def act(actor: Actor) -> int:
        reasons = [require_change(actor, each) for each in changes]
        with verbs.changing_rights(actor):
            made = sum(write_change(actor, each, reason) for each, reason in zip(changes, reasons, strict=True))
            for record in records:
                record().save()
            return made

    return verbs.with_present_rights(actor, act)


def differences(holder: Holder, wanted: Iterable[Permission]) -> list[PermissionChange]:
    """What leads from the holder's rights on all objects to these."""
    before, after = set(_of(holder).all()) if holder.pk else set(), set(wanted)
    ordered = sorted(before ^ after, key=lambda permission: permission.pk)
    return [
        PermissionChange(PermissionAct.GRANT if each in after else PermissionAct.REVOKE, each, holder)
        for each in ordered
    ]


# ---------------------------------------------------------------- permission checks


def require_change(actor: Actor, wanted: PermissionChange) -> str:
    """Why the actor may; a no is recorded and raised."""
    _check_object(wanted)
    if actor.is_master:
        return authorization.permitted(actor, wanted.label).reason
    if not authorization.permitted(actor, PeoplePermission.CHANGE_PERMISSION).allowed:
        raise _refused(
            actor, wanted, f"user {quoted(actor.user)} lacks the permission {PeoplePermission.CHANGE_PERMISSION}"
        )
    held = authorization.permitted(actor, wanted.label, obj=wanted.obj, name=wanted.obj.name if wanted.obj else "")
    if not held.allowed:
        raise _refused(actor, wanted, f"user {quoted(actor.user)} does not hold it there")
    return held.reason


def _refused(actor: Actor, wanted: PermissionChange, why: str) -> errors.Forbidden:
    place = _place(wanted)
    what = f"permission {wanted.label} of {wanted.whom} on {quoted(place.name) if wanted.obj else 'all objects'}"
    text = f"{what} is not for this user to {wanted.act}: {why}"
    audit.record_denial(
        actor, Attributes(wanted.act, place.group, place.plural, name=place.name), text, act=_act(wanted)
    )
    return errors.Forbidden(text, details={"kind": place.plural, "group": place.group, "name": place.name})


def _check_object(wanted: PermissionChange) -> None:
    if wanted.obj is None:
        return
    if wanted.permission.content_type.model_class() is not type(wanted.obj):
        raise errors.BadRequest(f"{wanted.label} is no permission on a {_kind(wanted.obj)}")
    if _links(wanted).is_generic():  # it would outlive the object
        raise errors.BadRequest(f"a {_kind(wanted.obj)} has no permissions of its own")


# ---------------------------------------------------------------- the write


def write_change(actor: Actor, wanted: PermissionChange, reason: str) -> bool:
    """The row and its audit entry, inside the caller's transaction; False when nothing had to be done."""
    if wanted.obj is not None and not type(wanted.obj).objects.filter(pk=wanted.obj.pk).exists():
        raise _gone(wanted)
    try:
        with transaction.atomic():
            if not _link(wanted):
                return False
            _entry(actor, wanted, reason).save()
    except IntegrityError as error:  # object or holder went in between
        raise _gone(wanted) from error
    return True


def _link(wanted: PermissionChange) -> bool:
    """Every right is a row that joins permission, holder and, for one object, the object."""
    role = "user" if isinstance(wanted.holder, User) else "group"
    keys: dict[str, Any] = {role: wanted.holder, "permission": wanted.permission}
    if wanted.obj is not None:
        keys["content_object"] = wanted.obj
    if wanted.act is PermissionAct.GRANT:
        return bool(_links(wanted).get_or_create(**keys)[1])
    return bool(_links(wanted).filter(**keys).delete()[0])


def _links(wanted: PermissionChange) -> Any:
    if wanted.obj is None:
        return _of(wanted.holder).through._default_manager  # noqa: SLF001 - Django's documented name
    find = get_user_obj_perms_model if isinstance(wanted.holder, User) else get_group_obj_perms_model
    model: Any = find(wanted.obj)
    return model.objects


def _of(holder: Holder) -> Any:
    return holder.user_permissions if isinstance(holder, User) else holder.permissions


def _entry(actor: Actor, wanted: PermissionChange, reason: str) -> AuditEvent:
    place = _place(wanted)
    return audit_entry(
        actor,
        _act(wanted),
        place,
        diff=[{"path": wanted.label, "new" if wanted.act is PermissionAct.GRANT else "old": wanted.whom}],
        reason=reason,
    )


def audit_entry(
    actor: Actor, act: str, place: AuditTarget, *, diff: list[dict[str, Any]], reason: str = ""
) -> AuditEvent:
    """An audit entry of something that is no resource and has no revision."""
    return audit.entry_of(
        actor,
        act,
        verb=act.rpartition(":")[2],
        resource=place.resource,
        name=place.name[:253],
        uid=place.uid,
        reason=reason,
        diff=diff,
    )


# ---------------------------------------------------------------- names


def _act(wanted: PermissionChange) -> str:
    return f"permission:{wanted.act}"


def place_of(holder: Holder) -> AuditTarget:
    return AuditTarget("", "users" if isinstance(holder, User) else "groups", str(holder), str(holder.pk or ""))


def _place(wanted: PermissionChange) -> AuditTarget:
    """A right on all objects is found with its holder, a right on one with the object."""
    if wanted.obj is None:
        return place_of(wanted.holder)
    kind = _kind(wanted.obj)
    return AuditTarget(kind.group, kind.plural, wanted.obj.name, wanted.obj.uid)


def _kind(obj: Resource) -> Kind:
    return next(kind for kind in kinds.all_kinds() if kind.model is type(obj))


def _gone(wanted: PermissionChange) -> errors.ApiError:
    place = _place(wanted)
    return errors.not_found(place.group, place.plural, place.name)


def _permission(label: str) -> Permission:
    app, _, codename = label.partition(".")
    found = Permission.objects.filter(content_type__app_label=app, codename=codename).first()
    if found is None:
        raise errors.BadRequest(f"there is no permission {quoted(label)}")
    return found
