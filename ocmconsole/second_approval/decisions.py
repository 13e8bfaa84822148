"""What people do with a proposed act on its page and at the command line: see it, approve, decline, carry it out.

Invariant: nobody approves their own, nor what they have not seen, and what is approved is stored before it is done; an
act that was approved and not done, because the server was killed or it takes a hand, is done by who may do it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from django.db.models import Q

from ocmconsole.kubeapi import clock, errors, request_cache, verbs
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.storage import audit
from ocmconsole.second_approval import acts, gate
from ocmconsole.second_approval.models import ProposedAct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.second_approval.rules import Rule

KEPT = timedelta(days=90)  # closed proposals, for who asks on the page what became of one
MOST_FORGOTTEN = 500  # at once
MOST_READ = 500  # proposals that a list looks through: who may see one is asked of its act

State = ProposedAct.State


# ---------------------------------------------------------------- reads


def may_see(actor: Actor, found: ProposedAct) -> bool:
    """Who proposed or approved it, or may do it; admins see all. By account: names may be given anew."""
    if actor.is_master or has_proposed(actor, found):
        return True
    name = gate.name_behind(actor)
    approving = (each.account.username for each in found.approvals.all() if each.account)
    return name in approving or acts.kind_of(found.act).may(actor, found)


def has_proposed(actor: Actor, found: ProposedAct) -> bool:
    """Whether it is the actor's own to take back. Of what no account proposed all that there is to go by is a name."""
    name = found.account.username if found.account is not None else found.proposed_by
    return name == gate.name_behind(actor)


def find(actor: Actor, pk: int) -> ProposedAct:
    """Raises NotFound, for what the actor may not see as well."""
    found = ProposedAct.objects.filter(pk=pk).first()
    if found is None or not may_see(actor, found):
        raise errors.not_found(gate.GROUP, gate.PLURAL, str(pk))
    return found


def waiting_for(actor: Actor) -> list[ProposedAct]:
    """What waits and the actor may see, the oldest first."""
    rows = ProposedAct.objects.filter(state=State.WAITING, expires__gt=clock.now()).order_by("proposed_at", "pk")
    return _seen_by(actor, rows)


def closed_for(actor: Actor) -> list[ProposedAct]:
    """What was carried out, declined, changed or has expired, the newest first."""
    rows = ProposedAct.objects.exclude(state=State.WAITING, expires__gt=clock.now()).order_by("-proposed_at", "-pk")
    return _seen_by(actor, rows)


def seen_of(actor: Actor, names: Iterable[str]) -> list[ProposedAct]:
    """Of the proposals with these numbers those that the actor may see."""
    return _seen_by(actor, ProposedAct.objects.filter(pk__in=[name for name in names if name.isdecimal()]))


def _seen_by(actor: Actor, rows: QuerySet[ProposedAct]) -> list[ProposedAct]:
    """With as many queries for five hundred as for one: what each asks is read for all."""
    proposed = list(rows.select_related("account").prefetch_related("approvals__account")[:MOST_READ])
    if not proposed:
        return []
    with request_cache.sharing():
        gate.meet(proposed)
        return [found for found in proposed if may_see(actor, found)]


def needs(actor: Actor) -> list[ProposedAct]:
    """What waits for this very person: to approve it, or, where enough people stand behind it, to do it."""
    with request_cache.sharing():
        return [found for found in waiting_for(actor) if _needs(actor, found)]


def _needs(actor: Actor, found: ProposedAct) -> bool:
    if not is_complete(found):
        return not approval_obstacle(actor, found)
    if acts.kind_of(found.act).perform is not None:
        return performs(actor, found)
    account = gate.account_behind(actor)
    return account is not None and gate.stands_behind(found, account)


def is_complete(found: ProposedAct) -> bool:
    rule = acts.rule_of(found.act)
    return rule is not None and len(gate.standing(found, rule)) >= rule.people


def has_changed(found: ProposedAct) -> bool:
    """Whether what it was proposed on is no longer so."""
    present = acts.kind_of(found.act).evidence(found)
    return present is None or gate.plain(present) != found.evidence


def approval_obstacle(actor: Actor, found: ProposedAct) -> str:
    """Why this actor cannot approve it, or ""."""
    rule, account = acts.rule_of(found.act), gate.account_behind(actor)
    if rule is None:
        return "It takes no second person any more."
    state = found.present_state(clock.now())
    if state is not State.WAITING:
        return f"It does not wait any more: {state.label.lower()}."
    if account is None:
        return "Approving takes an account, and a proof of who it is."
    if account.pk == found.account_id:
        return "Nobody approves their own."
    if gate.stands_behind(found, account):
        return "You have approved it."
    why = gate.obstacle(found, account, rule)
    return f"{why[0].upper()}{why[1:]}." if why else ""


def forget_old() -> int:
    """Closed proposals go after ``KEPT``; the audit keeps what was proposed, approved and done. Returns how many."""
    until = clock.now() - KEPT
    closed = Q(closed_at__lt=until) | Q(closed_at=None, expires__lt=until)
    old = ProposedAct.objects.filter(closed).values_list("pk", flat=True)[:MOST_FORGOTTEN]
    return ProposedAct.objects.filter(pk__in=list(old)).delete()[0] if old else 0


# ---------------------------------------------------------------- acts


def approve(actor: Actor, pk: int, digest: str) -> ProposedAct:
    """Store that the actor stands behind what has this digest. Raises NotFound, Forbidden, Conflict.

    Conflict is raised too where the evidence has changed since, which closes the proposal.
    """
    found = verbs.with_present_rights(actor, lambda actor: _approve(actor, pk, digest))
    if found.state == State.CHANGED:
        raise errors.Conflict(
            "What this was proposed on has changed since, so your approval was not stored: it must be proposed again."
        )
    return found


def _approve(actor: Actor, pk: int, digest: str) -> ProposedAct:
    with verbs.while_permitted(actor), request_cache.forgetting():
        found = find(actor, pk)
        why = approval_obstacle(actor, found)
        if not why and digest != found.digest:
            raise errors.Conflict("This is not what you have seen. Read it again.")
        if not why and has_changed(found):
            gate.close_changed(found, actor)
            found.save()
        elif not why:
            gate.approved(found, actor)
    if why:
        _refuse(actor, found, "approve", why)
    return found


def performs(actor: Actor, found: ProposedAct) -> bool:
    """Whether the actor may have it done on its page, once enough people stand behind it."""
    kind = acts.kind_of(found.act)
    if kind.perform is None or not kind.may(actor, found):
        return False
    account = gate.account_behind(actor)
    return not kind.by_proposer or (account is not None and account.pk == found.account_id)


def decline(actor: Actor, pk: int, reason: str) -> ProposedAct:
    """It is not done; who proposed it takes it back so. Raises NotFound, Forbidden, Conflict."""
    return verbs.with_present_rights(actor, lambda actor: _decline(actor, pk, reason))


def _decline(actor: Actor, pk: int, reason: str) -> ProposedAct:
    with verbs.while_permitted(actor), request_cache.forgetting():
        found = find(actor, pk)
        state = found.present_state(clock.now())
        if state is not State.WAITING:
            raise errors.Conflict(f"It does not wait any more: {state.label.lower()}.")
        may = has_proposed(actor, found) or acts.kind_of(found.act).may(actor, found)
        if may:
            gate.close_declined(found, actor, reason)
            found.save()
    if not may:
        _refuse(actor, found, "decline", "You may not do it, and so not decline it.")
    return found


def carry_out(actor: Actor, pk: int, digest: str) -> None:
    """Do what enough people have approved, as the actor and with their rights. Raises as the act does, and Waits."""
    found = find(actor, pk)
    kind = acts.kind_of(found.act)
    if kind.perform is None:
        raise errors.Conflict(f"It is done by hand. {kind.again}")
    if acts.rule_of(found.act) is None:
        raise errors.Conflict("It takes no second person any more: it is done as everything else, where it is done.")
    if found.present_state(clock.now()) is not State.WAITING:
        raise errors.Conflict("It does not wait any more.")
    if not performs(actor, found):
        raise errors.Forbidden("It is carried out by the one who proposed it, because it goes on in that name.")
    with gate.having_seen(digest):
        gate.require_seen(found)
        kind.perform(actor, found)


def _refuse(actor: Actor, found: ProposedAct, verb: str, why: str) -> NoReturn:
    asked = Attributes(verb, gate.GROUP, gate.PLURAL, name=str(found.pk))
    audit.record_denial(actor, asked, why, act=f"second-approval:{verb}")
    raise errors.Forbidden(why)


def people_behind(found: ProposedAct) -> tuple[list[str], Rule | None]:
    """Who stands behind it now, and how many it takes."""
    rule = acts.rule_of(found.act)
    return (gate.standing(found, rule) if rule is not None else []), rule
