"""People and groups of people: who they are, what they are members of. Written here and nowhere else, with an audit.

Invariants: only a superuser makes or changes superusers; who makes an account, or changes what signs in as it, could
act as that person and needs the right to (``impersonate``, as RBAC spells it); nobody puts a user into a group that
they are not in themselves, unless they may impersonate it. ``permissions`` changes rights. Called by Django admin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Model

from ocmconsole.accounts import permissions, superusers
from ocmconsole.accounts.permissions import Holder, PeoplePermission, place_of
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.schema.values import quoted
from ocmconsole.kubeapi.storage import audit

# Who changes one of these could act as the person, or lets somebody do so.
IDENTITY = frozenset({"username", "password", "is_active", "is_staff", "is_superuser"})
UNTOLD = frozenset({"id", "last_login", "date_joined"})


Named = Callable[[Actor, str], Iterable[Model]]
_named: list[Named] = []
_unnamed: list[Named] = []


def when_named(act: Named) -> Named:
    """The act makes rows to save in the transaction in which an account is created or gets another name."""
    _named.append(act)
    return act


def when_unnamed(act: Named) -> Named:
    """As ``when_named``, for the name of an account that is deleted, or the former one of an account."""
    _unnamed.append(act)
    return act


def save_named(actor: Actor, username: str) -> None:
    """Save the rows of ``when_named``, in the caller's transaction (``verbs.changing_rights``)."""
    _save_rows(_named, actor, username)


def _save_rows(acts: list[Named], actor: Actor, username: str) -> None:
    for row in [row for act in acts for row in act(actor, username)]:
        row.save()


def save_user(
    actor: Actor, user: User, *, groups: Iterable[Group] | None = None, rights: Iterable[Permission] | None = None
) -> None:
    """Store the account with its groups and rights, as far as they are given. Raises Forbidden."""
    verbs.with_present_rights(actor, lambda actor: _save_user(actor, user, groups, rights))


def _save_user(actor: Actor, user: User, groups: Iterable[Group] | None, rights: Iterable[Permission] | None) -> None:
    old = User.objects.filter(pk=user.pk).first() if user.pk else None
    wish = AccountChange(actor, "update" if old else "create", old or user)
    changed = _changed(old, user)
    if changed:
        wish.needs(PeoplePermission.CHANGE_USER if old else PeoplePermission.ADD_USER)
        wish.respects_superusers(user)
    if old is None or not IDENTITY.isdisjoint(entry["path"] for entry in changed):
        wish.needs_to_impersonate(user, old)
    before = set(old.groups.all()) if old else set()
    after = before if groups is None else set(groups)
    for group in before ^ after:
        wish.needs_membership(group)
    paths = {entry["path"] for entry in changed}
    agree = partial(superusers.agreed_account, actor, old, user, paths, after - before)
    _save(wish, user, changed, _membership(before, after), rights, agree)


def change_own_password(actor: Actor, user: User) -> None:
    """Store a new password; who knows the old one needs no other right. Raises Forbidden for anybody else's."""
    verbs.with_present_rights(actor, lambda actor: _change_own_password(actor, user))


def _change_own_password(actor: Actor, user: User) -> None:
    old = User.objects.get(pk=user.pk)
    wish = AccountChange(actor, "update", old)
    changed = _changed(old, user)
    if actor.user != old.username or {entry["path"] for entry in changed} != {"password"}:
        wish.refuse("only a person's own password is changed in this way")
    _save(wish, user, changed, [], None)


def save_group(actor: Actor, group: Group, *, rights: Iterable[Permission] | None = None) -> None:
    """Store the group with its rights, if given. A name is a name of RBAC's too. Raises Forbidden."""
    verbs.with_present_rights(actor, lambda actor: _save_group(actor, group, rights))


def _save_group(actor: Actor, group: Group, rights: Iterable[Permission] | None) -> None:
    old = Group.objects.filter(pk=group.pk).first() if group.pk else None
    wish = AccountChange(actor, "update" if old else "create", old or group)
    changed = _changed(old, group)
    if changed:
        wish.needs(PeoplePermission.CHANGE_GROUP if old else PeoplePermission.ADD_GROUP)
    if changed and old is not None:
        wish.needs_to_impersonate(group, old)
    _save(wish, group, changed, [], rights, partial(superusers.agreed_group, actor, old, group))


def delete_account(actor: Actor, holder: Holder) -> None:
    """Rights, memberships, sessions and jobs go with the account; its certificates are revoked. Raises Forbidden."""
    verbs.with_present_rights(actor, lambda actor: _delete(actor, holder))


def _delete(actor: Actor, holder: Holder) -> None:
    wish = AccountChange(actor, "delete", holder)
    wish.needs(PeoplePermission[f"DELETE_{wish.word.upper()}"])
    if isinstance(holder, User):
        wish.respects_superusers(User.objects.get(pk=holder.pk))
    else:
        superusers.require_team_stays(Group.objects.get(pk=holder.pk))
    wish.needs_to_impersonate(holder)
    with verbs.changing_rights(actor):
        entry = permissions.audit_entry(actor, wish.act, place_of(holder), diff=_changed(holder, None))
        if isinstance(holder, User):
            _save_rows(_unnamed, actor, User.objects.values_list("username", flat=True).get(pk=holder.pk))
        holder.delete()
        entry.save()


# ---------------------------------------------------------------- permission checks


@dataclass(frozen=True, slots=True)
class AccountChange:
    """Requires the rights that an act on an account needs. Raises Forbidden, and records it."""

    actor: Actor
    verb: str
    about: Holder

    @property
    def word(self) -> str:
        return "user" if isinstance(self.about, User) else "group"

    @property
    def act(self) -> str:
        return f"{self.word}:{self.verb}"

    def needs(self, permission: str) -> None:
        if not authorization.permitted(self.actor, permission).allowed:
            self.refuse(f"user {quoted(self.actor.user)} lacks the permission {permission}")

    def respects_superusers(self, user: User) -> None:
        is_superior = user.is_superuser or (isinstance(self.about, User) and self.about.is_superuser)
        if is_superior and not self.actor.is_master:
            self.refuse("only a superuser changes superusers")

    def needs_to_impersonate(self, *holders: Holder | None) -> None:
        """Each of them, under its name."""
        for place in dict.fromkeys(place_of(holder) for holder in holders if holder is not None):
            asked = Attributes("impersonate", resource=place.plural, name=place.name)
            if not authorization.authorize(self.actor, asked).allowed:
                self.refuse(f"user {quoted(self.actor.user)} may not impersonate {place.plural} {quoted(place.name)}")

    def needs_membership(self, group: Group) -> None:
        """Rights of the group are Django's and RBAC's; who is a member holds them all."""
        self.needs(PeoplePermission.CHANGE_PERMISSION)
        person = authorization.person_of(self.actor)
        is_member = person is not None and person.groups.filter(pk=group.pk).exists()
        if not is_member or group.name not in self.actor.groups:
            self.needs_to_impersonate(group)

    def refuse(self, why: str) -> NoReturn:
        place = place_of(self.about)
        text = f"{self.word} {quoted(place.name)} is not for this user to {self.verb}: {why}"
        attributes = Attributes(self.verb, resource=place.plural, name=place.name)
        audit.record_denial(self.actor, attributes, text, act=self.act)
        raise errors.Forbidden(text, details={"kind": place.plural, "name": place.name})


# ---------------------------------------------------------------- the write


def _save(
    wish: AccountChange,
    holder: Holder,
    changed: list[dict[str, Any]],
    moved: list[dict[str, Any]],
    rights: Iterable[Permission] | None,
    agree: Callable[[], Iterable[Model]] = tuple,
) -> None:
    """``agree`` makes rows to save with it, and raises where it takes other people (``superusers``)."""
    steps = permissions.differences(holder, rights) if rights is not None else []
    reasons = [permissions.require_change(wish.actor, step) for step in steps]
    with verbs.changing_rights(wish.actor):
        for row in agree():
            row.save()
        if changed:
            holder.save()
        for entry in changed if isinstance(holder, User) else ():
            if entry["path"] == "username":
                _save_rows(_unnamed, wish.actor, entry.get("old", ""))
                save_named(wish.actor, entry["new"])
        if isinstance(holder, User):
            _move(holder, moved)
            if not holder.is_active:
                _end_sessions(holder)
        if changed or moved:
            permissions.audit_entry(wish.actor, wish.act, place_of(holder), diff=[*changed, *moved]).save()
        for step, reason in zip(steps, reasons, strict=True):
            permissions.write_change(wish.actor, step, reason)


def _end_sessions(user: User) -> None:
    """Who is active again later signs in anew, and so does who has stolen a browser."""
    store: Any = import_module(settings.SESSION_ENGINE).SessionStore
    store.get_model_class().objects.filter(user=user).delete()


def _membership(before: set[Group], after: set[Group]) -> list[dict[str, Any]]:
    return [
        {"path": "groups", "new" if group in after else "old": group.name}
        for group in sorted(before ^ after, key=lambda group: group.name)
    ]


def _move(user: User, moved: list[dict[str, Any]]) -> None:
    user.groups.add(*Group.objects.filter(name__in=[entry["new"] for entry in moved if "new" in entry]))
    user.groups.remove(*Group.objects.filter(name__in=[entry["old"] for entry in moved if "old" in entry]))


def _changed(old: Holder | None, new: Holder | None) -> list[dict[str, Any]]:
    """The columns that differ, for the audit; of a password only that it does."""
    sides = {"old": old, "new": new}
    found = []
    for name in _columns(old or new):
        values = {side: getattr(holder, name) for side, holder in sides.items() if holder is not None}
        if len(values) == 1 or values["old"] != values["new"]:
            found.append({"path": name} if name == "password" else {"path": name, **values})
    return found


def _columns(holder: Holder | None) -> list[str]:
    assert holder is not None
    return [column.attname for column in holder._meta.concrete_fields if column.attname not in UNTOLD]  # noqa: SLF001 - Django's documented name
