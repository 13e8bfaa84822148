"""Superuser rights, and the groups whose members approve, as acts that can take two people.

What counts: making somebody a superuser, joining a group that approves, and what would let one person act as another
who is one of these: another's name, password, or coming back. One's own password is one's own. Called by ``people`` in
the transaction that stores an account, and by commands, which know no person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.models import Group, User

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.schema.values import quoted
from ocmconsole.second_approval import acts, gate
from ocmconsole.second_approval.acts import ActKind
from ocmconsole.second_approval.rules import ActName, teams_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.second_approval.models import ProposedAct

GROUP_IS_CALLED = "group is called"
OF_SUPERUSERS = frozenset({ActName.CA, ActName.SUPERUSER})  # acts that only they may do
TAKEN_OVER = {"username": "gets another name", "password": "gets another password", "is_active": "is active again"}


def agreed_account(
    actor: Actor, old: User | None, user: User, changed: Collection[str], joined: Collection[Group]
) -> list[Model]:
    """Rows to save with an account where what it gets takes other people who agree. Raises Deferred.

    ``changed`` are columns, ``joined`` groups that it was not in.
    """
    if acts.rule_of(ActName.SUPERUSER) is None:
        return []
    gets = sorted(_gets(actor, old, user, changed, joined))
    return _agreed(actor, old.username if old else user.username, gets) if gets else []


def agreed_group(actor: Actor, old: Group | None, group: Group) -> list[Model]:
    """As ``agreed_account``: a group that has members is called as one that approves. Raises Deferred."""
    if acts.rule_of(ActName.SUPERUSER) is None or old is None or old.name == group.name:
        return []
    if not {old.name, group.name} & _teams():
        return []
    return _agreed(actor, old.name, [f"{GROUP_IS_CALLED} {group.name}"])


def agreed_certificate(actor: Actor, name: str, groups: Collection[str], lives: str) -> list[Model]:
    """As ``agreed_account``: a certificate that is worth a superuser, or speaks as who approves. Raises Deferred."""
    if acts.rule_of(ActName.SUPERUSER) is None:
        return []
    account = User.objects.filter(username=name).first()
    if "system:masters" not in groups and (account is None or not _weighs(account)):
        return []
    return _agreed(
        actor, name, [f"gets a certificate for {lives}", *sorted(f"certified as of {each}" for each in groups)]
    )


def agreed_loss(actor: Actor, account: User) -> list[Model]:
    """As ``agreed_account``: the password alone signs in again as one who weighs. Raises Deferred."""
    if acts.rule_of(ActName.SUPERUSER) is None or not _weighs(account):
        return []
    return _agreed(actor, account.username, ["loses passkeys, authenticator app and recovery codes"])


def require_team_stays(group: Group) -> None:
    """The setting names it: without it nobody approves. Raises Forbidden."""
    if group.name in _teams():
        raise errors.Forbidden(
            f"the group {quoted(group.name)} approves what takes several people (OCMCONSOLE_SECOND_APPROVAL), and "
            "without it nobody would: take it out of that setting on the host first",
            details={"kind": "groups", "name": group.name},
        )


def few_people() -> list[str]:
    """Sentences: acts for which there are not enough active accounts, even if the right ones propose them."""
    found = []
    for act, rule in sorted(settings.OCMCONSOLE_SECOND_APPROVAL.items()):
        kind, people = "active accounts", User.objects.filter(is_active=True)
        if act in OF_SUPERUSERS:
            kind, people = "active superusers", people.filter(is_superuser=True)
        asked = [(kind, people.count(), rule.people)]
        if rule.team:  # who proposes need not be of it
            in_team = people.filter(groups__name=rule.team).count()
            asked.append((f"{kind} in the group {quoted(rule.team)}", in_team, rule.people - 1))
        found += [
            f"{act} takes {rule.people} people and cannot be approved: it needs {needed} {kind} at least, and there "
            f"{'is' if number == 1 else 'are'} {number or 'none'}; only --break-glass on the host is left"
            for kind, number, needed in asked
            if number < needed
        ][:1]
    return found


def _gets(actor: Actor, old: User | None, user: User, changed: Collection[str], joined: Collection[Group]) -> list[str]:
    gets = ["becomes a superuser"] if user.is_superuser and not (old is not None and old.is_superuser) else []
    gets += [f"joins {group.name}" for group in joined if group.name in _teams()]
    if old is None or not _weighs(old):
        return gets
    is_own = actor.user == old.username and not actor.impersonator
    taken = [path for path in changed if path in TAKEN_OVER and not (path == "password" and is_own)]
    return gets + [TAKEN_OVER[path] for path in taken if path != "is_active" or user.is_active]


def _weighs(account: User) -> bool:
    return account.is_superuser or account.groups.filter(name__in=_teams()).exists()


def _teams() -> set[str]:
    return teams_of(settings.OCMCONSOLE_SECOND_APPROVAL)


def _agreed(actor: Actor, name: str, gets: list[str]) -> list[Model]:
    if actor.is_controller:  # the hub's first start
        return []
    return gate.passed(gate.WantedAct(actor, ActName.SUPERUSER, name, {"gets": gets}, _evidence(name, gets)))


def _evidence(name: str, gets: list[str]) -> dict[str, Any]:
    """The account, or the group with its members; with the password, or another's would be let in unseen."""
    if any(each.startswith(GROUP_IS_CALLED) for each in gets):
        members = User.objects.filter(groups__name=name).order_by("username")
        return {"Its members now": list(members.values_list("username", flat=True))}
    account = User.objects.filter(username=name).first()
    if account is None:
        return {"The account now": []}
    return {
        "The account now": {
            "number": str(account.pk),
            "active": str(account.is_active),
            "superuser": str(account.is_superuser),
            "staff": str(account.is_staff),
            "groups": list(account.groups.order_by("name").values_list("name", flat=True)),
            "made": account.date_joined.isoformat(),
            "digest of its password's hash": gate.digest_of(account.password)[:16],
        }
    }


def _evidence_of(found: ProposedAct) -> dict[str, Any]:
    return _evidence(found.subject, found.arguments["gets"])


acts.register(
    ActKind(
        ActName.SUPERUSER,
        "Rights of a superuser or approver: {subject}",
        may=lambda actor, _: actor.is_master,
        evidence=_evidence_of,
        again="Then one of you does the same again, with the form or the command.",
    )
)
