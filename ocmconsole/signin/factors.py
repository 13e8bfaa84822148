"""Removes passkeys, apps and recovery codes of a user who has lost them, so that the password alone signs in."""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User

from ocmconsole.accounts import permissions, superusers
from ocmconsole.accounts.people import AccountChange
from ocmconsole.accounts.permissions import PeoplePermission, place_of
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import Actor


def remove_factors(actor: Actor, user: User) -> list[str]:
    """What was taken away, by name; the right is that to change the account. Raises Forbidden."""
    return verbs.with_present_rights(actor, lambda actor: _forget(actor, user))


def _forget(actor: Actor, user: User) -> list[str]:
    wish = AccountChange(actor, "update", user)
    wish.needs(PeoplePermission.CHANGE_USER)
    wish.respects_superusers(user)
    wish.needs_to_impersonate(user)
    with verbs.while_permitted(actor):
        found = [str(each) for each in Authenticator.objects.filter(user=user).order_by("pk")]
        if found:
            for row in superusers.agreed_loss(actor, user):
                row.save()
            Authenticator.objects.filter(user=user).delete()
            diff = [{"path": "second factors", "old": name} for name in found]
            permissions.audit_entry(actor, wish.act, place_of(user), diff=diff).save()
    return found
