"""The gate: whether an act may be done now, or waits for more people. One for every entry point.

The service or validator of an act calls ``passed`` inside of its transaction, under the counter's lock, so that all
ways in meet it and nothing can change between the answer and the act. Invariants: who stands behind an act are accounts
that may do it now and have proved who they are; nobody is counted twice, and who impersonates is who they are. What
was approved is act, arguments and evidence as they were proposed: with other evidence it is another proposal, which
nobody has approved yet. Doing the same again is how somebody approves without a page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings
from django.contrib.auth.models import User

from ocmconsole.kubeapi import clock, errors, request_cache, verbs
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_for, actor_of_present, peoples_groups, stand_in
from ocmconsole.kubeapi.schema.values import quoted
from ocmconsole.kubeapi.storage import audit
from ocmconsole.kubeapi.watch import change_log
from ocmconsole.second_approval import acts
from ocmconsole.second_approval.acts import Doc
from ocmconsole.second_approval.models import ActApproval, ProposedAct

if TYPE_CHECKING:
    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.models import AuditEvent
    from ocmconsole.second_approval.rules import ActName, Rule

GROUP, PLURAL = "ocmconsole.io", "proposedacts"
CREDENTIAL = "second-approval"  # of who stands behind a proposal, when what they may do is asked
UNPROVEN = "cli"  # the credential of who is named at the command line and has shown no password
PAGE = "/second-approval/{}/"
MOST_WAITING = 50  # proposals of one caller: lists read them all, and who is asked has to

State = ProposedAct.State
_seen: ContextVar[str] = ContextVar("second_approval_seen", default="")
_break_glass: ContextVar[str] = ContextVar("second_approval_break_glass", default="")


class Waits(errors.Forbidden):
    """The act was not done: it waits for other people as the proposal ``pk``."""

    def __init__(self, found: ProposedAct, rule: Rule, people: list[str]) -> None:
        self.pk: int = found.pk
        url = f"{settings.OCMCONSOLE_CONSOLE_URL}{PAGE.format(found.pk)}"
        behind = f"behind it: {', '.join(people)}" if people else "nobody is behind it yet"
        of_team = f" of the group {quoted(rule.team)}" if rule.team else ""
        text = (
            f"{found.act} of {quoted(found.subject)} takes {rule.people} people, and was not done: it waits as "
            f"proposal {found.pk} until {found.expires:%Y-%m-%d %H:%M} UTC ({behind}); somebody else{of_team} who may "
            f"do it approves it at {url}, or does the same"
        )
        super().__init__(text, details={"group": GROUP, "kind": PLURAL, "name": str(found.pk)})
        self.causes = [errors.Cause("SecondApprovalNeeded", url)]


class NotProposed(errors.Forbidden):
    """The act takes other people and was not done; nor was it proposed, since too much of the caller's waits."""


@dataclass(frozen=True, slots=True)
class WantedAct:
    """An act as somebody is about to do it. ``also`` is asked for with it, and no part of which act it is."""

    actor: Actor
    act: ActName
    subject: str
    arguments: Doc
    evidence: Doc
    reason: str = ""
    also: Doc = field(default_factory=dict)


def passed(wanted: WantedAct) -> list[Model]:
    """Rows to save in the caller's transaction with the act. None where it takes no second person.

    Raises Deferred, which ends the transaction and becomes ``Waits`` behind it: the act was proposed, or this was one
    more approval and others are needed. Raises Conflict where not this was seen on the page (``having_seen``).
    """
    rule = acts.rule_of(wanted.act)
    if rule is None:
        return []
    if (why := _break_glass.get()) and wanted.actor.entry_point is EntryPoint.CLI:
        diff = [{"path": name, "new": value} for name, value in _identity(wanted).items()]
        return [*_overtaken(wanted, why), _entry(wanted.actor, acts.BREAK_GLASS, wanted.subject, why, diff)]
    with request_cache.forgetting():
        found = _waiting(wanted)
        if found is None or found.evidence != plain(wanted.evidence):
            raise _Undecided(wanted, rule)
        require_seen(found)
        more = _one_more(found, wanted.actor, rule)
        people = [*standing(found, rule), *([more.username] if more else [])]
    if len(people) < rule.people:
        raise _Undecided(wanted, rule)
    _close(found, State.DONE, wanted.actor)
    diff = [{"path": "people", "new": people}, {"path": "digest", "new": found.digest}]
    return [found, entry_about(found, wanted.actor, acts.DONE, diff=diff)]


def _overtaken(wanted: WantedAct, why: str) -> list[Model]:
    """The proposal of what somebody does alone from the host: nobody is to do it once more."""
    if (found := _waiting(wanted)) is None:
        return []
    _close(found, State.DONE, wanted.actor, f"without a second person: {why}")
    return [found]


@contextmanager
def having_seen(digest: str) -> Iterator[None]:
    """What is done inside was seen on a page, as the proposal with this digest, and no other may be meant."""
    token = _seen.set(digest)
    try:
        yield
    finally:
        _seen.reset(token)


@contextmanager
def breaking_glass(why: str) -> Iterator[None]:
    """At the command line of the host: what is done inside takes no second person, and the audit says why."""
    token = _break_glass.set(why)
    try:
        yield
    finally:
        _break_glass.reset(token)


# ---------------------------------------------------------------- who stands behind it


def account_behind(actor: Actor) -> User | None:
    """The account that proved to be behind an act; None for parts of the hub, robots, and a name given with ``--as``.

    Who impersonates somebody acts as themselves.
    """
    if actor.entry_point in {EntryPoint.CONTROLLER, EntryPoint.STANDING} or actor.credential == UNPROVEN:
        return None
    name = actor.impersonator or actor.user
    return request_cache.cached(
        ("account-behind", name), lambda: User.objects.filter(username=name, is_active=True).first()
    )


def name_behind(actor: Actor) -> str:
    """Whom pages name for it: who impersonates somebody, and not whom."""
    return (actor.impersonator or actor.user)[:320]


def standing(found: ProposedAct, rule: Rule) -> list[str]:
    """Who stands behind it now: those who proposed or approved it, and still may do it. Their present names."""
    people = [found.account] if found.account and not obstacle(found, found.account, rule, proposes=True) else []
    approving = [each.account for each in sorted(found.approvals.all(), key=lambda each: each.pk) if each.account]
    return [account.username for account in (*people, *(each for each in approving if not obstacle(found, each, rule)))]


def obstacle(found: ProposedAct, account: User, rule: Rule, *, proposes: bool = False) -> str:
    """Why an account cannot stand behind a proposed act, or "". Who proposes need not be of the team."""
    actor = request_cache.cached((CREDENTIAL, account.pk), lambda: stand_in(account.username, CREDENTIAL))
    if actor is None:
        return f"there is no active account {quoted(account.username)}"
    if not acts.kind_of(found.act).may(actor, found):
        return f"{quoted(account.username)} may not do it"
    if rule.team and not proposes and rule.team not in _groups_of(account):
        return f"{quoted(account.username)} is not in the group {quoted(rule.team)}"
    return ""


def stands_behind(found: ProposedAct, account: User) -> bool:
    """Whether the account has proposed or approved it, whatever it may do now."""
    return found.account_id == account.pk or any(each.account_id == account.pk for each in found.approvals.all())


def _groups_of(account: User) -> set[str]:
    return request_cache.cached(("all-groups", account.pk), lambda: set(account.groups.values_list("name", flat=True)))


def meet(proposed: Collection[ProposedAct]) -> None:
    """Read at once what is asked of each: accounts with their groups, and what ``ActKind.prepare`` wants.

    Within ``request_cache.remembering``; the proposals come with their approvals.
    """
    named = {
        pk for found in proposed for pk in (found.account_id, *(each.account_id for each in found.approvals.all()))
    }
    as_of = change_log.rights()
    how = {"entry_point": EntryPoint.STANDING, "credential": CREDENTIAL}
    for account in User.objects.filter(pk__in=named - {None}).prefetch_related("groups"):
        names = sorted(group.name for group in account.groups.all())
        request_cache.remember(("all-groups", account.pk), {*names})
        request_cache.remember(("groups", account.pk), peoples_groups(names))
        renew = partial(actor_of_present, account.pk, **how)
        standing_in = actor_for(account, as_of=as_of, renew=renew, **how) if account.is_active else None
        request_cache.remember((CREDENTIAL, account.pk), standing_in)
    for name in {found.act for found in proposed}:
        acts.kind_of(name).prepare([found for found in proposed if found.act == name])


def _one_more(found: ProposedAct, actor: Actor, rule: Rule) -> User | None:
    """The account of an actor who did not stand behind it, and may."""
    account = account_behind(actor)
    if account is None or stands_behind(found, account) or obstacle(found, account, rule):
        return None
    return account


# ---------------------------------------------------------------- what it is


def plain(value: Any) -> Any:
    """As it comes back from the database."""
    return orjson.loads(orjson.dumps(value))


def digest_of(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def document_of(found: ProposedAct) -> Doc:
    """All that somebody sees and approves."""
    names = ("act", "subject", "arguments", "also", "evidence", "reason", "proposed_by")
    return {name: getattr(found, name) for name in names}


def require_seen(found: ProposedAct) -> None:
    """Raises Conflict."""
    if _seen.get() not in {"", found.digest}:
        raise errors.Conflict(
            "This is not what you have seen: it was proposed again with other evidence. Read that first."
        )


def _identity(wanted: WantedAct) -> Doc:
    return {"act": str(wanted.act), "subject": wanted.subject, "arguments": wanted.arguments}


def _waiting(wanted: WantedAct) -> ProposedAct | None:
    """The proposal of this very act that still waits."""
    found = _stored(wanted)
    return found if found is not None and found.present_state(clock.now()) is State.WAITING else None


def _stored(wanted: WantedAct) -> ProposedAct | None:
    return ProposedAct.objects.filter(
        act=wanted.act,
        subject=wanted.subject,
        arguments_digest=digest_of(plain(wanted.arguments)),
        state=State.WAITING,
    ).first()


# ---------------------------------------------------------------- what a refusal leaves behind


class _Undecided(errors.Deferred):
    def __init__(self, wanted: WantedAct, rule: Rule) -> None:
        super().__init__()
        self.wanted, self.rule = wanted, rule

    def settle(self) -> errors.ApiError:
        wanted, rule = self.wanted, self.rule
        with verbs.while_permitted(None), request_cache.forgetting():
            found = _waiting(wanted)
            if found is not None and found.evidence == plain(wanted.evidence):
                if _one_more(found, wanted.actor, rule):
                    approved(found, wanted.actor)
            elif _seen.get():
                return errors.Conflict(
                    "This is not what you have seen: it has changed meanwhile, and must be proposed again."
                )
            else:
                found = _propose(wanted)
            return Waits(found, rule, standing(found, rule))


def _propose(wanted: WantedAct) -> ProposedAct:
    """A new proposal; one of the same act with other evidence, or whose time is over, is closed. Raises NotProposed."""
    now, person = clock.now(), name_behind(wanted.actor)
    if (before := _stored(wanted)) is not None:
        if before.present_state(now) is State.EXPIRED:
            _close(before, State.EXPIRED, None)
        else:
            close_changed(before, wanted.actor)
        before.save()
    if ProposedAct.objects.filter(state=State.WAITING, expires__gt=now, proposed_by=person).count() >= MOST_WAITING:
        raise NotProposed(
            f"{wanted.act} of {quoted(wanted.subject)} takes other people, and was not proposed: {MOST_WAITING} "
            f"proposals of {quoted(person)} wait already; take some back, or have them approved"
        )
    found = ProposedAct(
        **plain(_identity(wanted)),
        also=plain(wanted.also),
        evidence=plain(wanted.evidence),
        arguments_digest=digest_of(plain(wanted.arguments)),
        reason=wanted.reason,
        proposed_by=person,
        account=account_behind(wanted.actor),
        entry_point=wanted.actor.entry_point.value,
        proposed_at=now,
        expires=now + settings.OCMCONSOLE_SECOND_APPROVAL_WAITS,
    )
    found.digest = digest_of(document_of(found))
    found.save()
    diff = [{"path": name, "new": value} for name, value in _identity(wanted).items()]
    diff += [{"path": "evidence", "new": found.evidence}, {"path": "digest", "new": found.digest}]
    entry_about(found, wanted.actor, acts.PROPOSE, reason=wanted.reason, diff=diff).save()
    return found


def approved(found: ProposedAct, actor: Actor) -> None:
    """Store who approved, in the caller's transaction."""
    account = account_behind(actor)
    assert account is not None
    ActApproval.objects.create(
        proposed=found,
        account=account,
        person=account.username,
        digest=found.digest,
        entry_point=actor.entry_point.value,
        at=clock.now(),
    )
    entry_about(found, actor, acts.APPROVE, diff=[{"path": "digest", "new": found.digest}]).save()


def close_changed(found: ProposedAct, actor: Actor) -> None:
    """What was seen is not so any more; the entry is saved, the row by the caller."""
    _close(found, State.CHANGED, actor)
    entry_about(found, actor, acts.CHANGE, diff=[{"path": "digest", "old": found.digest}]).save()


def _close(found: ProposedAct, state: ProposedAct.State, actor: Actor | None, reason: str = "") -> None:
    found.state, found.closed_reason = state, reason
    found.closed_by = name_behind(actor) if actor is not None else ""
    found.closed_at = clock.now() if actor is not None else found.expires


def close_declined(found: ProposedAct, actor: Actor, reason: str) -> None:
    """The entry is saved, the row by the caller."""
    _close(found, State.DECLINED, actor, reason)
    entry_about(found, actor, acts.DECLINE, reason=reason, diff=[{"path": "digest", "old": found.digest}]).save()


def entry_about(found: ProposedAct, actor: Actor, act: str, *, reason: str = "", diff: list[Doc]) -> AuditEvent:
    about = f"{found.act} of {found.subject}"
    return _entry(actor, act, str(found.pk), f"{about}: {reason}" if reason else about, diff)


def _entry(actor: Actor, act: str, name: str, reason: str, diff: list[Doc]) -> AuditEvent:
    place = {"resource": f"{PLURAL}.{GROUP}", "name": name[:253]}
    return audit.entry_of(actor, act, verb=act.rpartition(":")[2], reason=reason, diff=diff, **place)
