"""Keeping approval policies: who may, what is written, and what one would have done (K9, D11).

Invariant: a policy acts as the person who changed or enabled it last, so that changing another's policy borrows no
rights. Every write leaves an audit entry in its transaction. Called by the pages of policies and the wizard.
"""

from __future__ import annotations

from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterPermission, ManagedCluster
from ocmconsole.core.models import BootstrapToken
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import audit, plain_sql, reader
from ocmconsole.second_approval import acts, gate
from ocmconsole.second_approval.rules import ActName
from registration.models import ApprovalPolicy, CertificateSigningRequest, PolicyPermission
from registration.pki import agent_names
from registration.policies.policy_matching import PolicyInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django.db.models import QuerySet

    from ocmconsole.kubeapi.access.actor import Actor

GROUP, PLURAL = "ocmconsole.io", "approvalpolicies"
VERBS = {"view": "list", "add": "create", "change": "update", "delete": "delete"}
ACCEPTANCE = "policy_acceptance"
HEALTH = {"failure", "failed_at"}  # what the hub notes, which no person changes
State = ApprovalPolicy.State


# ---------------------------------------------------------------- who may


def _label(right: str) -> PolicyPermission:
    return PolicyPermission[right.upper()]


def _asked(right: str, name: str) -> Attributes:
    return Attributes(VERBS[right], GROUP, PLURAL, name=name)


for _right in VERBS:
    authorization.spell(_label(_right), lambda name, right=_right: [_asked(right, name)])  # type: ignore[misc] # a default pins the loop variable


def may_use_policies(actor: Actor, right: str, name: str = "") -> bool:
    """``right`` is Django's: view, add, change or delete."""
    return authorization.permitted(actor, _label(right), name=name).allowed


def missing_right(right: str) -> str:
    """What a page says beside a disabled button."""
    return f"you need the permission {_label(right)} (in RBAC: {VERBS[right]} {PLURAL} in {GROUP})"


def require_policy_right(actor: Actor, right: str, name: str = "") -> None:
    if not may_use_policies(actor, right, name):
        authorization.refuse(actor, _asked(right, name), missing_right(right))


def may_keep(actor: Actor, rule: PolicyInput) -> bool:
    """Whether the actor may keep policies; for one cluster with one token, whether they may accept that cluster."""
    if may_use_policies(actor, "add"):
        return True
    if not rule.is_exact:
        return False
    row = reader.read_row(MANAGED_CLUSTER, Key("", rule.pattern))
    return authorization.permitted(actor, ClusterPermission.ACCEPT, obj=row, name=rule.pattern).allowed


def rule_of(policy: ApprovalPolicy) -> PolicyInput:
    return PolicyInput(
        name=policy.name,
        expires=policy.expires,
        reason=policy.reason,
        tokens=policy.tokens,
        pattern=policy.pattern,
        addresses=policy.addresses,
        clusterset=policy.clusterset,
        max_accepts=policy.max_accepts,
    )


# ---------------------------------------------------------------- reads


def policies_for(actor: Actor) -> QuerySet[ApprovalPolicy]:
    """All policies for users who may see policies, else those that act as the user."""
    found = ApprovalPolicy.objects.counted().order_by("name")
    return found if may_use_policies(actor, "view") else found.filter(acts_as=actor.user)


def ready(now: datetime) -> list[ApprovalPolicy]:
    """Those that may let something in, oldest first. One that failed is tried again: the rights may be back."""
    found = ApprovalPolicy.objects.counted().filter(enabled=True, expires__gt=now).order_by("created", "pk")
    return [policy for policy in found if policy.state(now) in {State.WORKING, State.FAILING}]


def exist() -> bool:
    """Whether any policy may let something in: the question of each commit that would wake ``policy_acceptance``."""
    if not plain_sql.is_there(ApprovalPolicy, enabled=True):
        return False
    return ApprovalPolicy.objects.filter(enabled=True, expires__gt=clock.now()).exists()


def failing(actor: Actor) -> list[ApprovalPolicy]:
    """What needs a person: policies that could not do what they are for."""
    now = clock.now()
    return [policy for policy in policies_for(actor).exclude(failure="") if policy.state(now) is State.FAILING]


# ---------------------------------------------------------------- acts


def create_policy(actor: Actor, rule: PolicyInput) -> ApprovalPolicy:
    """Raises Forbidden, Invalid, AlreadyExists."""
    return verbs.with_present_rights(actor, lambda actor: _create(actor, rule))


def _create(actor: Actor, rule: PolicyInput) -> ApprovalPolicy:
    if not may_keep(actor, rule):
        require_policy_right(actor, "add", rule.name)
    now = clock.now()
    rule.check(now)
    made = ApprovalPolicy(
        name=rule.name, created_by=actor.user[:320], created=now, acts_as=actor.user[:320], **rule.columns()
    )
    try:
        with verbs.while_permitted(actor):
            _agree(actor, "create", rule.name, rule.columns())
            _write(actor, "create", made, _recorded_terms(rule))
    except IntegrityError as error:
        raise errors.already_exists("", PLURAL, rule.name) from error
    return made


def change_policy(actor: Actor, name: str, rule: PolicyInput) -> ApprovalPolicy:
    """From now on it acts as the user who changed it. Raises Forbidden, NotFound, Invalid."""

    def change(actor: Actor) -> ApprovalPolicy:
        require_policy_right(actor, "change", name)
        with verbs.while_permitted(actor):
            policy = _existing(name)
            rule.check(clock.now())
            _agree(actor, "change", name, rule.columns())
            _change(actor, "update", policy, {**rule.columns(), **_answering(actor)})
        return policy

    return verbs.with_present_rights(actor, change)


def enable_policy(actor: Actor, name: str) -> None:
    """It acts as the user who enabled it. Enabling again changes nothing but that. Raises Forbidden, NotFound."""

    def enable(actor: Actor) -> None:
        require_policy_right(actor, "change", name)
        with verbs.while_permitted(actor):
            policy = _existing(name)
            _agree(actor, "enable", name, rule_of(policy).columns())
            _change(actor, "enable", policy, {"enabled": True, **_answering(actor)})

    verbs.with_present_rights(actor, enable)


def disable_policy(actor: Actor, name: str) -> None:
    """It accepts nothing more. The user as whom it acts may always disable it."""

    def disable(actor: Actor) -> None:
        if _existing(name).acts_as != actor.user:
            require_policy_right(
                actor, "change", name
            )  # before the transaction, with which the record of a refusal would go
        with verbs.while_permitted(actor):
            _change(actor, "disable", _existing(name), {"enabled": False})

    verbs.with_present_rights(actor, disable)


def delete_policy(actor: Actor, name: str) -> None:
    """What it let in stays; the audit keeps what it did."""

    def delete(actor: Actor) -> None:
        require_policy_right(actor, "delete", name)
        with verbs.while_permitted(actor):
            policy = _existing(name)
            diff = [{"path": path, "old": _plain(value)} for path, value in rule_of(policy).columns().items()]
            _entry(actor, "delete", name, diff)
            policy.delete()

    verbs.with_present_rights(actor, delete)


def note_failure(policy: ApprovalPolicy, problem: str) -> None:
    """Kept with the policy until it works again, for its page and for what needs a person."""
    if problem != policy.failure:
        failed_at = clock.now() if problem else None
        ApprovalPolicy.objects.filter(pk=policy.pk).update(failure=problem, failed_at=failed_at)


def _agree(actor: Actor, step: str, name: str, columns: dict[str, Any]) -> None:
    """In the caller's transaction: whether what a policy lets in from now on takes other people. Raises Deferred."""
    if acts.rule_of(ActName.POLICY) is None:
        return
    asked = {"step": step, **{path: _plain(value) for path, value in columns.items()}}
    for row in gate.passed(
        gate.WantedAct(actor, ActName.POLICY, name, asked, evidence_about(name, columns["tokens"]), columns["reason"])
    ):
        row.save()


def evidence_about(name: str, token_ids: Sequence[str]) -> dict[str, Any]:
    """What another person has to know of a policy: what it is now, and what the tokens are that it names."""
    present = ApprovalPolicy.objects.filter(name=name).first()
    tokens = BootstrapToken.objects.filter(pk__in=token_ids).order_by("pk")
    now = {path: _plain(value) for path, value in rule_of(present).columns().items()} if present is not None else {}
    return {
        "The policy now": {**now, "acts as": present.acts_as, "enabled": str(present.enabled)} if present else [],
        "Its tokens": [
            {
                "token": token.pk,
                "for": token.name,
                "cluster": token.cluster,
                "clusters at most": token.max_uses,
                "from": list(token.addresses),
                "minted by": token.created_by,
                "until": token.expires.isoformat(),
            }
            for token in tokens
        ],
    }


def _existing(name: str) -> ApprovalPolicy:
    """As it is now. Inside ``while_permitted`` no person changes it before the transaction ends. Raises NotFound."""
    found = ApprovalPolicy.objects.filter(name=name).first()
    if found is None:
        raise errors.not_found("", PLURAL, name)
    return found


def _answering(actor: Actor) -> dict[str, Any]:
    """Whose it is from now on; what went wrong was another's."""
    return {"acts_as": actor.user[:320], "failure": "", "failed_at": None}


def _change(actor: Actor, act: str, policy: ApprovalPolicy, columns: dict[str, Any]) -> None:
    """These columns and no others."""
    before = {path: getattr(policy, path) for path in columns}
    for path, value in columns.items():
        setattr(policy, path, value)
    diff = [
        {"path": path, "old": _plain(before[path]), "new": _plain(value)}
        for path, value in columns.items()
        if before[path] != value and path not in HEALTH
    ]
    _write(actor, act, policy, diff, columns)


def _write(
    actor: Actor, act: str, policy: ApprovalPolicy, diff: list[dict[str, Any]], columns: Iterable[str] | None = None
) -> None:
    """In the caller's transaction: the row, its audit entry, and another look at what waits already."""
    policy.save(update_fields=columns)
    _entry(actor, act, policy.name, diff)
    if policy.enabled:
        workqueue.put({(ACCEPTANCE, Key("", name)) for name in _waiting(policy.pattern)}, clock.now())
        transaction.on_commit(workqueue.poke)


def _entry(actor: Actor, act: str, name: str, diff: list[dict[str, Any]]) -> None:
    verb = act if act in VERBS.values() else "update"
    audit.entry_of(actor, f"approvalpolicy:{act}", verb=verb, resource=PLURAL, name=name, diff=diff).save()


def _recorded_terms(rule: PolicyInput) -> list[dict[str, Any]]:
    return [{"path": path, "new": _plain(value)} for path, value in rule.columns().items() if value]


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _waiting(pattern: str) -> list[str]:
    """Names that ask to join and that the pattern fits."""
    pending = CertificateSigningRequest.objects.filter(
        state=CertificateSigningRequest.State.PENDING, addon="", signer=agent_names.SIGNER
    )
    undecided = ManagedCluster.objects.filter(
        hub_accepts_client=False, deleted_at=None, name__in=pending.values("cluster")
    )
    return [name for name in undecided.values_list("name", flat=True) if not pattern or fnmatchcase(name, pattern)]
